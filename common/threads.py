"""Threads of torch's operations on a CPU.

Torch keeps their number for every thread of Python, and a thread that is new begins with the one that was set last,
in whichever thread: while some are inside of `torch_threads`, with the number of one of these.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Shared:
    """The threads of the process that are inside of `torch_threads`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.inside = 0  # threads
        self.outside = 1  # the number that all others begin with


class _Own(threading.local):
    """How often this thread is inside."""

    depth = 0


_SHARED, _OWN = _Shared(), _Own()


def cores() -> int:
    """How many threads the operations of this thread share their work among; of a new thread as many as of others."""
    with _SHARED.lock:
        found = torch.get_num_threads()
        wanted = found if _OWN.depth or not _SHARED.inside else max(found, _SHARED.outside)
        if wanted != found:
            torch.set_num_threads(wanted)
        return wanted


@contextmanager
def torch_threads(n: int) -> Iterator[None]:
    """Operations that this thread starts inside share the work among so many threads.

    Small ones want one where other threads compute: however little there is to share, a second one must find a core.
    When all threads have left, new ones begin with what was before.
    """
    with _SHARED.lock:
        before = cores()
        if not _SHARED.inside:
            _SHARED.outside = before
        _SHARED.inside += not _OWN.depth
        _OWN.depth += 1
        torch.set_num_threads(n)
    try:
        yield
    finally:
        with _SHARED.lock:
            torch.set_num_threads(before)
            _OWN.depth -= 1
            _SHARED.inside -= not _OWN.depth
