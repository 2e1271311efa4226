"""Layers in training by the native library's products: forward, and both gradients.

Each gives what torch's operators give, in float32 on a CPU, once differentiable. Callers ask `matmul.is_fastest`.

Shapes: R rows; I features in, O out.
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
        grad_RO = through_gelu(sums_RO, grad_RO)
        grad_x_RI = multiply(grad_RO, weight_OI.T) if ctx.needs_input_grad[0] else None
        grad_weight_OI = multiply(grad_RO.T, x_RI.T) if ctx.needs_input_grad[1] else None
        return grad_x_RI, grad_weight_OI, grad_RO.sum(0) if ctx.has_bias else None, None


def through_gelu(sums: Tensor | None, grad: Tensor) -> Tensor:
    """The gradient at the sums, in this thread's workspace; grad itself, contiguous, where there is no GELU."""
    if sums is None:
        return grad.contiguous()
    return gelu_backward(sums, grad, out=native.workspace(sums, "gradient of sums", *sums.shape))
