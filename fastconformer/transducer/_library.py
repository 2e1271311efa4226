"""The native library of `transducer`: loaded, and built at the first use where it is missing and a compiler is not."""

import ctypes
import functools
import warnings
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
SUCCESS, INVALID_VALUE = 0, 2


def load_cpu() -> ctypes.CDLL | None:
    """The CPU library, or None where it is not built and cannot be."""
    return native.load(LIBRARY)


@functools.cache
def warn_slow(what: str, why: str | None = None, where: str = "in plain torch") -> None:
    """Says, once per purpose, that `what` runs without a kernel, and why: by default its library is missing."""
    why = why or f"{LIBRARY.cpu} is missing; `{LIBRARY.command}` makes it"
    warnings.warn(f"{what} runs {where}, which is slower: {why}", ctc.SlowPathWarning, stacklevel=4)
