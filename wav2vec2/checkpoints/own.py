"""Checkpoints of this repository, which describe themselves."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from common.config import build
from common.runs.checkpoint import own_description
from wav2vec2.checkpoints.imported import DescribedWeights, checked
from wav2vec2.network.config import ModelConfig

FORMAT = "wav2vec2"  # what our checkpoints say they are


def read(state: dict[str, Any], path: Path, labels: tuple[str, ...], *, with_ema: bool) -> DescribedWeights:
    """What the loaded checkpoint `state` holds; `path` is for messages. `labels` as for `reading.read`."""
    with own_description(path):
        architecture = build(ModelConfig, state["config"]["model"], str(path))
        if architecture.labels:
            architecture = replace(architecture, labels=labels or architecture.labels)
        averaged = state.get("ema") if with_ema else None
        imported = checked(state["weights"] if averaged is None else averaged, architecture, path)
        return imported._replace(language=state["config"].get("data", {}).get("language", "auto"))
