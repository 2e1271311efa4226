"""The loss as a compiled node of autograd, where `csrc/torch/binding.cpp` could be compiled.

It serves calls whose arguments are ordinary, on the CPU. What Python's `autograd.Function` adds to a call takes as long
as the loss of three short utterances.
"""

import functools
from collections.abc import Callable

from torch import Tensor

from ctc import native
from ctc.bindings._library import LIBRARY


@functools.cache
def function() -> Callable[..., Tensor | None] | None:
    """The loss, which answers None to what it does not take; None where it is not built and cannot be."""
    module = native.load_binding(LIBRARY)
    if module is None:
        return None
    found: Callable[..., Tensor | None] = module.loss
    return found
