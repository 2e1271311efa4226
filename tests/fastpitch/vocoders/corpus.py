"""A corpus of tones for the tests of vocoder training."""

from pathlib import Path

import numpy as np

from common import audio

RATE = 22050
LENGTHS = (9000, 2048, 2049, 500, 30000, 12345)  # the second is exactly a segment of the toy configuration


def write_corpus(root: Path, *, lengths: tuple[int, ...] = LENGTHS) -> Path:
    """Clips of these lengths, all in train.txt and the last two in validation.txt too."""
    (root / "wavs").mkdir(parents=True)
    random = np.random.default_rng(0)
    lines = []
    for i, length in enumerate(lengths):
        tone = 0.3 * np.sin(np.arange(length) * 0.05 * (1 + i)) + 0.01 * random.standard_normal(length)
        audio.write(root / "wavs" / f"c{i}.wav", tone.astype(np.float32), RATE)
        lines.append(f"wavs/c{i}.wav|tone {i}\n")
    (root / "train.txt").write_text("".join(lines))
    (root / "validation.txt").write_text("".join(lines[-2:]))
    return root
