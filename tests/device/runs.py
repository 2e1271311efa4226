"""The seven trainings, small: three steps with averages, a validation, a checkpoint, most with accumulation."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fastconformer.train
import jasper.train
from common import config
from fastpitch import train as fastpitch_train
from fastpitch.vocoders import train as vocoder_train
from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from tests.fastconformer import runs as transducer_runs
from tests.fastpitch import runs as fastpitch_runs
from tests.fastpitch.vocoders import corpus as vocoder_corpus
from tests.jasper import runs as jasper_runs
from tests.training import REPOSITORY
from tests.wav2vec2 import runs as wav2vec2_runs
from wav2vec2 import finetune, pretrain

# Of the losses of three steps, relative to the CPU's in float32: rounding of sums in another order, of inputs to 10
# bits, and of activations to 8 and 11 bits.
TOLERANCES = {"fp32": 2e-3, "tf32": 2e-2, "bf16": 5e-2, "fp16": 5e-2}


@dataclass(frozen=True)
class Command:
    """A training: its corpus, its configuration, and the setting that stops it early."""

    write_corpus: Callable[[Path], Path]
    configured: Callable[..., Any]
    main: Callable[[Any], Any]
    stop: str = "steps"
    larger: dict[str, int] = field(default_factory=dict)
    """Arguments of `write_corpus` for an epoch of three steps, if it has fewer."""


def jasper_config(root: Path, output_dir: Path, **changes: object) -> Any:
    return jasper_runs.toy_config(root, output_dir, epochs=1, grad_accumulation=2, ema=0.9, **changes)


def fastpitch_config(root: Path, output_dir: Path, **changes: object) -> Any:
    return fastpitch_runs.toy_config(root, output_dir, epochs=1, grad_accumulation=2, **changes)


def transducer_config(root: Path, output_dir: Path, **changes: object) -> Any:
    return transducer_runs.toy_config(root, output_dir, epochs=1, ema=0.9, **changes)


def vocoder_config(cls: type[Any], name: str, root: Path, output_dir: Path, **changes: Any) -> Any:
    cfg = config.load(cls, REPOSITORY / "configs" / name / "toy.toml")
    if name == "waveglow":
        features = replace(cfg.features, mel_bins=16, n_fft=256, window_samples=256, hop_samples=64)
        changes["features"] = features
    data = replace(cfg.data, root=root)
    return replace(
        cfg, data=data, output_dir=output_dir, epochs=1, batch_size=2, grad_accumulation=2, clip_norm=1.0, **changes
    )


def hifigan_config(root: Path, output_dir: Path, **changes: Any) -> Any:
    return vocoder_config(HifiganRun, "hifigan", root, output_dir, **changes)


def waveglow_config(root: Path, output_dir: Path, **changes: Any) -> Any:
    return vocoder_config(WaveglowRun, "waveglow", root, output_dir, **changes)


def pretrain_config(root: Path, output_dir: Path, **changes: Any) -> Any:
    return wav2vec2_runs.pretrain_config(
        root, output_dir, max_updates=3, concat_batches=2, update_freq=2, ema=0.9, **changes
    )


def finetune_config(root: Path, output_dir: Path, **changes: Any) -> Any:
    return wav2vec2_runs.finetune_config(
        root, output_dir, max_updates=3, update_freq=2, ema=0.9, clip_norm=1.0, **changes
    )


def logging_rarely(cfg: Any) -> Any:
    """`cfg` without a line of the log for every step."""
    return replace(cfg, every=replace(cfg.every, log_steps=100))


COMMANDS = {
    "jasper": Command(jasper_runs.write_corpus, jasper_config, jasper.train.main),
    "fastpitch": Command(fastpitch_runs.write_corpus, fastpitch_config, fastpitch_train.main),
    "fastconformer": Command(jasper_runs.write_corpus, transducer_config, fastconformer.train.main),
    "hifigan": Command(vocoder_corpus.write_corpus, hifigan_config, vocoder_train.main),
    "waveglow": Command(vocoder_corpus.write_corpus, waveglow_config, vocoder_train.main),
    "pretrain": Command(wav2vec2_runs.write_corpus, pretrain_config, pretrain.main, "stop_at", {"train": 40}),
    "finetune": Command(wav2vec2_runs.write_corpus, finetune_config, finetune.main, "stop_at", {"train": 40}),
}
