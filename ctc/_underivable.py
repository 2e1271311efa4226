"""A gradient that has no derivative, and says so."""

from typing import Any

import torch
from torch import Tensor


def underivable(gradient: Tensor) -> Tensor:
    """A copy of a gradient where a graph of it is wanted: a second derivative is an error, not silently 0."""
    return _Underivable.apply(gradient, torch.zeros((), requires_grad=True))


class _Underivable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> None:
        raise RuntimeError("ctc_loss has a first derivative only, but its gradient is being differentiated")
