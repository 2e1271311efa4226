"""The lines of an ARPA file: `include/ctc_ngram.h` by ctypes, and the same in Python. N n-grams of one order n."""

import ctypes
import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ctc.native import fields

BLANKS = b" \t\r"
LARGEST = 1e30
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
SEPARATOR = re.compile(rb"[ \t]+")


class Status(IntEnum):
    """`ctc_arpa_status`."""

    SUCCESS = 0
    HEADER = 1
    FIELDS = 2
    NUMBER = 3
    POSITIVE = 4
    WORD = 5
    TWICE = 6


class ArpaPlace(ctypes.Structure):
    """`ctc_arpa_place`."""

    _fields_ = fields("n at line row")


class WordsTable(ctypes.Structure):
    """`ctc_arpa_words`."""

    _fields_ = fields("p starts lengths table; n slots; i capacity words")


class Level(NamedTuple):
    """All n-grams of one order."""

    words: np.ndarray
    """int32 [N, n]: indices into the vocabulary."""
    log10_prob: np.ndarray
    """float64 [N]: log10 p(last word | the words before)."""
    log10_backoff: np.ndarray
    """float64 [N]: log10 weight of the shorter history for words that do not follow this n-gram."""


class ArpaWords:
    """The words of the 1-grams, by where they are in the text."""

    def __init__(self, starts: np.ndarray, lengths: np.ndarray) -> None:
        self.starts, self.lengths = starts, lengths
        self.index: dict[bytes, int] = {}  # of the reader in Python
        slots = 1 << (2 * len(starts) + 1).bit_length()
        self._table = np.full(slots, -1, np.int32)
        self.native = WordsTable(
            starts.ctypes.data, lengths.ctypes.data, self._table.ctypes.data, slots, len(starts), 0
        )

    @classmethod
    def empty(cls, capacity: int) -> "ArpaWords":
        """Room for as many words."""
        return cls(np.empty(capacity, np.int64), np.empty(capacity, np.int32))

    def written(self, text: bytes) -> Iterator[bytes]:
        """The words as they are written."""
        if self.index:
            yield from self.index
            return
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            yield text[start : start + length]

    def texts(self, text: bytes) -> Iterator[str]:
        """The words. Raises UnicodeDecodeError."""
        return (word.decode() for word in self.written(text))


def next_line(text: bytes, place: ArpaPlace) -> bytes | None:
    """The line at `place`, which moves behind it; None at the end."""
    if place.at >= len(text):
        return None
    end = text.find(b"\n", place.at)
    end = len(text) if end < 0 else end
    line = text[place.at : end]
    place.at = end + 1
    place.line += 1
    return line.removesuffix(b"\r")


def line_before(text: bytes, place: ArpaPlace) -> bytes:
    """The line that was read last."""
    end = max(min(place.at - 1, len(text)), 0)
    return text[text.rfind(b"\n", 0, end) + 1 : end]


def read_level(
    library: ctypes.CDLL, text: bytes, order: int, level: Level, words: ArpaWords, place: ArpaPlace
) -> Status:
    """The n-grams of one order into `level` (csrc/decode_arpa.cpp)."""
    arrays = (level.words, level.log10_prob, level.log10_backoff)
    count = len(level.words)
    return Status(library.ctc_arpa_level(text, len(text), order, count, words.native, place, *arrays))


def read_level_in_python(text: bytes, order: int, level: Level, words: ArpaWords, place: ArpaPlace) -> Status:
    """`read_level`, for where there is no compiler, and to compare with."""
    place.row = 0
    line = next_line(text, place)
    while line is not None and not line.strip(BLANKS):
        line = next_line(text, place)
    if line is None or line.rstrip(b" \t") != f"\\{order}-grams:".encode():
        return Status.HEADER
    for row in range(len(level.words)):
        place.row = row
        line = next_line(text, place)
        if line is None:
            return Status.FIELDS
        status = _read_ngram(line, order, level, words, row)
        if status != Status.SUCCESS:
            return status
    return Status.SUCCESS


def _read_ngram(line: bytes, order: int, level: Level, words: ArpaWords, row: int) -> Status:
    fields = [field for field in SEPARATOR.split(line) if field]
    if not fields:
        return Status.FIELDS
    log10_prob = _number(fields[0])
    if log10_prob is None:
        return Status.NUMBER
    if log10_prob > 0:
        return Status.POSITIVE
    for place, word in enumerate(fields[1 : order + 1]):
        if order == 1 and words.index.setdefault(word, row) != row:
            return Status.TWICE
        if word not in words.index:
            return Status.WORD
        level.words[row, place] = words.index[word]
    if len(fields) <= order:
        return Status.FIELDS
    log10_backoff = _number(fields[order + 1]) if len(fields) > order + 1 else 0.0
    if log10_backoff is None:
        return Status.NUMBER
    level.log10_prob[row], level.log10_backoff[row] = log10_prob, log10_backoff
    return Status.SUCCESS if len(fields) <= order + 2 else Status.FIELDS


def _number(field: bytes) -> float | None:
    value = float(field) if NUMBER.fullmatch(field) else LARGEST * 2
    return value if abs(value) <= LARGEST else None
