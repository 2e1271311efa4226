"""The native library of `transducer`: loaded, and built at the first use where it is missing and a compiler is not."""

import ctypes
import functools
import warnings
from pathlib import Path
from typing import Literal

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


def load_cuda() -> ctypes.CDLL | None:
    """The CUDA library, or None where it is not built and cannot be."""
    return native.load_cuda(LIBRARY)


@functools.cache
def warn_slow(what: str, missing: Literal["cpu", "cuda"] | None, by: str = "torch") -> None:
    """Says, once per process and purpose, that `what` runs without a kernel: a library is missing, or none has it."""
    reason = "it has no kernel"
    if missing == "cpu":
        reason = f"{LIBRARY.cpu} is missing; `{LIBRARY.command}` makes it"
    if missing == "cuda":
        reason = f"{LIBRARY.cuda} is missing; `{LIBRARY.command}` makes it where there is nvcc"
    warnings.warn(f"{what} runs in plain {by}, which is slower: {reason}", ctc.SlowPathWarning, stacklevel=4)
