"""Dynamic batching: requests go through a network together that come within a short delay, or while it is at work."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from common.recognition.cutting.chunks import MOST_PADDED

Given = TypeVar("Given")
Answer = TypeVar("Answer")
Asked = TypeVar("Asked", contravariant=True)
Answered = TypeVar("Answered", covariant=True)
Run = Callable[[Sequence[Given]], list[Answer]]


class Lane(Protocol[Asked, Answered]):
    """What answers requests, several at a time."""

    def start(self) -> None:
        """Within a running event loop."""

    def stop(self) -> None:
        """Leaves what waits unanswered."""

    def __len__(self) -> int:
        """How many wait."""

    async def __call__(self, given: Asked, due: float | None = None, /) -> Answered:
        """The answer; what is due first comes first."""


@dataclass(eq=False, slots=True)
class Waiting(Generic[Given, Answer]):
    """A request that waits for its batch."""

    given: Given
    answer: "asyncio.Future[Answer]"
    since: float
    due: float


class Batcher(Generic[Given, Answer]):
    """Runs `run` in `threads` of its own on batches of what is given to `__call__`.

    A batch is what is due first and what is most like it in `size`, so that little of it is padding. It starts when
    `most` requests wait, or `delay_seconds` after the first of them came. A thread takes the next one as soon as it
    is free, while the answers of the one before are sent. `seen` gets the size of every batch. Whoever is cancelled
    while waiting is left out. Where `run` raises an exception for several, it is called again for each of them alone.
    """

    def __init__(
        self,
        run: Run[Given, Answer],
        *,
        delay_seconds: float,
        most: int,
        size: Callable[[Given], int] = lambda given: 1,
        seen: Callable[[int], None] = lambda n: None,
        threads: int = 1,
    ):
        self._run, self._delay, self._most, self._size, self.seen = run, delay_seconds, most, size, seen
        self._waiting: list[Waiting[Given, Answer]] = []
        self._changed = threading.Condition()
        self._ends, self._threads = False, threads
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Within a running event loop."""
        self._loop = asyncio.get_running_loop()
        for _ in range(self._threads):
            threading.Thread(target=self._work, name="network", daemon=True).start()

    def stop(self) -> None:
        """Leaves what waits unanswered."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._waiting)

    async def __call__(self, given: Given, due: float | None = None) -> Answer:
        """The answer for this, which is due at a time of `time.monotonic`, by default now; what is due first comes
        first. Raises what `run` raises for it alone."""
        now = time.monotonic()
        own = Waiting(given, asyncio.get_running_loop().create_future(), now, now if due is None else due)
        with self._changed:
            self._waiting.append(own)
            self._changed.notify()
        try:
            return await own.answer
        finally:
            with self._changed:
                if own in self._waiting:
                    self._waiting.remove(own)

    def _work(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            while batch := self._next():
                self._answer(batch)
                del batch  # recordings are not held while there is nothing to do

    def _next(self) -> list[Waiting[Given, Answer]]:
        """The next batch, once there is one; none at the end."""
        with self._changed:
            while not self._ends:
                left = self._waiting[0].since + self._delay - time.monotonic() if self._waiting else None
                if left is not None and (left <= 0 or len(self._waiting) >= self._most):
                    batch = self._alike()
                    self._waiting = [waiting for waiting in self._waiting if waiting not in batch]
                    return batch
                self._changed.wait(left)
        return []

    def _alike(self) -> list[Waiting[Given, Answer]]:
        """What is due first, and others of about its size, as long as padding takes no more of them than in a batch of
        `common.recognition`."""
        first, *others = sorted(self._waiting, key=lambda waiting: waiting.due)
        size = self._size(first.given)
        batch, total, longest = [first], size, size
        for other in sorted(others, key=lambda waiting: abs(self._size(waiting.given) - size)):
            own = self._size(other.given)
            longest = max(longest, own)
            if len(batch) == self._most or longest * (len(batch) + 1) > MOST_PADDED * (total + own):
                break
            batch.append(other)
            total += own
        return batch

    def _answer(self, batch: list[Waiting[Given, Answer]]) -> None:
        """In the thread."""
        found, problem = list[Answer](), None
        try:
            found = self._run([waiting.given for waiting in batch])
        except Exception as error:
            if len(batch) > 1:  # one bad request does not spoil the others
                for waiting in batch:
                    if not waiting.answer.done():
                        self._answer([waiting])
                return
            problem = RuntimeError("StopIteration") if isinstance(error, StopIteration) else error  # no future takes it
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._give, batch, found, problem)
        problem = None  # with this frame it would be a circle, which holds the batch

    def _give(self, batch: list[Waiting[Given, Answer]], found: list[Answer], problem: Exception | None) -> None:
        self.seen(len(batch))
        for i, waiting in enumerate(batch):
            if waiting.answer.done():  # cancelled meanwhile
                continue
            if problem is not None:
                waiting.answer.set_exception(problem)
            else:
                waiting.answer.set_result(found[i])


class Workers(Batcher[Callable[[], Any], Any]):
    """Threads for what is no network: pieces of bounded size of decoding, resampling and encoding, so that what is due
    first does not wait for the whole of anything."""

    def __init__(self, threads: int = 2):
        super().__init__(lambda works: [work() for work in works], delay_seconds=0.0, most=1, threads=threads)

    async def __call__(self, given: Callable[[], Any], due: float | None = None) -> Any:
        """What the work returns, or raises."""
        if self._loop is None:
            self.start()
        return await super().__call__(given, due)

    async def soon(self, given: Callable[[], Any], size: int, most: int, due: float | None = None) -> Any:
        """The same; at once, without the way to a thread and back, where its `size` is at most `most`."""
        return given() if size <= most else await self(given, due)
