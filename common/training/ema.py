"""Exponential moving average of a model's weights."""

import copy
from itertools import compress
from typing import cast

import torch
from torch import Tensor, nn


class Ema:
    """A copy of `model` whose floating-point parameters and buffers follow it as `ema = decay ema + (1 - decay) w`.

    Integer buffers (BatchNorm's counter) are copied. `Ema.model` is the averaged model, in evaluation mode. Give it
    the bare model, not its DDP wrapper. `state_dict` has the names of the model's.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"Ema: decay {decay:g}; expected 0 <= decay < 1")
        self.decay = decay
        self.source = model
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self._places = _places(self.source), _places(self.model)

    @torch.no_grad()
    def update(self, updates: int | None = None) -> None:
        """Follow the model by one step, without waiting for the device.

        With `updates`, the number of updates before this one, the decay warms up: min(decay, (1 + t) / (10 + t)), so
        that the average of a short run is not mostly the initial weights.
        """
        values, averages = ([places[name] for places, name in own] for own in self._places)
        decay = self.decay if updates is None else min(self.decay, (1 + updates) / (10 + updates))
        floating = [value.is_floating_point() for value in values]
        # One pass over memory, and an average that equals the value stays equal to it.
        torch._foreach_lerp_(list(compress(averages, floating)), list(compress(values, floating)), 1 - decay)
        if not all(floating):
            counts = [not is_floating for is_floating in floating]
            torch._foreach_copy_(list(compress(averages, counts)), list(compress(values, counts)))

    def restart(self) -> None:
        """The average becomes the weights of now."""
        self.model.load_state_dict(self.source.state_dict())

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the averaged model."""
        return self.model.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Set the averaged model; names and shapes must be the model's."""
        self.model.load_state_dict(state)


def _places(model: nn.Module) -> list[tuple[dict[str, Tensor], str]]:
    """Where the parameters and buffers of a model are found, each once: walking through modules takes much longer.

    Not the tensors themselves, which moving a model may replace.
    """
    found: dict[int, tuple[dict[str, Tensor], str]] = {}
    for module in model.modules():
        for own in (module._parameters, module._buffers):
            for name, tensor in own.items():
                if tensor is not None:
                    found.setdefault(id(tensor), (cast("dict[str, Tensor]", own), name))
    return list(found.values())
