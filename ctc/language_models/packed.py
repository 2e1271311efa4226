"""Numbers of as many bits as the largest of them needs, one after the other: `ctc_packed` of `include/ctc_decode.h`."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ctc.bindings import _native

WIDEST = 57  # so that a number and the bits before it in its first byte are 8 bytes at most
BEHIND = 8  # bytes, which whoever reads the last number reads too


class Packed:
    """`count` numbers from 0 on, of `width` bits each: in `bits` (uint8) from the lowest bit of the first byte on."""

    def __init__(self, bits: np.ndarray, width: int, count: int) -> None:
        self.bits, self.width, self.count = bits, width, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> int:
        byte, bit = divmod(place * self.width, 8)
        return int.from_bytes(self.bits[byte : byte + BEHIND].tobytes(), "little") >> bit & (1 << self.width) - 1

    def between(self, first: int, end: int) -> np.ndarray:
        """int64: the numbers from place `first` up to `end`."""
        bit = np.arange(first, end, dtype=np.int64) * self.width
        found = np.zeros(len(bit), np.uint64)
        for byte in range(BEHIND):
            found |= self.bits[(bit >> 3) + byte].astype(np.uint64) << np.uint64(8 * byte)
        return (found >> (bit & 7).astype(np.uint64) & np.uint64((1 << self.width) - 1)).astype(np.int64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.between(0, self.count).astype(np.int64 if dtype is None else dtype)

    def native(self, place: _native.Place = _native.in_memory) -> _native.PackedTable:
        """`ctc_packed`, which points to where `place` puts `bits`."""
        return _native.PackedTable(place(self.bits), self.width)


def packed_bytes(count: int, width: int) -> int:
    """Bytes of `count` numbers of `width` bits."""
    return (count * width + 7) // 8 + BEHIND


def pack(values: np.ndarray | Sequence[int], library: ctypes.CDLL | None = None) -> Packed:
    """`values`, at least 0, in as many bits as they need; by `library` or, without one, by NumPy."""
    values = np.ascontiguousarray(values, np.int64)
    width = max(1, int(values.max(initial=0)).bit_length())
    size = packed_bytes(len(values), width)
    if library is not None:
        bits = np.zeros(size, np.uint8)
        library.ctc_pack(values, len(values), width, bits)
        return Packed(bits, width, len(values))
    bit = np.arange(len(values), dtype=np.int64) * width
    shifted = values.astype(np.uint64) << (bit & 7).astype(np.uint64)
    sums = np.zeros(size)
    for byte in range((width + 14) // 8):  # bits of one byte are of different numbers: they add up
        part = shifted >> np.uint64(8 * byte) & np.uint64(255)
        sums += np.bincount((bit >> 3) + byte, part.astype(float), minlength=size)[:size]
    return Packed(sums.astype(np.uint8), width, len(values))
