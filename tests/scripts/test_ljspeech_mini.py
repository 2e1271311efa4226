"""The recipe of the voice `ljspeech-mini`: its lists, and the commands that it runs; `python` shows its arguments."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from common import config
from fastpitch.acoustic.config import Config
from fastpitch.vocoders.config import HifiganRun
from tests.scripts.calls import Folder

call = Folder("fastpitch").call

REPOSITORY = Path(__file__).resolve().parents[2]
LISTS = runpy.run_path(str(REPOSITORY / "scripts/fastpitch/ljspeech_mini.py"))


def corpus(root: Path, clips: int = 360, files: int = 354) -> Path:
    (root / "wavs").mkdir(parents=True)
    names = [f"LJ001-{number:04d}" for number in range(1, clips + 1)]
    (root / "metadata.csv").write_text("".join(f"{name}|1|one {name}\n" for name in names), encoding="utf-8")
    for name in names[:files]:
        (root / "wavs" / f"{name}.wav").touch()
    return root


def test_fifty_clips_are_held_out_and_twenty_of_them_are_for_copy_synthesis(tmp_path, capsys):
    LISTS["main"](corpus(tmp_path / "LJ"), tmp_path / "lists")
    found = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in (tmp_path / "lists").iterdir()}
    assert {name: len(rows) for name, rows in found.items()} == {
        "train": 304,
        "validation": 10,
        "test": 20,
        "unseen": 50,
    }
    assert not set(found["train"]) & set(found["unseen"])
    assert not set(found["validation"]) & set(found["test"])
    assert set(found["test"]) | set(found["validation"]) < set(found["unseen"])
    assert found["unseen"][0] == "wavs/LJ001-0004.wav|one LJ001-0004"
    assert "304 clips" in capsys.readouterr().out


def test_a_corpus_that_lacks_clips_is_an_error_of_one_line(tmp_path):
    with pytest.raises(SystemExit, match="has 300 of the first 354 clips; expected all"):
        LISTS["main"](corpus(tmp_path / "LJ", files=300), tmp_path / "lists")
    with pytest.raises(SystemExit, match=r"metadata.csv: no such file; bash scripts/data/ljspeech.sh"):
        LISTS["main"](tmp_path / "nothing", tmp_path / "lists")


def test_the_stages_follow_each_other_and_a_budget_stretches_all_of_them(python, tmp_path):
    told = call("ljspeech_mini.sh", python, DATA_DIR=str(tmp_path), RUN_DIR=str(tmp_path / "run"), BUDGET="2")
    assert told.returncode != 0  # nothing was trained: the next stage finds no checkpoint
    (tmp_path / "run" / "fastpitch").mkdir(parents=True)
    (tmp_path / "run" / "vocoder-adversarial").mkdir()
    (tmp_path / "run" / "vocoder").mkdir()
    (tmp_path / "run" / "vocoder" / "hifigan_step00000003.pt").touch()
    (tmp_path / "run" / "fastpitch-adversarial").mkdir()
    (tmp_path / "run" / "fastpitch-refined").mkdir()
    (tmp_path / "run" / "fastpitch-small").mkdir()
    (tmp_path / "run" / "fastpitch" / "fastpitch_step00000009.pt").touch()
    (tmp_path / "run" / "fastpitch-adversarial" / "fastpitch_step00000005.pt").touch()
    (tmp_path / "run" / "fastpitch-refined" / "fastpitch_step00000006.pt").touch()
    (tmp_path / "run" / "fastpitch-small" / "fastpitch_step00000004.pt").touch()
    (tmp_path / "run" / "vocoder-adversarial" / "hifigan_step00000007.pt").touch()
    variables = {"DATA_DIR": str(tmp_path), "RUN_DIR": str(tmp_path / "run"), "VOICES": str(tmp_path / "voices")}
    told = call("ljspeech_mini.sh", python, **variables)
    assert told.returncode == 0, told.stderr
    assert "fastpitch.mels" not in told.stdout
    assert str(tmp_path / "run/vocoder-adversarial/hifigan_final.pt") in told.stdout
    assert str(tmp_path / "run/vocoder/hifigan_step00000003.pt") in told.stdout
    (tmp_path / "run" / "vocoder" / "hifigan_best.pt").touch()
    told = call("ljspeech_mini.sh", python, **variables, BUDGET="2", TUNE="8")
    assert told.returncode == 0, told.stderr
    said = told.stdout.split("\n")
    modules = [said[place + 1] for place, word in enumerate(said) if word == "-m"]
    vocoder = "fastpitch.vocoders.train"
    acoustic = ["fastpitch.align", *4 * ["fastpitch.train"]]
    assert modules == [vocoder, vocoder, *acoustic, "fastpitch.mels", vocoder, "fastpitch.pack"]
    assert [said[place + 1] for place, word in enumerate(said) if word == "--epochs"] == [
        "120",
        "52",
        "80",
        "32",
        "100",
        "60",
        "8",
    ]
    assert said.count(str(tmp_path / "run/fastpitch-adversarial/fastpitch_step00000005.pt")) == 1  # for the refiner
    assert (
        said.count(str(tmp_path / "run/fastpitch-refined/fastpitch_step00000006.pt")) == 2
    )  # the small one's start and teacher
    assert said.count(str(tmp_path / "run/fastpitch-small/fastpitch_step00000004.pt")) == 2  # spectrograms, voice
    assert said[said.index("--steps") + 1] == "6080"
    assert str(tmp_path / "run/vocoder-adversarial/hifigan_step00000007.pt") in said
    assert str(tmp_path / "run/vocoder/hifigan_best.pt") in said
    assert said[said.index("--folder") + 1] == str(tmp_path / "voices")


def test_the_configurations_are_read():
    folder = REPOSITORY / "configs"
    for name in ("ljspeech_mini", "ljspeech_mini_adversarial", "ljspeech_mini_tuned"):
        assert config.load(HifiganRun, folder / "hifigan" / f"{name}.toml").istft.channels == 256
    for name in ("ljspeech_mini_voice", "ljspeech_mini_adversarial", "ljspeech_mini_refined", "ljspeech_mini_small"):
        assert config.load(Config, folder / "fastpitch" / f"{name}.toml").model.encoder.filter_channels == 384
    assert config.load(Config, folder / "fastpitch" / "ljspeech_mini_adversarial.toml").adversary.weight == 1


def test_hifigan_v3_is_trained_as_the_light_vocoder_is(python, tmp_path):
    run = tmp_path / "run" / "vocoder-v3"
    run.mkdir(parents=True)
    (run / "hifigan_step00000786.pt").touch()
    told = call("ljspeech_mini_v3.sh", python, DATA_DIR=str(tmp_path), RUN_DIR=str(tmp_path / "run"))
    assert told.returncode == 0, told.stderr
    said = told.stdout.split("\n")
    assert said[said.index("--checkpoint") + 1] == str(run / "hifigan_step00000786.pt")
    published = config.load(HifiganRun, "configs/hifigan/v3.toml")
    for name in ("ljspeech_mini", "ljspeech_mini_adversarial"):
        files = [f"configs/hifigan/{name}.toml", "configs/hifigan/v3.toml"]
        place = said.index(files[0])
        assert said[place + 1 : place + 4] == [files[1], "--generator", "hifigan"]
        light, anchor = config.load(HifiganRun, files[0]), config.load(HifiganRun, *files)
        assert anchor.hifigan == published.hifigan
        data = replace(anchor.data, train=light.data.train, validation=light.data.validation)  # flags say these
        assert replace(anchor, hifigan=light.hifigan, data=data, output_dir=light.output_dir) == light
