"""Everything of a training run that must survive a stop, and its checkpoints in the run directory."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from common import checkpoint, config
from common.checkpoint import CheckpointError
from common.ema import Ema
from common.optim import build_optimizer
from common.precision import grad_scaler
from fastpitch.waveglow.checkpoint_import import FORMAT, read
from fastpitch.waveglow.config import Config
from fastpitch.waveglow.model import Waveglow
from fastpitch.weight_norm import unfolded

NAME = "waveglow"  # checkpoints in a run directory start with it


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
    """Optimiser steps completed."""
    best_loss: float = math.inf
    """Least loss in a validation."""
    milestones: list[int] = field(default_factory=list)
    """Steps whose checkpoints are kept."""


class TrainingState:
    """Model, moving average, optimiser, loss scale and progress: new, started from a checkpoint, or resumed.

    `messages` say what was taken from where. Raises CheckpointError.
    """

    def __init__(self, cfg: Config, device: torch.device):
        self.cfg = cfg
        self.messages: list[str] = []
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        features = cfg.features
        self.model = Waveglow(cfg.model, features.mel_bins, features.hop_samples, normalized=True).to(device)
        self.optimizer = build_optimizer(self.model.parameters(), cfg.optim)
        self.scaler = grad_scaler(device, cfg.precision)
        self.progress = Progress()
        saved = self._newest()
        if saved is None:
            self._start_from_checkpoint()
        else:
            self._restore(saved)
        # Not before the weights are there: it starts as a copy of them, also where a run resumes that had none.
        self.ema = Ema(self.model, cfg.ema) if cfg.ema else None
        if self.ema is not None and saved is not None and saved["ema"] is not None:
            self.ema.load_state_dict(saved["ema"])

    def save_step(self) -> None:
        """Writes the checkpoint of this step; removes those that are neither milestones nor the last two."""
        folder = self.cfg.output_dir
        checkpoint.save(checkpoint.step_path(folder, NAME, self.progress.step), self._to_dict())
        checkpoint.remove_old(folder, NAME, milestones=self.progress.milestones)

    def export(self, path: Path) -> None:
        """Writes the network alone, for use: a third of the size of a checkpoint."""
        checkpoint.save(path, self._weights_to_dict())

    def is_finite(self) -> bool:
        """Whether all weights are; waits for the device."""
        tensors = [parameter.detach() for parameter in self.model.parameters()]
        return bool(torch.stack(torch._foreach_norm(tensors, ord=math.inf)).isfinite().all())

    def _weights_to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "config": config.to_dict(self.cfg),
            "weights": self.model.state_dict(),
            "ema": self.ema.state_dict() if self.ema is not None else None,
        }

    def _to_dict(self) -> dict[str, Any]:
        return self._weights_to_dict() | {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "progress": dict(vars(self.progress)),
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
        kind, options = self.cfg.optim.kind, [dict(group) for group in self.optimizer.param_groups]
        try:
            if saved["config"]["optim"]["kind"] != kind:
                raise ValueError(f"its optimiser is {saved['config']['optim']['kind']}, not {kind}")
            self.model.load_state_dict(saved["weights"])
            self.optimizer.load_state_dict(saved["optimizer"])
            if saved["scaler"]:  # empty of a run that was not in fp16
                self.scaler.load_state_dict(saved["scaler"])
            self.progress = Progress(**saved["progress"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            problem = " ".join(str(error).split())[:300]
            raise CheckpointError(
                f"{self.cfg.output_dir}: its newest checkpoint does not fit this configuration: {problem}; "
                "take another --output_dir, or the configuration it was made with"
            ) from None
        # What flags say today counts; the learning rate is set in every step.
        for group, today in zip(self.optimizer.param_groups, options, strict=True):
            group.update({name: today[name] for name in ("betas", "eps", "weight_decay")})
        self.messages.append(f"resumed at step {self.progress.step}, epoch {self.progress.epoch + 1}")

    def _start_from_checkpoint(self) -> None:
        path = self.cfg.checkpoint
        if path is None:
            return
        start = read(checkpoint.load(path), path)
        told = checkpoint.load_matching(self.model, unfolded(start.ema or start.weights, self.model))
        self.messages += [f"{path}: {message}" for message in told] or [f"{path}: taken"]
