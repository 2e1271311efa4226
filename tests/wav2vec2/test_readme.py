"""wav2vec2/README.md is true: its commands of inference run, its example works, what it names is there."""

import re
from pathlib import Path

import numpy as np
import pytest

import ctc
from common.audio import waveform
from ctc.ngram import estimate
from tests.jasper.tiny import run
from tests.test_readme import REPOSITORY, blocks, commands
from tests.wav2vec2.small import ctc_model
from tests.wav2vec2.test_inference import save

FOLDER = REPOSITORY / "wav2vec2"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
PYTHON = [command for command in commands(README) if command[:3] == ["python", "-m", "wav2vec2.inference"]]


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Path:
    """A folder with what the commands name: a small model, a language model, half a second of noise."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "wav2vec2_finetuned.pt", ctc_model("base", layers=6))
    noise = (0.1 * np.random.default_rng(0).standard_normal(8000)).astype(np.float32)
    (tmp_path / "recordings").mkdir()
    for name in ("a.flac", "talk.wav", "call.wav", "recordings/c.wav"):
        waveform.write(tmp_path / name, noise, 16000)
    (tmp_path / "test.tsv").write_text(f"{tmp_path}\na.flac\t8000\n")
    ctc.write_arpa(tmp_path / "words.arpa", estimate([["TEA", "NOTE"]], order=2))
    return tmp_path


def test_the_commands_that_transcribe_run(workplace, capsys):
    assert len(PYTHON) == 6
    for command in PYTHON:
        said = run(capsys, *command[2:], "--device", "cpu")
        assert said.status == 0, (command, said.err)
    assert (workplace / "subtitles" / "talk.srt").is_file()
    assert np.load(workplace / "out" / "c.npy").shape == (24, 32)


def test_the_command_that_trains_on_a_folder_runs(tmp_path, monkeypatch, capsys):
    (command,) = [c for c in commands(README) if c[:3] == ["python", "-m", "wav2vec2.pretrain"]]
    (tmp_path / "configs").symlink_to(REPOSITORY / "configs")
    (tmp_path / "recordings").mkdir()
    for i in range(6):
        noise = (0.1 * np.random.default_rng(i).standard_normal(32000)).astype(np.float32)
        waveform.write(tmp_path / f"recordings/{i}.wav", noise, 16000)
    monkeypatch.chdir(tmp_path)
    said = run(capsys, *command[2:], "--stop_at", "1")
    assert said.status == 0, said.err
    assert (tmp_path / "runs/wav2vec2_toy_pretrain/wav2vec2_step00000001.pt").is_file()


@pytest.mark.usefixtures("workplace")
def test_the_python_interface_works_as_shown(capsys):
    (example,) = blocks(README, "python")[:1]
    exec(compile(example, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_tables_name_every_module():
    listed = {
        name for line in README.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+\.py)`", line)
    }
    assert listed >= {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
