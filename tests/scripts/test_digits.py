import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from common.audio import waveform
from common.data.manifest import read_manifest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, ROOT / "scripts" / "data" / "digits.py", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_the_official_split_is_by_take(tmp_path):
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    for name in ("3_ann_0", "3_ann_4", "3_ann_5", "0_bob_49"):
        waveform.write(recordings / f"{name}.wav", np.zeros(800, np.float32), 8000)
    (recordings / "README.md").write_text("not a recording")
    told = run(tmp_path, tmp_path / "out")
    assert told.returncode == 0, told.stderr
    assert "test.jsonl: 2 clips, 0 s" in told.stdout
    test, train = (read_manifest(tmp_path / "out" / f"{name}.jsonl").utterances for name in ("test", "train"))
    assert [(u.id, u.text, u.speaker) for u in test] == [("3_ann_0", "three", "ann"), ("3_ann_4", "three", "ann")]
    assert [(u.id, u.text, u.speaker) for u in train] == [("0_bob_49", "zero", "bob"), ("3_ann_5", "three", "ann")]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [(["empty"], 1, "error: empty: no recordings named DIGIT_SPEAKER_TAKE.wav"), ([], 2, "usage: ")],
)
def test_a_folder_without_recordings_and_missing_arguments_are_told(arguments, status, message):
    told = run(*arguments)
    assert told.returncode == status
    assert told.stderr.startswith(message)
