"""Layers in training by the native library's products: forward, and both gradients.

Each gives what torch's operators give, in float32 on a CPU, once differentiable. Callers ask `matmul.is_fastest`.

Shapes: R rows; I features in, O out; K taps; S frames out.
"""

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from common.convolution import native
from common.convolution.native import Activation
from common.convolution.training.matmul import gelu_backward, multiply


def linear(x_XI: Tensor, weight_OI: Tensor, bias_O: Tensor | None, activation: Activation = "identity") -> Tensor:
    """`F.linear` and, if asked for, GELU: [..., O]."""
    rows_RI = x_XI.reshape(-1, x_XI.shape[-1])
    y_RO = cast("Tensor", _Linear.apply(rows_RI, weight_OI, bias_O, activation == "gelu"))
    return y_RO.view(*x_XI.shape[:-1], weight_OI.shape[0])


def strided(
    x_RI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, stride: int, activation: Activation = "identity"
) -> Tensor:
    """A convolution over the rows, [S, O], a row for all that there are K rows for; then GELU, if asked for.

    It has no fewer taps than its stride.
    """
    return cast("Tensor", _Strided.apply(x_RI, weight_OKI, bias_O, stride, activation == "gelu"))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_RI: Tensor, weight_OI: Tensor, bias_O: Tensor | None, has_gelu: bool) -> Tensor:
        sums_RO = x_RI.new_empty(len(x_RI), len(weight_OI))
        y_RO = torch.empty_like(sums_RO) if has_gelu else sums_RO
        multiply(x_RI, weight_OI, sums_RO, bias_O=bias_O, gelu_MO=y_RO if has_gelu else None)
        ctx.save_for_backward(x_RI, weight_OI, sums_RO if has_gelu else None)
        ctx.has_bias = bias_O is not None
        return y_RO

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_RO: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x_RI, weight_OI, sums_RO = ctx.saved_tensors
        grad_RO = _through_gelu(sums_RO, grad_RO)
        grad_x_RI = multiply(grad_RO, weight_OI.T) if ctx.needs_input_grad[0] else None
        grad_weight_OI = multiply(grad_RO.T, x_RI.T) if ctx.needs_input_grad[1] else None
        return grad_x_RI, grad_weight_OI, grad_RO.sum(0) if ctx.has_bias else None, None


class _Strided(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_RI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, stride: int, has_gelu: bool
    ) -> Tensor:
        x_RI, weight_OKI = x_RI.contiguous(), weight_OKI.contiguous()
        n_rows = (len(x_RI) - weight_OKI.shape[1]) // stride + 1
        sums_SO = x_RI.new_empty(n_rows, len(weight_OKI))
        y_SO = torch.empty_like(sums_SO) if has_gelu else sums_SO
        windows_SP = _windows(x_RI, weight_OKI.shape[1], stride, n_rows)
        multiply(windows_SP, weight_OKI.flatten(1), sums_SO, bias_O=bias_O, gelu_MO=y_SO if has_gelu else None)
        ctx.save_for_backward(x_RI, weight_OKI, sums_SO if has_gelu else None)
        ctx.stride, ctx.has_bias = stride, bias_O is not None
        return y_SO

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SO: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        x_RI, weight_OKI, sums_SO = ctx.saved_tensors
        grad_SO, stride, (taps, channels) = _through_gelu(sums_SO, grad_SO), ctx.stride, weight_OKI.shape[1:]
        grad_x_RI = grad_weight_OKI = None
        if ctx.needs_input_grad[0]:
            grad_x_RI = torch.empty_like(x_RI)
            grad_x_RI[len(grad_SO) * stride :] = 0  # the first taps reach all rows before these
            for first in range(0, taps, stride):  # windows of as many taps as the stride do not overlap
                count = min(stride, taps - first)
                part_SP = _windows(grad_x_RI[first:], count, stride, len(grad_SO))
                weight_PO = weight_OKI[:, first : first + count].flatten(1).T
                multiply(grad_SO, weight_PO, part_SP, adds=first > 0)
        if ctx.needs_input_grad[1]:
            windows_SP = _windows(x_RI, taps, stride, len(grad_SO))
            grad_weight_OKI = multiply(grad_SO.T, windows_SP.T).view(-1, taps, channels)
        return grad_x_RI, grad_weight_OKI, grad_SO.sum(0) if ctx.has_bias else None, None, None


def _windows(x_RI: Tensor, taps: int, stride: int, n_rows: int) -> Tensor:
    """[S, K I]: a view of the rows under the taps, side by side."""
    channels = x_RI.shape[1]
    return x_RI.as_strided((n_rows, taps * channels), (stride * channels, 1), x_RI.storage_offset())


def _through_gelu(sums: Tensor | None, grad: Tensor) -> Tensor:
    """The gradient at the sums, in this thread's workspace; grad itself, contiguous, where there is no GELU."""
    if sums is None:
        return grad.contiguous()
    return gelu_backward(sums, grad, out=native.workspace(sums, "gradient of sums", *sums.shape))
