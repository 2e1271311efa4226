"""A checkpoint from whatever file holds one: ours, or DeepLearningExamples'."""

from pathlib import Path
from typing import Any

from common.runs import checkpoint
from fastpitch.acoustic.checkpoints import own, published
from fastpitch.acoustic.checkpoints.imported import Imported


def read(path: Path) -> Imported:
    """What the checkpoint at `path` holds. Raises CheckpointError."""
    return of_state(checkpoint.load(path), path)


def of_state(state: dict[str, Any], path: Path) -> Imported:
    """What the loaded checkpoint `state` holds; `path` is for messages. Raises CheckpointError."""
    return (own if state.get("format") == own.FORMAT else published).read(state, path)
