"""Threads of torch's operations on a CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(n: int) -> Iterator[None]:
    """Operations that this thread starts inside share the work among so many threads.

    Small ones want one where other threads compute: however little there is to share, a second one must find a core.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
