"""The native code of the operator, for a session of ONNX Runtime."""

import ctypes
import functools
import sys
from pathlib import Path

import onnxruntime

from ctc import native
from ctc.native import NativeLibrary

LIBRARY = NativeLibrary(package=Path(__file__).parent, command="python -m trt.depthwise.build")
DOMAIN, OPERATOR = "speech.models", "DepthwiseConv"
MOST_THREADS = 3  # it computes with one, and is three times as fast as ONNX Runtime's own code is with one
END = 4096  # bytes of a file in which the functions that it defines are, the last of its fields


def register(options: onnxruntime.SessionOptions, model: Path | bytes, *, threads: int) -> bool:
    """Has a session with these options take the native code, where `model` asks for it; whether it will.

    `threads`: of the session, 0 for one per core. Processors without VNNI, and sessions of many threads, compute what
    the file says in standard operators; so do those where the code is there and cannot be used, which is told once.
    """
    if (threads or native.threads()) > MOST_THREADS or DOMAIN.encode() not in _end(model) or not is_usable():
        return False
    try:
        options.register_custom_ops_library(str(LIBRARY.cpu))
    except Exception as error:  # onnxruntime's own have no common class but this
        _tell(" ".join(str(error).split())[:300])
        return False
    return True


@functools.cache
def is_usable() -> bool:
    """Whether the library is there, or can be built, and this processor has its instructions."""
    library = native.load(LIBRARY)
    if library is None:
        return False
    try:
        library.depthwise_runs.restype = ctypes.c_int32
    except AttributeError as error:
        _tell(str(error))
        return False
    return bool(library.depthwise_runs())


@functools.cache
def _tell(why: str) -> None:
    advice = f"files in 8 bits run without it, slower; {LIBRARY.command} --force builds it again"
    print(f"{LIBRARY.name}: {LIBRARY.cpu} cannot be used: {why}; {advice}", file=sys.stderr)


def _end(model: Path | bytes) -> bytes:
    if isinstance(model, bytes):
        return model[-END:]
    try:
        with model.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - END))
            return file.read()
    except OSError:  # which ONNX Runtime says better
        return b""
