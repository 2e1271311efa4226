"""What a training run must not lose, and its checkpoints in the run directory.

A checkpoint has the state of every part (networks, optimisers, loss scales) under a name, `config`, `progress`, and
what else its model needs. A run that was stopped and resumed ends in the weights of one that never stopped.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from common import checkpoint
from common.checkpoint import CheckpointError
from common.ema import Ema

Parts = Mapping[str, nn.Module | Optimizer | GradScaler]


@dataclass
class Progress:
    """Where training stands; with the configuration it determines all that follows. Models add their best score."""

    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Steps of the current epoch completed."""
    steps_per_epoch: int = 0
    """Steps of the whole current epoch, which `batch` counts against; 0 before it began."""
    step: int = 0
    """Optimiser steps completed."""
    milestones: list[int] = field(default_factory=list)
    """Steps whose checkpoints are kept."""

    def recount(self, steps_per_epoch: int) -> str | None:
        """Counts in the steps of today; what is to be told where they are others than when the run was stopped.

        With other batches or processes the run goes on at the same part of the epoch.
        """
        before, self.steps_per_epoch = self.steps_per_epoch, steps_per_epoch
        if before in (0, steps_per_epoch):
            return None
        self.batch = self.batch * steps_per_epoch // before
        return (
            f"the epoch has {steps_per_epoch} steps, and had {before} when the run was stopped: it goes on at step "
            f"{self.batch} of it, in another order; the learning rate follows step {self.step}"
        )


def newest(folder: Path, name: str, *, resume: bool, saves: bool = True) -> tuple[dict[str, Any] | None, list[str]]:
    """The checkpoint to go on from, None for a new run, and what is to be told.

    Raises CheckpointError if none of those there can be read, or if a new run that `saves` would begin among them.
    """
    if resume:
        return checkpoint.load_newest(folder, name)
    steps = checkpoint.saved_steps(folder, name)
    if steps and saves:  # a new run's checkpoints would be older than these, and be removed
        raise CheckpointError(
            f"{folder}: holds checkpoints of an earlier run, up to step {steps[-1][0]}; "
            "go on from them with --resume true, or take another --output_dir"
        )
    return None, []


def save_step(folder: Path, name: str, state: dict[str, Any], progress: Progress) -> None:
    """Writes the checkpoint of this step; removes those that are neither milestones nor the last two."""
    checkpoint.save(checkpoint.step_path(folder, name, progress.step), state)
    checkpoint.remove_old(folder, name, milestones=progress.milestones)


def states_of(parts: Parts) -> dict[str, Any]:
    """The state of each part, under its name."""
    return {name: part.state_dict() for name, part in parts.items()}


def restore(saved: dict[str, Any], parts: Parts) -> None:
    """Gives each part its state; raises what its `load_state_dict` raises, or KeyError. Within `must_fit`."""
    for name, part in parts.items():
        if isinstance(part, Optimizer):
            with options_of_today(part):
                part.load_state_dict(saved[name])
        elif saved[name]:  # the loss scale is empty of a run that was not in fp16
            part.load_state_dict(saved[name])


@contextlib.contextmanager
def options_of_today(optimizer: Optimizer) -> Iterator[None]:
    """While a state is loaded: what flags say today counts. The learning rate is set in every step."""
    options = [dict(group) for group in optimizer.param_groups]
    yield
    for group, today in zip(optimizer.param_groups, options, strict=True):
        group.update({name: today[name] for name in ("betas", "eps", "weight_decay")})


def check_optimizer(saved: dict[str, Any], kind: str) -> None:
    """Raises ValueError if the optimiser in the checkpoint was of another kind. Within `must_fit`."""
    before = saved["config"]["optim"]["kind"]
    if before != kind:
        raise ValueError(f"its optimiser is {before}, not {kind}")


@contextlib.contextmanager
def must_fit(folder: Path) -> Iterator[None]:
    """What cannot be restored is a CheckpointError that says why, and what to do."""
    try:
        yield
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        missing = f"it has no {error}" if isinstance(error, KeyError) else ""
        problem = missing or " ".join(str(error).split())[:300]
        raise CheckpointError(
            f"{folder}: its newest checkpoint does not fit this configuration: {problem}; "
            "take another --output_dir, or the configuration it was made with"
        ) from None


def average_of(model: nn.Module, decay: float, saved: dict[str, Tensor] | None) -> Ema | None:
    """The moving average as `saved`; else, also where a run goes on that had none, a copy of the weights of now.

    None for a decay of 0. To be called when `model` has its weights.
    """
    if not decay:
        return None
    ema = Ema(model, decay)
    if saved is not None:
        ema.load_state_dict(saved)
    return ema
