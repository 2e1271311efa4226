"""A tiny corpus and configurations that the tests of training share."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import config
from common.audio import waveform
from common.text import alphabet
from common.text.alphabet import AlphabetConfig
from tests.training import REPOSITORY, directory_of
from tests.wav2vec2.small import CONV_LAYERS
from wav2vec2 import finetune, pretrain
from wav2vec2.contrastive.masking import MaskConfig
from wav2vec2.contrastive.objective import ObjectiveConfig
from wav2vec2.network.config import ModelConfig
from wav2vec2.run import NAME, Run
from wav2vec2.run_config import FinetuneConfig, PretrainConfig, TrainingConfig

CONFIGS = REPOSITORY / "configs" / "wav2vec2"
RATE = 16000
SHAPE = ModelConfig(
    conv_layers=CONV_LAYERS, layers=2, dim=16, ffn_dim=32, heads=2, pos_kernel=8, pos_groups=2,
    codebook_size=8, final_dim=8,
)  # fmt: skip
IN_EPOCHS: dict[str, Any] = {
    "ema": 0.9, "concat_batches": 1,
    "data": {"batch_size": 4, "buckets": 1},
    "every": {"validate_epochs": 1, "validate_steps": 0, "save_epochs": 1, "save_steps": 0},
}  # fmt: skip
WORDS = ("ONE", "TWO", "RED", "BLUE", "CAT", "DOG")


def write_corpus(folder: Path, *, train: int = 16, validation: int = 4) -> Path:
    """Fairseq's lists of recordings, .wav and .flac, of a tone per letter: fast to make, and learnable."""
    random = np.random.default_rng(0)
    for subset, count in (("train", train), ("dev", validation)):
        (folder / subset).mkdir(parents=True)
        rows, letters = [str(folder)], []
        for i in range(count):
            words = [str(word) for word in random.choice(WORDS, size=2 + i % 3)]
            tones = [np.sin(np.arange(1600) * 0.02 * (3 + ord(letter) % 29)) for letter in "".join(words)]
            samples = 0.5 * np.concatenate(tones) + 0.01 * random.standard_normal(1600 * len(tones))
            name = f"{subset}/{subset}-{i:02d}{('.wav', '.flac')[i % 2]}"
            waveform.write(folder / name, samples.astype(np.float32), RATE)
            rows.append(f"{name}\t{len(samples)}")
            letters.append(" ".join(" ".join(word) + " |" for word in words))
        (folder / f"{subset}.tsv").write_text("\n".join(rows) + "\n")
        (folder / f"{subset}.ltr").write_text("\n".join(letters) + "\n")
    return folder


def pretrain_config(root: Path, output_dir: Path, **changes: Any) -> PretrainConfig:
    """The toy on the corpus at `root`, smaller still, with `changes`; those of data are dictionaries."""
    cfg = config.load(PretrainConfig, CONFIGS / "toy_pretrain.toml")
    cfg = replace(
        cfg, model=SHAPE, mask=MaskConfig(time_length=3), objective=ObjectiveConfig(distractors=5), max_updates=6,
        schedule=replace(cfg.schedule, warmup=0.5),
    )  # fmt: skip
    return _on(cfg, root, output_dir, {"max_samples": 16000, "max_tokens": 32000, "min_samples": 8000}, changes)


def finetune_config(root: Path, output_dir: Path, **changes: Any) -> FinetuneConfig:
    """The same of fine-tuning."""
    cfg = config.load(FinetuneConfig, CONFIGS / "toy_finetune.toml")
    cfg = replace(cfg, model=SHAPE, mask=MaskConfig(time_prob=0.2, time_length=3), max_updates=6)
    return _on(cfg, root, output_dir, {"max_tokens": 80000}, changes)


def write_three_batches(folder: Path) -> Path:
    """The corpus of `pretrain_in_epochs` and `finetune_in_epochs`."""
    return write_corpus(folder, train=12, validation=2)


def pretrain_in_epochs(root: Path, output_dir: Path, **changes: Any) -> PretrainConfig:
    """2 epochs of 3 updates, each followed by a validation and a checkpoint, with an average of the weights."""
    return pretrain_config(root, output_dir, **IN_EPOCHS, **changes)


def finetune_in_epochs(root: Path, output_dir: Path, **changes: Any) -> FinetuneConfig:
    """The same of fine-tuning."""
    return finetune_config(root, output_dir, **IN_EPOCHS, **changes)


def _on(cfg: Any, root: Path, output_dir: Path, data: dict[str, Any], changes: dict[str, Any]) -> Any:
    lists = {"root": root, "train": ("train",), "validation": ("dev",), "buckets": 4}
    data = {**lists, **data, **changes.pop("data", {})}
    for name in ("learning", "optim", "schedule", "mask"):
        changes[name] = replace(getattr(cfg, name), **changes.get(name, {}))
    every = replace(cfg.every, **({"log_steps": 1} | changes.pop("every", {})))
    return replace(cfg, data=replace(cfg.data, **data), every=every, **({"output_dir": output_dir} | changes))


@contextlib.contextmanager
def run_of(cfg: TrainingConfig) -> Iterator[Run[Any]]:
    """The run as a training begins it."""
    module: Any = pretrain if isinstance(cfg, PretrainConfig) else finetune
    with directory_of(cfg, NAME) as directory:
        yield module.prepared(cfg, directory)


def assert_float32(state: dict[str, Any]) -> None:
    """Weights, moments and averages of a checkpoint."""
    moments = [x for of_one in state["optimizer"]["state"].values() for x in of_one.values()]
    for tensor in (*state["weights"].values(), *(state["ema"] or {}).values(), *moments):
        assert tensor.dtype == torch.float32


def write_alphabet(folder: Path) -> None:
    """dict.ltr.txt of train.jsonl and dev.jsonl in `folder`."""
    sources = (folder / "train.jsonl", folder / "dev.jsonl")
    alphabet.main(AlphabetConfig(sources=sources, output=folder / "dict.ltr.txt"))
