"""What a checkpoint gives, whoever wrote it."""

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from common.runs.checkpoint import fill, widened
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.refiner import Refiner


class Imported(NamedTuple):
    """Weights under this repository's names, EMA weights if the file has them, and the configuration they fit."""

    weights: dict[str, Tensor]
    ema: dict[str, Tensor] | None
    config: Config


def refiner_of(found: Imported, path: Path) -> Refiner:
    """The refiner of a model that has one, of averaged weights where there are any.

    Raises CheckpointError where the weights are not those of the configuration.
    """
    part, refiner = "refiner.", Refiner(found.config.model.refiner, found.config.features.mel_bins)
    weights = widened(found.ema or found.weights)
    own = {name.removeprefix(part): weight for name, weight in weights.items() if name.startswith(part)}
    fill(refiner, own, path)
    return refiner
