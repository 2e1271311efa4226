"""In which number format the work is done.

`fp32` is IEEE single precision everywhere. `tf32` lets the matrix units of a GPU round the inputs of matrix products
and convolutions to 10 bits. `bf16` and `fp16` train through autocast with fp32 weights, and infer with cast weights.
`int8` is for inference on a CPU, of networks whose convolutions, or linear layers, can be packed
(`common.convolution`).
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from common.config import ConfigError
from common.convolution.linear import pack_linear
from common.convolution.native import Instructions
from common.convolution.operator import can_be_prepared, prepare
from common.convolution.planning import Kind
from common.convolution.weights.kept import owned

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
InferencePrecision = Literal["fp32", "tf32", "bf16", "fp16", "int8"]
Model = TypeVar("Model", bound=nn.Module)
DTYPES: dict[str, torch.dtype] = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.float32,  # of all that is not packed
}
NO_INT8 = (
    "precision = int8 is for convolutions and FastConformers on a CPU, by the native library that "
    "`python -m common.convolution.build` makes; take bf16 or fp32"
)


class _Float32Math:
    """The settings of the process for float32 products, wanted by whoever is inside of `float32_math`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a generator that is collected may leave while another enters
        self.wanted: dict[object, tuple[str, bool]] = {}
        self.before = ("highest", False)

    def enter(self, who: object, precision: InferencePrecision) -> None:
        with self.lock:
            if not self.wanted:
                self.before = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
            self.wanted[who] = ("high", True) if precision == "tf32" else ("highest", False)
            self._apply()

    def leave(self, who: object) -> None:
        with self.lock:
            del self.wanted[who]
            self._apply()

    def _apply(self) -> None:
        applied = None
        while applied != (last := (self.before, *self.wanted.values())[-1]):  # who leaves meanwhile changes it
            torch.set_float32_matmul_precision(last[0])
            torch.backends.cudnn.allow_tf32 = last[1]
            applied = last


_FLOAT32 = _Float32Math()


@contextmanager
def float32_math(precision: InferencePrecision) -> Iterator[None]:
    """How float32 products are computed inside: TF32 for `tf32`, IEEE otherwise. Put the whole run into it.

    `autocast` does the same for a forward pass, but a backward pass outside of it would follow torch's defaults (TF32
    for convolutions, IEEE for matrix products). It holds for all threads: those that are inside at a time should want
    the same; when all have left, what was before is restored.
    """
    who = object()
    _FLOAT32.enter(who, precision)
    try:
        yield
    finally:
        _FLOAT32.leave(who)


@contextmanager
def autocast(device: torch.device | str, precision: Precision) -> Iterator[None]:
    """For the forward pass and the loss in training. Features stay in fp32 by themselves."""
    is_reduced = precision in ("bf16", "fp16")
    dtype = DTYPES[precision] if is_reduced else None
    with float32_math(precision), torch.autocast(torch.device(device).type, dtype, enabled=is_reduced):
        yield


@contextmanager
def algorithms_tried(device: torch.device, wanted: bool) -> Iterator[None]:
    """On CUDA, if `wanted`, cuDNN times its algorithms for every new shape of a convolution inside, and keeps the best.

    That pays where shapes come again. Other devices are left as they are.
    """
    before = torch.backends.cudnn.benchmark
    try:
        torch.backends.cudnn.benchmark = before or (wanted and device.type == "cuda")
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """The type that autocast computes in on the device of `tensor`; without autocast its own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


def grad_scaler(device: torch.device | str, precision: Precision) -> torch.amp.GradScaler:
    """Scales the loss in `fp16`, where small gradients vanish otherwise; does nothing in every other precision."""
    return torch.amp.GradScaler(torch.device(device).type, enabled=precision == "fp16")


@torch.inference_mode(False)
def cast_for_inference(model: Model, precision: InferencePrecision, instructions: Instructions = "automatic") -> Model:
    """`model` itself, in evaluation mode, its floating-point parameters and buffers cast once.

    On a CPU convolutions that can be (`FusedConvolution`) are packed for it, in bf16 or int8 if so, and what is around
    them stays in float32, as their inputs and sums do; by `instructions`, where not the widest vectors are wanted. In
    float32 linear layers (`Linear`) are packed too, where torch's are slow.

    Raises ConfigError for int8 where there is nothing to pack, or no library for it.
    """
    owned(model).eval().requires_grad_(False)
    kind: Kind = precision if precision in ("bf16", "int8") else "fp32"
    if kind == "int8" and not can_be_prepared(model):
        raise ConfigError(NO_INT8)
    if precision != "fp16" and can_be_prepared(model):
        prepared = prepare(model, kind, instructions=instructions)
        if prepared.higher:
            print(f"{precision}: {prepared}", file=sys.stderr)
        return model
    model.to(DTYPES[precision])
    pack_linear(model)
    return model
