"""What threads make ahead of its use, in its order.

A generator that nobody asks any more is closed by whatever thread collects the garbage, in the middle of anything, such
as the start of a thread, while Python's own locks are held. It waits for no thread there: that could need these locks.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads whose work has ended when this has; where it is interrupted or closed they end with what they are at."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix="ahead")
    waits = True
    try:
        yield pool
    except BaseException as error:
        waits = isinstance(error, Exception)
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)


def one_ahead(items: Iterable[Made]) -> Iterator[Made]:
    """The items, the next of which a thread fetches while one is in use."""
    fetched = iter(items)
    with _pool(1) as pool:
        coming = pool.submit(lambda: list(itertools.islice(fetched, 1)))
        while found := coming.result():
            coming = pool.submit(lambda: list(itertools.islice(fetched, 1)))
            yield found[0]


def in_threads(items: Iterable[Given], work: Callable[[Given], Made], *, threads: int) -> Iterator[Made]:
    """`work` of every item, in order, by `threads` threads that are up to twice as many items ahead.

    An exception of `items` is raised after the results of those before it.
    """
    waiting: deque[Future[Made]] = deque()
    ended: Exception | None = None
    with _pool(threads) as pool:
        given = iter(items)
        while ended is None:
            try:
                waiting.append(pool.submit(work, next(given)))
            except Exception as error:
                ended = error
            if ended is None and len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        if not isinstance(ended, StopIteration):
            raise ended
