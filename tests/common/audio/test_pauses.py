"""Where long sound is cut."""

from itertools import pairwise

import numpy as np
import pytest

from common.audio.pauses import quiet_cuts


def test_long_sound_is_cut_at_its_pauses():
    sound_N = (0.1 * np.random.default_rng(0).standard_normal(16_000 * 100)).astype(np.float32)
    for pause in (18.0, 37.0, 44.0, 61.0, 80.0):
        sound_N[round(16_000 * pause) : round(16_000 * (pause + 0.4))] *= 0.01
    silent_N = np.zeros(16_000 * 30, np.float32)
    sound_N = np.concatenate([silent_N, sound_N, silent_N])
    cuts = list(quiet_cuts(sound_N, 16_000, 20.0))
    assert cuts[0][0] == 16_000 * 30
    assert 16_000 * 130 <= cuts[-1][1] <= 16_000 * 150
    assert all(first[1] == second[0] for first, second in pairwise(cuts))
    assert all(0 < end - start <= 16_000 * 20 for start, end in cuts)
    assert [end / 16_000 - 30 for _, end in cuts[:2]] == pytest.approx([18.2, 37.2], abs=0.25)
