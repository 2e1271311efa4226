"""What a training run must not lose: its parts (networks, averages, optimisers, loss scales) and where it stands.

A checkpoint has the state of every part under its name, `config`, `progress`, and what else its model needs. A run that
was stopped and resumed ends in the weights of one that never stopped.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from common import config
from common.data.digest import difference, digest
from common.data.manifest import Utterance
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import RunDirectory
from common.training.ema import Ema


class TrainingError(RuntimeError):
    """Training that cannot go on: numbers that are not finite, data that cannot be used."""


class Part(Protocol):
    """What has a state: a module, an optimiser, a loss scale, an average of weights."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that must survive a stop."""

    def load_state_dict(self, state: dict[str, Any]) -> object:
        """Goes on from `state`."""


@dataclass
class Progress:
    """Where training stands; with the configuration it determines all that follows."""

    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Steps of the current epoch completed."""
    steps_per_epoch: int = 0
    """Steps of the whole current epoch, which `batch` counts against; 0 before it began."""
    step: int = 0
    """Optimiser steps completed."""
    skipped: int = 0
    """Those of them that changed nothing, because a gradient was not finite."""
    milestones: list[int] = field(default_factory=list)
    """Steps whose checkpoints are kept."""
    best: float = math.inf
    """Least score of a validation: a word error rate or a loss."""
    best_step: int = 0
    """The step of that validation; 0 before the first."""
    best_weights: str = ""
    """Whose score it was: "raw" weights, or their moving "average"."""
    validated_at: int = 0
    """The step of the last validation."""

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> "Progress":
        """As in a checkpoint."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in saved.items() if name in known})

    def begin_epoch(self, steps: int) -> str | None:
        """Counts in the steps of this job; a message for the log where their number differs from that before.

        With other batches or processes the run goes on at the same part of the epoch.
        """
        before, self.steps_per_epoch = self.steps_per_epoch, steps
        if before in (0, steps) or not self.batch:
            return None
        self.batch = self.batch * steps // before
        return (
            f"the epoch has {steps} steps, and had {before} when the run was stopped: it goes on at step "
            f"{self.batch} of it, in another order; the learning rate follows step {self.step}"
        )


class TrainingState:
    """The parts of a run and its progress: new, or as the checkpoint of `directory` says.

    `parts`: networks first, then what follows them; None for a part that this run does without. `extra`: what else goes
    into a checkpoint, plain values; it must be the same in the checkpoint that is resumed. Raises CheckpointError.
    """

    def __init__(
        self,
        directory: RunDirectory,
        cfg: Any,
        parts: Mapping[str, Part | None],
        *,
        extra: Mapping[str, Any],
        saves: bool = True,
    ):
        self.directory, self.cfg, self.saves = directory, cfg, saves
        self.parts = dict(parts)
        self.extra = dict(extra)
        self.progress = Progress()
        self.is_saved = directory.saved is not None
        if directory.saved is not None:
            self._restore(directory.saved)

    def begin_with(self, utterances: Sequence[Utterance]) -> None:
        """Compares the training data with those that the run was begun with; checkpoints hold their digest from now on.

        By all processes together. Raises CheckpointError for others, unless `data.changed` accepts them.
        """
        problem = ""
        if self.directory.world.is_main:
            self.extra["data"] = now = digest(utterances)
            before = (self.directory.saved or {}).get("data")
            problem = difference(before, now, utterances) if before is not None else ""
        if not (problem := self.directory.world.gather(problem)[0]):
            return
        if self.cfg.data.changed == "refuse":
            raise CheckpointError(
                f"{self.directory.folder}: its data are not those that the run was begun with: {problem}; take another "
                "--output_dir, or go on with these by --data.changed accept"
            )
        self.directory.log.event(f"data changed: {problem}")

    def save_step(self) -> None:
        """Writes the checkpoint of this step, if it is not there; by all processes together.

        Raises TrainingError if a number in a network is not finite, OSError.
        """
        if self.is_saved:
            return
        self.check_finite()
        state = self._to_write()
        if state and self.directory.world.is_main:
            self.directory.save_step(self.progress.step, state, milestones=self.progress.milestones)
        if self.saves:
            self.directory.last_saved = self.progress.step
        self.is_saved = True
        self.directory.world.barrier()

    def save_alone(self) -> None:
        """Writes the checkpoint of this step by the main process, which needs no other. Raises OSError.

        Nothing, if a number is not finite or the weights are in parts.
        """
        world = self.directory.world
        if not (self.saves and world.is_main and self.is_finite()) or self._is_sharded():
            return
        self.directory.save_step(self.progress.step, self.to_dict(), milestones=self.progress.milestones)
        self.directory.last_saved, self.is_saved = self.progress.step, True

    def save_best(
        self, scores: Mapping[str, float], *, counts: bool = True, names: Iterable[str] | None = None
    ) -> bool:
        """Writes `<name>_best.pt` if none before was less than the least of `scores`; by all processes together.

        Of equals the last is kept, which has learned the most: error rates on little data are often equal, or 0.

        `scores` are those of "raw" weights and of their "average", if there is one. Where raw weights are better than
        their average, the file has no average, so that whoever reads it takes the better. A score does not `count`
        where a run may not yet have its best. `names`: the parts to write, None for all. Raises OSError.
        """
        scores = self.directory.world.gather(dict(scores))[0]  # of one: on sharded weights each has its own rounding
        self.progress.validated_at = self.progress.step
        self.is_saved = False
        kind, score = min(scores.items(), key=lambda item: (math.isnan(item[1]), item[1], item[0] == "raw"))
        if not counts or (self.progress.best_step and (self.progress.best < score or math.isnan(score))):
            return False
        self.progress.best, self.progress.best_step, self.progress.best_weights = score, self.progress.step, kind
        state = self._to_write()
        if kind == "raw":
            state |= {name: None for name, part in self.parts.items() if isinstance(part, Ema) and name in state}
        self._write("best", state, names)
        self.directory.log.event(f"best so far: {score:.4f}, of the {kind} weights")
        return True

    def export(self, kind: str, names: Iterable[str]) -> None:
        """Writes `<name>_<kind>.pt` with the parts `names` alone, for use. Raises OSError."""
        self._write(kind, self._to_write(), names)

    def check_finite(self) -> None:
        """Raises TrainingError, in all processes, if a number in a network of one is not finite. Waits for the device.

        A gradient may be so where its loss was not.
        """
        if self.directory.world.any(not self.is_finite()):
            raise TrainingError(
                f"weights or running statistics are not finite after step {self.progress.step}, though its loss was; "
                f"{self.directory.safe_step()}: lower the learning rate"
            )

    def is_finite(self) -> bool:
        """Whether all numbers in the networks of this process are."""
        own = [local(tensor) for network in self._networks() for tensor in network.state_dict().values()]
        numbers = [tensor for tensor in own if tensor.is_floating_point() and tensor.numel()]
        return not numbers or bool(torch.stack(torch._foreach_norm(numbers, ord=math.inf)).isfinite().all())

    def _is_sharded(self) -> bool:
        tensors = (tensor for network in self._networks() for tensor in network.state_dict().values())
        return any(hasattr(tensor, "to_local") for tensor in tensors)

    def _networks(self) -> list[nn.Module]:
        """The parts that are networks, and the `network` of those that make whole weights of sharded ones."""
        parts = (getattr(part, "network", part) for part in self.parts.values())
        return [part for part in parts if isinstance(part, nn.Module)]

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint holds; by all processes together, which may each have a part of the weights."""
        states = {name: None if part is None else part.state_dict() for name, part in self.parts.items()}
        return {**self.extra, "config": config.to_dict(self.cfg), **states, "progress": asdict(self.progress)}

    def _to_write(self) -> dict[str, Any]:
        """`to_dict`, or nothing for a run that saves nothing."""
        return self.to_dict() if self.saves else {}

    def _write(self, kind: str, state: dict[str, Any], names: Iterable[str] | None) -> None:
        if names is not None:
            left_out = self.parts.keys() - set(names) | {"progress", "data"}
            state = {name: value for name, value in state.items() if name not in left_out}
        if state and self.directory.world.is_main:
            self.directory.save(kind, state)

    def _restore(self, saved: Mapping[str, Any]) -> None:
        with must_fit(self.directory.folder):
            for name, value in self.extra.items():
                if name in saved and saved[name] != value:
                    raise ValueError(f"its {name} is another")
            for name, part in self.parts.items():
                restore_part(part, saved[name])
            self.progress = Progress.restored(saved["progress"])
        self.directory.log.event(f"resumed at step {self.progress.step}, epoch {self.progress.epoch + 1}")


def restore_part(part: Part | None, state: Any) -> None:
    """Gives `part` its state; raises what its `load_state_dict` raises. Within `must_fit`."""
    if isinstance(part, Optimizer):
        with options_of_today(part):
            part.load_state_dict(state)
    elif isinstance(part, Ema) and state is None:
        part.restart()  # the run had no average: it begins with the weights of now
    elif part is not None and state:  # the loss scale is empty of a run that was not in fp16
        part.load_state_dict(state)


def local(tensor: Tensor) -> Tensor:
    """This process's part of a sharded tensor, or all of another."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


@contextlib.contextmanager
def options_of_today(optimizer: Optimizer) -> Iterator[None]:
    """While a state is loaded, betas, eps and weight decay stay those of this job. Steps set the learning rate."""
    options = [dict(group) for group in optimizer.param_groups]
    yield
    for group, today in zip(optimizer.param_groups, options, strict=True):
        group.update({name: today[name] for name in ("betas", "eps", "weight_decay")})


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
