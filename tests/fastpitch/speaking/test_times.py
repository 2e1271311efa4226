import json

import numpy as np
import pytest
import torch

from fastpitch.front.symbols import EncodedText, WordSymbols
from fastpitch.speaking import times
from fastpitch.speaking.synthesizer import MarkTime, Spoken, SpokenSentence

SYMBOLS = ["a", " ", "@B", "@IY1", "."]
SENTENCE = SpokenSentence(
    EncodedText([1, 2, 3, 4, 5], SYMBOLS, [WordSymbols("a", 0, 0), WordSymbols('b"e', 2, 3)], []),
    np.array([10, 0, 5, 5, 2]),
    np.zeros(5),
    np.zeros(5),
    torch.zeros(80, 22),
    first_sample=100,
)
SPOKEN = Spoken(np.zeros(2600, np.float32), 1000, 100, [SENTENCE], marks=(MarkTime("m", 1.1),))


def test_words_have_the_times_of_their_symbols():
    first, second = times.words(SPOKEN)
    assert first[:3] == ("a", 0.1, pytest.approx(1.05))
    assert second.phonemes == [("B", pytest.approx(1.05), pytest.approx(1.55)), ("IY1", pytest.approx(1.55), 2.05)]


def test_times_are_written_beside_the_sound(tmp_path):
    times.write(tmp_path / "x.wav", "A be", SPOKEN, ("json", "srt", "vtt", "textgrid"), sample_rate=500)
    table = json.loads((tmp_path / "x.json").read_text())
    assert table["words"][0] == {
        "word": "a", "start": 0.1, "end": 1.05, "phonemes": [{"phoneme": "a", "start": 0.1, "end": 1.05}],
    }  # fmt: skip
    assert (table["seconds"], table["sample_rate"], table["audio"]) == (2.6, 500, "x.wav")
    assert table["marks"] == [{"name": "m", "seconds": 1.1}]
    assert (tmp_path / "x.srt").read_text() == '1\n00:00:00,100 --> 00:00:02,050\na b"e\n'
    assert (tmp_path / "x.vtt").read_text().startswith("WEBVTT")
    grid = (tmp_path / "x.TextGrid").read_text()
    assert grid.startswith('File type = "ooTextFile"\nObject class = "TextGrid"\n')
    assert 'text = "b""e"' in grid
    assert 'mark = "m"' in grid


def test_the_tiers_of_a_textgrid_cover_the_sound():
    grid = times.textgrid(times.words(SPOKEN), [], 2.6)
    edges = [float(line.split("=")[1]) for line in grid.splitlines() if line.startswith("            xm")]
    words = edges[: 2 * 4]  # silence, a, b"e, silence
    assert words == [0, 0.1, 0.1, 1.05, 1.05, 2.05, 2.05, 2.6]
    assert "size = 2" in grid


@pytest.mark.parametrize(("frames", "edges"), [([10, 1, 5], (0.5, 0.5)), ([10, 3, 5], (0.475, 0.625))])
def test_a_space_that_is_no_pause_is_halved_between_its_words(frames, edges):
    encoded = EncodedText([1, 2, 3], ["a", " ", "b"], [WordSymbols("a", 0, 0), WordSymbols("b", 2, 2)], [])
    sentence = SENTENCE._replace(encoded=encoded, frames_L=np.array(frames), first_sample=0)
    first, second = times.words(SPOKEN._replace(sentences=[sentence], hop_samples=50))
    assert (first.end, second.start) == pytest.approx(edges)
    assert second.phonemes[0].start == second.start


def test_a_comma_is_no_space():
    encoded = EncodedText([1, 2, 3], ["a", ",", "b"], [WordSymbols("a", 0, 0), WordSymbols("b", 2, 2)], [])
    sentence = SENTENCE._replace(encoded=encoded, frames_L=np.array([10, 1, 5]), first_sample=0)
    first, second = times.words(SPOKEN._replace(sentences=[sentence], hop_samples=50))
    assert second.start - first.end == pytest.approx(0.05)
