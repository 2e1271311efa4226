"""Text files, plain or packed by gzip, bzip2 or xz: read by their first bytes, written by their names."""

import bz2
import codecs
import contextlib
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

MOST_GROWTH = 500  # of a packed file; what grows more was made to fill the memory
_BLOCK = 1 << 22


class DamagedError(ValueError):
    """A packed file that is cut short, damaged or made to fill the memory."""


class _Packing(NamedTuple):
    suffix: str
    magic: bytes
    open: Any


_PACKINGS = (
    _Packing(".gz", b"\x1f\x8b", gzip.open),
    _Packing(".bz2", b"BZh", bz2.open),
    _Packing(".xz", b"\xfd7zXZ\x00", lzma.open),
)


def read_unpacked(path: Path, *, start: bytes) -> bytes:
    """The text in a file, in UTF-8 without a mark. Raises DamagedError.

    A name that ends as of a packed file is wrong if the text begins with `start`.
    """
    content = path.read_bytes()
    packing = next((kind for kind in _PACKINGS if content.startswith(kind.magic)), None)
    if packing is None:
        packing = next((kind for kind in _PACKINGS if kind.suffix == path.suffix), None)
        if packing is None or content.lstrip(codecs.BOM_UTF8 + b" \r\n\t").startswith(start):
            return _in_utf_8(content)
    blocks, size = [], 0
    try:
        with packing.open(path) as file:
            while block := file.read(_BLOCK):
                blocks.append(block)
                size += len(block)
                if size > _BLOCK + MOST_GROWTH * len(content):
                    raise EOFError(f"{len(content)} bytes become more than {size}")
    except (OSError, zlib.error, EOFError, lzma.LZMAError) as error:
        raise DamagedError(f"expected a whole {packing.suffix} file, found a damaged one: {error}") from error
    return _in_utf_8(b"".join(blocks))


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text of any size, in UTF-8 or in UTF-16 with its mark. Raises DamagedError and OSError."""
    with path.open("rb") as file:
        first = file.read(8)
    packing = next((kind for kind in _PACKINGS if first.startswith(kind.magic)), None)
    is_utf_16 = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        with (packing.open if packing else open)(path, "rt", encoding="utf-16" if is_utf_16 else "utf-8-sig") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise DamagedError(f"{path}: is not text in UTF-8 ({error.reason})") from error
    except (zlib.error, EOFError, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's; those of bzip2 and gzip have none
            raise
        raise DamagedError(f"{path}: expected a whole file, found a damaged one: {error}") from error


def _in_utf_8(text: bytes) -> bytes:
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16", "replace").encode()
    return text.removeprefix(codecs.BOM_UTF8)


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name to write a file under, which takes the place of `path` when all is well; devices and pipes are written to.

    Raises OSError, which names `path`.
    """
    # /dev/stdout is the system's name of an open file, even where it leads to one on a disk.
    is_open = str(path).startswith(("/dev/std", "/dev/fd/", "/proc/"))
    is_device = is_open or path.is_char_device() or path.is_fifo()
    partial = path if is_device else path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield partial
        if not is_device:
            partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        if not is_device:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


def open_to_write(path: Path, *, name: str) -> TextIO:
    """`path`, packed as the suffix of `name` says."""
    packing = next((kind for kind in _PACKINGS if name.endswith(kind.suffix)), None)
    return cast(TextIO, (packing.open if packing else open)(path, "wt", encoding="utf-8"))
