"""A stream of audio while it comes: what it is fed, what is kept of it, and what it is told.

Shapes: N samples.
"""

import asyncio
import time
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from common.audio.silence import Pauses, StreamPauses
from common.audio.waveform import INAUDIBLE, AudioError
from common.recognition.output.transcripts import Word
from common.recognition.sources.recordings import is_silent
from fastconformer.hearing.greedy import DecodingState
from fastconformer.hypotheses import NOTHING
from fastconformer.listening import Listener


class Update(NamedTuple):
    """What a feed brings: words that are final, with times from the start of the stream, and what may still change."""

    words: list[Word]
    text: str
    """The new words."""
    pending: str
    """The word that is not over yet, what is heard in the lookahead, and what a beam search has not settled."""
    error: str = ""
    """Why this stream gives no words any more."""
    delta: str = ""
    """The text that stays, also of a word that is not over. Those of all updates, one after the other, are the
    transcript, with its spaces."""


class Coming(Future[Update]):
    """An update that comes: `result()` waits for it, as `await` does in an event loop; so do its fields."""

    words = property(lambda self: self.result().words)
    text = property(lambda self: self.result().text)
    pending = property(lambda self: self.result().pending)
    error = property(lambda self: self.result().error)
    delta = property(lambda self: self.result().delta)

    def __await__(self) -> Generator[Any, None, Update]:
        return asyncio.wrap_future(self).__await__()


class Streams(Protocol):
    """What sessions share: `fastconformer.hearing.streaming.pool.Pool`."""

    asr: Listener

    def feed(self, feeds: "Iterable[tuple[Session, np.ndarray | Tensor]]") -> list[Coming]:
        """What samples of several sessions bring."""

    def finish(self, sessions: "Iterable[Session]") -> list[Coming]:
        """Ends several sessions."""

    def leave(self, session: "Session") -> None:
        """Drops what is under way of a session."""


class Session:
    """A stream of audio, for any thread. `Pool.session` and `Recognizer.session` make it.

    What it holds is free after `finish` or `close`, at the end of a `with`, once nothing refers to it, and when nothing
    has been fed for the pool's `idle_seconds`.
    """

    def __init__(self, pool: Streams, progress: DecodingState) -> None:
        self.pool, self.progress = pool, progress
        self.slot = -1  # from the first step on
        keep = pool.asr.keep
        self.pauses = StreamPauses(keep) if isinstance(keep, Pauses) else None
        self.fed = 0  # samples
        self.samples_N = np.zeros(0, np.float32)
        self.first_sample = 0  # of samples_N, counted from the start of what is kept of the stream
        self.done = 0  # encoder frames
        self.unheard = 0  # of these, that came before anything could be heard, and were not decoded
        self.first_heard: int | None = None  # sample
        self.is_over = False
        self.heard = NOTHING  # of the word that is not over yet
        self.given = 0  # of its pieces, that a delta had
        self.space: str | None = None  # before the next delta; None before the first
        self.is_spelled = True
        self.ahead = NOTHING  # of the lookahead
        self.pending = ""
        self.error = ""
        self.waiting: deque[Feed] = deque()  # feeds, whose first is at work
        self.used = time.monotonic()
        self.has_ended = False  # for those who feed it

    @property
    def samples(self) -> int:
        """Samples kept so far."""
        return self.first_sample + len(self.samples_N)

    def feed(self, samples: np.ndarray | Tensor) -> Coming:
        """Takes float samples [N] from -1 to 1 at the model's sample rate, and gives what will be new.

        Raises AudioError for other arrays, ValueError after `finish` and `close`.
        """
        return _checked(self.pool.feed([(self, samples)])[0])

    def finish(self) -> Coming:
        """Ends the stream, and gives what is left. Raises ValueError if it has ended before."""
        return _checked(self.pool.finish([self])[0])

    def close(self) -> None:
        """Leaves the stream: what is under way is dropped, and its updates raise ValueError."""
        self.has_ended = True
        self.pool.leave(self)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def add(self, samples_N: np.ndarray, *, last: bool = False) -> None:
        """Keeps samples of them, or all."""
        self.fed += len(samples_N)
        if self.pauses:
            samples_N = self.pauses.feed(samples_N, last=last)
        if self.first_heard is None and not is_silent(samples_N):
            self.first_heard = self.samples + int((np.abs(samples_N) > INAUDIBLE).argmax())
        if not self.error:
            self.samples_N = np.concatenate([self.samples_N, samples_N])

    def between(self, start: int, stop: int) -> np.ndarray:
        """Samples from `start` to `stop`, zeros before the first."""
        before = np.zeros(max(0, -start), np.float32)
        return np.concatenate([before, self.samples_N[max(0, start) - self.first_sample : stop - self.first_sample]])

    def forget(self, until: int) -> None:
        """Drops the samples before `until`; their memory goes when `Pool` copies what is left, once a feed."""
        n = min(max(0, until - self.first_sample), len(self.samples_N))
        self.samples_N, self.first_sample = self.samples_N[n:], self.first_sample + n


class Feed(NamedTuple):
    """Samples that a session is given, or None for its end, and the update that is awaited."""

    session: Session
    samples_N: Any
    coming: Coming


def _checked(coming: Coming) -> Coming:
    """Raises at once what is wrong with a feed."""
    if coming.done() and (error := coming.exception()) is not None:
        raise error
    return coming


def checked_samples(samples: np.ndarray | Tensor) -> np.ndarray:
    """Float32 samples [N]. Raises AudioError for other arrays."""
    if isinstance(samples, Tensor):  # NumPy has no bfloat16
        samples = (samples.float() if samples.is_floating_point() else samples).detach().cpu().numpy()
    samples_N = np.asarray(samples)
    if samples_N.dtype.kind != "f" or samples_N.ndim != 1 or not np.isfinite(samples_N).all():
        raise AudioError(
            f"array of {samples_N.dtype}, shape {samples_N.shape}: expected finite floating-point samples [N], mono, "
            "from -1 to 1"
        )
    return samples_N.astype(np.float32, copy=False)
