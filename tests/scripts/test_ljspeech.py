"""The script that makes LJSpeech ready, on a small archive."""

import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.data.manifest import read_manifest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def ljspeech():
    """The script as a module of its own."""
    spec = importlib.util.spec_from_file_location("ljspeech", REPOSITORY / "scripts/data/ljspeech.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wav() -> bytes:
    content = io.BytesIO()
    soundfile.write(content, 0.1 * np.sin(np.arange(11_025) * 0.1), 22_050, format="WAV")
    return content.getvalue()


@pytest.fixture
def archives(tmp_path, ljspeech, monkeypatch) -> Path:
    """A folder with an archive of three clips: of training, validation and test."""
    rows = "LJ001-0001|One, 1|One, one\nLJ001-0110|Two|Two\nLJ001-0015|Three|Three\n"
    files = {"LJSpeech-1.1/README": b"about", "LJSpeech-1.1/metadata.csv": rows.encode()}
    files |= {f"LJSpeech-1.1/wavs/{row.split('|')[0]}.wav": wav() for row in rows.splitlines()}
    folder = tmp_path / "archives"
    folder.mkdir()
    path = folder / "LJSpeech-1.1.tar.bz2"
    with tarfile.open(path, "w:bz2") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    monkeypatch.setattr(ljspeech, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return folder


def test_an_archive_becomes_a_folder_with_the_published_lists(ljspeech, archives, tmp_path, capsys):
    ljspeech.main(ljspeech.LJSpeechConfig(data_dir=tmp_path / "data", from_=archives))
    folder = tmp_path / "data/LJSpeech-1.1"
    assert f"{folder}: 3 clips, 0.00 hours; file lists in filelists/" in capsys.readouterr().out
    lists = folder / "filelists"
    assert (lists / "ljs_audio_pitch_text_train_v3.txt").read_text() == (
        "wavs/LJ001-0001.wav|pitch/LJ001-0001.pt|One, one\n"
    )
    assert (lists / "ljs_audio_text_val.txt").read_text() == "wavs/LJ001-0110.wav|Two\n"
    (test,) = read_manifest(lists / "ljs_audio_pitch_text_test.txt", root=folder).utterances
    assert (test.id, test.text, test.seconds) == ("LJ001-0015", "Three", 0.5)


def test_the_second_time_only_the_lists_are_written(ljspeech, archives, tmp_path):
    ljspeech.main(ljspeech.LJSpeechConfig(data_dir=tmp_path / "data", from_=archives))
    (archives / "LJSpeech-1.1.tar.bz2").unlink()
    ljspeech.main(ljspeech.LJSpeechConfig(data_dir=tmp_path / "data", from_=archives))


def test_600_clips_are_held_out(ljspeech):
    held_out = ljspeech.read_held_out()
    assert {name: len(ids) for name, ids in held_out.items()} == {"val": 100, "test": 500}
    assert not held_out["val"] & held_out["test"]


def test_what_is_missing_or_damaged_is_told(ljspeech, archives, tmp_path):
    ljspeech.SHA256 = "0" * 64
    with pytest.raises(SystemExit, match=r"not ready: .*LJSpeech-1.1.tar.bz2: SHA256 checksum is .*: damaged"):
        ljspeech.main(ljspeech.LJSpeechConfig(data_dir=tmp_path / "data", from_=archives))
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match=r"file: cannot be used \(File exists\); set DATA_DIR to a folder"):
        ljspeech.main(ljspeech.LJSpeechConfig(data_dir=tmp_path / "file", from_=archives))


def test_the_shell_script_passes_its_variables_and_arguments_on(tmp_path):
    environment = {**os.environ, "DATA_DIR": str(tmp_path / "my data"), "SPEECH_PYTHON": sys.executable}
    command = ["bash", REPOSITORY / "scripts/data/ljspeech.sh", "--from", tmp_path]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"not ready: {tmp_path}/LJSpeech-1.1.tar.bz2: no such archive; put it there")
