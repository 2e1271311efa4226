"""A tiny corpus and configuration that the tests of training share."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import config
from common.audio import waveform
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.training.run import NAME, Run
from tests.training import directory_of

TOY = Path(__file__).resolve().parents[2] / "configs" / "fastpitch" / "toy.toml"
WORDS = ("one", "two", "red", "blue", "cat", "dog")
RATE = 8000


def write_corpus(root: Path, *, train: int = 12, validation: int = 5) -> Path:
    """Two LJSpeech folders whose "speech" is a tone per letter: fast to make, and learnable."""
    random = np.random.default_rng(0)
    for subset, count in (("train", train), ("validation", validation)):
        (root / subset / "wavs").mkdir(parents=True)
        lines = []
        for i in range(count):
            text = " ".join(random.choice(WORDS, size=2 + i % 3))
            samples = np.concatenate([tone(letter, 700 + 100 * (i % 2)) for letter in text])
            noise = 0.01 * random.standard_normal(len(samples))
            id_ = f"{subset.upper()}-{i:04d}"
            waveform.write(root / subset / "wavs" / f"{id_}.wav", (0.5 * samples + noise).astype(np.float32), RATE)
            lines.append(f"{id_}|{text}|{text}\n")
        (root / subset / "metadata.csv").write_text("".join(lines))
    return root


def tone(letter: str, samples: int) -> np.ndarray:
    hertz = 120 + 12 * (ord(letter) % 29)
    return np.sin(np.arange(samples) * 2 * np.pi * hertz / RATE) * (letter != " ")


def toy_config(root: Path, output_dir: Path, **changes: object) -> Config:
    """configs/fastpitch/toy.toml on the corpus at `root`, with top-level `changes`."""
    cfg = config.load(Config, TOY)
    return replace(cfg, data=replace(cfg.data, root=root), output_dir=output_dir, **changes)  # type: ignore[arg-type]


@contextlib.contextmanager
def run_of(cfg: Config) -> Iterator[Run]:
    """The run as a training begins it."""
    with directory_of(cfg, NAME) as directory:
        yield Run(cfg, directory)
