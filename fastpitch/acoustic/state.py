"""Everything of a training run that must survive a stop, and its checkpoints in the run directory."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from common import checkpoint, config, training_state
from common.optim import build_optimizer
from common.precision import grad_scaler
from fastpitch.acoustic.checkpoint_import import FORMAT, read
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.model import FastPitch
from fastpitch.front.symbols import TextProcessor

NAME = "fastpitch"  # checkpoints in a run directory start with it


@dataclass
class Progress(training_state.Progress):
    """Where training stands."""

    best_loss: float = math.inf
    """Least mel loss of a validation, of the averaged weights where there are any."""


class TrainingState:
    """Model, moving average, optimiser, loss scale and progress: new, fine-tuned from a checkpoint, or resumed.

    `messages` say what was taken from where. Raises CheckpointError.
    """

    def __init__(self, cfg: Config, device: torch.device):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.model = build_model(cfg).to(device)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = build_optimizer(trained, cfg.optim)
        self.scaler = grad_scaler(device, cfg.precision)
        self.progress = Progress()
        saved, self.messages = training_state.newest(cfg.output_dir, NAME, resume=cfg.resume, saves=not cfg.dry_run)
        if saved is None:
            self._start_from_checkpoint()
        else:
            self._restore(saved)
        set_pitch_statistics(self.model, cfg)
        self.ema = training_state.average_of(self.model, cfg.ema, saved and saved["ema"])

    def save_step(self) -> None:
        """Writes the checkpoint of this step; removes those that are neither milestones nor the last two."""
        training_state.save_step(self.cfg.output_dir, NAME, self._to_dict(), self.progress)

    def save_best(self) -> None:
        """Writes the best checkpoint so far."""
        checkpoint.save(self.cfg.output_dir / f"{NAME}_best.pt", self._to_dict())

    def _to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "config": config.to_dict(self.cfg),
            "symbols": list(TextProcessor(self.cfg.text).symbols),
            **training_state.states_of(self._parts()),
            "ema": self.ema.state_dict() if self.ema is not None else None,
            "progress": dict(vars(self.progress)),
        }

    def _parts(self) -> training_state.Parts:
        return {"weights": self.model, "optimizer": self.optimizer, "scaler": self.scaler}

    def _restore(self, saved: dict[str, Any]) -> None:
        with training_state.must_fit(self.cfg.output_dir):
            training_state.check_optimizer(saved, self.cfg.optim.kind)
            if saved["symbols"] != list(TextProcessor(self.cfg.text).symbols):
                raise ValueError(f"its symbols are not those of {self.cfg.text.symbol_set}")
            training_state.restore(saved, self._parts())
            self.progress = Progress(**saved["progress"])
        self.messages.append(f"resumed at step {self.progress.step}, epoch {self.progress.epoch + 1}")

    def _start_from_checkpoint(self) -> None:
        path = self.cfg.checkpoint
        if path is None:
            return
        start = read(checkpoint.load(path), path)
        weights = dict(start.ema or start.weights)
        theirs, ours = (TextProcessor(text).symbols for text in (start.config.text, self.cfg.text))
        if theirs != ours:
            own = self.model.symbols.weight.detach().cpu()
            weights["symbols.weight"], kept = embeddings_of_shared_symbols(weights["symbols.weight"], theirs, own, ours)
            self.messages.append(f"{path}: embeddings of {kept} of {len(ours)} symbols kept, the others start anew")
        told = checkpoint.load_matching(self.model, weights)
        self.messages += [f"{path}: {message}" for message in told]


def build_model(cfg: Config) -> FastPitch:
    """The network of `cfg`, with new weights."""
    return FastPitch(cfg.model, n_symbols=len(TextProcessor(cfg.text).symbols), mel_bins=cfg.features.mel_bins)


def set_pitch_statistics(model: FastPitch, cfg: Config) -> None:
    """The model's mean and deviation of pitch become those of the training data."""
    for buffer, values in ((model.pitch_mean, cfg.data.pitch_mean), (model.pitch_std, cfg.data.pitch_std)):
        buffer.copy_(torch.tensor(values, device=buffer.device).expand_as(buffer))


def embeddings_of_shared_symbols(
    theirs_SC: Tensor, their_symbols: tuple[str, ...], ours_SC: Tensor, our_symbols: tuple[str, ...]
) -> tuple[Tensor, int]:
    """Our embeddings with theirs in place of each symbol that both know, and how many those are."""
    index = {symbol: i for i, symbol in enumerate(their_symbols)}
    shared = [(i, index[symbol]) for i, symbol in enumerate(our_symbols) if symbol in index]
    if theirs_SC.shape[1] != ours_SC.shape[1]:
        return theirs_SC, 0  # models of different width: `load_matching` tells
    embeddings_SC = ours_SC.clone()
    for i, j in shared:
        embeddings_SC[i] = theirs_SC[j]
    return embeddings_SC, len(shared)
