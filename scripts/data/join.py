"""Longer recordings of the utterances of a manifest, for training recognisers that shall hear long recordings.

    python scripts/data/join.py MANIFEST OUTPUT [--utterances 4] [--recordings 2000] [--seed 0]

Draws that many utterances, one after the other, until there are so many recordings, and writes them as FLAC files and
OUTPUT/train.jsonl. A model that has only heard single sentences does not know what comes after the end of one: neither
another loudness nor another sentence.
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from tyro.conf import Positional, arg

from common import audio, config
from common.data.manifest import ManifestError, Utterance, read_manifest, write_jsonl


@dataclass(frozen=True, kw_only=True)
class JoinConfig:
    """What is joined, and where it goes."""

    manifest: Annotated[Path, Positional, arg(metavar="MANIFEST")]
    """A manifest, file list or corpus folder."""
    output: Annotated[Path, Positional, arg(metavar="OUTPUT")]
    """A folder for the recordings and their manifest, train.jsonl."""
    utterances: int = 4
    """Utterances of each recording."""
    recordings: int = 2000
    """Number of recordings."""
    sample_rate: int = 16_000
    """Sample rate of the recordings, in Hz."""
    seed: int = 0
    """Seed of the draw."""

    def __post_init__(self) -> None:
        if min(self.utterances, self.recordings) < 1:
            raise ValueError(f"utterances = {self.utterances}, recordings = {self.recordings}: expected above 0")


def main(cfg: JoinConfig) -> None:
    """Writes the recordings; says how many there are. Raises ManifestError."""
    spoken = read_manifest(cfg.manifest).utterances
    draw = random.Random(cfg.seed)
    cfg.output.mkdir(parents=True, exist_ok=True)
    joined = []
    for i in range(cfg.recordings):
        parts = [spoken[draw.randrange(len(spoken))] for _ in range(cfg.utterances)]
        read = (audio.read(part.audio, sample_rate=cfg.sample_rate, **part.piece()).samples for part in parts)
        samples_N = np.concatenate(list(read))
        path = cfg.output / f"{i:06d}.flac"
        audio.write(path, samples_N, cfg.sample_rate)
        text = " ".join(part.text for part in parts)
        seconds = len(samples_N) / cfg.sample_rate
        joined.append(Utterance(id=path.stem, audio=path, seconds=seconds, text=text))
    write_jsonl(cfg.output / "train.jsonl", joined)
    print(f"{cfg.output / 'train.jsonl'}: {len(joined)} recordings, {sum(u.seconds for u in joined) / 3600:.2f} h")


if __name__ == "__main__":
    with config.reported(ManifestError):
        main(config.parse_flags(JoinConfig, None, sys.argv[1:], description=__doc__ or ""))
