"""Checkpoints with random weights, to be exported."""

from pathlib import Path

from common import config
from common.runs import checkpoint
from fastpitch.acoustic.checkpoints.own import FORMAT as FASTPITCH
from fastpitch.acoustic.config import Config as FastPitchConfig
from fastpitch.acoustic.config import ModelConfig
from jasper.checkpoints.own import FORMAT
from jasper.config import Config
from tests.fastpitch.tiny import LETTERS, tiny_model
from tests.jasper.tiny import random_weights
from tests.wav2vec2.small import ctc_model
from wav2vec2.checkpoints.own import FORMAT as WAV2VEC2


def save_jasper(path: Path, cfg: Config) -> Path:
    """A checkpoint of a recogniser that says something different for every sound."""
    state = {"format": FORMAT, "weights": random_weights(cfg), "ema": None, "config": config.to_dict(cfg)}
    checkpoint.save(path, state)
    return path


def save_wav2vec2(path: Path, kind: str, **changes: object) -> Path:
    """The same of wav2vec 2.0; `kind` and changes of the network's configuration as in tests.wav2vec2.small."""
    model = ctc_model(kind, **changes)
    described = config.to_dict(model.wav2vec2.config)
    state = {"format": WAV2VEC2, "config": {"model": described}, "weights": model.state_dict(), "ema": None}
    checkpoint.save(path, state)
    return path


def save_fastpitch(path: Path, model: ModelConfig) -> Path:
    """A checkpoint of a voice that reads letters."""
    cfg = FastPitchConfig(model=model, text=LETTERS)
    state = {"format": FASTPITCH, "config": config.to_dict(cfg), "weights": tiny_model(model).state_dict(), "ema": None}
    checkpoint.save(path, state)
    return path
