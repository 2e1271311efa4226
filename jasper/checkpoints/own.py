"""Checkpoints of this repository, which describe themselves."""

from pathlib import Path
from typing import Any

from common import config
from common.runs.checkpoint import Imported, own_description
from jasper.config import Config

FORMAT = "jasper"  # what our checkpoints say they are


def read(state: dict[str, Any], path: Path, *, configuration: Config | None = None) -> Imported[Config]:
    """What the loaded checkpoint `state` holds; `path` is for messages. Raises CheckpointError."""
    with own_description(path):
        own = configuration or config.build(Config, state["config"], str(path))
        progress = state.get("progress")
        step = progress.get("step") if isinstance(progress, dict) else None
        return Imported(state["weights"], state["ema"], own, step=step if isinstance(step, int) else None)
