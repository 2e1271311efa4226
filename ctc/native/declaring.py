"""C structures and functions for ctypes, in a line each."""

import ctypes
from collections.abc import Sequence
from typing import Any

KINDS: dict[str, Any] = {
    "p": ctypes.c_void_p,
    "text": ctypes.c_char_p,
    "size": ctypes.c_size_t,
    "void": None,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}
"""What C types are called here; p is any pointer, and a name with * a pointer to that."""


def fields(text: str, *structures: type[ctypes.Structure]) -> list[tuple[str, Any]]:
    """`_fields_` of a structure that is written as "i64 batch frames; p data": kinds, each with its names in order."""
    groups = (group.split() for group in text.split(";"))
    return [(name, _kind(kind, structures)) for kind, *names in groups for name in names]


def declare(library: ctypes.CDLL, functions: str, *structures: type[ctypes.Structure]) -> ctypes.CDLL:
    """`library`, which knows what its functions take and return: lines such as "i32 ctc_pack(p, i64, i32, p)"."""
    for line in functions.strip().splitlines():
        result, _, call = line.strip().partition(" ")
        name, _, arguments = call.removesuffix(")").partition("(")
        function = getattr(library, name)
        function.restype = _kind(result, structures)
        function.argtypes = [_kind(kind, structures) for kind in arguments.split(", ") if kind]
    return library


def _kind(name: str, structures: Sequence[type[ctypes.Structure]]) -> Any:
    if name.endswith("*"):
        return ctypes.POINTER(_kind(name[:-1], structures))
    return KINDS[name] if name in KINDS else next(own for own in structures if own.__name__ == name)
