import io
import re

import numpy as np
import pytest
import soundfile

from common.runs import report_page
from common.runs.report_page import Number
from tests.pages import assert_needs_nothing_else

TONE_N = (0.5 * np.sin(np.arange(8000) * 0.3)).astype(np.float32)


def test_a_page_needs_nothing_else_and_takes_no_text_for_markup():
    flac, png = report_page.to_flac(TONE_N, 8000), report_page.to_png(np.eye(3), darkest=0.0, brightest=1.0)
    content = report_page.timeline(report_page.spectrogram(png), seconds=1.0, pixels_per_second=200)
    body = report_page.headline("a<b", [Number("<1>", "<2>", "<3>")])
    body += report_page.clip("c<d", "e<f", content + report_page.player(flac))
    body += report_page.facts_table({"g<h": "i<j"})
    page = report_page.page("a<b", body, style=".own {}")
    assert_needs_nothing_else(page)
    assert page.index(report_page.STYLE) < page.index(".own {}")  # which can change it therefore
    assert not re.search(r"[a-i]<[b-j]|<\d>", page)
    assert page.count("a&lt;b") == 2
    for text in ("&lt;1&gt;", "&lt;2&gt;", "&lt;3&gt;", "c&lt;d", "e&lt;f", "g&lt;h", "i&lt;j"):
        assert text in page


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.1, {"0 s": 0.0}), (1.1, {"0 s": 0.0, "0.5 s": 45.45}), (1.2, {"0 s": 0.0, "0.5 s": 41.67, "1 s": 83.33})],
)
def test_a_timeline_is_marked_at_every_half_second_that_has_room(seconds, expected):
    html = report_page.timeline("", seconds=seconds, pixels_per_second=200)
    assert {name: float(left) for left, name in re.findall(r'<i style="left: ([\d.]+)%">([^<]+)<', html)} == expected
    assert f"min-width: {200 * seconds:.0f}px" in html


def test_a_stretch_lies_where_it_is_heard():
    assert report_page.stretch(0.5, 0.75, seconds=2.0) == "left: 25.00%; width: 12.50%"


def test_a_sound_is_the_same_after_it_to_16_bits():
    heard_N, rate = soundfile.read(io.BytesIO(report_page.to_flac(TONE_N, 8000)))
    assert rate == 8000
    np.testing.assert_allclose(heard_N, TONE_N, atol=2**-15)


def test_low_bands_lie_at_the_bottom_of_a_picture_and_loud_ones_are_bright():
    from matplotlib import image

    loud_low_FT = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    picture = image.imread(io.BytesIO(report_page.to_png(loud_low_FT, darkest=0.0, brightest=1.0)))
    assert picture.shape[:2] == (2, 3)
    assert (picture[1, :, :3] > 0.7).all()
    assert (picture[0, :, :3] < 0.1).all()
