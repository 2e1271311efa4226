"""Recordings of any length: encoded whole, or in chunks with context on both sides, and decoded as their frames come.

The decoder goes on with its state from chunk to chunk, so texts of chunks are never merged, and memory does not grow
with the length of a recording, its text apart. Needs no torch: frames are tensors or arrays.

Shapes: N samples, S encoder frames, C encoder width.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.recognition.cutting.chunks import WINDOW, AudioChunk, by_length, long_batches
from common.recognition.sources.recordings import Recording
from fastconformer.hypotheses import NOTHING, PieceHypothesis

if TYPE_CHECKING:  # its module needs torch
    from fastconformer.config import EncoderConfig


@dataclass(frozen=True, kw_only=True)
class ChunkOptions:
    """How long recordings are encoded. A frame is heard with what is around it in its chunk and in the context."""

    chunk_seconds: float = 10.0
    """Length of the chunks of long recordings."""
    left_seconds: float = 10.0
    """Context before each chunk, encoded with it and not decoded again."""
    right_seconds: float = 5.0
    """Context after each chunk, encoded with it and not decoded yet."""
    whole_seconds: float = 60.0
    """Length up to which a recording is encoded in one piece."""

    def __post_init__(self) -> None:
        if not 0 < self.chunk_seconds < float("inf"):
            raise ValueError(f"chunk_seconds = {self.chunk_seconds}: expected seconds above 0")
        for name in ("left_seconds", "right_seconds", "whole_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} = {getattr(self, name)}: expected seconds, at least 0")


Frames = Any
"""Encoder frames, or what a head makes of them: a tensor or an array."""


class Recognised(NamedTuple):
    """What was recognised in a recording: nothing where the network gives NaN."""

    recording: Recording
    hypothesis: PieceHypothesis
    is_nan: bool


Batch = list[tuple[int, bool, PieceHypothesis]]  # the number of a recording, whether it has NaN, and what it says


def attention_step(cfg: "EncoderConfig") -> int:
    """Frames of a chunk that attention sees at once, 1 where there are no chunks. They are counted from where a window
    starts, so windows start at multiples: a frame then sees what it would see in the whole recording."""
    if cfg.attention == "chunked":
        return max(1, cfg.right_frames + 1)
    return max(1, cfg.chunk_frames) if cfg.attention == "chunked_right" else 1


def windows(n_frames: int, *, chunk: int, left: int, right: int) -> Iterator[tuple[int, int, int, int]]:
    """Where the context of each chunk starts, the chunk starts, the chunk ends, and its context ends, in frames."""
    for first in range(0, n_frames, chunk):
        end = min(first + chunk, n_frames)
        yield max(0, first - left), first, end, min(end + right, n_frames)


def whole_chunks(chunk_seconds: float, *context_seconds: float, seconds_per_frame: float, step: int) -> list[int]:
    """Frames of a chunk, at least one, and of context, in whole chunks of attention, of `step` frames."""
    counts = [round(seconds / seconds_per_frame) for seconds in (chunk_seconds, *context_seconds)]
    return [-(-count // step) * step for count in (max(1, counts[0]), *counts[1:])]


def cut(
    samples: int, n_frames: int, lengths: Sequence[int], *, whole: float, samples_per_frame: int
) -> list[AudioChunk]:
    """So many samples whole, up to `whole` frames, or in chunks with context; `lengths` are frames of both."""
    if n_frames <= whole:
        return [AudioChunk(0, samples, 0, n_frames)] if n_frames else []
    chunk, left, right = lengths
    return [
        AudioChunk(start * samples_per_frame, min(samples, stop * samples_per_frame), first - start, end - start)
        for start, first, end, stop in windows(n_frames, chunk=chunk, left=left, right=right)
    ]


def recognised(
    recordings: Iterable[Recording],
    *,
    cut: Callable[[int], list[AudioChunk]],
    encode: Callable[[Sequence[np.ndarray]], Frames],
    decode: Callable[[Frames, Sequence[int], Sequence[Recording]], list[PieceHypothesis]],
    join: Callable[[list[Frames]], Frames],
    decode_parts: Callable[[Iterable[Frames], Recording], PieceHypothesis],
    batch_size: int,
    several: Callable[[Callable[[list[int]], Batch], list[list[int]]], Iterable[Batch]] = map,
) -> Iterator[Recognised]:
    """What is in each of the recordings, in order.

    `cut` makes pieces of so many samples: recordings with one piece are encoded by `encode`, encoded_BSC of B pieces,
    and decoded by `decode` with others of similar length; the pieces of others one after the other, `batch_size`
    at once, and `decode_parts` gets encoded_SC as they come, several of which `join` makes one. `several`: as `map`, to
    which it leaves the batches of recordings of one piece, perhaps several at a time. Raises ValueError for a
    batch_size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size = {batch_size}: expected at least 1")
    short: list[tuple[Recording, AudioChunk | None]] = []
    for recording in recordings:
        pieces = cut(len(recording.samples_N))
        if len(pieces) < 2:
            short.append((recording, pieces[0] if pieces else None))
        if short and (len(pieces) > 1 or len(short) == WINDOW * batch_size):
            yield from _short(short, encode, decode, batch_size, several)
            short = []
        if len(pieces) > 1:
            yield _long(recording, pieces, encode, join, decode_parts, batch_size)
    yield from _short(short, encode, decode, batch_size, several)


def _short(
    short: Sequence[tuple[Recording, AudioChunk | None]],
    encode: Callable[[Sequence[np.ndarray]], Frames],
    decode: Callable[[Frames, Sequence[int], Sequence[Recording]], list[PieceHypothesis]],
    batch_size: int,
    several: Callable[[Callable[[list[int]], Batch], list[list[int]]], Iterable[Batch]],
) -> Iterator[Recognised]:
    pieces = [(i, piece) for i, (_, piece) in enumerate(short) if piece is not None]

    def batch(rows: list[int]) -> Batch:
        own = [short[pieces[row][0]][0] for row in rows]
        encoded_BSC = encode([pieces[row][1].of(recording.samples_N) for row, recording in zip(rows, own, strict=True)])
        counts = [pieces[row][1].end for row in rows]
        nan = [_has_nan(encoded_SC[:n]) for encoded_SC, n in zip(encoded_BSC, counts, strict=True)]
        counts = [0 if is_nan else n for is_nan, n in zip(nan, counts, strict=True)]
        return list(zip(rows, nan, decode(encoded_BSC, counts, own), strict=True))

    found = [Recognised(recording, NOTHING, is_nan=False) for recording, _ in short]
    for heard in several(batch, list(by_length([piece.length for _, piece in pieces], batch_size))):
        for row, is_nan, hypothesis in heard:
            i = pieces[row][0]
            found[i] = Recognised(short[i][0], NOTHING if is_nan else hypothesis, is_nan=is_nan)
    yield from found


def _long(
    recording: Recording,
    pieces: Sequence[AudioChunk],
    encode: Callable[[Sequence[np.ndarray]], Frames],
    join: Callable[[list[Frames]], Frames],
    decode_parts: Callable[[Iterable[Frames], Recording], PieceHypothesis],
    batch_size: int,
) -> Recognised:
    nan = False

    def parts() -> Iterator[Frames]:
        nonlocal nan
        for batch, samples in long_batches(recording.samples_N, pieces, batch_size):
            encoded_BSC = encode(samples)
            frames_SC = join([e_SC[p.first : p.end] for e_SC, p in zip(encoded_BSC, batch, strict=True)])
            nan = _has_nan(frames_SC)
            if nan:
                return
            yield frames_SC

    hypothesis = decode_parts(parts(), recording)
    return Recognised(recording, NOTHING if nan else hypothesis, is_nan=nan)


def _has_nan(frames_SC: Frames) -> bool:
    return bool((frames_SC != frames_SC).any())  # of tensors and arrays alike
