"""scripts/data/join.py: longer recordings of the utterances of a manifest."""

import os
import subprocess
import sys

import numpy as np
import pytest

from common import audio
from common.data.manifest import Utterance, read_manifest, write_jsonl
from tests.scripts.test_digits import ROOT

JOIN = ROOT / "scripts" / "data" / "join.py"


def run(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(JOIN), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_recordings_are_those_of_their_utterances_one_after_the_other(tmp_path):
    utterances = []
    for i, word in enumerate(("ONE", "TWO")):
        audio.write(tmp_path / f"{i}.wav", np.full(800 * (i + 1), 0.25 * (i + 1), np.float32), 8_000)
        utterances.append(Utterance(id=str(i), audio=tmp_path / f"{i}.wav", seconds=0.1 * (i + 1), text=word))
    write_jsonl(tmp_path / "a.jsonl", utterances)
    options = ["--utterances", 3, "--recordings", 2, "--sample_rate", 8_000]
    done = run(tmp_path / "a.jsonl", tmp_path / "out", *options)
    assert "train.jsonl: 2 recordings" in done.stdout, done.stderr
    for joined in read_manifest(tmp_path / "out" / "train.jsonl").utterances:
        expected = np.concatenate(
            [np.full(800, 0.25) if word == "ONE" else np.full(1600, 0.5) for word in joined.text.split()]
        )
        np.testing.assert_allclose(audio.read(joined.audio).samples, expected, atol=1e-3)
        assert len(joined.text.split()) == 3


@pytest.mark.parametrize(
    ("option", "message"), [("--utterances", "utterances = 0"), ("--recordings", "recordings = 0")]
)
def test_impossible_numbers_are_named(tmp_path, option, message):
    done = run(tmp_path / "a.jsonl", tmp_path, option, 0)
    assert done.returncode == 2
    assert message in done.stderr
