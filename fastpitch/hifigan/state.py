"""Everything of a training run that must survive a stop, and its checkpoints in the run directory."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from common import checkpoint, config
from common.checkpoint import CheckpointError
from common.ema import Ema
from common.optim import build_optimizer
from common.precision import grad_scaler
from fastpitch.hifigan.build import build_generator
from fastpitch.hifigan.checkpoint_import import FORMAT, is_checkpoint, read, read_discriminators
from fastpitch.hifigan.config import Config
from fastpitch.hifigan.discriminators import Discriminators
from fastpitch.weight_norm import unfolded

NAME = "hifigan"  # checkpoints in a run directory start with it


@dataclass
class Progress:
    """Where training stands; with the configuration it determines all that follows."""

    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Batches of the current epoch completed."""
    steps_per_epoch: int = 0
    """Batches of a whole epoch, which `batch` counts against."""
    step: int = 0
    """Steps completed."""
    best_mel: float = math.inf
    """Least mel difference in a validation."""
    milestones: list[int] = field(default_factory=list)
    """Steps whose checkpoints are kept."""


class TrainingState:
    """Generator, its moving average, discriminators, optimisers, loss scales and progress: new, started from other
    checkpoints, or resumed.

    `messages` say what was taken from where. Raises CheckpointError.
    """

    def __init__(self, cfg: Config, device: torch.device):
        self.cfg = cfg
        self.messages: list[str] = []
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.generator = build_generator(cfg, normalized=True).to(device)
        self.discriminators = Discriminators(cfg.discriminator).to(device)
        self.generator_optimizer = build_optimizer(self.generator.parameters(), cfg.optim)
        self.discriminators_optimizer = build_optimizer(self.discriminators.parameters(), cfg.optim)
        self.generator_scaler = grad_scaler(device, cfg.precision)
        self.discriminators_scaler = grad_scaler(device, cfg.precision)
        self.progress = Progress()
        saved = self._newest()
        if saved is None:
            self._start_from_checkpoints()
        else:
            self._restore(saved)
        # Not before the weights are there: it starts as a copy of them, also where a run resumes that had none.
        self.ema = Ema(self.generator, cfg.ema) if cfg.ema else None
        if self.ema is not None and saved is not None and saved["generator_ema"] is not None:
            self.ema.load_state_dict(saved["generator_ema"])

    def save_step(self) -> None:
        """Writes the checkpoint of this step; removes those that are neither milestones nor the last two."""
        folder = self.cfg.output_dir
        checkpoint.save(checkpoint.step_path(folder, NAME, self.progress.step), self._to_dict())
        checkpoint.remove_old(folder, NAME, milestones=self.progress.milestones)

    def export(self, path: Path) -> None:
        """Writes the generator alone, for use: a fraction of the size of a checkpoint."""
        checkpoint.save(path, self._generator_to_dict())

    def is_finite(self) -> bool:
        """Whether all weights are; waits for the device."""
        tensors = [*self.generator.parameters(), *self.discriminators.parameters()]
        return bool(torch.stack(torch._foreach_norm([t.detach() for t in tensors], ord=math.inf)).isfinite().all())

    def _generator_to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "config": config.to_dict(self.cfg),
            "generator": self.generator.state_dict(),
            "generator_ema": self.ema.state_dict() if self.ema is not None else None,
        }

    def _to_dict(self) -> dict[str, Any]:
        return self._generator_to_dict() | {
            "discriminators": self.discriminators.state_dict(),
            **{name: part.state_dict() for name, part in self._stateful().items()},
            "progress": dict(vars(self.progress)),
        }

    def _stateful(self) -> dict[str, Optimizer | torch.amp.GradScaler]:
        return {
            "generator_optimizer": self.generator_optimizer,
            "discriminators_optimizer": self.discriminators_optimizer,
            "generator_scaler": self.generator_scaler,
            "discriminators_scaler": self.discriminators_scaler,
        }

    def _newest(self) -> dict[str, Any] | None:
        folder = self.cfg.output_dir
        if self.cfg.resume:
            saved, messages = checkpoint.load_newest(folder, NAME)
            self.messages += messages
            return saved
        steps = checkpoint.saved_steps(folder, NAME)
        if steps:  # a new run's checkpoints would be older than these, and be removed
            raise CheckpointError(
                f"{folder}: holds checkpoints of an earlier run, up to step {steps[-1][0]}; "
                "go on from them with --resume true, or take another --output_dir"
            )
        return None

    def _restore(self, saved: dict[str, Any]) -> None:
        optimizers = (self.generator_optimizer, self.discriminators_optimizer)
        options = [[dict(group) for group in optimizer.param_groups] for optimizer in optimizers]
        kind = self.cfg.optim.kind
        try:
            if saved["config"]["optim"]["kind"] != kind:
                raise ValueError(f"its optimiser is {saved['config']['optim']['kind']}, not {kind}")
            self.generator.load_state_dict(saved["generator"])
            self.discriminators.load_state_dict(saved["discriminators"])
            for name, part in self._stateful().items():
                if saved[name]:  # a scale is empty of a run that was not in fp16
                    part.load_state_dict(saved[name])
            self.progress = Progress(**saved["progress"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            problem = " ".join(str(error).split())[:300]
            raise CheckpointError(
                f"{self.cfg.output_dir}: its newest checkpoint does not fit this configuration: {problem}; "
                "take another --output_dir, or the configuration it was made with"
            ) from None
        # What flags say today counts; the learning rate is set in every step.
        for optimizer, groups in zip(optimizers, options, strict=True):
            for group, today in zip(optimizer.param_groups, groups, strict=True):
                group.update({name: today[name] for name in ("betas", "eps", "weight_decay")})
        self.messages.append(f"resumed at step {self.progress.step}, epoch {self.progress.epoch + 1}")

    def _start_from_checkpoints(self) -> None:
        generator, discriminators = self.cfg.checkpoint, self.cfg.checkpoint_discriminators
        if generator is not None:
            state = checkpoint.load(generator)
            self._take(self.generator, read(state, generator).weights, generator)
            if discriminators is None and is_checkpoint(state) and "discriminators" in state:
                discriminators = generator
        if discriminators is not None:
            weights = read_discriminators(checkpoint.load(discriminators), discriminators)
            self._take(self.discriminators, weights, discriminators)

    def _take(self, module: nn.Module, weights: dict[str, torch.Tensor], path: Path) -> None:
        told = checkpoint.load_matching(module, unfolded(weights, module))
        self.messages += [f"{path}: {message}" for message in told] or [f"{path}: taken"]
