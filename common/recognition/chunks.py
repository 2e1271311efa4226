"""Long recordings in overlapping chunks, chunks of similar length in batches, results in the order of the recordings.

Needs no torch: `common.recognition.tensors` has what is of tensors.

Shapes: B chunks, N samples, S frames, X whatever a network gives for a frame.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from common.recognition.recordings import Recording

# A batch ends before more than a fifth of it would be padding: what is computed for padding is lost.
MOST_PADDED = 1.25
WINDOW = 8  # batches' worth of recordings that are sorted by length

Item = TypeVar("Item")


class Sliceable(Protocol):
    """A tensor or an array."""

    def __getitem__(self, frames: slice, /) -> Any:
        """Some of its rows."""


Frames = TypeVar("Frames", bound=Sliceable)  # [S, X]


class Chunk(NamedTuple):
    """Frames of a recording: the network sees `start` to `stop`, and its result counts from `first` to `end`."""

    start: int
    first: int
    end: int
    stop: int


class Piece(NamedTuple):
    """Samples that go through the network at once; `first:end` are the frames to keep of what it gives."""

    samples_N: np.ndarray
    first: int
    end: int


def chunks(n_frames: int, *, longest: int, context: int, multiple: int = 1) -> list[Chunk]:
    """All frames in chunks of at most `longest` frames, with `context` of them on both sides that do not count.

    Chunks count about equally many frames; context takes a third of `longest` at most on each side. With `multiple`
    every chunk starts at a multiple of it, and sees up to so many frames more.
    """
    if n_frames <= longest:
        return [Chunk(0, 0, n_frames, n_frames)] if n_frames else []
    context = min(context, longest // 3)
    n_chunks = math.ceil(n_frames / (longest - 2 * context))
    bounds = [i * n_frames // n_chunks for i in range(n_chunks + 1)]
    starts = [max(0, first - context) // multiple * multiple for first in bounds]
    return [
        Chunk(start, first, end, min(n_frames, end + context))
        for start, first, end in zip(starts, bounds, bounds[1:], strict=False)
    ]


def in_batches(
    recordings: Iterable[Recording],
    split: Callable[[np.ndarray], list[Piece]],
    run: Callable[[list[np.ndarray]], Iterable[Frames]],
    *,
    join: Callable[[list[Frames]], Frames],
    batch_size: int,
) -> Iterator[tuple[Recording, Frames | None]]:
    """Every recording with its frames [S, X] (None where it has no pieces), in order.

    `split` cuts a recording's samples, `run` makes [S, X] of the samples of each of B pieces, `join` puts those of a
    recording one after the other. What `run` gives is iterated over when it was called for the next batch. Memory
    holds the recordings of a window, enough for batches of similar lengths, and of the next one, that a thread reads
    meanwhile. Raises ValueError for a batch_size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size = {batch_size}: expected at least 1")
    for window in one_ahead(_windows(recordings, split, WINDOW * batch_size)):
        whole, pieces = zip(*window, strict=True)
        yield from zip(whole, _frames(pieces, run, join, batch_size), strict=True)


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The items, the next of which a thread fetches while one is in use."""
    fetched = iter(items)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(lambda: list(itertools.islice(fetched, 1)))
        while found := coming.result():
            coming = thread.submit(lambda: list(itertools.islice(fetched, 1)))
            yield found[0]


def one_late(items: Iterable[Item]) -> Iterator[Item]:
    """The items, each when the next one was made: what a device is told of that one, it does while this one is used."""
    waiting: list[Item] = []
    for item in items:
        yield from waiting
        waiting = [item]
    yield from waiting


def _windows(
    recordings: Iterable[Recording], split: Callable[[np.ndarray], list[Piece]], size: int
) -> Iterator[list[tuple[Recording, list[Piece]]]]:
    """Recordings with their pieces, until there are `size` of either."""
    window: list[tuple[Recording, list[Piece]]] = []
    for recording in recordings:
        window.append((recording, split(recording.samples_N)))
        if max(len(window), sum(len(pieces) for _, pieces in window)) >= size:
            yield window
            window = []
    if window:
        yield window


def padded(samples: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """audio_BN with zeros after the shorter ones, and how many samples each has."""
    samples_B = np.array([len(samples_N) for samples_N in samples], np.int64)
    audio_BN = np.zeros((len(samples), int(samples_B.max())), np.float32)
    for row, samples_N in zip(audio_BN, samples, strict=True):
        row[: len(samples_N)] = samples_N
    return audio_BN, samples_B


def _frames(
    pieces: Sequence[list[Piece]],
    run: Callable[[list[np.ndarray]], Iterable[Frames]],
    join: Callable[[list[Frames]], Frames],
    batch_size: int,
) -> Iterator[Frames | None]:
    flat = [piece for own in pieces for piece in own]
    kept: dict[int, Frames] = {}
    batches = by_length([len(piece.samples_N) for piece in flat], batch_size)
    for rows, found in one_late((rows, run([flat[i].samples_N for i in rows])) for rows in batches):
        for i, x_SX in zip(rows, found, strict=True):
            kept[i] = x_SX[flat[i].first : flat[i].end]
    numbers = iter(range(len(flat)))
    for own in pieces:
        parts = [kept.pop(next(numbers)) for _ in own]
        yield join(parts) if parts else None


def by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Numbers of the pieces of these lengths, from the shortest to the longest, in batches of similar length."""
    batch: list[int] = []
    total = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == batch_size or lengths[i] * (len(batch) + 1) > MOST_PADDED * (total + lengths[i])):
            yield batch
            batch, total = [], 0
        batch.append(i)
        total += lengths[i]
    if batch:
        yield batch
