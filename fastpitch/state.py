"""Everything of a training run that must survive a stop, and its checkpoints in the run directory."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from common import checkpoint, config
from common.checkpoint import CheckpointError
from common.ema import Ema
from common.optim import build_optimizer
from common.precision import grad_scaler
from fastpitch.checkpoint_import import FORMAT, read
from fastpitch.config import Config
from fastpitch.model import FastPitch
from fastpitch.text import TextProcessor

NAME = "fastpitch"  # checkpoints in a run directory start with it


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
    """Least mel loss of a validation, of the averaged weights where there are any."""
    milestones: list[int] = field(default_factory=list)
    """Steps whose checkpoints are kept."""


class TrainingState:
    """Model, moving average, optimiser, loss scale and progress: new, fine-tuned from a checkpoint, or resumed.

    `messages` say what was taken from where. Raises CheckpointError.
    """

    def __init__(self, cfg: Config, device: torch.device):
        self.cfg = cfg
        self.messages: list[str] = []
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.model = build_model(cfg).to(device)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = build_optimizer(trained, cfg.optim)
        self.scaler = grad_scaler(device, cfg.precision)
        self.progress = Progress()
        saved = self._newest()
        if saved is None:
            self._start_from_checkpoint()
        else:
            self._restore(saved)
        set_pitch_statistics(self.model, cfg)
        # Not before the weights are there: it starts as a copy of them, also where a run resumes that had none.
        self.ema = Ema(self.model, cfg.ema) if cfg.ema else None
        if self.ema is not None and saved is not None and saved["ema"] is not None:
            self.ema.load_state_dict(saved["ema"])

    def save_step(self) -> None:
        """Writes the checkpoint of this step; removes those that are neither milestones nor the last two."""
        folder = self.cfg.output_dir
        checkpoint.save(checkpoint.step_path(folder, NAME, self.progress.step), self._to_dict())
        checkpoint.remove_old(folder, NAME, milestones=self.progress.milestones)

    def save_best(self) -> None:
        """Writes the best checkpoint so far."""
        checkpoint.save(self.cfg.output_dir / f"{NAME}_best.pt", self._to_dict())

    def is_finite(self) -> bool:
        """Whether all weights are; waits for the device."""
        weights = [parameter.detach() for parameter in self.model.parameters()]
        return bool(torch.stack(torch._foreach_norm(weights, ord=math.inf)).isfinite().all())

    def _to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "config": config.to_dict(self.cfg),
            "symbols": list(TextProcessor(self.cfg.text).symbols),
            "weights": self.model.state_dict(),
            "ema": self.ema.state_dict() if self.ema is not None else None,
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
        if steps and not self.cfg.dry_run:  # a new run's checkpoints would be older than these, and be removed
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
            if saved["symbols"] != list(TextProcessor(self.cfg.text).symbols):
                raise ValueError(f"its symbols are not those of {self.cfg.text.symbol_set}")
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
