"""Learning rates: pure functions of the number of updates already done, so the first update has step 0.

Counts may be fractions of a step: a warm-up of 0.5 epochs is not rounded. The originals of Jasper's schedules give the
first update the number 1, which is their `first`; those of wav2vec 2.0 count what is done, from 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from common.config import ConfigError, check_not_negative


def polynomial(
    step: int,
    *,
    lr: float,
    total: float,
    power: float = 1.0,
    warmup: float = 0.0,
    hold: float = 0.0,
    floor: float = 0.0,
    first: int = 1,
) -> float:
    """Linear warm-up, hold, then lr ((total - step) / (total - warmup - hold))^power, never below `floor`.

    `step` counts from `first` there. Power 2 is Jasper's, power 1 is wav2vec 2.0's.
    """
    step += first
    if step < warmup + hold:
        return _warmed_up(step, lr, warmup)
    left = max(0.0, total - step) / (total - warmup - hold)
    return max(floor, lr * left**power)


def exponential(
    step: int,
    *,
    lr: float,
    gamma: float,
    steps_per_epoch: float,
    warmup: float = 0.0,
    hold: float = 0.0,
    floor: float = 0.0,
    first: int = 1,
) -> float:
    """Linear warm-up, hold, then times `gamma` at the beginning of every epoch, never below `floor`: Jasper's of 2021.

    The first epoch after the hold is already at lr gamma.
    """
    if step < warmup + hold:
        return _warmed_up(step + first, lr, warmup)
    epochs = math.floor((step - warmup - hold) / steps_per_epoch) + 1
    return max(floor, lr * gamma**epochs)


def tri_stage(
    step: int, *, lr: float, warmup: float, hold: float, decay: float, initial: float = 0.01, final: float = 0.05
) -> float:
    """Linear from lr initial, hold, exponential decay to lr final, and so it remains (wav2vec 2.0 fine-tuning)."""
    if step < warmup:
        return lr * (initial + (1 - initial) * step / warmup)
    if step < warmup + hold:
        return lr
    if step >= warmup + hold + decay:
        return lr * final
    return lr * final ** ((step - warmup - hold) / decay)


def noam(step: int, *, lr: float, warmup: float, width: int = 1) -> float:
    """lr width^-½ min(n^-½, n warmup^-3/2) of the n-th update (Vaswani et al. 2017); FastPitch's with width 1."""
    n = step + 1
    rising = n * warmup**-1.5 if warmup else math.inf
    return lr * width**-0.5 * min(n**-0.5, rising)


def _warmed_up(step: int, lr: float, warmup: float) -> float:
    """Never 0; `step` counts from the `first` of a schedule."""
    return lr * min(1.0, (step + 1) / (warmup + 1))


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How the learning rate changes from step to step."""

    kind: Literal["constant", "polynomial", "exponential", "tri_stage", "noam"] = "exponential"
    """Shape of the learning rate after warm-up and hold."""
    unit: Literal["epochs", "steps", "fraction"] = "epochs"
    """Unit of `warmup` and `hold`; fraction: a part of the whole training."""
    warmup: float = 0.0
    """Duration of the rise from zero to the peak."""
    hold: float = 0.0
    """Duration of the peak."""
    floor: float = 1e-5
    """Lowest rate of the kinds polynomial and exponential."""
    power: float = 2.0
    """Exponent of the kind polynomial."""
    gamma: float = 0.981
    """Factor per epoch of the kind exponential."""
    initial: float = 0.01
    """First rate of the kind tri_stage, as a part of the peak."""
    final: float = 0.05
    """Last rate of the kind tri_stage, as a part of the peak."""
    width: int = 1
    """Width of the model, by which the kind noam scales the rate."""

    def __post_init__(self) -> None:
        check_not_negative(self, "warmup", "hold", "floor", "power", "initial", "final")
        if self.unit == "fraction" and self.warmup + self.hold > 1:
            raise ValueError(f"warmup = {self.warmup}, hold = {self.hold}: expected fractions of at most 1 together")
        if not 0 < self.gamma <= 1:
            raise ValueError(f"gamma = {self.gamma}: expected a factor above 0, at most 1")
        if self.width < 1:
            raise ValueError(f"width = {self.width}: expected at least 1")


def build_schedule(
    cfg: ScheduleConfig, *, lr: float, steps_per_epoch: int, total_steps: int, first: int = 1
) -> Callable[[int], float]:
    """The learning rate as a function of the number of updates already done. `lr` is the peak.

    `first`: the number that the first update has in warm-up and polynomial.
    """
    steps_per_unit = {"epochs": steps_per_epoch, "steps": 1, "fraction": total_steps}[cfg.unit]
    warmup, hold = cfg.warmup * steps_per_unit, cfg.hold * steps_per_unit
    decay = total_steps - warmup - hold
    if decay <= 0 and cfg.kind in ("polynomial", "tri_stage"):
        raise ConfigError(
            f"{cfg.kind} schedule: {warmup:g} steps of warm-up and {hold:g} of hold leave none of {total_steps} "
            "for the decay; train longer or shorten them"
        )

    def learning_rate(step: int) -> float:
        match cfg.kind:
            case "constant":
                return _warmed_up(step + first, lr, warmup)
            case "polynomial":
                return polynomial(
                    step, lr=lr, total=total_steps, power=cfg.power, warmup=warmup, hold=hold, floor=cfg.floor,
                    first=first,
                )  # fmt: skip
            case "exponential":
                return exponential(
                    step,
                    lr=lr,
                    gamma=cfg.gamma,
                    steps_per_epoch=steps_per_epoch,
                    warmup=warmup,
                    hold=hold,
                    floor=cfg.floor,
                    first=first,
                )
            case "tri_stage":
                return tri_stage(
                    step, lr=lr, warmup=warmup, hold=hold, decay=decay, initial=cfg.initial, final=cfg.final
                )
            case "noam":
                return noam(step, lr=lr, warmup=warmup, width=cfg.width)

    return learning_rate
