"""Which training a configuration is for: by the folder that it lies in, and by whose settings it holds."""

import importlib
from pathlib import Path
from typing import NamedTuple

from common import config
from common.config import ConfigError


class Training(NamedTuple):
    """A command that trains, the folder of its configurations under configs/, and their schema."""

    command: str
    folder: str
    schema: str


TRAININGS = (
    Training("jasper.train", "jasper", "jasper.config.Config"),
    Training("fastconformer.train", "fastconformer", "fastconformer.config.Config"),
    Training("fastpitch.train", "fastpitch", "fastpitch.acoustic.config.Config"),
    Training("fastpitch.vocoders.train", "hifigan", "fastpitch.vocoders.config.HifiganRun"),
    Training("fastpitch.vocoders.train", "waveglow", "fastpitch.vocoders.config.WaveglowRun"),
    Training("wav2vec2.pretrain", "wav2vec2", "wav2vec2.run_config.PretrainConfig"),
    Training("wav2vec2.finetune", "wav2vec2", "wav2vec2.run_config.FinetuneConfig"),
)


def training_of(path: str | Path) -> str:
    """The command, as a module, that trains what the configuration at `path` describes.

    Raises ConfigError for a file that is missing, and for settings of no training, or of several.
    """
    found = config.find(path)
    nearest = [training for training in TRAININGS if training.folder == found.parent.name] or list(TRAININGS)
    taken, reason = [], ConfigError("")
    for training in nearest:
        module, name = training.schema.rsplit(".", 1)
        try:
            config.load(getattr(importlib.import_module(module), name), found)
            taken.append(training.command)
        except ConfigError as error:
            reason = error
    if not taken:
        raise reason if len(nearest) == 1 else ConfigError(f"{path}: its settings are those of no training; {reason}")
    if len(taken) > 1:
        raise ConfigError(f"{path}: its settings fit {', '.join(taken)}; run the one that is meant with python -m")
    return taken[0]
