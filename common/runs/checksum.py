"""A checksum over a whole zip file, kept in the file's own comment, and a check of any zip file's contents.

torch saves zip files with a checksum for every record, but does not look at them when it loads. The seal covers every
byte, headers and padding too, and readers that know nothing of it skip the comment.
"""

import hashlib
import zipfile
import zlib
from io import SEEK_END, BufferedIOBase
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"sha256:"
_COMMENT_BYTES = len(_MAGIC) + hashlib.sha256().digest_size
_END_OF_ZIP = b"PK\x05\x06"  # begins the last record, of 22 bytes, whose last two count those of the comment
_END_BYTES = 22
_CHUNK = 1 << 20


class SealWriter(BufferedIOBase):
    """A binary file that hashes what is written through it; `seal` ends it.

    An error in writing is raised by `seal`: torch would end the process where one is raised in the middle of a file.
    """

    def __init__(self, file: BinaryIO):
        self._file, self._hash = file, hashlib.sha256()
        self._error: OSError | None = None

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Passes `data` on."""
        if self._error is None:
            self._hash.update(data)
            try:
                self._file.write(data)
            except OSError as error:
                self._error = error
        return len(data)

    def seal(self) -> None:
        """Appends the checksum of all that was written, a whole zip file without a comment, as its comment.

        Raises OSError.
        """
        if self._error is not None:
            raise self._error
        self._file.seek(-2, SEEK_END)
        self._file.write(_COMMENT_BYTES.to_bytes(2, "little") + _MAGIC + self._hash.digest())


def damage(path: Path) -> str | None:
    """What is wrong with the bytes of the file at `path`, or None: its seal, else the checksums of its records.

    A file that is no zip file has neither, and passes. Raises OSError.
    """
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            return None
        size = file.seek(0, SEEK_END)
        tail_bytes = min(size, _END_BYTES + _COMMENT_BYTES)
        file.seek(size - tail_bytes)
        tail = file.read(tail_bytes)
        if tail[-_END_BYTES:].startswith(_END_OF_ZIP) and tail.endswith(b"\0\0"):
            return _damaged_record(path, is_sealed=False)
        if len(tail) < _END_BYTES + _COMMENT_BYTES or not tail[_END_BYTES:].startswith(_MAGIC):
            return "its end is missing or changed"
        if tail[_END_BYTES - 2 : _END_BYTES] != _COMMENT_BYTES.to_bytes(2, "little"):
            return "its end is changed"
        found, left = hashlib.sha256(), size - _COMMENT_BYTES - 2
        file.seek(0)
        while left:
            chunk = file.read(min(_CHUNK, left))
            if not chunk:
                return "it became shorter"
            found.update(chunk)
            left -= len(chunk)
        found.update(b"\0\0")
        is_whole = found.digest() == tail[-found.digest_size :]
        return _damaged_record(path, is_sealed=True) if is_whole else "its checksum does not match"


def unpacked(archive: zipfile.ZipFile, size: int) -> str | None:
    """What says that the records of an archive of `size` bytes are more than these, by their headers alone, or None.

    torch saves every record as it is; others make gigabytes of a small file before anything is known of them.
    """
    for record in archive.infolist():
        if record.compress_type != zipfile.ZIP_STORED:
            is_more = f"is compressed and unpacks to {record.file_size} bytes"
            return f"its record {record.filename} {is_more}; torch.save writes records as they are"
    held = sum(record.file_size for record in archive.infolist())
    return f"its records take {held} bytes in a file of {size}" if held > size else None


def _damaged_record(path: Path, *, is_sealed: bool) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            problem = unpacked(archive, path.stat().st_size)
            bad = None if problem or is_sealed else archive.testzip()
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        return f"it is no whole zip file: {error}"
    return problem if bad is None else f"the checksum of its record {bad} does not match"
