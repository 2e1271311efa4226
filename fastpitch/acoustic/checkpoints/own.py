"""Checkpoints of this repository, which describe themselves."""

from pathlib import Path
from typing import Any

from common import config
from common.runs.checkpoint import Imported, own_description
from fastpitch.acoustic.config import Config

FORMAT = "fastpitch"  # what our checkpoints say they are


def read(state: dict[str, Any], path: Path) -> Imported[Config]:
    """What the loaded checkpoint `state` holds; `path` is for messages. Raises CheckpointError."""
    with own_description(path):
        return Imported(state["weights"], state["ema"], config.build(Config, state["config"], str(path)))
