import numpy as np
import pytest

from fastpitch.speaking import sound


def test_the_fade_reaches_zero_and_leaves_the_rest_alone():
    faded = sound.fade_out(np.ones(10, np.float32), first=0, total=10, length=4)
    np.testing.assert_allclose(faded, [1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0])
    assert faded.dtype == np.float32


@pytest.mark.parametrize("samples", [0, 1, 3])
def test_a_sound_shorter_than_the_fade_fades_as_a_whole(samples):
    faded = sound.fade_out(np.ones(samples, np.float32), first=0, total=samples, length=2560)
    assert len(faded) == samples
    assert (np.diff(faded) < 0).all()
    assert faded.tolist()[-1:] in ([], [0.0])


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_pieces_fade_as_the_whole_does(cut):
    samples = np.random.default_rng(0).standard_normal(30).astype(np.float32)
    whole = sound.fade_out(samples, first=0, total=30, length=12)
    pieces = [sound.fade_out(part, first=first, total=30, length=12) for part, first in
              ((samples[:cut], 0), (samples[cut:], cut))]  # fmt: skip
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_a_piece_outside_the_sound_is_refused():
    with pytest.raises(ValueError, match="samples 5 to 11 of 10: expected a piece of the sound"):
        sound.fade_out(np.ones(6), first=5, total=10, length=2)


def test_nothing_clips_and_what_is_not_loud_is_unchanged():
    samples = np.array([-3, -1, -0.95, -0.2, 0, 0.5, 0.95, 0.96, 1.5], np.float32)
    guarded = sound.guard(samples)
    np.testing.assert_array_equal(guarded[2:7], samples[2:7])
    assert np.abs(guarded).max() <= 1
    assert (np.diff(guarded) >= 0).all()
    assert guarded.dtype == np.float32


def test_silence_is_not_digital_zero_and_the_same_for_the_same_seed():
    first, again, other = (sound.to_int16(np.zeros(10_000, np.float32), seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert sorted(set(first.tolist())) == [-1, 0, 1]
    assert np.mean(first == 0) == pytest.approx(3 / 4, abs=0.02)  # the triangle's part within half a step


def test_dither_keeps_what_is_smaller_than_a_step():
    samples = np.full(200_000, 0.3 / sound.FULL_SCALE, np.float32)
    assert sound.to_int16(samples).mean() == pytest.approx(0.3, abs=0.01)


def test_full_scale_does_not_wrap_around():
    loud = sound.to_int16(np.array([9.0, -9.0] * 100, np.float32))
    assert loud[::2].min() > 32_700
    assert loud[1::2].max() < -32_700


def test_a_pause_has_its_length():
    assert len(sound.silence(300, 22_050)) == 6615
