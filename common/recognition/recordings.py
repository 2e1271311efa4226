"""Recordings as a recogniser takes them: files, utterances of a manifest, or arrays; read ahead of their use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from common import audio
from common.audio import AudioError
from common.data.manifest import Utterance

Given = TypeVar("Given")
Made = TypeVar("Made")

READERS = 4  # threads that decode and resample files while the network is at work
INAUDIBLE = 1e-5  # -100 dB: a recording that never gets louder is silent

Source = str | Path | Utterance | np.ndarray


class Recording(NamedTuple):
    """Mono samples_N of a recording of `seconds`; where nothing could be read, none, and why in `error`."""

    name: str
    samples_N: np.ndarray
    seconds: float
    first_seconds: float = 0.0
    """Where in the recording the samples start."""
    error: str = ""
    hot_words: tuple[str, ...] = ()
    """Words or phrases to favour in this one."""


def read(source: Source, sample_rate: int) -> Recording:
    """The recording at `sample_rate` Hz, that arrays have already. Raises AudioError."""
    samples_N = _samples(source, sample_rate)
    return Recording(name_of(source), samples_N, len(samples_N) / sample_rate)


def read_heard(source: Source, sample_rate: int, *, trim: bool) -> Recording:
    """As `read`, without samples where nothing can be heard; `trim` cuts silence off the ends. Raises AudioError."""
    recording = read(source, sample_rate)
    samples_N, first = audio.trim_silence(recording.samples_N) if trim else (recording.samples_N, 0)
    samples_N = samples_N[:0] if is_silent(samples_N) else samples_N
    return recording._replace(samples_N=samples_N, first_seconds=first / sample_rate)


def read_ahead(
    sources: Iterable[Source], read: Callable[[Source], Recording], *, on_error: Literal["stop", "skip"]
) -> Iterator[Recording]:
    """`read` of every source, in order, by threads that are a few sources ahead.

    An AudioError of `read` is raised, or with "skip" becomes the `error` of its recording. Raises TypeError, at once,
    for a single source.
    """
    if isinstance(sources, str | Path | Utterance | np.ndarray):
        raise TypeError(f"expected a list of recordings, found one {type(sources).__name__}; put it in [ ]")

    def tolerant(source: Source) -> Recording:
        try:
            return read(source)
        except AudioError as error:
            if on_error == "stop":
                raise
            return Recording(name_of(source), np.zeros(0, np.float32), 0.0, error=str(error))

    return in_threads(sources, tolerant, threads=READERS)


def in_threads(items: Iterable[Given], work: Callable[[Given], Made], *, threads: int) -> Iterator[Made]:
    """`work` of every item, in order, by `threads` threads that are up to twice as many items ahead."""
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[Made]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def is_silent(samples_N: np.ndarray) -> bool:
    """Whether nothing can be heard in them: normalised, the rounding errors of silence would sound like anything."""
    # No array of magnitudes: of an hour it would be as large as the samples.
    return bool(max(samples_N.max(initial=0.0), -samples_N.min(initial=0.0)) <= INAUDIBLE)


def name_of(source: Source) -> str:
    """What messages and results call it."""
    if isinstance(source, Utterance):
        return source.id
    return "array" if isinstance(source, np.ndarray) else str(source)


def _samples(source: Source, rate: int) -> np.ndarray:
    if isinstance(source, np.ndarray):
        if source.dtype.kind != "f":
            raise AudioError(f"array of {source.dtype}: expected floating-point samples from -1 to 1")
        if source.ndim != 1 or not len(source) or not np.isfinite([source.min(), source.max()]).all():
            raise AudioError(f"array of shape {source.shape}: expected finite mono samples [N] at {rate} Hz")
        return source.astype(np.float32, copy=False)
    if isinstance(source, Utterance):
        return audio.read(source.audio, sample_rate=rate, **source.piece()).samples
    return audio.read(source, sample_rate=rate).samples
