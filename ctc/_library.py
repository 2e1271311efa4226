"""Finds and loads the native library that `python -m ctc.build` made. Never compiles."""

import ctypes
import functools
import sys
import warnings
from pathlib import Path

import torch

BUILD = Path(__file__).parent / "_build"
CPU_LIBRARY = BUILD / "libctc.so"
CUDA_LIBRARY = BUILD / "libctc_cuda.so"
TORCH_BINDING = BUILD / f"libctc_torch-{torch.__version__}-{sys.implementation.cache_tag}.so"
"""Compiled against one version of torch and one of Python, and good for no other."""


class SlowPathWarning(RuntimeWarning):
    """The native library is not built, or has no kernel, so plain torch computes the same values, slower."""


@functools.cache
def load_cpu() -> ctypes.CDLL | None:
    """The CPU library, or None where it was never built."""
    return ctypes.CDLL(str(CPU_LIBRARY)) if CPU_LIBRARY.exists() else None


@functools.cache
def load_cuda() -> ctypes.CDLL | None:
    """The CUDA library, or None where it was never built."""
    return ctypes.CDLL(str(CUDA_LIBRARY)) if CUDA_LIBRARY.exists() else None


@functools.cache
def warn_slow(what: str, missing: Path | None = CPU_LIBRARY) -> None:
    """Says, once per process and purpose, that `what` runs without a kernel: its library is missing, or has none."""
    reason = "it has no kernel" if missing is None else f"{missing} is missing; `python -m ctc.build` makes it"
    warnings.warn(f"{what} runs in plain torch, which is slower: {reason}", SlowPathWarning, stacklevel=4)
