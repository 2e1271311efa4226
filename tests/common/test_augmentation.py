import numpy as np
import pytest
import torch

from common.augmentation import CutoutConfig, SpecAugmentConfig, cutout, spec_augment
from tests.host_sync import NoHostSync


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 0.1


def lengths(*values):
    return torch.tensor(values)


def runs(zero):
    """Lengths of the runs of ones in a row of zeros and ones."""
    return [len(run) for run in "".join(str(int(z)) for z in zero).split("0") if run]


def test_spec_augment_zeroes_whole_bands_within_the_utterance():
    features, frames = torch.ones(200, 64, 300), torch.full((200,), 250)
    cfg = SpecAugmentConfig(freq_masks=1, min_freq=2, max_freq=5, time_masks=1, min_time=0, max_time=40)
    masked = spec_augment(features, frames, cfg, seed=3)
    assert features.all()
    freq, time = (masked == 0).all(2), (masked == 0).all(1)
    assert torch.equal(masked == 0, freq[:, :, None] | time[:, None, :])
    assert {n for row in freq for n in runs(row)} == {2, 3, 4, 5}
    widths = [sum(runs(row)) for row in time]
    assert min(widths) == 0
    assert max(widths) == 40
    assert 17 < np.mean(widths) < 23
    assert not time[:, 250:].any()
    assert freq.any(0).all()
    assert time[:, 10:240].any(0).all()


def test_spec_augment_in_place_does_the_same():
    features, frames, cfg = noise(3, 64, 100), lengths(100, 80, 5), SpecAugmentConfig()
    expected = spec_augment(features, frames, cfg, seed=1)
    assert spec_augment(features, frames, cfg, seed=1, out=features) is features
    assert torch.equal(features, expected)


def test_spec_augment_of_one_width_is_the_2019_recipe():
    cfg = SpecAugmentConfig(freq_masks=2, min_freq=6, max_freq=6, time_masks=2, min_time=6, max_time=6)
    masked = spec_augment(torch.ones(50, 64, 100), torch.full((50,), 100), cfg, seed=0)
    assert {sum(runs(row)) for row in (masked == 0).all(2)} <= set(range(6, 13))
    assert {sum(runs(row)) for row in (masked == 0).all(1)} <= set(range(6, 13))


def test_bands_wider_than_the_utterance_cover_it():
    cfg = SpecAugmentConfig(freq_masks=0, time_masks=1, min_time=75, max_time=75)
    masked = spec_augment(torch.ones(1, 64, 32), lengths(10), cfg, seed=0)
    assert not masked[:, :, :10].any()
    assert masked[:, :, 10:].all()


def test_bands_of_frames_may_be_a_part_of_their_utterance():
    cfg = SpecAugmentConfig(freq_masks=0, time_masks=1, max_time_fraction=0.05)
    frames = lengths(*[40] * 400, *[400] * 400)
    masked = spec_augment(torch.ones(800, 8, 400), frames, cfg, seed=0)[:, 0] == 0
    assert set(masked[:400].sum(1).tolist()) == {0, 1, 2}
    assert set(masked[400:].sum(1).tolist()) == set(range(21))
    assert not masked[:400, 40:].any()


def test_cutout_zeroes_rectangles():
    cfg = CutoutConfig(masks=1, min_freq=3, max_freq=4, min_time=5, max_time=9)
    masked = cutout(torch.ones(100, 64, 80), torch.full((100,), 60), cfg, seed=0) == 0
    assert {len(r) for m in masked for r in [m.any(1).nonzero()]} == {3, 4}
    assert {len(r) for m in masked for r in [m.any(0).nonzero()]} == {5, 6, 7, 8, 9}
    assert torch.equal(masked, masked.any(2, keepdim=True) & masked.any(1, keepdim=True))
    assert not masked[:, :, 60:].any()


@pytest.mark.parametrize(("augment", "cfg"), [(spec_augment, SpecAugmentConfig()), (cutout, CutoutConfig(masks=3))])
def test_augmentation_is_a_function_of_the_seed(augment, cfg):
    features, frames = noise(8, 64, 200), torch.full((8,), 200)
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    first, again, other = (augment(features, frames, cfg, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_no_mask_waits_for_the_device():
    features, frames = noise(3, 64, 32), lengths(32, 20, 1)
    with NoHostSync():
        spec_augment(features, frames, SpecAugmentConfig(), seed=0)
        spec_augment(features, frames, SpecAugmentConfig(max_time_fraction=0.5), seed=0)
        cutout(features, frames, CutoutConfig(masks=2), seed=0)


def test_impossible_widths_are_named():
    with pytest.raises(ValueError, match="SpecAugmentConfig: widths of 0 to 20 mel bins and 80 to 75 frames"):
        SpecAugmentConfig(min_time=80)
    with pytest.raises(ValueError, match=r"SpecAugmentConfig: max_time_fraction = 1.5: expected 0 to 1"):
        SpecAugmentConfig(max_time_fraction=1.5)
    with pytest.raises(ValueError, match="CutoutConfig: widths of 21 to 20 mel bins"):
        CutoutConfig(min_freq=21)
