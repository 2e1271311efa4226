"""The scripts that prepare corpora for FastPitch."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.data.manifest import read_manifest
from tests.data import shared

REPOSITORY = Path(__file__).resolve().parents[2]


def run(script: str, *arguments: object, **variables: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "SPEECH_PYTHON": sys.executable, "NUM_WORKERS": "1"}
    environment |= {name: str(value) for name, value in variables.items()}
    command = ["bash", REPOSITORY / "scripts/fastpitch" / script, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def sound(path: Path, rate: int = 22_050) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.sin(np.arange(rate // 2) * 0.05), rate)


def test_file_lists_are_prepared_beside_their_recordings(tmp_path):
    sound(tmp_path / "wavs/a.wav")
    (tmp_path / "filelists").mkdir()
    (tmp_path / "filelists/mine.txt").write_text("wavs/a.wav|pitch/a.pt|Hello.\n")
    told = run("prepare_dataset.sh", "--pitch.highest_hz", "500", DATA_DIR=tmp_path, FILELISTS="filelists/mine.txt")
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "pitch/a.pt").is_file()
    assert (tmp_path / "mels/a.pt").is_file()
    assert '"highest_hz": 500' in (tmp_path / "settings.json").read_text()


def test_the_bilingual_archive_is_unpacked_listed_and_prepared(tmp_path):
    corpus = tmp_path / "SF_bilingual"
    for id in ("com_SF_ce1", "com_SF_ce227", "com_SF_ce161"):
        sound(corpus / f"wavs/{id}.wav")
    (corpus / "text_SF.txt").write_text("\ufeffcom_DL_ce1 你好 hello\ncom_SF_ce227 好\ncom_SF_ce161 好－yes\n")
    with zipfile.ZipFile(tmp_path / "SF_bilingual.zip", "w") as inner:
        for path in corpus.rglob("*.*"):
            inner.write(path, path.relative_to(tmp_path))
    with zipfile.ZipFile(tmp_path / "files.zip", "w") as outer:
        outer.write(tmp_path / "SF_bilingual.zip", "SF_bilingual.zip")
    data = tmp_path / "data/SF_bilingual"
    told = run("mandarin_chinese/prepare_dataset.sh", tmp_path / "files.zip", DATA_DIR=data, ARGS="")
    assert told.returncode == 0, told.stderr
    train = (data / "filelists/sf_audio_pitch_text_train.txt").read_text(encoding="utf-8")
    assert train == "wavs/com_SF_ce1.wav|pitch/com_SF_ce1.pt|你好 hello\n"
    assert "好-yes" in (data / "filelists/sf_audio_pitch_text_test.txt").read_text(encoding="utf-8")
    assert len(list((data / "pitch").glob("*.pt"))) == 3
    assert not (data / "mels").exists()


def test_aishell_is_listed_with_its_speakers(tmp_path):
    (tmp_path / "data_aishell").symlink_to(shared("data/mandarin-mini/data_aishell"))
    command = [sys.executable, REPOSITORY / "scripts/data/mandarin.py", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    path = tmp_path / "filelists/aishell_audio_pitch_text_train.txt"
    assert told == f"{path}: 180 clips\n"
    utterances = read_manifest(path, root=tmp_path).utterances
    assert {utterance.speaker for utterance in utterances} == {"S0150", "S0252"}
    assert utterances[0].text == "其中有两个是内因的指标"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "neither text_SF.txt (SF_bilingual) nor data_aishell/transcript is in it"),
        (["none.zip"], "error: none.zip: cannot be unpacked into"),
    ],
)
def test_a_corpus_that_is_not_there_is_told(tmp_path, arguments, message):
    told = run("mandarin_chinese/prepare_dataset.sh", *arguments, DATA_DIR=tmp_path / "none")
    assert told.returncode == 1
    assert message in told.stderr
