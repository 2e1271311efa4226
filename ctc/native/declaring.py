"""C structures and functions for ctypes, in a line each."""

import ctypes
from collections.abc import Mapping
from typing import Any

NUMBERS = (ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t, ctypes.c_double)


class Address(ctypes.c_void_p):
    """A pointer: an address, None, or a tensor, an array, a structure or a number of ctypes that lies there."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """What ctypes passes on."""
        if isinstance(value, (ctypes.Structure, *NUMBERS)):
            return ctypes.byref(value)
        if hasattr(value, "data_ptr"):
            value = value.data_ptr()
        return ctypes.c_void_p.from_param(value.ctypes.data if hasattr(value, "ctypes") else value)


KINDS: dict[str, Any] = dict(zip("pinzdf", (Address, *NUMBERS, ctypes.c_float), strict=True))
"""The letters of types; p is any pointer, i and n are integers of 32 and 64 bits, z is a size."""


def declare(library: ctypes.CDLL, functions: Mapping[str, str]) -> ctypes.CDLL:
    """`library`, whose functions know their arguments, a letter each; behind > what they return, by default a status,
    and one other than 0 raises RuntimeError.

    Raises AttributeError for a function that it has not.
    """
    for name, letters in functions.items():
        arguments, _, result = letters.partition(">")
        function = getattr(library, name)
        function.restype, function.argtypes = KINDS[result or "i"], [KINDS[letter] for letter in arguments]
        if not result:
            function.errcheck = check
    return library


def check(status: int, function: Any, _arguments: object = None) -> int:
    """Raises RuntimeError for a status other than 0: a defect of the binding, which checks what it passes on."""
    if status != 0:
        raise RuntimeError(f"{function.__name__} of the native library answered with status {status}")
    return status


def fields(text: str, *structures: type[ctypes.Structure]) -> list[tuple[str, Any]]:
    """`_fields_` of a structure that is written as "n batch frames; p data": types, each with its names in order.

    A type is a letter, or the name of one of `structures`, followed by * where there is a pointer to it.
    """
    kinds = KINDS | {"p": ctypes.c_void_p} | {own.__name__: own for own in structures}
    kinds |= {f"{own.__name__}*": ctypes.POINTER(own) for own in structures}
    groups = (group.split() for group in text.split(";"))
    return [(name, kinds[kind]) for kind, *names in groups for name in names]
