"""Speed perturbation: which speed an utterance gets in an epoch, and copies at other speeds made beforehand.

Ko et al. 2015, "Audio augmentation for speech recognition": speech at 0.9 and 1.1 times the speed, by resampling.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from common.audio import waveform as audio
from common.config import check_shares
from common.data.manifest import Utterance
from common.files.stores import Stored


@dataclass(frozen=True, kw_only=True)
class SpeedConfig:
    """Speed perturbation of the training utterances."""

    mode: Literal["none", "offline", "discrete", "continuous"] = "none"
    """Speeds that are drawn from. offline: the recording or one of its copies at other speeds, all equally likely, as
    the manifest lists them; discrete: one of `rates`, all equally likely; continuous: any speed between `min_rate` and
    `max_rate`."""
    rates: tuple[float, ...] = (0.9, 1.0, 1.1)
    """Speeds of mode discrete."""
    min_rate: float = 0.85
    """Slowest speed of mode continuous."""
    max_rate: float = 1.15
    """Fastest speed of mode continuous."""
    probability: float = 1.0
    """Share of the utterances that get a speed drawn in an epoch; the others stay as they are. In every mode."""

    def __post_init__(self) -> None:
        check_shares(self, "probability")
        if not self.rates or not (min(self.rates) > 0 and 0 < self.min_rate <= self.max_rate < math.inf):
            raise ValueError(
                f"speed: rates are {self.rates}, min_rate {self.min_rate} and max_rate {self.max_rate}; "
                "expected positive numbers, at least one rate, and min_rate <= max_rate"
            )


class Version(NamedTuple):
    """How an utterance is to be had in an epoch: a file, the speed it was made at, and the change still to make."""

    audio: Path | Stored
    recorded_speed: float = 1.0
    change: float = 1.0


def draw_version(utterance: Utterance, cfg: SpeedConfig, *, seed: int, epoch: int, index: int) -> Version:
    """The version of the utterance in this epoch: a function of its arguments alone."""
    original = Version(utterance.audio)
    if cfg.mode == "none":
        return original
    random = np.random.default_rng((seed, epoch, index))
    if random.random() >= cfg.probability:
        return original
    if cfg.mode == "continuous":
        return Version(utterance.audio, change=random.uniform(cfg.min_rate, cfg.max_rate))
    if cfg.mode == "discrete":
        return Version(utterance.audio, change=cfg.rates[random.integers(len(cfg.rates))])
    versions = (original, *(Version(path, recorded_speed=speed) for speed, path in utterance.speeds))
    return versions[random.integers(len(versions))]


def prepare_speeds(
    utterances: Sequence[Utterance], rates: Sequence[float], *, root: Path, workers: int | None = None
) -> list[Utterance]:
    """Writes a FLAC copy of each recording at each speed, in parallel, and returns the utterances that list them.

    The copy of ROOT/a/b.flac at 0.9 is ROOT-speed0.9/a/b.flac, at the same sample rate. A copy that is there
    already is kept. A recording that cannot be read raises AudioError.
    """
    whole = [u for u in utterances if isinstance(u.audio, Path)]  # shards are written once
    recordings = list(dict.fromkeys(Path(str(u.audio)) for u in whole))
    with ProcessPoolExecutor(workers) as pool:
        try:
            found = pool.map(partial(_copies, rates=tuple(rates), root=root), recordings, chunksize=16)
            copies = dict(zip(recordings, found, strict=True))
        except audio.AudioError:
            pool.shutdown(cancel_futures=True)
            raise
    return [replace(u, speeds=tuple(zip(rates, copies[Path(str(u.audio))], strict=True))) for u in whole]


def _copies(recording: Path, *, rates: tuple[float, ...], root: Path) -> list[Path]:
    """The copies of one recording, made where they are missing. Raises AudioError where it cannot be read."""
    name = recording.relative_to(root).with_suffix(".flac")
    copies = [root.with_name(f"{root.name}-speed{rate:g}") / name for rate in rates]
    for copy, rate in zip(copies, rates, strict=True):
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            samples, sample_rate = audio.read(recording)
            audio.write(copy, audio.change_speed(samples, rate), sample_rate)
    return copies
