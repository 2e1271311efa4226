"""benchmarks/silence.py: where silence stands, and that a recogniser that is hard of hearing shows."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from benchmarks.silence import heard_over_http, measured, with_silence
from common.data.manifest import Utterance
from tests.trt.serving.running import Counting, pretended, served
from trt.serve import ServeConfig


@pytest.mark.parametrize(
    ("place", "expected"),
    [("before", "__abb"), ("after", "abb__"), ("both", "__abb__"), ("between", "a__bb")],
)
def test_silence_stands_where_it_is_wanted(place, expected):
    levels = {"a": 0.1, "b": 0.2, "_": 0.0}
    random = np.random.default_rng(0)
    found_N = with_silence(np.float32([0.1, 0.2, 0.2]), [1, 3], place, 2.0, None, 1, random=random)
    np.testing.assert_array_equal(found_N, np.float32([levels[letter] for letter in expected]))
    noise_N = with_silence(np.float32([0.5]), [1], "after", 4.0, -60.0, 4_000, random=random)[1:]
    assert 20 * np.log10(noise_N.std()) == pytest.approx(-60, abs=0.5)


def test_words_wrong_are_told_by_place_length_and_level(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.full(8_000, 0.1, np.float32), 8_000, subtype="FLOAT")
    said = Utterance(id="a", audio=tmp_path / "a.wav", seconds=1.0, text="ONE, two", word_ends=(0.5, 1.0))

    def hard_of_hearing(sounds):
        return ["one" if len(samples_N) > 2 * 8_000 else "one two" for samples_N in sounds]

    found, unlike = measured(hard_of_hearing, [said], 8_000, "zeros|-100", lambda sounds: ["one two"] * len(sounds))
    assert len(found) == len(unlike) == 1 + 2 * 13
    assert found["as they are"] == 0
    assert (found["zeros before, 0.25 s"], unlike["zeros before, 0.25 s"]) == (0, 0)
    assert (found["-100 dB after, 5 s"], unlike["-100 dB after, 5 s"]) == (50, 1)


def test_a_server_is_asked_for_the_texts_of_the_same_samples():
    rate, random = 16_000, np.random.default_rng(0)
    sounds = [random.standard_normal(samples).astype(np.float32) / 3 for samples in (rate, 3 * rate // 2)]
    cfg = ServeConfig(asr=Path("none"), port=0)
    with served(cfg, pretended(cfg)) as server:
        found = heard_over_http(server.url, rate)(sounds)
    assert found == [transcript.text for transcript in Counting().stream(sounds)]
    assert all(found)
