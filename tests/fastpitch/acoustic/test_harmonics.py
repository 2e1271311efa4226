"""Harmonics that are drawn where the pitch is: the table, the contour, and models with them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from common.features import TTS, LogMel
from fastpitch.acoustic.aligner import symbol_of_frames
from fastpitch.acoustic.harmonics import Harmonics, contour, through_unvoiced
from fastpitch.acoustic.model import FastPitch, SpeechTargets
from tests.fastpitch.tiny import SMALL, assert_leaves_as_it_speaks, tiny_model

DRAWN = replace(SMALL, harmonics=True, speakers=2)


def drawn_model() -> FastPitch:
    model = tiny_model(DRAWN)
    model.harmonics.draw(TTS)
    model.harmonics.depth.weight.normal_(0, 0.3)
    model.pitch_mean.copy_(torch.tensor([210.0, 120.0]))
    return model


@pytest.mark.parametrize("hertz", [90.0, 151.3, 220.0, 330.0])
def test_a_comb_is_that_of_a_voice_of_this_pitch(hertz):
    harmonics = Harmonics(4, TTS.mel_bins)
    harmonics.draw(TTS)
    time_N = np.arange(8192) / TTS.sample_rate
    voice_N = sum(np.cos(2 * np.pi * k * hertz * time_N + k * k) for k in range(1, int(11_000 / hertz)))
    audio_BN = torch.from_numpy(0.05 * voice_N + np.random.default_rng(0).normal(0, 1e-2, 8192)).float()[None]
    heard_M = LogMel(TTS).eval()(audio_BN, torch.tensor([8192])).features_BFT[0, :, 16]
    drawn_M = harmonics.comb(torch.tensor([[hertz]]))[0, 0]
    other_M = harmonics.comb(torch.tensor([[hertz * 1.12]]))[0, 0]
    low = slice(3, 24)  # where bins are narrower than harmonics are apart
    alike, unlike = (np.corrcoef(heard_M[low], comb_M[low])[0, 1] for comb_M in (drawn_M, other_M))
    assert alike > 0.8
    assert alike > unlike + 0.2
    assert drawn_M[-10:].abs().max() < 0.5 * drawn_M[low].abs().max()


def test_pitch_goes_on_through_what_is_unvoiced_whatever_the_padding():
    pitch_BT = torch.tensor([[0, 0, 100.0, 0, 0, 160, 0, 0], [0.0] * 8, [5, 0, 0, 8, 0, 0, 0, 0]])
    expected = [[100, 100, 100, 120, 140, 160, 160, 160], [0] * 8, [5, 6, 7, 8, 8, 8, 8, 8]]
    assert torch.allclose(through_unvoiced(pitch_BT), torch.tensor(expected).float())
    assert torch.allclose(through_unvoiced(pitch_BT[:, :7]), torch.tensor(expected).float()[:, :7])


def test_a_contour_is_straight_between_the_middles_of_symbols_that_have_frames():
    pitch_BL, counts_BL = torch.tensor([[1.0, 99, 4, 2, 77]]), torch.tensor([[3, 0, 3, 1, 0]])
    found_T = contour(pitch_BL, counts_BL, symbol_of_frames(counts_BL, 9))[0, :7]
    assert torch.allclose(found_T, torch.tensor([1.0, 1, 2, 3, 4, 3, 2]))


def test_an_utterance_sounds_the_same_alone_and_in_a_batch_and_higher_where_that_is_asked():
    model = drawn_model()
    tokens_BT = torch.randint(1, 140, (2, 9), generator=torch.Generator().manual_seed(1))
    lengths_B, speaker_B = torch.tensor([9, 5]), torch.tensor([0, 1])
    together = model.infer(tokens_BT, lengths_B, speaker=speaker_B)
    alone = model.infer(tokens_BT[1:, :5], lengths_B[1:], speaker=1)
    frames = int(alone.frames_B)
    torch.testing.assert_close(alone.mel_BMT[0], together.mel_BMT[1, :, :frames], rtol=0, atol=1e-5)
    assert not together.mel_BMT[1, :, frames:].any()
    plain = model.infer(tokens_BT, lengths_B, speaker=speaker_B, pitch_scale=0.0)
    model.pitch_embedding.weight.zero_()  # what is left of a shift are the harmonics
    level, higher = (
        model.infer(tokens_BT, lengths_B, speaker=speaker_B, pitch_scale=0.0, pitch_shift=shift).mel_BMT
        for shift in (0.0, 0.5)
    )
    difference_M = (higher - level).abs().mean((0, 2))
    assert plain.frames_B.tolist() == together.frames_B.tolist()
    assert difference_M[:30].mean() > 5 * difference_M[-20:].mean() > 0


def test_training_learns_how_deep_harmonics_are_from_each_frames_own_pitch():
    model = drawn_model().train().requires_grad_(True)
    frames_B, lengths_B = torch.tensor([12]), torch.tensor([4])
    pitch_BT = torch.linspace(-1, 1, 12)[None]
    durations_BL = torch.tensor([[3, 3, 3, 3]])
    targets = SpeechTargets(torch.zeros(1, 80, 12), frames_B, pitch_BT, torch.zeros(1, 12), durations_BL)
    said = model.eval()(torch.tensor([[5, 6, 7, 8]]), lengths_B, targets, torch.tensor([0]))
    said.mel_BTM.square().sum().backward()
    assert model.harmonics.depth.weight.grad.abs().sum() > 0
    moved = targets._replace(pitch_BT=pitch_BT + torch.tensor([0.2, -0.2, 0.0] * 4))  # the same mean of each symbol
    again = model(torch.tensor([[5, 6, 7, 8]]), lengths_B, moved, torch.tensor([0]))
    changed_T = (again.mel_BTM - said.mel_BTM).abs().sum(2)[0] > 1e-3
    assert changed_T.tolist() == [True, True, False] * 4


def test_shallow_harmonics_are_not_drawn_and_grow_from_nothing_in_training():
    harmonics = Harmonics(1, TTS.mel_bins)
    harmonics.draw(TTS)
    torch.nn.init.ones_(harmonics.depth.weight)
    torch.nn.init.zeros_(harmonics.depth.bias)
    hertz_BT = torch.full((1, 3), 200.0)
    depth_BTC = torch.tensor([[[0.0], [0.1], [1.0]]], requires_grad=True)
    for mode in (False, True):
        share_T = (harmonics.train(mode)(depth_BTC, hertz_BT) / harmonics.comb(hertz_BT))[0].mean(1)
        assert torch.allclose(share_T, torch.tensor([0.0, 0.004, 1.0]), atol=1e-3)
    (harmonics(depth_BTC, hertz_BT) * harmonics.comb(hertz_BT)).sum().backward()
    assert torch.allclose(depth_BTC.grad[0, 0], depth_BTC.grad[0, 2])
    assert depth_BTC.grad[0, 0] > 0


@pytest.mark.parametrize("part", ["whole", "decoder"])
def test_what_is_exported_draws_the_same(part):
    assert_leaves_as_it_speaks(drawn_model(), part)
