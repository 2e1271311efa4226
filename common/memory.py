"""Memory that the C library of Linux keeps for the next step of a training, in place of giving it back."""

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of <malloc.h>


def keep() -> bool:
    """From now on what this process frees is used again; whether the C library does so.

    Otherwise every large tensor gets fresh pages, which the system fills with zeros one by one: an eighth of a step of
    Jasper 10x5, up to a third of smaller ones. What MALLOC_... in the environment says stays as it is.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    # No tensor has pages of its own, and none are given back from the end of the heap.
    return bool(set_option(_MMAP_MAX, 0)) and bool(set_option(_TRIM_THRESHOLD, -1))
