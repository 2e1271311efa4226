"""Memory that was freed: kept by the C library for what comes next, or given back to the system."""

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8  # of <malloc.h>
_MOST_TENSORS = 65_536  # that have pages of their own: glibc's default
_LARGE = 32 << 20  # bytes from which on glibc gives a tensor pages of its own, once it has seen some of that size


@contextlib.contextmanager
def kept() -> Iterator[bool]:
    """Within it what this process frees is used again, and goes back to the system at the end; whether it does so.

    Otherwise every large tensor gets fresh pages, which the system fills with zeros one by one: an eighth of a step of
    Jasper 10x5, up to a third of smaller ones. What MALLOC_... in the environment says stays as it is.
    """
    set_option = _mallopt()
    if set_option is None:
        yield False
        return
    try:
        # No tensor has pages of its own, and none are given back from the end of the heap.
        yield bool(set_option(_MMAP_MAX, 0) and set_option(_TRIM_THRESHOLD, -1))
    finally:
        set_option(_MMAP_MAX, _MOST_TENSORS)
        set_option(_MMAP_THRESHOLD, _LARGE)
        set_option(_TRIM_THRESHOLD, 2 * _LARGE)
        give_back()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Within it Python's collector of garbage passes over what is there now: torch's modules, some 40 ms each time.

    What is garbage by then is kept to the end. To collect it first would take a second where much is imported.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def in_one_heap() -> None:
    """From here on new threads share the first heap, if the C library is glibc and MALLOC_... does not say otherwise.

    Each would have one of its own, and of those `give_back` leaves what is free at their ends.
    """
    if set_option := _mallopt():
        set_option(_ARENA_MAX, 1)


def can_give_back() -> bool:
    """Whether `give_back` does anything here."""
    return _function("malloc_trim") is not None


def give_back() -> None:
    """Gives back whole pages of freed memory, wherever they lie, where the C library can: in some milliseconds.

    glibc keeps what was freed between pieces that are in use.
    """
    if trim := _function("malloc_trim"):
        trim(0)


def _mallopt() -> Any:
    """What sets options of glibc's; None where it is not there, or the user sets them."""
    is_set = sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ)
    return None if is_set else _function("mallopt")


def _function(name: str) -> Any:
    """One of glibc's own; None where there is none."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # TypeError: None is no library of Windows
        return None
