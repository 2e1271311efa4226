"""The native library of `ctc`: loaded, and built at the first use where it is missing and a compiler is not."""

import ctypes
import functools
import warnings
from pathlib import Path

from ctc import native

LIBRARY = native.NativeLibrary(package=Path(__file__).parents[1], command="python -m ctc.build")


class SlowPathWarning(RuntimeWarning):
    """The native library is not built, or has no kernel, so plain torch or numpy computes the same values, slower."""


def load_cpu() -> ctypes.CDLL | None:
    """The CPU library, or None where it is not built and cannot be."""
    return native.load(LIBRARY)


def include_dir() -> Path:
    """The folder of the C headers, for compilers: `cc -I"$(python -c 'import ctc; print(ctc.include_dir())')"`."""
    return LIBRARY.package / "include"


def library_file() -> Path:
    """The CPU library, for linkers; built now if it is missing. Raises `OSError` where it cannot be."""
    if load_cpu() is None:
        raise FileNotFoundError(f"{LIBRARY.cpu} is missing; `{LIBRARY.command}` makes it where there is a C++ compiler")
    return LIBRARY.cpu


@functools.cache
def warn_slow(what: str, why: str | None = None, *, computes_in: str = "torch") -> None:
    """Says, once per purpose, that `what` runs without a kernel, and why: by default its library is missing."""
    why = why or f"{LIBRARY.cpu} is missing; `{LIBRARY.command}` makes it"
    warnings.warn(f"{what} runs in plain {computes_in}, which is slower: {why}", SlowPathWarning, stacklevel=4)
