"""What the published variables mean to the scripts that speak and measure; `python` shows its arguments."""

import sys
from pathlib import Path

import pytest

from fastpitch.front.phrases import read_phrases
from tests.data import shared
from tests.scripts.calls import Folder

FOLDER = Folder()
call, words = FOLDER.call, FOLDER.words


REPOSITORY = Path(__file__).resolve().parents[2]
PHRASES = REPOSITORY / "configs" / "fastpitch" / "phrases"
DEFAULT = "configs/fastpitch/phrases/devset10.tsv"


def test_only_variables_that_are_set_become_flags(python):
    models = {"FASTPITCH": "f.pt", "HIFIGAN": "h.pt"}
    expected = f"-m fastpitch.inference {DEFAULT} --fastpitch f.pt --vocoder h.pt --output output/audio_devset10_fp32"
    assert words("fastpitch/inference_example.sh", python, **models) == f"{expected}_fastpitch_hifigan"
    for script, arguments in (("inference.sh", ["fastpitch"]), ("fastpitch/inference.sh", [])):
        found = words(script, python, *arguments, "--pace", "0.9", **models)
        assert found == f"{expected}_fastpitch_hifigan --pace 0.9"
    assert words("inference_benchmark.sh", python, "fastpitch") == "-m fastpitch.benchmark"


def test_the_published_variables_of_speaking_have_their_meaning(python):
    found = words(
        "fastpitch/inference_example.sh", python, FASTPITCH="f.pt", WAVEGLOW="w.pt", FILELIST="phrases/devset10.tsv",
        BATCH_SIZE="32", AMP="true", PHONE="true", SPEAKER="1", DENOISING="0.01", CPU="true", REPORT="true",
        TORCHSCRIPT="true", CUDNN_BENCHMARK="false", WARMUP="0", REPEATS="1",
    )  # fmt: skip
    assert found == (
        f"-m fastpitch.inference {DEFAULT} --fastpitch f.pt --vocoder w.pt "
        "--output output/audio_devset10_fp16_fastpitch_waveglow_denoise-0.01 --batch_size 32 --speaker 1 "
        "--denoising 0.01 --p_arpabet 1.0 --report --device cpu --precision fp16"
    )


def test_the_published_variables_of_measuring_have_their_meaning(python):
    found = words(
        "fastpitch/inference_benchmark.sh", python, FASTPITCH="f.pt", HIFIGAN="h.pt", WAVEGLOW="w.pt", AMP="true",
        BS_SEQUENCE="1 4", REPEATS="500", WARMUP="64", CUDNN_BENCHMARK="true", OUTPUT_DIR="/r", MODES="eager graph",
        TORCHSCRIPT="true",
    )  # fmt: skip
    assert found == (
        "-m fastpitch.benchmark --fastpitch f.pt --vocoders h.pt w.pt --batch_sizes 1 4 --modes eager graph "
        "--repeats 500 --warmup 64 --cudnn_benchmark true --results /r --precisions fp16"
    )


def test_mandarin_has_its_own_phrases(python):
    found = words("fastpitch/mandarin_chinese/inference.sh", python, FASTPITCH="f.pt", WAVEGLOW="w.pt", OUTPUT_DIR="o")
    assert found.startswith("-m fastpitch.inference configs/fastpitch/phrases/mandarin.tsv ")


def test_models_are_asked_for(python):
    done = call("fastpitch/inference_example.sh", python)
    assert done.returncode == 2
    expected = "error: FASTPITCH and HIFIGAN (or WAVEGLOW, VOCODER) are not set; expected files of trained models\n"
    assert done.stderr == expected


@pytest.mark.parametrize(("name", "count"), [("devset10", 10), ("benchmark_8_128", 8), ("mandarin", 5)])
def test_the_phrases_are_in_order(name, count):
    found = read_phrases(PHRASES / f"{name}.tsv")
    assert found.problems == []
    assert len(found.phrases) == count
    if name == "benchmark_8_128":
        assert {len(phrase.text) for phrase in found.phrases} == {128}


@pytest.mark.slow
def test_published_checkpoints_speak_by_the_script(tmp_path):
    golden = shared("golden/tts")
    models = {"FASTPITCH": golden / "FastPitch_checkpoint_3.pt", "HIFIGAN": golden / "hifigan_gen_checkpoint_5.pt"}
    listing = tmp_path / "two.txt"
    listing.write_text("One.\nTwo.\n")
    done = call(
        "fastpitch/inference_example.sh", sys.executable, FILELIST=str(listing), CPU="true",
        OUTPUT_DIR=str(tmp_path / "out"), **{name: str(path) for name, path in models.items()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["audio_0.wav", "audio_1.wav"]
