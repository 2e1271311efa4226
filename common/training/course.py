"""How far a training goes, how often it logs, validates and saves, and what follows a step.

Pure functions of settings and of where the training stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.config import check_not_negative

USUAL = {
    "Data": ("data.root", "data.train", "data.validation"),
    "Training": ("checkpoint", "pretrained", "epochs", "max_updates", "batch_size", "data.max_tokens", "optim.lr"),
    "Run": ("output_dir", "precision", "device", "dry_run"),
}
"""The options of trainings that most people use, for `USUAL` of a configuration; each has those of its own."""


@dataclass(frozen=True, kw_only=True)
class EveryConfig:
    """How often a training logs, validates and saves."""

    log_steps: int = 25
    """Optimiser steps between lines of training loss."""
    validate_epochs: int = 1
    """Epochs between validations; the last step of a training is always followed by one."""
    validate_steps: int = 0
    """Optimiser steps between validations, in place of epochs; 0 for none."""
    save_epochs: int = 1
    """Epochs between checkpoints; one is always written at the end. 0 for none."""
    save_steps: int = 0
    """Optimiser steps between further checkpoints; 0 for none."""
    save_minutes: float = 30.0
    """Minutes after which a checkpoint is written at the latest; 0 for no limit."""

    def __post_init__(self) -> None:
        for name in ("log_steps", "validate_epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: expected at least 1")
        check_not_negative(self, "validate_steps", "save_epochs", "save_steps", "save_minutes")


@dataclass(frozen=True, kw_only=True)
class Course:
    """How far a training goes, and which of its checkpoints are milestones, which are kept."""

    epochs: int = 0
    """Epochs of the whole training; 0: `steps` counts."""
    steps: int = 0
    """Steps of the whole training; 0: `epochs` counts."""
    epochs_this_job: int = 0
    """Epochs after which this job stops, 0 for none."""
    stop_at: int = 0
    """The step at which this job stops, 0 for none."""
    keep_epochs: Sequence[int] = ()
    keep_steps: Sequence[int] = ()

    def is_done(self, step: int, epoch: int) -> bool:
        """Whether the whole training is, after so many steps and epochs."""
        return 0 < self.epochs <= epoch or 0 < self.steps <= step


def course_in_epochs(cfg: Any) -> Course:
    """The course of a training that counts epochs: `cfg` has epochs, epochs_this_job, steps and keep_epochs."""
    return Course(
        epochs=cfg.epochs, epochs_this_job=cfg.epochs_this_job, stop_at=cfg.steps, keep_epochs=cfg.keep_epochs
    )


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What is so after a step."""

    step: int
    """Steps completed."""
    epoch: int
    """Epochs completed."""
    ends_epoch: bool
    """Whether this step was the last of one."""
    last_epoch: float
    """The epoch after which this job stops."""
    signalled: bool = False
    """Whether the job was asked to stop."""
    save_is_due: bool = False
    """Whether the last checkpoint is `every.save_minutes` old."""


@dataclass(frozen=True)
class Decision:
    """What is to be done after a step, in this order."""

    logs: bool
    validates: bool
    keeps: bool
    """Whether the checkpoint of this step is a milestone."""
    saves: bool
    stops: bool


def decide(every: EveryConfig, course: Course, moment: Moment) -> Decision:
    """The table of decisions: what follows a step."""
    step, epoch, ends_epoch = moment.step, moment.epoch, moment.ends_epoch
    stops = course.is_done(step, epoch) or moment.signalled or 0 < course.stop_at <= step or epoch >= moment.last_epoch
    keeps = step in course.keep_steps or (ends_epoch and epoch in course.keep_epochs)
    saves = (
        stops
        or keeps
        or moment.save_is_due
        or bool(every.save_steps and step % every.save_steps == 0)
        or bool(ends_epoch and every.save_epochs and epoch % every.save_epochs == 0)
    )
    return Decision(
        logs=step % every.log_steps == 0 or ends_epoch or stops,
        # Who is asked to stop has no time to validate: the next job does, before it goes on.
        validates=not moment.signalled and validation_is_due(every, course, step, epoch, ends_epoch),
        keeps=keeps,
        saves=saves,
        stops=stops,
    )


def validation_is_due(every: EveryConfig, course: Course, step: int, epoch: int, ends_epoch: bool) -> bool:
    """Whether a validation belongs after `step`, whatever else happens."""
    if course.is_done(step, epoch):
        return True
    if every.validate_steps:
        return step % every.validate_steps == 0
    return ends_epoch and epoch % every.validate_epochs == 0
