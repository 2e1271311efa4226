"""Everything of a training run that must survive a stop, and its checkpoints in the run directory."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from common import checkpoint, config, training_state
from common.optim import build_optimizer
from common.precision import grad_scaler
from fastpitch.vocoders.build import build_generator
from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.hifigan_import import FORMAT, is_checkpoint, read, read_discriminators
from fastpitch.vocoders.training.discriminators import Discriminators
from fastpitch.vocoders.training.steps import taken

NAME = "hifigan"  # checkpoints in a run directory start with it


@dataclass
class Progress(training_state.Progress):
    """Where training stands."""

    best_mel: float = math.inf
    """Least mel difference in a validation."""


class TrainingState:
    """Generator, its moving average, discriminators, optimisers, loss scales and progress: new, started from other
    checkpoints, or resumed.

    `messages` say what was taken from where. Raises CheckpointError.
    """

    def __init__(self, cfg: HifiganRun, device: torch.device):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.generator = build_generator(cfg, normalized=True).to(device)
        self.discriminators = Discriminators(cfg.discriminator).to(device)
        self.generator_optimizer = build_optimizer(self.generator.parameters(), cfg.optim)
        self.discriminators_optimizer = build_optimizer(self.discriminators.parameters(), cfg.optim)
        self.generator_scaler = grad_scaler(device, cfg.precision)
        self.discriminators_scaler = grad_scaler(device, cfg.precision)
        self.progress = Progress()
        saved, self.messages = training_state.newest(cfg.output_dir, NAME, resume=cfg.resume)
        if saved is None:
            self._start_from_checkpoints()
        else:
            self._restore(saved)
        self.ema = training_state.average_of(self.generator, cfg.ema, saved and saved["generator_ema"])

    def save_step(self) -> None:
        """Writes the checkpoint of this step; removes those that are neither milestones nor the last two."""
        training_state.save_step(self.cfg.output_dir, NAME, self._to_dict(), self.progress)

    def export(self, path: Path) -> None:
        """Writes the generator alone, for use: a fraction of the size of a checkpoint."""
        state = self._to_dict()
        checkpoint.save(path, {name: state[name] for name in ("format", "config", "generator", "generator_ema")})

    def _to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "config": config.to_dict(self.cfg),
            **training_state.states_of(self._parts()),
            "generator_ema": self.ema.state_dict() if self.ema is not None else None,
            "progress": dict(vars(self.progress)),
        }

    def _parts(self) -> training_state.Parts:
        return {
            "generator": self.generator,
            "discriminators": self.discriminators,
            "generator_optimizer": self.generator_optimizer,
            "discriminators_optimizer": self.discriminators_optimizer,
            "generator_scaler": self.generator_scaler,
            "discriminators_scaler": self.discriminators_scaler,
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        with training_state.must_fit(self.cfg.output_dir):
            training_state.check_optimizer(saved, self.cfg.optim.kind)
            training_state.restore(saved, self._parts())
            self.progress = Progress(**saved["progress"])
        self.messages.append(f"resumed at step {self.progress.step}, epoch {self.progress.epoch + 1}")

    def _start_from_checkpoints(self) -> None:
        generator, discriminators = self.cfg.checkpoint, self.cfg.checkpoint_discriminators
        if generator is not None:
            state = checkpoint.load(generator)
            self.messages += taken(self.generator, read(state, generator).weights, generator)
            if discriminators is None and is_checkpoint(state) and "discriminators" in state:
                discriminators = generator
        if discriminators is not None:
            weights = read_discriminators(checkpoint.load(discriminators), discriminators)
            self.messages += taken(self.discriminators, weights, discriminators)
