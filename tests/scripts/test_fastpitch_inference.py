"""What the scripts that speak have to say, and that they speak."""

import sys
from pathlib import Path

import pytest

from fastpitch.front.phrases import read_phrases
from tests.data import shared
from tests.scripts.calls import Folder

REPOSITORY = Path(__file__).resolve().parents[2]
PHRASES = REPOSITORY / "configs" / "fastpitch" / "phrases"


@pytest.mark.parametrize(("name", "count"), [("devset10", 10), ("benchmark_8_128", 8), ("mandarin", 5)])
def test_the_phrases_are_in_order(name, count):
    found = read_phrases(PHRASES / f"{name}.tsv")
    assert found.problems == []
    assert len(found.phrases) == count
    if name == "benchmark_8_128":
        assert {len(phrase.text) for phrase in found.phrases} == {128}


def test_published_checkpoints_speak_by_the_script(tmp_path):
    golden = shared("golden/tts")
    models = {"FASTPITCH": golden / "FastPitch_checkpoint_3.pt", "HIFIGAN": golden / "hifigan_gen_checkpoint_5.pt"}
    listing = tmp_path / "two.txt"
    listing.write_text("One.\nTwo.\n")
    done = Folder().call(
        "fastpitch/inference_example.sh", sys.executable, FILELIST=str(listing), CPU="true",
        OUTPUT_DIR=str(tmp_path / "out"), **{name: str(path) for name, path in models.items()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["audio_0.wav", "audio_1.wav"]
