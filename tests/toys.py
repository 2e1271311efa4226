"""Checkpoints of small recognisers with random weights, as files for commands."""

from pathlib import Path

from common.runs import checkpoint
from tests.fuzz.structures import transducer_state
from tests.jasper.tiny import save_tiny
from tests.wav2vec2.small import ctc_model
from wav2vec2.checkpoints import fairseq

KINDS = ("jasper", "wav2vec2", "fastconformer")
"""Packages whose `inference` transcribes with them."""


def save_toy(kind: str, path: Path, **changes: object) -> Path:
    """Writes a model of this kind, and gives its path; `changes` are of wav2vec 2.0's configuration."""
    if kind == "jasper":
        return save_tiny(path)
    if kind == "fastconformer":
        checkpoint.save(path, transducer_state())
    else:
        model = ctc_model(**changes)
        fairseq.export(path, model.state_dict(), model.wav2vec2.config)
    return path
