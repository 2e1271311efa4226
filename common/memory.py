<<<<<<< HEAD
"""Memory that this process has freed and its C library keeps, given back to the system."""

import ctypes


def can_give_back() -> bool:
    """Whether the C library has a function for it, as glibc has."""
    return _trim() is not None


def give_back() -> None:
    """Gives back whole pages of freed memory, wherever they lie; nothing where the C library cannot.

    glibc keeps what was freed between pieces that are in use. It takes milliseconds, and what is needed again has to be
    filled with zeros first.
    """
    if trim := _trim():
        trim(0)


def _trim() -> "ctypes._NamedFuncPointer | None":
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # no glibc; TypeError: Windows, where None is no library
        return None
=======
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
>>>>>>> main
