"""A corpus of tones and configurations for the tests of vocoder training."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import config
from common.audio import waveform
from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.training.run import Run, name_of
from tests.training import directory_of

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
RATE = 22050
LENGTHS = (9000, 2048, 2049, 500, 30000, 12345)  # the second is exactly a segment of the toy configuration


def write_corpus(root: Path, *, lengths: tuple[int, ...] = LENGTHS) -> Path:
    """Clips of these lengths, all in train.txt and the last two in validation.txt too."""
    (root / "wavs").mkdir(parents=True)
    random = np.random.default_rng(0)
    lines = []
    for i, length in enumerate(lengths):
        tone = 0.3 * np.sin(np.arange(length) * 0.05 * (1 + i)) + 0.01 * random.standard_normal(length)
        waveform.write(root / "wavs" / f"c{i}.wav", tone.astype(np.float32), RATE)
        lines.append(f"wavs/c{i}.wav|tone {i}\n")
    (root / "train.txt").write_text("".join(lines))
    (root / "validation.txt").write_text("".join(lines[-2:]))
    return root


def hifigan_config(root: Path, output_dir: Path, **changes: object) -> HifiganRun:
    """configs/hifigan/toy.toml on the corpus at `root`, with top-level `changes`."""
    cfg = config.load(HifiganRun, CONFIGS / "hifigan" / "toy.toml")
    cfg = replace(cfg, data=replace(cfg.data, root=root), output_dir=output_dir, batch_size=2)
    return replace(cfg, **changes)  # type: ignore[arg-type]


def waveglow_config(root: Path, output_dir: Path, **changes: object) -> WaveglowRun:
    """configs/waveglow/toy.toml likewise, with short frames."""
    cfg = config.load(WaveglowRun, CONFIGS / "waveglow" / "toy.toml")
    features = replace(cfg.features, mel_bins=16, n_fft=256, window_samples=256, hop_samples=64)
    cfg = replace(cfg, data=replace(cfg.data, root=root), features=features, output_dir=output_dir, batch_size=2)
    return replace(cfg, **changes)  # type: ignore[arg-type]


@contextlib.contextmanager
def run_of(cfg: HifiganRun | WaveglowRun) -> Iterator[Run]:
    """The run as a training begins it."""
    with directory_of(cfg, name_of(cfg)) as directory:
        yield Run(cfg, directory)
