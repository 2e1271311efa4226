"""Files that appear whole or not at all; texts and names of files as people have them."""

import codecs
import contextlib
import errno
import os
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def written_whole(path: Path, *, is_flushed: bool = True) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when every byte is on disk; after an error `path` is untouched.

    Without `is_flushed` that is when every byte is written, which the system keeps if this process is killed and loses
    with its power: for files of which there are many, and which can be made again; to wait for a disk takes longer than
    to write a clip. Missing folders are made; devices and pipes are written to. Raises OSError, which names `path`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if _is_device(path):
            with path.open("wb") as file:
                yield file
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            if is_flushed:
                os.fsync(file.fileno())
        temporary.replace(path)
        if is_flushed:
            _flush_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """To be asked before long work whose result `written_whole` writes. Raises OSError, which names `path`.

    Missing folders are made.
    """
    try:
        if _is_device(path):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        number = errno.ENOTDIR if isinstance(error, FileExistsError) else error.errno  # of a folder that is a file
        raise OSError(number, os.strerror(number or 0), str(path)) from None


def _is_device(path: Path) -> bool:
    """Whether it is a device, a pipe or what the system calls an open file, whose place no file is to take.

    /dev/stdout is such a name even where it leads to a file.
    """
    return path.is_char_device() or path.is_fifo() or str(path).startswith(("/dev/std", "/dev/fd/", "/proc/"))


def is_file(path: Path) -> bool:
    """Whether a file is there; a name that no file can have, as one longer than the system allows, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def files_below(folder: Path) -> Iterator[Path]:
    """All files in a folder, through links to other folders too, each of which is gone through once."""
    known = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        found = Path(place).stat()
        if (found.st_dev, found.st_ino) in known:
            folders.clear()
            continue
        known.add((found.st_dev, found.st_ino))
        folders.sort()  # so that all machines come to a folder by the same way
        yield from (Path(place) / name for name in names)


def found_file(path: Path) -> Path | None:
    """The file that `path` means; None where there is none.

    Where no file has that very name: one whose name is the same in another form of Unicode, as macOS writes letters
    with accents apart, or with slashes in place of Windows' backslashes.
    """
    if is_file(path):
        return path
    name = str(path)
    others = [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    others += [other.replace("\\", "/") for other in (name, *others)] if "\\" in name else []
    return next((Path(other) for other in others if other != name and is_file(Path(other))), None)


def decoded(content: bytes) -> str:
    """The text of a file in UTF-8, or in UTF-16 with its mark, as Windows writes it. Raises UnicodeDecodeError."""
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf_16 else "utf-8-sig")


def write_text(path: Path, text: str) -> None:
    """Writes `text` to `path` as UTF-8, whole or not at all. Raises OSError."""
    with written_whole(path) as file:
        file.write(text.encode(errors="backslashreplace"))  # of names of files that are no text


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
