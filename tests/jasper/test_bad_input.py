"""Whatever is wrong with the input is one line that names it; what is good is used nevertheless."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common import config
from tests.jasper.tiny import Said, run, tiny_config

RATE = 16_000
ENTRY_POINTS = ("jasper.inference", "jasper.evaluation", "jasper.train")


def noise(seconds: float) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


def write(path: Path, samples: np.ndarray, rate: int = RATE, subtype: str = "FLOAT") -> Path:
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


def truncated(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


@pytest.fixture
def recordings(tmp_path: Path) -> dict[str, Path]:
    """One of each kind, in the order in which they are given to the recogniser."""
    with_nan = noise(1.0)
    with_nan[500] = np.nan
    found = {name: tmp_path / f"{name}.wav" for name in ("first", "empty", "text", "missing")}
    write(found["first"], noise(1.0))
    found["empty"].write_bytes(b"")
    found["text"].write_text("This is no audio, whatever its name says. " * 20)
    return found | {
        "folder": (tmp_path / "folder.wav"),
        "truncated-wav": truncated(write(tmp_path / "truncated-wav.wav", noise(1.0))),
        "truncated-flac": truncated(write(tmp_path / "truncated-flac.flac", noise(1.0), subtype="PCM_16")),
        "three": write(tmp_path / "three.wav", np.full(3, 0.5, np.float32)),
        "no-samples": write(tmp_path / "no-samples.wav", noise(0.0)),
        "silent": write(tmp_path / "silent.wav", np.zeros(RATE, np.float32)),
        "nan": write(tmp_path / "nan.wav", with_nan),
        "stereo": write(tmp_path / "stereo.wav", np.stack([noise(6.0), noise(6.0)], 1), 96_000),
        "last": write(tmp_path / "last.wav", noise(2.0)),
    }


GOOD = ("first", "three", "silent", "stereo", "last")
BAD = {
    "empty": "the file is empty (0 bytes); expected audio",
    "text": "cannot be read as audio",
    "missing": "no such file; expected an audio file",
    "folder": "no such file; expected an audio file",
    "truncated-wav": "truncated: its header promises 64000 bytes but",
    "truncated-flac": "truncated or damaged: 16000 samples are promised, but:",
    "no-samples": "holds 0 samples",
    "nan": "holds samples that are NaN or infinite; write the file again from its source",
}


def test_bad_recordings_are_named_and_good_ones_transcribed(model, recordings, capsys):
    said = run(capsys, "jasper.inference", model, *recordings.values())
    assert said.status == 1
    assert [line.split("\t")[0] for line in said.out] == [str(recordings[name]) for name in GOOD]
    for name, message in BAD.items():
        (line,) = (line for line in said.err if line.startswith(f"{recordings[name]}: "))
        assert message in line
    assert f"{recordings['silent']}: no speech in its 1.00 s" in said.err
    assert said.err[-1] == f"error: {len(BAD)} of {len(recordings)} could not be transcribed"
    notes = [line for line in said.err if "no speech in its" in line]
    assert len(said.err) == len(BAD) + len(notes) + 1


def test_a_bad_recording_does_not_change_the_text_of_the_others(model, recordings, capsys):
    together = run(capsys, "jasper.inference", model, *recordings.values())
    alone = run(capsys, "jasper.inference", model, *(recordings[name] for name in GOOD))
    assert alone.status == 0
    assert together.out == alone.out


@pytest.fixture
def manifest(recordings: dict[str, Path], tmp_path: Path) -> Path:
    """A good line, one that is not JSON, one without audio, one whose audio is damaged, another good line."""
    lines = [
        json.dumps({"id": "good", "audio_filepath": str(recordings["first"]), "duration": 1.0, "text": "one two"}),
        '{"audio_filepath": "broken',
        json.dumps({"id": "gone", "audio_filepath": "gone.wav", "duration": 1.0, "text": "three"}),
        json.dumps({"id": "damaged", "audio_filepath": str(recordings["nan"]), "duration": 1.0, "text": "four"}),
        json.dumps({"id": "fine", "audio_filepath": str(recordings["last"]), "duration": 2.0, "text": "five"}),
    ]
    path = tmp_path / "manifest.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def assert_names_all_three(said: Said, manifest: Path, recordings: dict[str, Path]) -> None:
    assert any(line.startswith(f"{manifest}:2: not JSON") for line in said.err)
    assert any(line.startswith(f"{manifest}:3: utterance gone: no such audio file: ") for line in said.err)
    assert any(f"{recordings['nan']}: holds samples that are NaN" in line for line in said.err)


def test_malformed_manifest_lines_are_named_and_the_others_transcribed(model, manifest, recordings, capsys):
    said = run(capsys, "jasper.inference", model, manifest)
    assert said.status == 1
    assert [line.split("\t")[0] for line in said.out] == ["good", "fine"]
    assert_names_all_three(said, manifest, recordings)
    assert said.err[-1] == "error: 3 of 5 could not be transcribed"
    assert said.err[-2].endswith("in 3 words of 2 utterances")


def test_malformed_manifest_lines_are_named_and_the_others_evaluated(model, manifest, recordings, capsys):
    said = run(capsys, "jasper.evaluation", model, manifest, "--workers", 0)
    assert said.status == 1
    assert said.out[0] == "utterances 2"
    assert_names_all_three(said, manifest, recordings)
    assert len(said.err) == 4
    assert said.err[-1] == "error: 3 utterances could not be read; the others follow"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.jsonl", None, "gone.jsonl: no such file or folder; expected a manifest"),
        ("bad.jsonl", "{", "bad.jsonl: none of its 1 utterances can be used; "),
        ("binary.txt", b"a\n\x80\x00", "binary.txt:2: byte 0x80 is not UTF-8; convert it to UTF-8"),
        ("cut.txt", b"\xff\xfe\x00", "cut.txt:1: byte 0x0 is not UTF-16-LE; convert it to UTF-8"),
        ("bare", "folder", "bare: no audio in this folder"),
    ],
)
def test_an_input_without_recordings_is_named(model, recordings, tmp_path, capsys, name, content, message):
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = run(capsys, "jasper.inference", model, path, recordings["first"])
    assert said.status == 1
    assert len(said.out) == 1
    assert message in said.err[0]
    assert said.err[1:] == ["error: 1 of 2 could not be transcribed"]


class Harmful:
    """Unpickled as it wants to be, it would create a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def checkpoints(model: Path, tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Files that are no checkpoint, and what is said of each."""
    (tmp_path / "cut.pt").write_bytes(model.read_bytes()[:20_000])
    (tmp_path / "empty.pt").write_bytes(b"")
    torch.save({"state_dict": Harmful(tmp_path / "executed")}, tmp_path / "code.pt")
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Harmful(tmp_path / "executed")))
    torch.save([1, 2], tmp_path / "list.pt")
    return {
        "missing": (tmp_path / "missing.pt", "no such checkpoint"),
        "truncated": (tmp_path / "cut.pt", "damaged or not a checkpoint"),
        "empty": (tmp_path / "empty.pt", "damaged or not a checkpoint"),
        "code": (tmp_path / "code.pt", "refused: it wants to run "),
        "old pickle with code": (tmp_path / "old.pt", "damaged or not a checkpoint"),
        "list": (tmp_path / "list.pt", "expected a dictionary, found list"),
    }


@pytest.mark.parametrize("kind", ["missing", "truncated", "empty", "code", "old pickle with code", "list"])
@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_a_bad_checkpoint_is_one_line_and_executes_nothing(checkpoints, tmp_path, capsys, module, kind):
    path, message = checkpoints[kind]
    arguments: tuple[object, ...] = (path, tmp_path)
    if module == "jasper.train":
        own = tmp_path / "run.toml"
        own.write_text(config.to_toml(tiny_config()))
        arguments = (own, "--checkpoint", path, "--output_dir", tmp_path / "run", "--tensorboard", "false")
    said = run(capsys, module, *arguments)
    assert said.status == 2
    assert len(said.err) == 1
    assert said.err[0].startswith(f"error: {path}: ")
    assert message in said.err[0]
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_an_unknown_flag_is_one_line_with_the_nearest_right_one(model, capsys, module):
    positional = () if module == "jasper.train" else (model, "a.wav")
    said = run(capsys, module, *positional, "--batch_sise", "3")
    assert said.status == 2
    assert len(said.err) == 1
    assert said.err[0].startswith("error: command line: ")
    assert "--batch_sise" in said.err[0]
    assert "--batch_size" in said.err[0]


@pytest.mark.parametrize("module", ENTRY_POINTS)
@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("epochs = = 3", "not valid TOML: Invalid value (at line 1, column 10)"),
        ("[data]\nmax_second = 3", "unknown key data.max_second; did you mean data.max_seconds?"),
        ("epochs = 'three'", "epochs = 'three': expected int, found str"),
    ],
)
def test_a_broken_configuration_is_one_line(model, recordings, tmp_path, capsys, module, toml, message):
    own = tmp_path / "own.toml"
    own.write_text(toml)
    arguments = (own,) if module == "jasper.train" else (model, recordings["first"], "--config", own)
    said = run(capsys, module, *arguments)
    assert said.status == 2
    assert said.err == [f"error: {own}: {message}"]


@pytest.mark.parametrize("module", ENTRY_POINTS[:2])
def test_a_device_that_is_not_there_is_one_line(model, recordings, capsys, module):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    said = run(capsys, module, model, recordings["first"], "--device", "cuda")
    assert said.status == 2
    assert len(said.err) == 1
    assert "sees no CUDA device; use --device cpu" in said.err[0]


def test_training_without_a_configuration_says_which_ones_there_are(tmp_path, capsys):
    said = run(capsys, "jasper.train", "--output_dir", tmp_path / "run", "--device", "cpu")
    assert said.status == 2
    assert said.err[0].startswith("error: model.blocks is empty: name a configuration, such as configs/jasper/")
    assert len(said.err) == 1


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_transcript_longer_than_its_frames_ends_training_or_is_left_out(recordings, tmp_path, capsys, on_error):
    manifest = tmp_path / "train.jsonl"
    texts = {"first": "good", "last": "x" * 101}  # 2 s are 100 output frames
    lines = [
        {"id": id, "audio_filepath": str(recordings[id]), "duration": 2.0, "text": text} for id, text in texts.items()
    ]
    manifest.write_text("\n".join(map(json.dumps, lines)))
    cfg = tiny_config(train=(str(manifest),), on_error=on_error, workers=0)
    own = tmp_path / "run.toml"
    own.write_text(config.to_toml(replace(cfg, epochs=1, batch_size=2, tensorboard=False)))
    said = run(capsys, "jasper.train", own, "--output_dir", tmp_path / "run")
    (line,) = (line for line in said.out + said.err if "labels do not fit into" in line)
    assert f"utterance last: 101 labels do not fit into the 100 encoder frames of {recordings['last']}" in line
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
