"""Says which arguments the functions of a library take."""

import ctypes
from collections.abc import Mapping
from typing import Any


class Address(ctypes.c_void_p):
    """A pointer: an address, None, or a structure or number of ctypes that lies there."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """What ctypes passes on."""
        lies_there = isinstance(value, ctypes.Structure | ctypes.c_int64 | ctypes.c_size_t | ctypes.c_double)
        return ctypes.byref(value) if lies_there else ctypes.c_void_p.from_param(value)


KINDS = {"p": Address, "i": ctypes.c_int32, "n": ctypes.c_int64, "d": ctypes.c_double}


def declare(library: ctypes.CDLL, arguments: Mapping[str, str]) -> ctypes.CDLL:
    """Declares functions that return a status, int32. A letter an argument: p, i and n (integers of 32 and 64 bits), d.

    Returns the library. Raises AttributeError for a function that it has not.
    """
    for name, letters in arguments.items():
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_int32, [KINDS[letter] for letter in letters]
    return library
