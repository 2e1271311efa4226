"""Whatever is wrong with the input is one line that names it; what is good is used nevertheless."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common import config
from tests.jasper.tiny import run, tiny_config

RATE = 16_000


def write(path: Path, seconds: float) -> Path:
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, round(seconds * RATE)), RATE, subtype="FLOAT")
    return path


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A good line, one that is not JSON, one without audio, one whose audio is damaged, another good line."""
    first, last, nan = write(tmp_path / "first.wav", 1.0), write(tmp_path / "last.wav", 2.0), tmp_path / "nan.wav"
    soundfile.write(nan, np.full(RATE, np.nan), RATE, subtype="FLOAT")
    lines = [
        json.dumps({"id": "good", "audio_filepath": str(first), "duration": 1.0, "text": "one two"}),
        '{"audio_filepath": "broken',
        json.dumps({"id": "gone", "audio_filepath": "gone.wav", "duration": 1.0, "text": "three"}),
        json.dumps({"id": "damaged", "audio_filepath": str(nan), "duration": 1.0, "text": "four"}),
        json.dumps({"id": "fine", "audio_filepath": str(last), "duration": 2.0, "text": "five"}),
    ]
    path = tmp_path / "manifest.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_malformed_manifest_lines_are_named_and_the_others_evaluated(model, manifest, capsys):
    said = run(capsys, "jasper.evaluation", model, manifest, "--workers", 0)
    assert said.status == 1
    assert said.out[0] == "utterances 2"
    assert any(line.startswith(f"{manifest}:2: not JSON") for line in said.err)
    assert any(line.startswith(f"{manifest}:3: utterance gone: no such audio file: ") for line in said.err)
    assert any(
        f"{manifest.parent}/nan.wav: holds samples that are NaN or infinite; write " in line for line in said.err
    )
    assert len(said.err) == 4
    assert said.err[-1] == "error: 3 utterances could not be read; the others follow"


class Harmful:
    """Unpickled as it wants to be, it would create a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("module", ["jasper.inference", "jasper.evaluation", "jasper.train"])
def test_a_bad_checkpoint_is_one_line_and_executes_nothing(tmp_path, capsys, module):
    path, own = tmp_path / "code.pt", tmp_path / "run.toml"
    torch.save({"state_dict": Harmful(tmp_path / "executed")}, path)
    own.write_text(config.to_toml(tiny_config()))
    training = (own, "--checkpoint", path, "--output_dir", tmp_path / "run", "--tensorboard", "false")
    said = run(capsys, module, *(training if module == "jasper.train" else (path, tmp_path)))
    assert (said.status, len(said.err)) == (2, 1)
    assert said.err[0].startswith(f"error: {path}: refused: it wants to run ")
    assert not (tmp_path / "executed").exists()


def test_training_without_a_configuration_says_which_ones_there_are(tmp_path, capsys):
    said = run(capsys, "jasper.train", "--output_dir", tmp_path / "run", "--device", "cpu")
    assert said.status == 2
    assert said.err[0].startswith("error: model.blocks is empty: name a configuration, such as configs/jasper/")
    assert len(said.err) == 1


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_transcript_longer_than_its_frames_ends_training_or_is_left_out(tmp_path, capsys, on_error):
    manifest = tmp_path / "train.jsonl"
    texts = {"first": "good", "last": "x" * 101}  # 2 s are 100 output frames
    audio = {id: write(tmp_path / f"{id}.wav", 2.0) for id in texts}
    lines = [{"id": id, "audio_filepath": str(audio[id]), "duration": 2.0, "text": text} for id, text in texts.items()]
    manifest.write_text("\n".join(map(json.dumps, lines)))
    cfg = tiny_config(train=(str(manifest),), on_error=on_error, workers=0)
    own = tmp_path / "run.toml"
    own.write_text(config.to_toml(replace(cfg, epochs=1, batch_size=2, tensorboard=False)))
    said = run(capsys, "jasper.train", own, "--output_dir", tmp_path / "run")
    (line,) = (line for line in said.out + said.err if "labels do not fit into" in line)
    assert f"utterance last: 101 labels do not fit into the 100 encoder frames of {audio['last']}" in line
    if on_error == "stop":
        assert (said.status, said.err) == (2, [line])
        assert line.startswith("error: ")
    else:
        assert (said.status, said.err) == (0, [])
        assert any("left out" in line for line in said.out)


def test_training_on_a_manifest_that_cannot_be_used_is_one_line(manifest, tmp_path, capsys):
    own = tmp_path / "run.toml"
    own.write_text(config.to_toml(tiny_config(train=(str(manifest),))))
    said = run(capsys, "jasper.train", own, "--output_dir", tmp_path / "run", "--tensorboard", "false")
    assert said.status == 2
    assert len(said.err) == 1
    assert said.err[0].startswith(f"error: {manifest}:2: not JSON")
