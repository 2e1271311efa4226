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
