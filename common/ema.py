"""Exponential moving average of a model's weights."""

import copy

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

    @torch.no_grad()
    def update(self, updates: int | None = None) -> None:
        """Follow the model by one step, without waiting for the device.

        With `updates`, the number of updates before this one, the decay warms up: min(decay, (1 + t) / (10 + t)), so
        that the average of a short run is not mostly the initial weights.
        """
        averages, values = _floating(self.model), _floating(self.source)
        decay = self.decay if updates is None else min(self.decay, (1 + updates) / (10 + updates))
        # One pass over memory, and an average that equals the value stays equal to it.
        torch._foreach_lerp_(averages, values, 1 - decay)
        if counters := _integers(self.model):
            torch._foreach_copy_(counters, _integers(self.source))

    def restart(self) -> None:
        """The average becomes the weights of now."""
        self.model.load_state_dict(self.source.state_dict())

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the averaged model."""
        return self.model.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Set the averaged model; names and shapes must be the model's."""
        self.model.load_state_dict(state)


def _tensors(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _floating(model: nn.Module) -> list[Tensor]:
    return [tensor for tensor in _tensors(model) if tensor.is_floating_point()]


def _integers(model: nn.Module) -> list[Tensor]:
    return [tensor for tensor in _tensors(model) if not tensor.is_floating_point()]
