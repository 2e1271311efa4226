"""Voices by name: where they are looked for, and what is said where there is none."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

import fastpitch
from common import config
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch import pack, voices
from fastpitch.acoustic.config import Config
from tests.fastpitch import tiny
from tests.fastpitch.vocoders.small import HIFIGAN, ISTFT, save_hifigan


@pytest.fixture
def packed(tmp_path, monkeypatch, capsys) -> Path:
    """A toy voice of the name `toy`, packed into the first of two folders."""
    monkeypatch.setenv("SPEECH_VOICES", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    cfg = Config(model=tiny.SMALL, text=tiny.LETTERS, output_dir=tmp_path / "secret")
    weights = tiny.tiny_model().state_dict()
    state = {"format": "fastpitch", "config": config.to_dict(cfg), "weights": weights, "ema": None}
    checkpoint.save(tmp_path / "fastpitch_best.pt", state)
    vocoder = save_hifigan(tmp_path / "hifigan_best.pt", ISTFT, ema=True)
    made = pack.main(pack.PackConfig(name="toy", fastpitch=tmp_path / "fastpitch_best.pt", vocoder=vocoder))
    assert "SHA-256" in capsys.readouterr().out
    return made


def test_a_packed_voice_is_found_by_its_name_and_speaks(packed, tmp_path):
    assert packed == tmp_path / "first" / "toy"
    said = fastpitch.load("toy").synthesize("Hello.", vocoder=fastpitch.load_vocoder("toy"))
    whole = fastpitch.load(tmp_path / "fastpitch_best.pt").synthesize(
        "Hello.", vocoder=fastpitch.load_vocoder(tmp_path / "hifigan_best.pt")
    )
    assert len(said.samples) == len(whole.samples)
    assert abs(said.samples - whole.samples).max() < 0.01 * abs(whole.samples).max() + 1e-3


def test_a_packed_voice_is_small_and_tells_nothing_of_where_it_was_trained(packed, tmp_path):
    for part in (voices.ACOUSTIC, voices.VOCODER):
        state = checkpoint.load(packed / part)
        weights = state.get("weights") or state["generator"]
        numbers = [weight for weight in weights.values() if weight.is_floating_point()]
        assert all(weight.dtype == (torch.float16 if weight.ndim > 1 else torch.float32) for weight in numbers)
        assert not any("aligner" in name for name in weights)  # speech never reads it
        assert "secret" not in str(state["config"])
        assert str(tmp_path) not in str(state["config"])


def test_a_voice_may_be_packed_with_corrections(packed, tmp_path):
    parts = {"fastpitch": tmp_path / "fastpitch_best.pt", "vocoder": tmp_path / "hifigan_best.pt"}
    pack.main(pack.PackConfig(name="better", corrections=16, phases="pulses", **parts))
    assert fastpitch.load_vocoder("better").generator.cfg.corrections == 16
    assert fastpitch.load_vocoder("better").generator.cfg.phases == "pulses"
    assert fastpitch.load_vocoder("toy").generator.cfg.corrections == 0


def test_a_voice_may_be_packed_again_by_its_name(packed):
    again = pack.main(pack.PackConfig(name="again", fastpitch=Path("toy"), vocoder=Path("toy"), corrections=4))
    assert fastpitch.load_vocoder("again").generator.cfg.corrections == 4
    assert (again / voices.ACOUSTIC).read_bytes() == (packed / voices.ACOUSTIC).read_bytes()


def test_the_folder_of_a_voice_is_taken_as_its_name_is(packed, monkeypatch):
    assert voices.located(packed, voices.VOCODER) == packed / voices.VOCODER
    monkeypatch.chdir(packed.parent)
    fastpitch.load("toy")
    save_hifigan(packed / voices.VOCODER, ISTFT)
    with pytest.raises(CheckpointError, match="vocoder.pt: its SHA-256 is .* pack the voice again"):
        fastpitch.load_vocoder("toy")


@pytest.mark.parametrize("name", ["../toy", "toy/../toy", "..", "~/toy", "/toy", "toy\0", "toy\n"])
def test_a_name_leads_nowhere_but_into_the_folders_of_voices(packed, monkeypatch, tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert not voices.is_name(name)
    with pytest.raises(CheckpointError):
        fastpitch.load(name)


def test_the_second_folder_is_searched_too(packed, tmp_path):
    packed.parent.rename(tmp_path / "second")
    assert voices.located("toy", voices.VOCODER) == tmp_path / "second" / "toy" / "vocoder.pt"


def test_the_default_folder_is_in_the_cache(monkeypatch):
    monkeypatch.delenv("SPEECH_VOICES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert voices.folders() == [Path("/somewhere/speech-models/voices")]


def test_a_voice_that_is_not_there_names_the_folders_and_the_command_that_makes_it(monkeypatch, tmp_path):
    monkeypatch.setenv("SPEECH_VOICES", str(tmp_path))
    told = rf"ljspeech-mini: no such file, and no voice of that name \(fastpitch.pt\) in {tmp_path}; "
    with pytest.raises(CheckpointError, match=told + "bash scripts/fastpitch/ljspeech_mini.sh makes it"):
        fastpitch.load("ljspeech-mini")
    with pytest.raises(CheckpointError, match=rf"nobody: .*\(vocoder.pt\) in {tmp_path}$"):
        fastpitch.load_vocoder("nobody")


def test_a_file_that_is_not_the_one_that_was_packed_is_refused(packed):
    save_hifigan(packed / voices.VOCODER, ISTFT)
    with pytest.raises(CheckpointError, match="vocoder.pt: its SHA-256 is .* pack the voice again"):
        fastpitch.load_vocoder("toy")
    fastpitch.load("toy")
    (packed / voices.SUMS).unlink()
    fastpitch.load_vocoder("toy")  # without checksums the file's own seal has to do


@pytest.mark.parametrize("content", [b"", b"x\n", b"\xff\xfe", b"0" * 64 + b"  other.pt\n"])
def test_damaged_checksums_are_told_as_damage(packed, content):
    (packed / voices.SUMS).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"fastpitch.pt: its SHA-256 is .*, and SHA256SUMS says nothing"):
        fastpitch.load("toy")


def test_checksums_may_be_those_of_sha256sum(packed):
    written = "".join(f"{voices.checksum(packed / part)} *{part}\n" for part in (voices.ACOUSTIC, voices.VOCODER))
    (packed / voices.SUMS).write_text(written)
    fastpitch.load("toy")


def test_the_recipe_of_every_known_voice_is_there():
    root = Path(__file__).resolve().parents[2]
    assert all((root / command.split()[-1]).is_file() for command in voices.RECIPES.values())


@pytest.mark.parametrize("name", ["a/b", "x.pt", ""])
def test_names_that_could_be_files_are_refused(name):
    with pytest.raises(ValueError, match="expected a name of letters"):
        pack.PackConfig(name=name, fastpitch=Path("a.pt"), vocoder=Path("b.pt"))


def test_what_cannot_be_packed_is_named(packed, tmp_path):
    wrong = tmp_path / "hifigan_best.pt"
    with pytest.raises(CheckpointError, match=r"hifigan_best.pt: not a checkpoint of this repository"):
        pack.main(pack.PackConfig(name="x", fastpitch=wrong, vocoder=wrong))


def test_a_folder_that_cannot_be_written_is_one_line(packed, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    given = ["pack", "x", "--fastpitch", "toy", "--vocoder", "toy", "--folder", str(tmp_path / "file")]
    monkeypatch.setattr(sys, "argv", given)
    monkeypatch.delitem(sys.modules, "fastpitch.pack")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("fastpitch.pack", run_name="__main__")
    assert ended.value.code == 2
    assert str(tmp_path / "file") in capsys.readouterr().err.removeprefix("error: ").splitlines()[-1]


def test_corrections_that_cannot_be_are_named(packed, tmp_path):
    parts = {"name": "x", "fastpitch": tmp_path / "fastpitch_best.pt"}
    light, other = tmp_path / "hifigan_best.pt", save_hifigan(tmp_path / "hifigan.pt", HIFIGAN)
    with pytest.raises(CheckpointError, match=r"hifigan_best.pt: corrections = 200: expected 0 to 100"):
        pack.main(pack.PackConfig(vocoder=light, corrections=200, **parts))
    with pytest.raises(CheckpointError, match=r"corrections = 16: is a HiFi-GAN; the light vocoder alone has them"):
        pack.main(pack.PackConfig(vocoder=other, corrections=16, **parts))
    with pytest.raises(CheckpointError, match=r"phases = pulses: is a HiFi-GAN; the light vocoder alone has them"):
        pack.main(pack.PackConfig(vocoder=other, phases="pulses", **parts))
    assert not (tmp_path / "first" / "x").exists()
