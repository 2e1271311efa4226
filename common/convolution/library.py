"""The native library as `include/convolution.h` declares it, by ctypes. Needs no torch."""

import ctypes
import functools
import warnings
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Literal

from ctc import SlowPathWarning
from ctc import native as building
from ctc.native import NativeLibrary

LIBRARY = NativeLibrary(package=Path(__file__).parent, command="python -m common.convolution.build")
Instructions = Literal["automatic", "generic", "avx2", "avx512", "avx512_vnni", "avx512_bf16"]
INSTRUCTIONS: dict[Instructions, int] = {
    "automatic": 0, "generic": 1, "avx2": 2, "avx512": 3, "avx512_vnni": 4, "avx512_bf16": 5
}  # fmt: skip
Activation = Literal["identity", "leaky_relu", "clipped_relu", "gelu", "silu"]
ACTIVATIONS: dict[Activation, int] = {"identity": 0, "leaky_relu": 1, "clipped_relu": 2, "gelu": 3, "silu": 4}
Weights = Literal["float32", "bfloat16", "fixed24", "int8"]
WEIGHTS: dict[Weights, int] = {"float32": 0, "bfloat16": 1, "fixed24": 2, "int8": 3}
BYTES: dict[Weights, int] = {"float32": 4, "bfloat16": 2, "fixed24": 3, "int8": 1}
DIRECT, PLAIN, HALVES, PAIRS = range(4)
PANEL = 32  # columns that weights are packed in
WORKSPACE_TOO_SMALL = 3
STATUS = {
    1: "an argument is invalid", 2: "this processor lacks the instructions", WORKSPACE_TOO_SMALL: "too little workspace"
}  # fmt: skip


class ConvolutionProblem(Structure):
    """`convolution_problem`, field by field."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "frames", "outputs", "channels", "filters")),
        *((name, c_int64) for name in ("taps", "stride", "dilation", "before")),
        ("x", c_void_p),
        *((name, c_int64) for name in ("x_batch_stride", "x_frame_stride")),
        *((name, c_void_p) for name in ("output_lengths", "y")),
        *((name, c_int64) for name in ("y_batch_stride", "y_frame_stride")),
        *((name, c_void_p) for name in ("bias", "residual")),
        *((name, c_int64) for name in ("residual_batch_stride", "residual_frame_stride")),
        ("activation", c_int32),
        *((name, c_float) for name in ("input_slope", "output_slope")),
        ("scale", c_void_p),
        ("form", c_int32),
        *((name, c_int64) for name in ("block", "points")),
        *((name, c_void_p) for name in ("input", "output", "weight")),
        *((name, c_int32) for name in ("weights", "threads", "instructions")),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
    )


@functools.cache
def load() -> ctypes.CDLL | None:
    """The library with its functions declared, or None, and a warning, where it is not built and cannot be."""
    library = building.load(LIBRARY)
    if library is None:
        reason = f"{LIBRARY.cpu} is missing; `{LIBRARY.command}` makes it"
        warnings.warn(f"convolutions run in plain torch, which is slower: {reason}", SlowPathWarning, stacklevel=3)
        return None
    for name, result, arguments in (
        ("convolution_best_instructions", c_int32, []),
        ("convolution_multiply_adds", c_int64, [c_int64]),
        ("convolution_packed_bytes", c_size_t, [c_int64, c_int64, c_int64, c_int32]),
        ("convolution_fits", c_int32, [c_int32, c_int64, c_int64, c_int64, c_int32, c_int32]),
        ("convolution_pack", c_int32, [*[c_void_p] * 3, c_int32, *[c_int64] * 5, c_int32, c_int32, c_void_p]),
        ("convolution_workspace", c_size_t, [POINTER(ConvolutionProblem)]),
        ("convolution_run", c_int32, [POINTER(ConvolutionProblem)]),
        ("product_workspace", c_size_t, [c_void_p]),
        ("product_run", c_int32, [c_void_p]),
        ("blocks_workspace", c_size_t, [c_void_p]),
        ("blocks_forward", c_int32, [c_void_p]),
        ("blocks_backward", c_int32, [c_void_p]),
        ("normalization_forward", c_int32, [c_void_p]),
        ("normalization_backward", c_int32, [c_void_p]),
        ("product_gelu_backward", c_int32, [c_int64, c_void_p, c_void_p, c_void_p, c_int32, c_int32]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def best_instructions() -> Instructions | None:
    """The last of `Instructions` that this processor has; None without the library."""
    library = load()
    number = 0 if library is None else library.convolution_best_instructions()
    return next((name for name, value in INSTRUCTIONS.items() if value == number), None) if number else None


def check(status: int) -> None:
    """Raises RuntimeError for what the library returned, unless it is 0."""
    if status != 0:
        raise RuntimeError(f"native convolution: {STATUS[status]}")
