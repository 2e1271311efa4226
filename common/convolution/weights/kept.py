"""What inference makes of weights and keeps: packed, transformed, as a spectrum."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Value = TypeVar("Value")
Model = TypeVar("Model", bound=nn.Module)


class Kept(Generic[Value]):
    """A value that is made of weights, as long as these stay the same."""

    def __init__(self) -> None:
        self.found: tuple[tuple[int, ...], Value] | None = None

    def of(self, weights: Sequence[Tensor], make: Callable[[], Value]) -> Value:
        """`make()`, or what it gave for the same weights the last time.

        Torch does not count changes of weights that were made in inference mode: of those nothing is kept.
        """
        if any(weight.is_inference() for weight in weights):
            return make()
        state = tuple(number for weight in weights for number in (weight._version, weight.data_ptr()))
        found = self.found  # another thread may forget it meanwhile
        if found is None or found[0] != state:
            with torch.inference_mode(False), torch.no_grad():
                found = self.found = state, make()
        return found[1]

    def forget(self) -> None:
        """To be called where weights change uncounted: fused optimisers do so, and whatever swaps or gathers them."""
        self.found = None


@torch.inference_mode(False)
def owned(model: Model) -> Model:
    """`model` itself, with ordinary tensors in place of those that were made inside of torch.inference_mode().

    Of those torch counts no changes, so that nothing that is made of them is kept.
    """
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.is_inference():
                module._parameters[name] = nn.Parameter(parameter.clone(), parameter.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_inference():
                module._buffers[name] = buffer.clone()
    return model
