"""Everything of a training run that must survive a stop, and its checkpoints in the run directory."""

import math
from dataclasses import dataclass
from typing import Any

from torch import nn

from common import checkpoint, config, training_state
from common.distributed import World
from common.optim import build_optimizer
from common.precision import grad_scaler
from wav2vec2.checkpoints import sharding
from wav2vec2.checkpoints.checkpoint_import import FORMAT
from wav2vec2.run_config import TrainingConfig

NAME = "wav2vec2"  # checkpoints in a run directory start with it


@dataclass
class Progress(training_state.Progress):
    """Where training stands; a step is an update."""

    best: float = math.inf
    """Least loss (pre-training) or word error rate (fine-tuning) of a validation."""
    validated_at: int = 0
    """The update of the last validation."""


class TrainingState:
    """Model, moving average, optimiser, loss scale and progress: as `saved` says, or those of a new run of `model`.

    Weights, moments and averages are float32 in every precision. Raises CheckpointError.
    """

    def __init__(self, cfg: TrainingConfig, model: nn.Module, saved: dict[str, Any] | None, world: World):
        self.cfg, self.world = cfg, world
        self.messages: list[str] = []
        self.progress = Progress()
        if saved is not None:
            with training_state.must_fit(cfg.output_dir):
                training_state.check_optimizer(saved, cfg.optim.kind)
                model.load_state_dict(saved["weights"])
        self.model = sharding.shard(model, world) if cfg.fsdp else model.to(world.device)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = build_optimizer(trained, cfg.optim)
        self.scaler = grad_scaler(world.device, cfg.precision)
        if saved is not None:
            self._restore(saved)
        self.ema = training_state.average_of(self.model, cfg.ema, saved and saved["ema"])
        if cfg.compile:
            for layer in self.model.get_submodule("wav2vec2.encoder.layers").children():
                layer.compile(dynamic=True)

    def save_step(self) -> None:
        """Writes the checkpoint of this update; removes those that are neither milestones nor the last two."""
        state = self._to_dict()
        if self.world.is_main:
            training_state.save_step(self.cfg.output_dir, NAME, state, self.progress)

    def save_best(self) -> None:
        """Writes the best checkpoint so far."""
        state = self._to_dict()
        if self.world.is_main:
            checkpoint.save(self.cfg.output_dir / f"{NAME}_best.pt", state)

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
        with training_state.must_fit(self.cfg.output_dir):
            self._check_trained(saved)
            with training_state.options_of_today(self.optimizer):
                if self.cfg.fsdp:
                    sharding.load_optimizer(self.model, self.optimizer, saved["optimizer"])
                else:
                    self.optimizer.load_state_dict(saved["optimizer"])
            training_state.restore(saved, {"scaler": self.scaler})
            self.progress = Progress(**saved["progress"])
        self.messages.append(f"resumed at update {self.progress.step}, epoch {self.progress.epoch + 1}")

    def _check_trained(self, saved: dict[str, Any]) -> None:
        """The optimiser in the checkpoint must be of the parameters that are trained today."""
        found, expected = (
            sum(len(group["params"]) for group in groups)
            for groups in (saved["optimizer"]["param_groups"], self.optimizer.param_groups)
        )
        if found == expected:
            return
        before, now = saved["config"], self.cfg
        raise ValueError(
            f"it trains {found} parameters, not {expected}, which depends on what is 0: mask.time_prob was "
            f"{before['mask']['time_prob']} and is {now.mask.time_prob}, learning.extractor_gradient was "
            f"{before['learning']['extractor_gradient']} and is {now.learning.extractor_gradient}"
        )
