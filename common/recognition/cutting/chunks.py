"""Long recordings in overlapping chunks, chunks of similar length in batches, results in the order of the recordings.

Needs no torch: `common.recognition.cutting.tensors` has what is of tensors.

Shapes: B chunks, N samples, S frames, X whatever a network gives for a frame.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from common.ahead import in_threads, one_ahead
from common.devices import memory
from common.recognition.sources.long_sound import LongSound
from common.recognition.sources.recordings import Recording

# A batch ends before more than a fifth of it would be padding: what is computed for padding is lost.
MOST_PADDED = 1.25
WINDOW = 8  # batches' worth of recordings that are sorted by length
KEPT = 8  # batches of a long recording after which memory that was freed between its results goes back to the system

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


class AudioChunk(NamedTuple):
    """Samples `start:stop` go through the network at once; `first:end` are the frames to keep of what it gives."""

    start: int
    stop: int
    first: int
    end: int

    @property
    def length(self) -> int:
        """How many samples."""
        return self.stop - self.start

    def of(self, samples_N: np.ndarray | LongSound) -> np.ndarray:
        """Its samples."""
        return samples_N[self.start : self.stop]


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


Window = list[tuple[Recording, list[AudioChunk]]]  # recordings whose pieces are sorted by length together


class Batch(NamedTuple):
    """Pieces of a window that go through the network at once; none of a window where nothing is to be recognised."""

    window: Window
    numbers: list[int]
    """The place of every piece among all of the window."""
    pieces: list[AudioChunk]
    samples: list[np.ndarray]
    of_window: int
    """How many batches the window has."""
    is_last: bool
    """Whether it is the last one of its window."""


def in_batches(
    recordings: Iterable[Recording],
    split: Callable[[int], list[AudioChunk]],
    run: Callable[[list[np.ndarray]], Iterable[Frames]],
    *,
    batch_size: int,
    long_batch_size: int = 1,
    most_samples: int | None = None,
    threads: int = 1,
    sharing: Callable[[int], AbstractContextManager[Any]] = nullcontext,
) -> Iterator[tuple[Recording, Iterable[Frames]]]:
    """Every recording with its frames [S, X] in parts, none where it has no pieces, in order.

    `split` cuts so many samples of a recording, `run` makes [S, X] of the samples of each of B pieces, none of none.
    What `run` gives is iterated over when it was called for the next batch. So many `threads` call it where a window
    has several batches, each inside of `sharing`, which is told its part of them. Memory holds the recordings of a
    window, enough for batches of similar lengths, of the next one, that a thread reads meanwhile, and those that the
    threads are ahead. Of a `LongSound`, which is a window of its own, memory holds two batches of `long_batch_size`
    pieces: its parts come while they are iterated over, which must be done before the next recording is asked for. With
    `most_samples` a batch of several pieces has no more than so many. Raises ValueError for a batch_size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size = {batch_size}: expected at least 1")
    windows: Iterable[Window] = _windows(recordings, split, WINDOW * batch_size)
    if not isinstance(recordings, list):  # which has all that a thread could fetch
        windows = one_ahead(windows)
    for is_long, some in itertools.groupby(windows, lambda window: isinstance(window[0][0].samples_N, LongSound)):
        if not is_long:
            yield from _of_windows(_run(_batches(some, batch_size, most_samples), run, threads, sharing))
            continue
        for ((recording, pieces),) in some:
            yield recording, _of_long(cast(LongSound, recording.samples_N), pieces, run, long_batch_size)


def long_batches(
    sound: np.ndarray | LongSound, pieces: Sequence[AudioChunk], batch_size: int
) -> Iterator[tuple[Sequence[AudioChunk], list[np.ndarray]]]:
    """Pieces of one recording with their samples, so many at once; a thread decodes the next ones meanwhile."""
    batches = (pieces[first : first + batch_size] for first in range(0, len(pieces), batch_size))
    sounds = one_ahead((own, [piece.of(sound) for piece in own]) for own in batches)
    for number, batch in enumerate(sounds, start=1):
        yield batch
        if number % KEPT == 0:
            memory.give_back()


def _of_long(
    sound: LongSound, pieces: Sequence[AudioChunk], run: Callable[[list[np.ndarray]], Iterable[Frames]], batch_size: int
) -> Iterator[Frames]:
    """The frames of each of the pieces."""
    batches = long_batches(sound, pieces, batch_size)
    for own, found in one_late((own, run(samples)) for own, samples in batches):
        for piece, x_SX in zip(own, found, strict=True):
            yield x_SX[piece.first : piece.end]


def one_late(items: Iterable[Item]) -> Iterator[Item]:
    """The items, each when the next one was made: what a device is told of that one, it does while this one is used."""
    waiting: list[Item] = []
    for item in items:
        yield from waiting
        waiting = [item]
    yield from waiting


def _windows(recordings: Iterable[Recording], split: Callable[[int], list[AudioChunk]], size: int) -> Iterator[Window]:
    """Recordings with their pieces, until there are `size` of either; long ones alone."""
    window: Window = []
    for recording in recordings:
        pieces = split(len(recording.samples_N))
        if isinstance(recording.samples_N, LongSound):
            yield from [window] if window else []
            yield [(recording, pieces)]
            window = []
            continue
        window.append((recording, pieces))
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


def _batches(windows: Iterable[Window], batch_size: int, most_samples: int | None) -> Iterator[Batch]:
    """The batches of one window after the other, at least one of each."""
    for window in windows:
        flat = [(piece, recording.samples_N) for recording, pieces in window for piece in pieces]
        plan = list(by_length([piece.length for piece, _ in flat], batch_size, most_samples)) or [[]]
        for i, numbers in enumerate(plan):
            own = [flat[number] for number in numbers]
            samples = [piece.of(samples_N) for piece, samples_N in own]
            yield Batch(window, numbers, [piece for piece, _ in own], samples, len(plan), i == len(plan) - 1)


def _one_by_one(
    batches: Iterable[Batch], run: Callable[[list[np.ndarray]], Iterable[Frames]]
) -> Iterator[tuple[Batch, Iterable[Frames]]]:
    """What `run` gives of the batches, each when the next one of its window was begun."""
    waiting: list[tuple[Batch, Iterable[Frames]]] = []
    for batch in batches:
        found = batch, run(batch.samples)
        yield from waiting
        waiting = [] if batch.is_last else [found]
        if batch.is_last:
            yield found


def _run(
    batches: Iterable[Batch],
    run: Callable[[list[np.ndarray]], Iterable[Frames]],
    threads: int,
    sharing: Callable[[int], AbstractContextManager[Any]],
) -> Iterator[tuple[Batch, Iterable[Frames]]]:
    """What `run` gives of the batches, in order; one that is alone in its window is of this thread."""
    most = min(threads, WINDOW)

    def one(batch: Batch) -> tuple[Batch, Iterable[Frames]]:
        with sharing(threads // min(most, batch.of_window)):
            return batch, run(batch.samples)

    for is_alone, some in itertools.groupby(batches, lambda batch: min(most, batch.of_window) == 1):
        if is_alone:
            yield from _one_by_one(some, run)
        else:
            yield from in_threads(some, one, threads=most)


def _of_windows(results: Iterable[tuple[Batch, Iterable[Frames]]]) -> Iterator[tuple[Recording, list[Frames]]]:
    """The recordings of the windows, each with the frames of its pieces."""
    kept: dict[int, Frames] = {}
    for batch, found in results:
        for number, piece, x_SX in zip(batch.numbers, batch.pieces, found, strict=True):
            kept[number] = x_SX[piece.first : piece.end]
        if batch.is_last:
            numbers = itertools.count()
            for recording, pieces in batch.window:
                yield recording, [kept.pop(next(numbers)) for _ in pieces]


def by_length(lengths: Sequence[int], batch_size: int, most: int | None = None) -> Iterator[list[int]]:
    """Numbers of the pieces of these lengths, from the shortest to the longest, in batches of similar length.

    With padding several are no longer than `most` together.
    """
    batch: list[int] = []
    total = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        padded_length = lengths[i] * (len(batch) + 1)
        is_full = len(batch) == batch_size or padded_length > MOST_PADDED * (total + lengths[i])
        if batch and (is_full or (most is not None and padded_length > most)):
            yield batch
            batch, total = [], 0
        batch.append(i)
        total += lengths[i]
    if batch:
        yield batch
