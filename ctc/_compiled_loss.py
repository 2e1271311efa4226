"""The loss as a compiled node of autograd, where `python -m ctc.build` could compile `csrc/torch/binding.cpp`.

It serves calls whose arguments are ordinary, on the CPU. What Python's `autograd.Function` adds to a call takes as long
as the loss of three short utterances.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from ctc._library import TORCH_BINDING


@functools.cache
def operator() -> Callable[..., Tensor | None] | None:
    """`ctc::eager_loss`, which answers None to what it does not take; None where it was never built."""
    if not TORCH_BINDING.exists():
        return None
    torch.ops.load_library(str(TORCH_BINDING))
    found: Callable[..., Tensor | None] = torch.ops.ctc.eager_loss.default
    return found
