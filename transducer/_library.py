"""The native library of `transducer`: loaded, and built at the first use where it is missing and a compiler is not."""

import ctypes
import functools
import warnings
from pathlib import Path
CPU_LIBRARY = Path(__file__).parent / "_build" / "libtransducer.so"
@functools.cache
def load_cpu():
    return ctypes.CDLL(str(CPU_LIBRARY)) if CPU_LIBRARY.exists() else None
def warn_slow(what, missing): pass
