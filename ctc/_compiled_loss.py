"""The loss as a compiled node of autograd, where `python -m ctc.build` could compile `csrc/torch/binding.cpp`.

It serves calls whose arguments are ordinary, on the CPU. What Python's `autograd.Function` adds to a call takes as long
as the loss of three short utterances.
"""

import functools
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

from torch import Tensor

from ctc._library import TORCH_BINDING


@functools.cache
def function() -> Callable[..., Tensor | None] | None:
    """The loss, which answers None to what it does not take; None where it was never built."""
    if not TORCH_BINDING.exists():
        return None
    loader = ExtensionFileLoader("ctc_torch", str(TORCH_BINDING))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    found: Callable[..., Tensor | None] = module.loss
    return found
