"""The harmonics of a voice, drawn into mel frames where its pitch says they are.

A mel bin below 1 kHz is narrower than the distance of two harmonics, so that recorded frames show each of them. A mean
over all pitches that a symbol may have shows none, and half an hour of speech teaches a decoder little more than that
mean; a vocoder makes noise of it. But where harmonics are is no matter of learning: it follows from the pitch of the
frame. So a decoder says how deep the valleys between them are, and a table where they lie. (Sources of harmonics in
vocoders, as of Wang et al. 2019, arXiv:1904.12088, have the same reason.)

Shapes: B utterances, L symbols, T frames, C channels, M mel bins, K frequencies, P pitches of the table.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from common.convolution.linear import Linear
from common.features import LogMelConfig, mel_filters

LOWEST_HZ, HIGHEST_HZ, PITCHES = 50.0, 800.0, 256  # of the table: steps of 1.1 %
VALLEY = 0.02  # least magnitude between harmonics whose peaks are 1: breath, and the sides of the window
SHALLOW, SHALLOW_EDGE = 0.35, 0.08  # depth of which half is drawn, and how sharply less of what is shallower
NEIGHBOURHOOD = 0.2  # pitches this far away, in nepers, are what a comb is compared with


class Harmonics(nn.Module):
    """What the harmonics of a pitch add to log-mel frames, as deep as the decoder says."""

    combs_PM: Tensor

    def __init__(self, channels: int, mel_bins: int):
        super().__init__()
        self.depth = Linear(channels, mel_bins)
        self.register_buffer("combs_PM", torch.zeros(PITCHES, mel_bins))

    def draw(self, features: LogMelConfig) -> None:
        """Makes the table for mel frames of `features`; a checkpoint has it."""
        self.combs_PM.copy_(torch.from_numpy(combs(features)))

    def forward(self, hidden_BTC: Tensor, hertz_BT: Tensor) -> Tensor:
        """[B, T, M], to be added to the frames that the decoder predicts from `hidden_BTC`.

        What is shallow is not drawn: where there is no voice, faint harmonics are heard as a whistle. Its gradient is
        that of what would be drawn, so that a depth can grow from nothing.
        """
        return self.drawn(self.depth(hidden_BTC)) * self.comb(hertz_BT).to(hidden_BTC.dtype)

    def drawn(self, depth_BTM: Tensor) -> Tensor:
        """The depths with those that are shallow left out; their gradient is that of all."""
        drawn_BTM = depth_BTM * torch.sigmoid((depth_BTM - SHALLOW) / SHALLOW_EDGE)
        if self.training:
            drawn_BTM = depth_BTM + (drawn_BTM - depth_BTM).detach()
        return drawn_BTM

    def comb(self, hertz_BT: Tensor) -> Tensor:
        """[B, T, M] log-mel values of harmonics, whose mean over neighbouring pitches is zero."""
        steps_per_neper = (PITCHES - 1) / math.log(HIGHEST_HZ / LOWEST_HZ)
        place_BT = (hertz_BT.float().clamp(LOWEST_HZ, HIGHEST_HZ) / LOWEST_HZ).log() * steps_per_neper
        below_BT = place_BT.floor().clamp(max=PITCHES - 2)
        share_BT1 = (place_BT - below_BT)[:, :, None]
        row_BT = below_BT.long()
        return self.combs_PM[row_BT] * (1 - share_BT1) + self.combs_PM[row_BT + 1] * share_BT1


def combs(features: LogMelConfig) -> np.ndarray:
    """[P, M] float32: the log-mel frame of equal harmonics of each pitch, less the mean over pitches near it."""
    filters_MK = mel_filters(features).astype(np.float64)
    hertz_K = np.linspace(0, features.sample_rate / 2, filters_MK.shape[1])
    hertz_P = np.geomspace(LOWEST_HZ, HIGHEST_HZ, PITCHES)
    finer = 64  # steps of the window's spectrum in a frequency of the transform
    window = np.hanning(features.window_samples + 1)[:-1]
    peak = np.abs(np.fft.rfft(window, finer * features.n_fft)) / window.sum()
    log_mel_PM = np.empty((PITCHES, len(filters_MK)))
    for row_M, hertz in zip(log_mel_PM, hertz_P, strict=True):
        harmonics = np.arange(1, int(features.sample_rate / 2 / hertz) + 1) * hertz
        away = np.abs(hertz_K - harmonics[:, None]) * (finer * features.n_fft / features.sample_rate)
        power_K = np.square(peak[np.minimum(away.astype(int), len(peak) - 1)]).sum(0) + VALLEY**2
        row_M[:] = np.log(np.maximum(filters_MK @ np.sqrt(power_K), features.log_floor))
    near_PP = np.abs(np.log(hertz_P[:, None] / hertz_P)) < NEIGHBOURHOOD
    return (log_mel_PM - near_PP @ log_mel_PM / near_PP.sum(1, keepdims=True)).astype(np.float32)


def through_unvoiced(pitch_BT: Tensor) -> Tensor:
    """Pitch in Hz, 0 where unvoiced, with straight lines through what is unvoiced and the nearest pitch at both ends.

    Zeros where there is no pitch at all.
    """
    frame_BT = torch.arange(pitch_BT.shape[1], device=pitch_BT.device).expand(pitch_BT.shape)
    last, voiced_BT = pitch_BT.shape[1] - 1, pitch_BT > 0
    before_BT = torch.where(voiced_BT, frame_BT, -1).cummax(1).values
    after_BT = last - torch.where(voiced_BT, last - frame_BT, -1).flip(1).cummax(1).values.flip(1)
    before_BT, after_BT = (
        torch.where(before_BT < 0, after_BT, before_BT).clamp(max=last),
        torch.where(after_BT > last, before_BT, after_BT).clamp(min=0),
    )
    share_BT = (frame_BT - before_BT) / (after_BT - before_BT).clamp(min=1)
    return torch.lerp(pitch_BT.gather(1, before_BT), pitch_BT.gather(1, after_BT), share_BT.clamp(0, 1))


def contour(pitch_BL: Tensor, counts_BL: Tensor, symbol_BT: Tensor) -> Tensor:
    """[B, T] of each frame the pitch on straight lines between the middles of symbols of `counts_BL` frames.

    `symbol_BT` as `symbol_of_frames` gives it. Symbols without frames count for nothing. Arbitrary in the padding.
    """
    ends_BL = counts_BL.cumsum(1)
    middles_BL = ends_BL - (counts_BL + 1) / 2
    frame_BT = torch.arange(symbol_BT.shape[1], device=symbol_BT.device).expand(symbol_BT.shape)
    end_BT, count_BT, middle_BT = (of_BL.gather(1, symbol_BT) for of_BL in (ends_BL, counts_BL, middles_BL))
    next_BT = torch.minimum(end_BT, ends_BL[:, -1:] - 1).clamp(min=0)
    border_BT = torch.where(frame_BT > middle_BT, next_BT, (end_BT - count_BT - 1).clamp(min=0))
    other_BT = symbol_BT.gather(1, border_BT.clamp(max=symbol_BT.shape[1] - 1))
    apart_BT = middles_BL.gather(1, other_BT) - middle_BT
    share_BT = torch.where(apart_BT == 0, 0.0, (frame_BT - middle_BT) / torch.where(apart_BT == 0, 1.0, apart_BT))
    own_BT = pitch_BL.gather(1, symbol_BT)
    return own_BT + (pitch_BL.gather(1, other_BT) - own_BT) * share_BT.clamp(0, 1)
