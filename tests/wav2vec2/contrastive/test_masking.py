import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wav2vec2.contrastive.masking import MaskConfig, draw_channel_mask, draw_targets, draw_time_mask, joined

LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=5)


@given(frames=LENGTHS, prob=st.floats(0, 1.2), length=st.integers(1, 30), seed=st.integers(0, 2**40))
@settings(deadline=None, max_examples=60)
def test_masks_are_functions_of_the_seed_and_hide_no_padding(frames, prob, length, seed):
    cfg = MaskConfig(time_prob=prob, time_length=length)
    mask_BS = draw_time_mask(frames, cfg, seed=seed)
    assert torch.equal(mask_BS, draw_time_mask(frames, cfg, seed=seed))
    assert mask_BS.shape == (len(frames), max(frames))
    for row, size in zip(mask_BS, frames, strict=True):
        assert not row[size:].any()
        assert row.any()


@given(frames=st.lists(st.integers(4, 200), min_size=1, max_size=5), seed=st.integers(0, 2**40))
@settings(deadline=None, max_examples=60)
def test_targets_are_as_many_in_every_utterance_and_no_frame_is_its_own_distractor(frames, seed):
    targets = draw_targets(frames, MaskConfig(time_length=3), distractors=7, seed=seed)
    n_masked = targets.positions_BM.shape[1]
    assert n_masked >= 2
    assert (targets.mask_BS.sum(1) == n_masked).all()
    assert targets.mask_BS.gather(1, targets.positions_BM).all()
    assert (targets.positions_BM.diff(dim=1) > 0).all()
    assert targets.distractors_BMK.shape == (len(frames), n_masked, 7)
    assert targets.distractors_BMK.min() >= 0
    assert targets.distractors_BMK.max() < n_masked
    assert (targets.distractors_BMK != torch.arange(n_masked)[:, None]).all()
    again = draw_targets(frames, MaskConfig(time_length=3), distractors=7, seed=seed)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(targets, again, strict=True))


@pytest.mark.parametrize(("frames", "published"), [(50, 0.368), (100, 0.404), (499, 0.448), (780, 0.457)])
def test_as_much_is_masked_as_in_the_published_recipe(frames, published):
    masks = [draw_targets([frames] * 8, MaskConfig(), distractors=1, seed=7919 * i).mask_BS for i in range(400)]
    assert torch.cat(masks).float().mean().item() == pytest.approx(published, abs=0.008)


def published_mask(sizes, prob, length, fewest, random):
    """By definition, a row at a time: spans from starts without repetition, then thinned to the least number."""
    rows = []
    for size in sizes:
        n_spans = max(fewest, int(prob * size / length + random.random()))
        starts = random.choice(size - length, n_spans, replace=False)
        rows.append(np.unique([start + i for start in starts for i in range(length)]))
    least = min(map(len, rows))
    return [random.choice(row, least, replace=False) for row in rows]


# The masks of the published fine-tuning recipes: time_prob, channel_prob.
@pytest.mark.parametrize("probs", [(0.5, 0.1), (0.65, 0.5), (0.65, 0.25), (0.5, 0.25)])
def test_with_equal_counts_fine_tuning_masks_as_much_as_published(probs):
    frames = [620, 640, 650, 655, 660, 680, 690, 700]
    cfg = MaskConfig(time_prob=probs[0], channel_prob=probs[1], channel_length=64, equal_counts=True)
    whole = replace(cfg, equal_counts=False)
    ours, without, random = {"time": [], "channel": []}, {"time": [], "channel": []}, np.random.default_rng(0)
    published = {"time": [], "channel": []}
    for seed in range(0, 7919 * 150, 7919):
        for counts, options in ((ours, cfg), (without, whole)):
            counts["time"].append(draw_time_mask(frames, options, seed=seed).sum(1))
            counts["channel"].append(draw_channel_mask(8, 768, options, seed=seed + 1).sum(1))
        published["time"].append(len(published_mask(frames, probs[0], 10, 2, random)[0]))
        published["channel"].append(len(published_mask([768] * 8, probs[1], 64, 0, random)[0]))
    for name in ("time", "channel"):
        counts_TB = torch.stack(ours[name]).float()
        assert (counts_TB == counts_TB[:, :1]).all()  # the same in every utterance
        assert counts_TB.mean().item() == pytest.approx(np.mean(published[name]), rel=0.04)
        assert torch.stack(without[name]).float().mean() > 1.07 * counts_TB.mean()


def test_what_equal_counts_show_again_was_hidden_and_is_drawn_evenly():
    cfg = MaskConfig(time_prob=0.5, equal_counts=True)
    pairs = [
        (draw_time_mask([150, 300], cfg, seed=i), draw_time_mask([150, 300], replace(cfg, equal_counts=False), seed=i))
        for i in range(0, 7919 * 600, 7919)
    ]
    assert all((~thinned_BS | whole_BS).all() for thinned_BS, whole_BS in pairs)
    hidden_S = torch.stack([thinned_BS[1] for thinned_BS, _ in pairs]).float().mean(0)
    assert hidden_S[20:140].mean().item() == pytest.approx(hidden_S[160:280].mean().item(), abs=0.02)


def test_every_frame_but_those_at_the_ends_is_masked_equally_often():
    mask_BS = draw_time_mask([200] * 4000, MaskConfig(), seed=0).float().mean(0)
    assert mask_BS[10:-10].std() < 0.015
    assert mask_BS[0] < mask_BS[5] < mask_BS[12]


def test_the_last_span_ends_a_frame_before_the_utterance_does_as_published():
    hidden_S = draw_time_mask([60] * 3000, MaskConfig(), seed=0).float().mean(0)
    assert hidden_S[-1] == 0
    assert hidden_S[-2] > 0.03


def test_of_few_starts_all_are_drawn_as_published():
    mask_BS = draw_time_mask([11] * 3000, MaskConfig(), seed=0)  # two of the starts 0, 1 and 2
    assert mask_BS[:, 0].float().mean().item() == pytest.approx(2 / 3, abs=0.03)
    assert mask_BS[:, 1:].all()


def test_what_is_shown_again_is_drawn_from_all_that_was_hidden():
    masks = [draw_targets([200] * 8, MaskConfig(), distractors=1, seed=7919 * i).mask_BS for i in range(200)]
    hidden_S = torch.cat(masks).float().mean(0)
    assert hidden_S[140:180].mean().item() == pytest.approx(hidden_S[20:60].mean().item(), abs=0.02)


def test_distractors_are_equally_often_each_of_the_others():
    targets = draw_targets([40], MaskConfig(), distractors=50_000, seed=0)
    n_masked = targets.positions_BM.shape[1]
    counts_MM = torch.nn.functional.one_hot(targets.distractors_BMK[0], n_masked).sum(1).float()
    assert not counts_MM.diagonal().any()
    expected = 50_000 / (n_masked - 1)
    assert (counts_MM[~torch.eye(n_masked, dtype=torch.bool)] / expected - 1).abs().max() < 0.15


def test_spans_start_at_different_frames_and_have_the_length_asked_for():
    for seed in range(50):
        (row,) = draw_time_mask([100], MaskConfig(time_prob=0.1, time_length=5), seed=seed)
        edges = torch.nn.functional.pad(row.long(), (1, 1)).diff()
        lengths = (edges == -1).nonzero()[:, 0] - (edges == 1).nonzero()[:, 0]
        assert 6 <= row.sum() <= 15
        assert all(length >= 5 for length in lengths)


def test_channels_are_masked_in_spans_or_not_at_all():
    assert draw_channel_mask(2, 768, MaskConfig(), seed=0) is None
    mask_BD = draw_channel_mask(500, 768, MaskConfig(channel_prob=0.25, channel_length=64), seed=0)
    assert mask_BD.shape == (500, 768)
    assert 0.17 < mask_BD.float().mean() < 0.25
    few_BD = draw_channel_mask(2000, 100, MaskConfig(channel_prob=0.02), seed=0)  # a span in every fifth utterance
    assert few_BD.any(1).float().mean().item() == pytest.approx(0.2, abs=0.03)


def test_masks_of_sub_batches_are_filled_up_to_the_longest():
    masks = [torch.ones(1, 2, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)]
    assert joined(masks).tolist() == [[True, True, False], [True] * 3, [True] * 3]


@pytest.mark.parametrize("frames", [[100, 1], [0], []])
def test_an_utterance_too_short_for_a_choice_is_told(frames):
    with pytest.raises(ValueError, match=rf"^an utterance of {min(frames, default=0)} frames has [01] masked ones;"):
        draw_targets(frames, MaskConfig(), distractors=2, seed=0)


@pytest.mark.parametrize(
    "options", [{"time_prob": -0.1}, {"time_prob": math.nan}, {"time_length": 0}, {"channel_prob": math.inf}]
)
def test_impossible_masks_are_refused(options):
    with pytest.raises(ValueError, match=r"^(time|channel)_(prob|length) = .*: expected a number "):
        MaskConfig(**options)
