"""Files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when every byte is on disk; after an error `path` is untouched.

    Missing folders are made. Raises OSError, which names `path`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def is_file(path: Path) -> bool:
    """Whether a file is there; a name that no file can have, as one longer than the system allows, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def write_text(path: Path, text: str) -> None:
    """Writes `text` to `path` as UTF-8, whole or not at all. Raises OSError."""
    with written_whole(path) as file:
        file.write(text.encode())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
