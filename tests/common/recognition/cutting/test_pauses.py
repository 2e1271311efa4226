"""Where long sound is cut."""

import math
from itertools import pairwise

import numpy as np
import pytest

from common.recognition.cutting.pauses import stretches


def test_long_sound_is_cut_at_its_pauses():
    sound_N = (0.1 * np.random.default_rng(0).standard_normal(16_000 * 100)).astype(np.float32)
    for pause in (18.0, 37.0, 44.0, 61.0, 80.0):
        sound_N[round(16_000 * pause) : round(16_000 * (pause + 0.4))] *= 0.01
    silent_N = np.zeros(16_000 * 30, np.float32)
    sound_N = np.concatenate([silent_N, sound_N, silent_N])
    found = list(stretches(sound_N, 16_000, preferred=18.5, longest=20.0))
    cuts = [(one.first, one.end) for one in found]
    assert cuts[0][0] == 16_000 * 30
    assert 16_000 * 130 <= cuts[-1][1] <= 16_000 * 150
    assert all(first[1] == second[0] for first, second in pairwise(cuts))
    assert all(0 < end - start <= 16_000 * 20 for start, end in cuts)
    assert [end / 16_000 - 30 for _, end in cuts[:2]] == pytest.approx([18.2, 37.2], abs=0.25)


def test_recordings_are_cut_in_pauses():
    rate, draw = 1000, np.random.default_rng(0)
    sound = draw.normal(size=100 * rate).astype(np.float32)
    for pause in (13.0, 28.0, 55.0):
        sound[int(pause * rate) : int((pause + 0.4) * rate)] *= 0.001
    found = list(stretches(sound, rate, preferred=30, longest=35, overlap=1.0))
    assert [one.first for one in found] == [0, *(one.end for one in found[:-1])], "every sample counts once"
    assert found[-1].end == len(sound)
    starts = [one.start / rate for one in found]
    assert starts[1] == pytest.approx(28.2, abs=0.2)
    assert starts[2] == pytest.approx(55.2, abs=0.2)
    assert math.ceil(max(len(one.samples_N) for one in found) / rate) <= 35
    overlaps = [one.start + len(one.samples_N) - other.start for one, other in pairwise(found)]
    assert overlaps == [0, 0, rate], "only around the seam that is in no pause"
    assert all((one.samples_N == sound[one.start : one.start + len(one.samples_N)]).all() for one in found)


def test_a_cut_is_where_a_pause_is_quietest_for_words_begin_and_end_softly():
    rate, draw = 1000, np.random.default_rng(0)
    sound = draw.normal(size=60 * rate).astype(np.float32)
    for pause in (13.0, 42.0):
        sound[int(pause * rate) : int((pause + 0.4) * rate)] *= 0.001
        sound[int((pause + 0.25) * rate) : int((pause + 0.4) * rate)] += 0.04 * draw.normal(size=150)
    cuts = [one.end / rate for one in stretches(sound, rate, preferred=18, longest=20)]
    assert cuts[0] == pytest.approx(13.12, abs=0.1)
    assert all(not pause + 0.23 < cut < pause + 0.4 for cut in cuts for pause in (13.0, 42.0))


def test_of_several_pauses_the_longest_is_cut_in():
    rate, draw = 1000, np.random.default_rng(0)
    sound = draw.normal(size=60 * rate).astype(np.float32)
    for start, seconds in ((12.0, 0.25), (14.0, 0.6), (17.0, 0.25)):
        sound[int(start * rate) : int((start + seconds) * rate)] *= 0.001
    first, *_ = stretches(sound, rate, preferred=18, longest=20)
    assert first.end / rate == pytest.approx(14.3, abs=0.15)
