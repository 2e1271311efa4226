"""Memory that was freed: kept by the C library for what comes next, or given back to the system."""

import ctypes
import os
import sys
from typing import Any

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of <malloc.h>


def keep() -> bool:
    """From now on what this process frees is used again; whether the C library does so.

    Otherwise every large tensor gets fresh pages, which the system fills with zeros one by one: an eighth of a step of
    Jasper 10x5, up to a third of smaller ones. What MALLOC_... in the environment says stays as it is.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    set_option = _function("mallopt")
    # No tensor has pages of its own, and none are given back from the end of the heap.
    return bool(set_option and set_option(_MMAP_MAX, 0) and set_option(_TRIM_THRESHOLD, -1))


def can_give_back() -> bool:
    """Whether `give_back` does anything here."""
    return _function("malloc_trim") is not None


def give_back() -> None:
    """Gives back whole pages of freed memory, wherever they lie, where the C library can: in some milliseconds.

    glibc keeps what was freed between pieces that are in use.
    """
    if trim := _function("malloc_trim"):
        trim(0)


def _function(name: str) -> Any:
    """One of glibc's own; None where there is none."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # TypeError: None is no library of Windows
        return None
