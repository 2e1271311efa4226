"""Parts of large files, as recordings in shards are, each read by its place and checked by its CRC32."""

import functools
import os
import zlib
from typing import NamedTuple

_OPEN = 64  # files that a process keeps open


class StoreError(OSError):
    """A part of a file cannot be had; the message names file and place."""


class Stored(NamedTuple):
    """`size` bytes from `start` of a file."""

    file: str
    start: int
    size: int
    crc: int | None = None
    """CRC32 of the bytes; None where nobody has computed it."""

    def __str__(self) -> str:
        return f"{self.file}, bytes {self.start}-{self.start + self.size}"

    def read(self) -> bytes:
        """The bytes. Raises StoreError where they are not there or not those that were written."""
        content = read(self.file, self.start, self.size)
        if self.crc is not None and zlib.crc32(content) != self.crc:
            content = read(self.file, self.start, self.size)  # once more: what came over a network may be damaged
            if (found := zlib.crc32(content)) != self.crc:
                raise StoreError(f"{self}: damaged: their CRC32 is {found:08x}; expected {self.crc:08x}")
        return content


def read(file: str, start: int, size: int) -> bytes:
    """`size` bytes of `file` from `start`. Raises StoreError."""
    try:
        opened = _opened(file, os.getpid())  # held while it is read, so that no other thread has it closed
        content = os.pread(opened.number, size, start)
    except OSError as error:
        raise StoreError(f"{file}: cannot be read: {error.strerror}") from error
    if len(content) < size:
        raise StoreError(f"{file}: ends after {start + len(content)} bytes; expected {start + size}; fetch it anew")
    return content


class _Descriptor:
    """An open file, closed when nothing uses it any more."""

    def __init__(self, file: str):
        self.number = os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


@functools.lru_cache(_OPEN)
def _opened(file: str, process: int) -> _Descriptor:
    """In this process: a forked one closes what it took over, and nothing of its parent's."""
    return _Descriptor(file)
