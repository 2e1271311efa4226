"""Recordings as a recogniser takes them: files, utterances of a manifest, or arrays; read ahead of their use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar

import numpy as np

from common import audio
from common.audio import AudioError, Held
from common.data.manifest import Utterance

Given = TypeVar("Given")
Made = TypeVar("Made")

READERS = 4  # threads that decode and resample files while the network is at work
INAUDIBLE = 1e-5  # -100 dB: a recording that never gets louder is silent

Samples = Any
"""A float array or torch tensor [N], mono."""
Source = str | Path | Utterance | bytes | BinaryIO | Samples | tuple[Samples, int]
"""A recording: a file; an utterance of a manifest; the bytes of a file, or one that is open; samples at the rate that
the model takes, or with the rate that they have."""


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
    """The recording at `sample_rate` Hz, which samples without a rate have already. Raises AudioError."""
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
    if isinstance(sources, str | Path | Utterance | np.ndarray | bytes) or hasattr(sources, "is_floating_point"):
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
    if isinstance(source, str | Path | Held):
        return str(source)
    return str(getattr(source, "name", None) or {"ndarray": "array"}.get(kind := type(source).__name__, kind))


def _samples(source: Source, rate: int) -> np.ndarray:
    given: Any = source
    if isinstance(given, Utterance):
        return audio.read(given.audio, sample_rate=rate, **given.piece()).samples
    if isinstance(given, tuple):
        if len(given) != 2 or not isinstance(given[1], int) or not audio.RATES[0] <= given[1] <= audio.RATES[1]:
            raise AudioError(f"tuple of {len(given)}: expected samples and their rate, {audio.RATES[0]} Hz at least")
        return audio.resample(_samples(given[0], given[1]), given[1], rate)
    if hasattr(given, "is_floating_point"):  # a tensor; torch need not be there
        given = given.detach().cpu()
        given = (given.float() if given.is_floating_point() else given).numpy()
    if isinstance(given, np.ndarray):
        if given.dtype.kind != "f":
            raise AudioError(f"array of {given.dtype}: expected floating-point samples from -1 to 1")
        if given.ndim != 1 or not len(given) or not np.isfinite([given.min(), given.max()]).all():
            raise AudioError(f"array of shape {given.shape}: expected finite mono samples [N] at {rate} Hz")
        return given.astype(np.float32, copy=False)
    if isinstance(given, bytes):
        given = Held(given, "bytes")
    elif hasattr(given, "read") and not isinstance(given, Held):
        given = Held(given.read(), name_of(given))
    return audio.read(given, sample_rate=rate).samples
