"""A checkpoint from whatever file holds one: ours, or DeepLearningExamples'."""

from pathlib import Path
from typing import Any

from common.runs import checkpoint
from common.runs.checkpoint import Imported
from fastpitch.acoustic.checkpoints import own, published
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.refiner import Refiner


def read(path: Path) -> Imported[Config]:
    """What the checkpoint at `path` holds. Raises CheckpointError."""
    return of_state(checkpoint.load(path), path)


def of_state(state: dict[str, Any], path: Path) -> Imported[Config]:
    """What the loaded checkpoint `state` holds; `path` is for messages. Raises CheckpointError."""
    return (own if state.get("format") == own.FORMAT else published).read(state, path)


def refiner_of(found: Imported[Config], path: Path) -> Refiner:
    """The refiner of a model that has one, of averaged weights where there are any.

    Raises CheckpointError where the weights are not those of the configuration.
    """
    part, refiner = "refiner.", Refiner(found.config.model.refiner, found.config.features.mel_bins)
    weights = found.ema or found.weights
    own_weights = {name.removeprefix(part): weight for name, weight in weights.items() if name.startswith(part)}
    checkpoint.fill(refiner, own_weights, path)
    return refiner
