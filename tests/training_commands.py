"""The training commands, each with a toy run that takes a second or so: for tests of what all of them promise."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fastconformer.train
import fastpitch.train
import fastpitch.vocoders.train
import jasper.train
import wav2vec2.finetune
import wav2vec2.pretrain
from tests.fastconformer import runs as transducer_runs
from tests.fastpitch import runs as fastpitch_runs
from tests.fastpitch.vocoders import corpus as vocoder_runs
from tests.jasper import runs as jasper_runs
from tests.wav2vec2 import runs as wav2vec2_runs


@dataclass(frozen=True, kw_only=True)
class Command:
    """A training command; its toy has 2 epochs of 3 steps, validates and saves after each, and has an average.

    That of Jasper writes TensorBoard events, as trainings do by default; the others go without to be fast.
    """

    name: str
    """As its checkpoints are called."""
    module: Any
    """Has `main`, `validate` and the Run or functions that `main` uses."""
    corpus: Callable[[Path], Path]
    """Writes the toy's data into a folder that does not exist."""
    config: Callable[..., Any]
    """The toy's configuration of (corpus, output_dir, **changes)."""
    evaluates_by: str = "evaluate"
    """The function of `module` that computes a validation."""
    id: str = ""
    """As its tests are called; default: `name`."""


COMMANDS = [
    Command(
        name="jasper",
        module=jasper.train,
        corpus=jasper_runs.write_corpus,
        config=partial(jasper_runs.toy_config, tensorboard=True),
    ),
    Command(
        name="fastpitch",
        module=fastpitch.train,
        corpus=fastpitch_runs.write_corpus,
        config=fastpitch_runs.toy_config,
    ),
    Command(
        name="fastconformer",
        module=fastconformer.train,
        corpus=jasper_runs.write_corpus,
        config=transducer_runs.toy_config,
    ),
    Command(
        name="hifigan",
        module=fastpitch.vocoders.train,
        corpus=vocoder_runs.write_corpus,
        config=vocoder_runs.hifigan_config,
        evaluates_by="evaluation",
    ),
    Command(
        name="waveglow",
        module=fastpitch.vocoders.train,
        corpus=vocoder_runs.write_corpus,
        config=vocoder_runs.waveglow_config,
        evaluates_by="evaluation",
    ),
    Command(
        id="pretrain",
        name="wav2vec2",
        module=wav2vec2.pretrain,
        corpus=wav2vec2_runs.write_three_batches,
        config=wav2vec2_runs.pretrain_in_epochs,
    ),
    Command(
        id="finetune",
        name="wav2vec2",
        module=wav2vec2.finetune,
        corpus=wav2vec2_runs.write_three_batches,
        config=wav2vec2_runs.finetune_in_epochs,
    ),
]
