"""Everything of a training run that must survive a stop, and its checkpoints in the run directory."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from common import checkpoint, config
from common.checkpoint import CheckpointError
from common.distributed import World
from common.ema import Ema
from common.optim import build_optimizer
from common.precision import grad_scaler
from wav2vec2 import sharding
from wav2vec2.checkpoint_import import FORMAT
from wav2vec2.run_config import TrainingConfig

NAME = "wav2vec2"  # checkpoints in a run directory start with it


@dataclass
class Progress:
    """Where training stands; with the configuration it determines all that follows."""

    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Updates of the current epoch completed."""
    steps_per_epoch: int = 0
    """Updates of the current epoch, which `batch` counts against."""
    step: int = 0
    """Updates completed."""
    best: float = math.inf
    """Least loss (pre-training) or word error rate (fine-tuning) of a validation."""
    milestones: list[int] = field(default_factory=list)
    """Updates whose checkpoints are kept."""


def newest(cfg: TrainingConfig) -> tuple[dict[str, Any] | None, list[str]]:
    """The checkpoint that a run of `cfg` goes on from, if any, and what is to be told. Raises CheckpointError."""
    if cfg.resume:
        return checkpoint.load_newest(cfg.output_dir, NAME)
    steps = checkpoint.saved_steps(cfg.output_dir, NAME)
    if steps and cfg.save:  # a new run's checkpoints would be older than these, and be removed
        raise CheckpointError(
            f"{cfg.output_dir}: holds checkpoints of an earlier run, up to update {steps[-1][0]}; "
            "go on from them with --resume true, or take another --output_dir"
        )
    return None, []


class TrainingState:
    """Model, moving average, optimiser, loss scale and progress: as `saved` says, or those of a new run of `model`.

    Weights, moments and averages are float32 in every precision. Raises CheckpointError.
    """

    def __init__(self, cfg: TrainingConfig, model: nn.Module, saved: dict[str, Any] | None, world: World):
        self.cfg, self.world = cfg, world
        self.messages: list[str] = []
        self.progress = Progress()
        if saved is not None:
            self._checked(lambda: model.load_state_dict(saved["weights"]))
        self.model = sharding.shard(model, world) if cfg.fsdp else model.to(world.device)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = build_optimizer(trained, cfg.optim)
        self.scaler = grad_scaler(world.device, cfg.precision)
        # Not before the weights are there: it starts as a copy of them, also where a run resumes that had none.
        self.ema = Ema(self.model, cfg.ema) if cfg.ema else None
        if saved is not None:
            self._checked(lambda: self._restore(saved))
        if cfg.compile:
            for layer in self.model.get_submodule("wav2vec2.encoder.layers").children():
                layer.compile(dynamic=True)

    def save_step(self) -> None:
        """Writes the checkpoint of this update; removes those that are neither milestones nor the last two."""
        state, folder = self._to_dict(), self.cfg.output_dir
        if self.world.is_main:
            checkpoint.save(checkpoint.step_path(folder, NAME, self.progress.step), state)
            checkpoint.remove_old(folder, NAME, milestones=self.progress.milestones)

    def save_best(self) -> None:
        """Writes the best checkpoint so far."""
        state = self._to_dict()
        if self.world.is_main:
            checkpoint.save(self.cfg.output_dir / f"{NAME}_best.pt", state)

    def is_finite(self) -> bool:
        """Whether all weights are, those of this process's share; waits for the device."""
        weights = [sharding.local(parameter.detach()) for parameter in self.model.parameters()]
        norms = torch._foreach_norm([weight for weight in weights if weight.numel()], ord=math.inf)
        return bool(torch.stack(norms).isfinite().all())

    def _to_dict(self) -> dict[str, Any]:
        """By all processes together: of sharded weights each has a part."""
        weights, optimizer = (
            sharding.whole_state(self.model, self.optimizer)
            if self.cfg.fsdp
            else (self.model.state_dict(), self.optimizer.state_dict())
        )
        return {
            "format": FORMAT,
            "config": config.to_dict(self.cfg),
            "weights": weights,
            "ema": self.ema.state_dict() if self.ema is not None else None,
            "optimizer": optimizer,
            "scaler": self.scaler.state_dict(),
            "progress": dict(vars(self.progress)),
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        kind, options = self.cfg.optim.kind, [dict(group) for group in self.optimizer.param_groups]
        if saved["config"]["optim"]["kind"] != kind:
            raise ValueError(f"its optimiser is {saved['config']['optim']['kind']}, not {kind}")
        if self.cfg.fsdp:
            sharding.load_optimizer(self.model, self.optimizer, saved["optimizer"])
        else:
            self.optimizer.load_state_dict(saved["optimizer"])
        if saved["scaler"]:  # empty of a run that was not in fp16
            self.scaler.load_state_dict(saved["scaler"])
        if self.ema is not None and saved["ema"] is not None:
            self.ema.load_state_dict(saved["ema"])
        self.progress = Progress(**saved["progress"])
        # What flags say today counts; the learning rate is set in every update.
        for group, today in zip(self.optimizer.param_groups, options, strict=True):
            group.update({name: today[name] for name in ("betas", "eps", "weight_decay")})
        self.messages.append(f"resumed at update {self.progress.step}, epoch {self.progress.epoch + 1}")

    def _checked(self, restore: Any) -> None:
        try:
            restore()
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            problem = " ".join(str(error).split())[:300]
            raise CheckpointError(
                f"{self.cfg.output_dir}: its newest checkpoint does not fit this configuration: {problem}; "
                "take another --output_dir, or the configuration it was made with"
            ) from None
