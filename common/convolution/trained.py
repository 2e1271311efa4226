"""Convolutions while they are trained, on a CPU: forward and both gradients with fewer multiplications.

The gradient of a convolution with respect to its input is a convolution too, with the taps turned round. Weights change
with every step, so they are packed anew for each of the two; that costs as much as a few frames. The gradient of the
weights is the transpose of the same algorithm, by torch.bmm.

Shapes: B utterances, T frames, I and O channels in and out, K taps.
"""

import functools
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from common.convolution import native, planning, products
from common.convolution.algorithms import Algorithm, overlap_save
from common.convolution.native import Epilogue
from common.convolution.operator import convolve
from common.convolution.planning import Shape

NARROWEST = 192  # channels, below which transforms and packing take as long as they save (benchmarks/jasper_step.py)


def can_be_trained(x: Tensor, weight_OIK: Tensor) -> bool:
    """Whether `convolve_trained` takes these: odd taps, on this CPU in float32, and wide enough to gain by it."""
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu") or not weight_OIK.requires_grad:
        return False
    if x.dtype != torch.float32 or weight_OIK.dtype != torch.float32 or not torch.is_grad_enabled():
        return False
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    filters, channels, taps = weight_OIK.shape
    return taps % 2 == 1 and min(filters, channels) >= NARROWEST and native.load() is not None


def convolve_trained(x_BTI: Tensor, weight_OIK: Tensor, stride: int = 1, dilation: int = 1) -> Tensor:
    """[B, S, O] contiguous, "same" padding with zeros; differentiable once. For what `can_be_trained`."""
    if stride > 1:
        padding = weight_OIK.shape[2] // 2 * dilation
        weight_OKI = weight_OIK.transpose(1, 2)
        return convolve(x_BTI, weight_OKI, None, stride=stride, dilation=dilation, padding=padding)
    return _Convolved.apply(x_BTI.contiguous(), weight_OIK, dilation)


class _Convolved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_BTI: Tensor, weight_OIK: Tensor, dilation: int) -> Tensor:
        ctx.save_for_backward(x_BTI, weight_OIK)
        ctx.dilation = dilation
        return _convolved(x_BTI, weight_OIK.permute(2, 1, 0), dilation)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BTO: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Gradients of the input and the weight, if wanted."""
        (x_BTI, weight_OIK), dilation = ctx.saved_tensors, ctx.dilation
        gradient_BTO = gradient_BTO.contiguous()
        x_gradient_BTI = weight_gradient_OIK = None
        if ctx.needs_input_grad[0]:
            x_gradient_BTI = _convolved(gradient_BTO, weight_OIK.flip(2).permute(2, 0, 1), dilation)
        if ctx.needs_input_grad[1]:
            weight_gradient_OIK = _gradient_of_weight(x_BTI, gradient_BTO, weight_OIK, dilation)
        return x_gradient_BTI, weight_gradient_OIK, None


def _convolved(x_BTI: Tensor, weight_KIO: Tensor, dilation: int) -> Tensor:
    taps, channels, filters = weight_KIO.shape
    batch, frames, _ = x_BTI.shape
    algorithm = _algorithm(taps, channels, filters, dilation, 1 << (batch * frames).bit_length())
    if algorithm is None and taps > 1:
        return convolve(x_BTI, weight_KIO.permute(2, 0, 1), None, dilation=dilation, padding=taps // 2 * dilation)
    packed = native.pack(weight_KIO, algorithm)
    y_BTO = x_BTI.new_empty(batch, frames, filters)
    native.run(x_BTI, packed, Epilogue(), y_BTO, stride=1, dilation=dilation, before=taps // 2 * dilation)
    return y_BTO


@functools.lru_cache(maxsize=1024)
def _algorithm(taps: int, channels: int, filters: int, dilation: int, frames: int) -> Algorithm | None:
    """The fastest for about so many frames, with the time that packing takes."""
    machine = planning.this_machine()
    shape = Shape(taps, channels, filters, 1, dilation, frames)

    def seconds(choice: planning.Choice) -> float:
        if choice.algorithm is None:
            return choice.seconds
        return choice.seconds + 4.0 * choice.algorithm.stored * taps * channels * filters / machine.flops

    return min(planning.choices(shape), key=seconds).algorithm


def _gradient_of_weight(x_BTI: Tensor, gradient_BTO: Tensor, weight_OIK: Tensor, dilation: int) -> Tensor:
    """[O, I, K]: at the points of an algorithm, or as the direct sum."""
    filters, channels, taps = weight_OIK.shape
    batch, frames, _ = x_BTI.shape
    block = _block(taps, channels, filters, batch, 1 << frames.bit_length()) if dilation == 1 else 0
    if block:
        return _at_points(x_BTI, gradient_BTO, overlap_save(block, taps))
    image_BI1T, gradient_BO1T = (each.unsqueeze(1).permute(0, 3, 1, 2) for each in (x_BTI, gradient_BTO))
    dilations = [1, dilation] if taps > 1 else [2, 2]  # see `products.linear`
    _, gradient_OI1K, _ = torch.ops.aten.convolution_backward(
        gradient_BO1T, image_BI1T, weight_OIK.unsqueeze(2), None,
        [1, 1], [0, taps // 2 * dilation], dilations, False, [0, 0], 1, [False, True, False],
    )  # fmt: skip
    return gradient_OI1K.squeeze(2)


def _at_points(x_BTI: Tensor, gradient_BTO: Tensor, algorithm: Algorithm) -> Tensor:
    """The transpose of y = A [(G w) * (B x)] with respect to w: G' [sum over blocks of (B x) (A' dy)]."""
    input_PN, weight_PK, output_MP = (matrix.float() for matrix in algorithm[:3])
    (batch, frames, channels), filters, taps = x_BTI.shape, gradient_BTO.shape[2], weight_PK.shape[1]
    blocks = -(-frames // algorithm.outputs)
    after = (blocks - 1) * algorithm.outputs + algorithm.block - taps // 2 - frames
    padded_BTI = F.pad(x_BTI, (0, 0, taps // 2, after))
    tiles_NBUI = padded_BTI.unfold(1, algorithm.block, algorithm.outputs).permute(3, 0, 1, 2)
    x_PRI = (input_PN @ tiles_NBUI.reshape(algorithm.block, -1)).view(algorithm.points, -1, channels)
    padded_BTO = F.pad(gradient_BTO, (0, 0, 0, blocks * algorithm.outputs - frames))
    gradient_MRO = padded_BTO.view(batch * blocks, algorithm.outputs, filters).transpose(0, 1)
    gradient_PRO = (output_MP.T @ gradient_MRO.reshape(algorithm.outputs, -1)).view(algorithm.points, -1, filters)
    products_POI = torch.bmm(gradient_PRO.mT, x_PRI)
    return (weight_PK.T @ products_POI.flatten(1)).view(taps, filters, channels).permute(1, 2, 0)


@functools.lru_cache(maxsize=1024)
def _block(taps: int, channels: int, filters: int, batch: int, frames: int) -> int:
    """Frames of a block of overlap-save that the gradient of weights takes least time with; 0 for the direct sum."""
    flops = planning.this_machine().flops
    rate = flops if products.has_fast_products() else flops / 2
    seconds = {0: 2.0 * batch * frames * taps * channels * filters / flops}
    for block in planning.BLOCKS:
        if 4 < taps <= block - 4:
            points, outputs = 3 * block // 2, block - taps + 1
            rows = batch * -(-frames // outputs)
            transforms = points * rows * (block * channels + outputs * filters) + points * taps * channels * filters
            moved = 4.0 * rows * ((block + 2 * points) * channels + (outputs + 2 * points) * filters)
            seconds[block] = 2.0 * (points * rows * channels * filters + transforms) / rate
            seconds[block] += moved / planning.this_machine().moving
    return min(seconds, key=lambda block: seconds[block])
