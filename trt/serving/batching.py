"""Dynamic batching: requests that come within a short delay, or while the network is at work, go through it together.

Legend: N samples.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

import numpy as np

Answer = TypeVar("Answer")
Run = Callable[[Sequence[np.ndarray]], list[Answer]]


class Waiting(NamedTuple, Generic[Answer]):
    """A request that waits for its batch."""

    samples_N: np.ndarray
    answer: "asyncio.Future[Answer]"
    since: float


class Batcher(Generic[Answer]):
    """Runs `run` in a thread of its own on batches of what is given to `__call__`, first come first served.

    A batch starts when it is full, or `delay_seconds` after its first request came; what comes while another batch is
    at work waits for the next. `seen` gets the size of every batch. Whoever is cancelled while waiting is left out.
    """

    def __init__(
        self, run: Run[Answer], *, delay_seconds: float, most: int, seen: Callable[[int], None] = lambda n: None
    ):
        self._run, self._delay, self._most, self._seen = run, delay_seconds, most, seen
        self._waiting: deque[Waiting[Answer]] = deque()
        self._came = asyncio.Event()
        self._full = asyncio.Event()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Within a running event loop."""
        threading.Thread(target=self._work, name="network", daemon=True).start()
        self._loop = asyncio.create_task(self._form_batches())

    def stop(self) -> None:
        """Leaves what waits unanswered."""
        if self._loop is not None:
            self._loop.cancel()
        self._jobs.put(None)

    def __len__(self) -> int:
        return len(self._waiting)

    async def __call__(self, samples_N: np.ndarray) -> Answer:
        """The answer for these samples. Raises what `run` raises for them alone."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(samples_N, answer, time.monotonic()))
        self._came.set()
        if len(self._waiting) >= self._most:
            self._full.set()
        return await answer

    async def _form_batches(self) -> None:
        while True:
            await self._came.wait()
            left = self._waiting[0].since + self._delay - time.monotonic() if self._waiting else 0.0
            if left > 0 and len(self._waiting) < self._most:
                self._full.clear()
                try:
                    async with asyncio.timeout(left):
                        await self._full.wait()
                except TimeoutError:
                    pass
            batch: list[Waiting[Answer]] = []
            while self._waiting and len(batch) < self._most:
                first = self._waiting.popleft()
                if not first.answer.done():
                    batch.append(first)
            if not self._waiting:
                self._came.clear()
            if batch:
                self._seen(len(batch))
                await self._answer(batch)

    async def _answer(self, batch: list[Waiting[Answer]]) -> None:
        try:
            found = await self._in_thread([waiting.samples_N for waiting in batch])
        except Exception as error:
            if len(batch) == 1:
                _give(batch[0], error=error)
                return
            for waiting in batch:  # one bad request does not spoil the others
                if not waiting.answer.done():
                    await self._answer([waiting])
            return
        for waiting, answer in zip(batch, found, strict=True):
            _give(waiting, answer)

    async def _in_thread(self, batch: list[np.ndarray]) -> list[Answer]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Answer]] = loop.create_future()

        def job() -> None:
            try:
                found, problem = self._run(batch), None
            except Exception as error:
                found, problem = [], error
            loop.call_soon_threadsafe(_finish, done, found, problem)

        self._jobs.put(job)
        return await done

    def _work(self) -> None:
        while job := self._jobs.get():
            job()


def _give(waiting: Waiting[Answer], answer: Answer | None = None, *, error: Exception | None = None) -> None:
    if waiting.answer.done():  # cancelled meanwhile
        return
    if error is not None:
        waiting.answer.set_exception(error)
    else:
        waiting.answer.set_result(answer)  # type: ignore[arg-type]


def _finish(done: "asyncio.Future[list[Answer]]", found: list[Answer], problem: Exception | None) -> None:
    if done.done():
        return
    if problem is not None:
        done.set_exception(problem)
    else:
        done.set_result(found)
