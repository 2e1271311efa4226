import re

import numpy as np
import pytest

from common.runs.report_page import Number
from fastpitch.speaking import report, report_page, sound
from fastpitch.speaking.report_page import render
from fastpitch.speaking.synthesizer import Spoken
from fastpitch.vocoders.vocoder import load_vocoder
from tests.fastpitch.tiny import tiny_synthesizer
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan
from tests.pages import assert_needs_nothing_else

TEXT = "Fish & chips. <break time='500ms'/> Twice."


@pytest.fixture(scope="module")
def spoken(tmp_path_factory) -> Spoken:
    vocoder = load_vocoder(save_hifigan(tmp_path_factory.mktemp("v") / "light.pt", ISTFT), device="cpu")
    return tiny_synthesizer().say(TEXT, vocoder)


@pytest.fixture(scope="module")
def line(spoken) -> report.Line:
    return report.line("<one>.wav", TEXT, sound.to_int16(spoken.samples_N), spoken)


def test_symbols_stand_where_they_are_heard(spoken, line):
    assert "".join(mark.symbol for mark in line.marks) == "fish and chips.twice."
    for before, mark in zip(line.marks, line.marks[1:], strict=False):
        assert mark.end - mark.start == pytest.approx(mark.frames * 256 / 22_050)
        gap = 0.5 if before.symbol == "." else 0.0
        assert mark.start - before.end == pytest.approx(gap, abs=1e-3)
    assert line.marks[-1].end == pytest.approx(line.seconds, abs=1e-3)
    assert len({mark.hertz for mark in line.marks}) > 5


def test_a_page_needs_nothing_else_and_says_all(tmp_path, line):
    path = tmp_path / "deep" / "r.html"
    report.write(
        path, [line, line], title="a <b>", problems=["p.tsv:3: <bad>"], facts={"model": "m.pt"}, took_seconds=0.5
    )
    page = path.read_text(encoding="utf-8")
    assert_needs_nothing_else(page)
    assert page.count("<audio") == 2
    for part in (
        "a &lt;b&gt;",
        "p.tsv:3: &lt;bad&gt;",
        "&lt;one&gt;.wav",
        "Fish &amp; chips.",
        "m.pt",
        "1 could not be",
    ):
        assert part in page
    assert page.count('class="tone"') == 2 * sum(mark.frames > 0 for mark in line.marks)
    assert page.count('class="step"') == 2 * sum(mark.frames > 0 for mark in line.marks)


def test_labels_of_symbols_neither_lie_on_each_other_nor_are_cut_and_the_result_comes_first(line):
    names = ["DH", "AH0", " ", "W", "ER1", "L", "D"] * 8
    marks = [report_page.SymbolMark(name, i * 0.04, i * 0.04 + 0.04, 3, 120.0, 1.0) for i, name in enumerate(names)]
    result = Number("2.40%", "of the characters heard wrongly", "19 of 792 characters in 20 sentences")
    page = render(report.VoiceReport("x", [line._replace(marks=marks, seconds=2.24)], [], {}, 1.0, result))
    assert page.index("2.40%") < page.index("lines spoken")
    assert "How it was made" not in page
    shown = re.findall(r'class="symbol".*?style="left: ([\d.]+)%; height: (\d+)px"><i>(\w+)</i>', page)
    assert [name for *_, name in shown] == [name for name in names if name != " "]
    ends: dict[str, float] = {}
    for left, height, name in shown:
        start = float(left) / 100 * 2.24 * report_page.PIXELS_PER_SECOND
        assert start >= ends.get(height, 0.0) - 0.1
        ends[height] = start + report_page.CHARACTER_PIXELS * len(name)
    assert 1 < len(ends) < 5


def test_pitch_lies_between_the_ticks_of_its_axis(line):
    page = render(report.VoiceReport("x", [line], [], {}, 1.0))
    heights = [float(y) for y in re.findall(r'class="tone" d="M[\d.]+ ([-\d.]+)H', page)]
    assert 0 < min(heights) < max(heights) < 110
    assert 2 <= len(re.findall(r"\d+ Hz</span>", page)) <= 6


def test_what_was_only_vocoded_has_no_symbols_and_nothing_said_no_speed(spoken):
    none = np.zeros(0)
    sentence = spoken.sentences[0]._replace(
        encoded=spoken.sentences[0].encoded._replace(symbols=[], tokens=[]), frames_L=none
    )
    bare = report.line("mel.wav", "", sound.to_int16(spoken.samples_N), spoken._replace(sentences=[sentence]))
    page = render(report.VoiceReport("x", [bare], [], {}, 1.0))
    assert 'class="tone"' not in page
    assert "0.0 s" in render(report.VoiceReport("x", [], ["none"], {}, 1.0))
