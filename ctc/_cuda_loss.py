"""The loss on CUDA for autograd. Neither direction waits for the device, so that both may be captured in a CUDA graph.

Shapes: T frames, B utterances, V classes.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ctc import _cuda_library
from ctc._loss_library import Labels, Options, check
from ctc._underivable import underivable


def serves(logits_TBV: Tensor, options: Options) -> bool:
    """Whether the CUDA library computes this loss."""
    return logits_TBV.is_cuda and options.star is None and _cuda_library.is_available()


def check_on_host(
    logits_TBV: Tensor,
    options: Options,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
) -> None:
    """ValueError for the first utterance whose lengths or labels do not fit, where all of them are on the host.

    What is on the device is looked at there alone, and makes NaN.
    """
    given = (targets, *(torch.as_tensor(lengths) for lengths in (input_lengths, target_lengths)))
    if torch.compiler.is_compiling() or logits_TBV.shape[1] == 0 or any(tensor.is_cuda for tensor in given):
        return
    check(logits_TBV, Labels(targets, given[1].reshape(-1), given[2].reshape(-1), targets.shape[-1]), options)


def loss(logits_TBV: Tensor, labels: Labels, options: Options, in_place: bool) -> Tensor:
    """The reduced loss, or the losses [B]."""
    if torch.is_grad_enabled() and logits_TBV.requires_grad:
        return _CudaLoss.apply(logits_TBV, labels, options, in_place)
    return _cuda_library.run(logits_TBV, labels, options, None)


class _CudaLoss(torch.autograd.Function):
    """Loss and gradient at once. Backward scales the gradient in place: whether that is needed, only the device knows.

    A second backward computes it anew. Of float16 backward computes it always, since it must be scaled (GradScaler)
    before it is rounded.
    """

    @staticmethod
    def forward(ctx: Any, logits_TBV: Tensor, labels: Labels, options: Options, in_place: bool) -> Tensor:
        ctx.labels, ctx.options = labels, options
        ctx.gradient_TBV = None
        if logits_TBV.dtype == torch.float16:
            ctx.save_for_backward(logits_TBV)
            return _cuda_library.run(logits_TBV, labels, options, None)
        ctx.gradient_TBV = logits_TBV.detach() if in_place else torch.empty_like(logits_TBV)
        losses = _cuda_library.run(logits_TBV, labels, options, ctx.gradient_TBV)
        if in_place:
            torch.autograd.graph.increment_version(logits_TBV)
        else:
            ctx.save_for_backward(logits_TBV)
        return losses

    @staticmethod
    def backward(ctx: Any, by: Tensor) -> tuple[Tensor | None, ...]:
        gradient_TBV = _scaled_gradient(ctx, by.detach())
        if torch.is_grad_enabled():  # create_graph
            gradient_TBV = underivable(gradient_TBV)
        return gradient_TBV, None, None, None


def _scaled_gradient(ctx: Any, by: Tensor) -> Tensor:
    gradient_TBV, ctx.gradient_TBV = ctx.gradient_TBV, None
    if gradient_TBV is None:
        if not ctx.saved_tensors:
            raise RuntimeError("ctc_loss: a second backward needs the logits, which in_place=True has overwritten")
        (logits_TBV,) = ctx.saved_tensors
        gradient_TBV = torch.empty_like(logits_TBV)
        is_half = logits_TBV.dtype == torch.float16
        scale_B = by.float().expand(logits_TBV.shape[1]).contiguous() if is_half else None
        _cuda_library.run(logits_TBV, ctx.labels, ctx.options, gradient_TBV, scale_B)
        if is_half:
            return gradient_TBV
    _cuda_library.scale(gradient_TBV, by)
    return gradient_TBV
