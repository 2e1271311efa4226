"""FLAC that a program wrote to a pipe: its header has no number of samples, which its last frame tells.

The header of a file, and of a frame, as in RFC 9639: the number of samples is in 36 bits from byte 21 on.
"""

import os
from typing import IO

_HEADER = 42  # bytes of the mark and of STREAMINFO
_LAST = 1 << 18  # bytes at the end of a file in which its last frame begins
_SIZES = (
    {1: 192} | {code: 576 << (code - 2) for code in range(2, 6)} | {code: 256 << (code - 8) for code in range(8, 16)}
)
_MORE_RATE = {12: 1, 13: 2, 14: 2}  # bytes after the header for a rate that has no code


class WithSamples:
    """An open FLAC file whose header tells how many samples there are: what libsndfile asks of a file."""

    def __init__(self, file: IO[bytes], samples: int):
        file.seek(0)
        header = file.read(_HEADER)
        told = int.from_bytes(header[21:26], "big") & ~(2**36 - 1) | samples
        self._file, self._header = file, header[:21] + told.to_bytes(5, "big") + header[26:]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As of a file."""
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        """As of a file."""
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """As of a file."""
        at = self._file.tell()
        found = self._file.read(size)
        return self._header[at : at + len(found)] + found[max(0, _HEADER - at) :] if at < _HEADER else found


def samples_in(file: IO[bytes]) -> int | None:
    """How many samples the frames of an open FLAC file have; None where no last frame is found."""
    file.seek(0)
    header = file.read(_HEADER)
    end = file.seek(0, os.SEEK_END)
    file.seek(max(len(header), end - _LAST))
    last = file.read(_LAST)
    if len(header) < _HEADER or not header.startswith(b"fLaC"):
        return None
    size = int.from_bytes(header[8:10], "big")
    at = last.rfind(b"\xff")
    while at >= 0:
        if (samples := _end_of_frame(last[at : at + 16], size)) is not None:
            return samples if 0 < samples < 2**36 else None
        at = last.rfind(b"\xff", 0, at)
    return None


def _end_of_frame(header: bytes, size: int) -> int | None:
    """The number of the sample after a frame that begins with these bytes; None if no frame does.

    `size`: how many samples the frames of the file have, the last one apart.
    """
    if len(header) < 6 or header[1] not in (0xF8, 0xF9) or header[3] & 1:
        return None
    size_code, rate_code = divmod(header[2], 16)
    following = 8 - (header[4] ^ 0xFF).bit_length()  # leading ones, as in UTF-8
    if following in (1, 8) or size_code == 0 or rate_code == 15:
        return None
    more = max(0, following - 1)
    number = header[4] & (0x7F >> following)
    for byte in header[5 : 5 + more]:
        number = number << 6 | byte & 0x3F
    at = 5 + more
    n_bytes = {6: 1, 7: 2}.get(size_code, 0)
    own = int.from_bytes(header[at : at + n_bytes], "big") + 1 if n_bytes else _SIZES[size_code]
    at += n_bytes + _MORE_RATE.get(rate_code, 0)
    if at >= len(header) or header[at] != _crc(header[:at]):
        return None
    return own + (number if header[1] == 0xF9 else number * size)


def _crc(content: bytes) -> int:
    """Eight bits of a remainder by x^8 + x^2 + x + 1."""
    rest = 0
    for byte in content:
        rest ^= byte
        for _ in range(8):
            rest = (rest << 1 ^ (0x07 if rest & 0x80 else 0)) & 0xFF
    return rest
