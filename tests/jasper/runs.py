"""A tiny corpus and configuration that the tests of training share."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import config
from common.audio import waveform
from jasper.config import Config
from jasper.training.run import NAME, Run
from tests.training import directory_of

TOY = Path(__file__).resolve().parents[2] / "configs" / "jasper" / "toy.toml"
WORDS = ("one", "two", "red", "blue", "cat", "dog")


def write_corpus(root: Path, *, train: int = 12, validation: int = 5) -> Path:
    """A LibriSpeech folder whose "speech" is a tone per letter: fast to make, and learnable."""
    random = np.random.default_rng(0)
    for subset, count in (("train-clean", train), ("dev-clean", validation)):
        chapter = root / subset / "1" / "2"
        chapter.mkdir(parents=True)
        lines = []
        for i in range(count):
            text = " ".join(random.choice(WORDS, size=2 + i % 3))
            samples = [np.sin(np.arange(1600) * 0.02 * (3 + ord(letter) % 29)) for letter in text]
            noise = 0.01 * random.standard_normal(1600 * len(text))
            id_ = f"1-2-{i:04d}"
            waveform.write(chapter / f"{id_}.flac", (0.5 * np.concatenate(samples) + noise).astype(np.float32), 16000)
            lines.append(f"{id_} {text.upper()}\n")
        (chapter / "1-2.trans.txt").write_text("".join(lines))
    return root


def toy_config(root: Path, output_dir: Path, **changes: object) -> Config:
    """configs/jasper/toy.toml on the corpus at `root`, with top-level `changes`."""
    cfg = config.load(Config, TOY)
    return replace(cfg, data=replace(cfg.data, root=root), output_dir=output_dir, **changes)  # type: ignore[arg-type]


@contextlib.contextmanager
def run_of(cfg: Config) -> Iterator[Run]:
    """The run as a training begins it."""
    with directory_of(cfg, NAME) as directory:
        yield Run(cfg, directory)
