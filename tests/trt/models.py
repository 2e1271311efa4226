"""Checkpoints with random weights, to be exported."""

from pathlib import Path

from common import checkpoint, config
from jasper.checkpoint_import import FORMAT
from jasper.config import Config
from tests.jasper.tiny import random_weights


def save_jasper(path: Path, cfg: Config) -> Path:
    """A checkpoint of a recogniser that says something different for every sound."""
    state = {"format": FORMAT, "weights": random_weights(cfg), "ema": None, "config": config.to_dict(cfg)}
    checkpoint.save(path, state)
    return path
