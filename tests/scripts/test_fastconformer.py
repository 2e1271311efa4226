"""A script of scripts/fastconformer runs."""

import sys

import numpy as np
import soundfile

from tests.fastconformer.checkpoints import archives
from tests.scripts.calls import Folder


def test_a_recording_is_transcribed(tmp_path):
    archives.write(tmp_path / "model.nemo", archives.files())
    draw = np.random.default_rng(0)
    soundfile.write(tmp_path / "a.flac", draw.normal(0, 0.1, 16_000), 16_000)
    environment = {"CHECKPOINT": str(tmp_path / "model.nemo"), "BATCH_SIZE": "2"}
    done = Folder("fastconformer").call(
        "inference.sh", sys.executable, tmp_path / "a.flac", "--format", "json", **environment
    )
    assert done.returncode == 0, done.stderr
    assert '"duration": 1.0' in done.stdout
