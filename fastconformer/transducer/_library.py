"""The native library of `transducer`: loaded, and built at the first use where it is missing and a compiler is not."""

import ctypes
import functools
import warnings
from collections.abc import Callable
from pathlib import Path

import ctc
from ctc import native

PACKAGE = Path(__file__).parent
LIBRARY = native.NativeLibrary(
    package=PACKAGE,
    command="python -m fastconformer.transducer.build",
    headers=tuple(Path(ctc.__file__).parent / folder for folder in ("csrc", "include")),
)


INSTRUCTION_SETS = {"automatic": 0, "generic": 1, "avx2": 2, "avx512": 3}
ACTIVATIONS = {"relu": 0, "tanh": 1, "sigmoid": 2}
INVALID_VALUE = 2


def size_of(measure: Callable[..., int], *arguments: object) -> int:
    """The bytes that a function of the library wants."""
    count = ctypes.c_size_t()
    measure(*arguments, count)
    return count.value


def refused(function: Callable[..., int], *arguments: object) -> int | None:
    """Calls a function that says which utterance it refuses; the number of that, None for none."""
    number = ctypes.c_int64()
    status = function(*arguments, number)
    if status == INVALID_VALUE and number.value >= 0:
        return number.value
    native.check(status, function)
    return None


def load_cpu() -> ctypes.CDLL | None:
    """The CPU library, or None where it is not built and cannot be."""
    return native.load(LIBRARY)


@functools.cache
def warn_slow(what: str, why: str | None = None, where: str = "in plain torch") -> None:
    """Says, once per purpose, that `what` runs without a kernel, and why: by default its library is missing."""
    why = why or f"{LIBRARY.cpu} is missing; `{LIBRARY.command}` makes it"
    warnings.warn(f"{what} runs {where}, which is slower: {why}", ctc.SlowPathWarning, stacklevel=4)
