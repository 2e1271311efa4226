"""Everything of a training run that must survive a stop, and its checkpoints in the run directory."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from common import checkpoint, config, training_state
from common.optim import build_optimizer
from common.precision import grad_scaler
from fastpitch.vocoders.config import WaveglowRun
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.training.steps import taken
from fastpitch.vocoders.waveglow_import import FORMAT, read

NAME = "waveglow"  # checkpoints in a run directory start with it


@dataclass
class Progress(training_state.Progress):
    """Where training stands."""

    best_loss: float = math.inf
    """Least loss in a validation."""


class TrainingState:
    """Model, moving average, optimiser, loss scale and progress: new, started from a checkpoint, or resumed.

    `messages` say what was taken from where. Raises CheckpointError.
    """

    def __init__(self, cfg: WaveglowRun, device: torch.device):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        features = cfg.features
        self.model = Waveglow(cfg.model, features.mel_bins, features.hop_samples, normalized=True).to(device)
        self.optimizer = build_optimizer(self.model.parameters(), cfg.optim)
        self.scaler = grad_scaler(device, cfg.precision)
        self.progress = Progress()
        saved, self.messages = training_state.newest(cfg.output_dir, NAME, resume=cfg.resume)
        if saved is None:
            self._start_from_checkpoint()
        else:
            self._restore(saved)
        self.ema = training_state.average_of(self.model, cfg.ema, saved and saved["ema"])

    def save_step(self) -> None:
        """Writes the checkpoint of this step; removes those that are neither milestones nor the last two."""
        training_state.save_step(self.cfg.output_dir, NAME, self._to_dict(), self.progress)

    def export(self, path: Path) -> None:
        """Writes the network alone, for use: a third of the size of a checkpoint."""
        state = self._to_dict()
        checkpoint.save(path, {name: state[name] for name in ("format", "config", "weights", "ema")})

    def _to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "config": config.to_dict(self.cfg),
            **training_state.states_of(self._parts()),
            "ema": self.ema.state_dict() if self.ema is not None else None,
            "progress": dict(vars(self.progress)),
        }

    def _parts(self) -> training_state.Parts:
        return {"weights": self.model, "optimizer": self.optimizer, "scaler": self.scaler}

    def _restore(self, saved: dict[str, Any]) -> None:
        with training_state.must_fit(self.cfg.output_dir):
            training_state.check_optimizer(saved, self.cfg.optim.kind)
            training_state.restore(saved, self._parts())
            self.progress = Progress(**saved["progress"])
        self.messages.append(f"resumed at step {self.progress.step}, epoch {self.progress.epoch + 1}")

    def _start_from_checkpoint(self) -> None:
        path = self.cfg.checkpoint
        if path is None:
            return
        start = read(checkpoint.load(path), path)
        self.messages += taken(self.model, start.ema or start.weights, path)
