import asyncio
import weakref

import numpy as np

from tests.timing import quickest, until
from trt.serving.batching import Batcher


def batched(requests, *, delay_seconds=0.05, most=4, run=None):
    """Answers of requests made at the same time, and the sizes of their batches."""
    sizes: list[int] = []

    async def ask():
        batcher = Batcher(
            run or (lambda batch: [float(x_N[0]) for x_N in batch]), delay_seconds=delay_seconds, most=most
        )
        batcher.seen = sizes.append
        try:
            asked = [asyncio.create_task(batcher(np.array([float(value)]))) for value in requests]
            await asyncio.sleep(0)
            batcher.start()
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            batcher.stop()

    return asyncio.run(ask()), sizes


def test_requests_at_the_same_time_share_batches_and_get_their_own_answers():
    answers, sizes = batched(range(10))
    assert answers == [float(value) for value in range(10)]
    assert sizes == [4, 4, 2]


def test_one_request_waits_for_the_delay_and_no_longer():
    async def ask():
        batcher = Batcher(lambda batch: [0.0 for _ in batch], delay_seconds=0.05, most=4)
        batcher.start()
        began = asyncio.get_running_loop().time()
        await batcher(np.zeros(1))
        batcher.stop()
        return asyncio.get_running_loop().time() - began

    assert 0.045 < quickest(0.5, lambda: asyncio.run(ask())) < 0.5


def test_a_request_that_fails_does_not_spoil_its_batch():
    def run(batch):
        if any(x_N[0] == 2 for x_N in batch):
            raise ValueError("two")
        return [float(x_N[0]) for x_N in batch]

    answers, _ = batched(range(4), run=run)
    assert [answers[i] for i in (0, 1, 3)] == [0.0, 1.0, 3.0]
    assert isinstance(answers[2], ValueError)


def test_an_exception_that_no_future_takes_is_told_nevertheless():
    def run(batch):
        raise StopIteration

    answers, _ = batched(range(2), run=run)
    assert [type(answer) for answer in answers] == [RuntimeError, RuntimeError]


def test_what_is_answered_is_not_held_until_the_next_request():
    async def ask():
        batcher = Batcher(lambda batch: [x_N.sum() for x_N in batch], delay_seconds=0.0, most=1)
        batcher.start()
        given_N = np.ones(3)
        held = weakref.ref(given_N)
        assert await batcher(given_N) == 3
        del given_N
        while held() is not None:
            await asyncio.sleep(0.01)
        batcher.stop()

    asyncio.run(ask())


def test_whoever_is_cancelled_while_waiting_is_left_out():
    seen: list[list[float]] = []

    async def ask():
        batcher = Batcher(lambda batch: seen.append([float(x_N[0]) for x_N in batch]) or [0.0] * len(batch),
                          delay_seconds=0.05, most=4)  # fmt: skip
        jobs = [asyncio.create_task(batcher(np.array([float(i)]))) for i in range(3)]
        await asyncio.sleep(0)
        jobs[1].cancel()
        await asyncio.sleep(0)
        batcher.start()
        await asyncio.gather(jobs[0], jobs[2])
        batcher.stop()

    asyncio.run(ask())
    assert seen == [[0.0, 2.0]]


def test_what_came_first_shares_its_batch_with_what_is_most_like_it():
    seen: list[list[int]] = []

    async def ask():
        batcher = Batcher(lambda batch: seen.append(sorted(batch)) or list(batch),
                          delay_seconds=0.05, most=3, size=lambda n: n)  # fmt: skip
        jobs = [asyncio.create_task(batcher(n)) for n in (100, 10, 101, 11, 99, 102, 500)]
        await asyncio.sleep(0)
        batcher.start()
        assert await asyncio.gather(*jobs) == [100, 10, 101, 11, 99, 102, 500]
        batcher.stop()

    asyncio.run(ask())
    assert seen == [[99, 100, 101], [10, 11], [102], [500]]


def test_the_next_batch_is_at_work_while_the_answers_of_one_are_used():
    """The event loop is busy, as with the answers of many, and the thread goes on."""
    ran: list[int] = []

    async def ask():
        batcher = Batcher(lambda batch: ran.extend(batch) or list(batch), delay_seconds=0.0, most=1)
        batcher.start()
        jobs = [asyncio.create_task(batcher(n)) for n in range(4)]
        await jobs[0]
        until(lambda: len(ran) == 4)
        await asyncio.gather(*jobs)
        batcher.stop()

    asyncio.run(ask())


def test_whoever_is_cancelled_does_not_wait_any_more():
    async def ask():
        batcher = Batcher(list, delay_seconds=10.0, most=4)
        batcher.start()
        job = asyncio.create_task(batcher(0))
        await asyncio.sleep(0.01)
        assert len(batcher) == 1
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        assert len(batcher) == 0
        batcher.stop()

    asyncio.run(ask())
