"""Phases of a voice: pulses at the pitch that an audio has, in time with its fundamental.

A spectrogram says nothing of phases, and a network that was trained for minutes gives each frame its own: the pulses of
the voice are blurred, and what should be silence hums. Here the low frequencies of its audio, which are right soonest,
say where the pulses are. All of it is local: a frame depends on samples half a window around it and on its neighbours.

Shapes: B utterances, T frames, S samples of a frame, N = T hop samples, K frequencies, L lags.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

LOWEST_HZ, HIGHEST_HZ = 70.0, 450.0  # of a voice
BAND_HZ = 1200.0  # of the harmonics that tell the pitch
LONG_PENALTY = 0.15  # of the longest period, against pitches an octave below
UNVOICED, VOICED = 0.45, 0.7  # periodicity at which a frame begins to have pulses, and has nothing else


class Pitch(NamedTuple):
    """The pitch of every frame in cycles per sample, the phase of the fundamental at its centre, and how much it is
    voiced, from 0 to 1; all [B, T]."""

    cycles_BT: Tensor
    phase_BT: Tensor
    voicing_BT: Tensor


def pitch_of(audio_BN: Tensor, window_S: Tensor, hop: int, sample_rate: int) -> Pitch:
    """The pitch of audio [B, T hop] in frames centred at multiples of the hop; zeros are around it."""
    size = len(window_S)
    frames_BTS = centred_frames(audio_BN, size, hop) * window_S
    shortest, longest = int(sample_rate / HIGHEST_HZ), int(sample_rate / LOWEST_HZ) + 1
    band = int(2 * size * BAND_HZ / sample_rate)
    lag_L = torch.arange(longest + 2, device=audio_BN.device)
    number_K = torch.arange(band, device=audio_BN.device)
    cosine_KL = (math.pi / size * (number_K[:, None] * lag_L % (2 * size))).cos() * (1 + (number_K > 0))[:, None]
    # Autocorrelations, from the powers below BAND_HZ; a periodic one falls as that of the window does.
    spectrum_BTK = torch.fft.rfft(F.pad(frames_BTS, (0, size)))[..., :band]
    correlation_BTL = (spectrum_BTK.real.square() + spectrum_BTK.imag.square()) @ cosine_KL
    of_window_L = F.conv1d(F.pad(window_S, (0, longest + 1))[None, None], window_S[None, None])[0, 0]
    periodicity_BTL = correlation_BTL / (correlation_BTL[..., :1] + 1e-2) * (of_window_L[0] / of_window_L)
    lag_L = lag_L[shortest : longest + 1]
    scored_BTL = periodicity_BTL[..., shortest : longest + 1] - LONG_PENALTY * lag_L / longest
    best_BT1 = scored_BTL.argmax(-1, keepdim=True) + shortest
    before_BT, at_BT, after_BT = (periodicity_BTL.gather(-1, best_BT1 + i)[..., 0] for i in (-1, 0, 1))
    bend_BT = (2 * at_BT - before_BT - after_BT).clamp(min=1e-6)
    period_BT = best_BT1[..., 0] + ((after_BT - before_BT) / (2 * bend_BT)).clamp(-0.5, 0.5)
    cycles_BT = 1 / period_BT
    angle_BTS = 2 * math.pi * cycles_BT[..., None] * (torch.arange(size, device=audio_BN.device) - size // 2)
    real_BT, imaginary_BT = (frames_BTS * angle_BTS.cos()).sum(-1), -(frames_BTS * angle_BTS.sin()).sum(-1)
    voicing_BT = ((at_BT - UNVOICED) / (VOICED - UNVOICED)).clamp(0, 1)
    real_BT = torch.where(real_BT == 0, 1e-12, real_BT)  # nothing has no phase: ONNX would divide zero by zero
    return Pitch(cycles_BT, torch.atan2(imaginary_BT, real_BT), voicing_BT)


def pulses(pitch: Pitch, keep_BT1: Tensor, hop: int) -> Tensor:
    """[B, T hop] a pulse wherever the fundamental begins a cycle, between samples in parts to both.

    Of frames that keep_BT1 does not keep nothing is seen, and there are no pulses in them.
    """
    cycles_BT, phase_BT = (x_BT * keep_BT1[..., 0] for x_BT in (pitch.cycles_BT, pitch.phase_BT))
    next_BT, next_phase_BT = (F.pad(x_BT[:, 1:], (0, 1)) for x_BT in (cycles_BT, phase_BT))
    advance_BT = hop * (cycles_BT + next_BT) / 2
    start_BT = phase_BT / (2 * math.pi)
    apart_BT = next_phase_BT / (2 * math.pi) - start_BT - advance_BT
    apart_BT = apart_BT - apart_BT.round()  # what the frames disagree on is spread between them
    u_H = torch.arange(hop + 1, device=cycles_BT.device) / hop
    bent_BT1 = ((next_BT - cycles_BT) / 2)[..., None]
    turns_BTH = start_BT[..., None] + hop * (cycles_BT[..., None] * u_H + bent_BT1 * u_H.square())
    turns_BTH = turns_BTH + apart_BT[..., None] * u_H
    here_BTH, there_BTH = turns_BTH[..., :-1], turns_BTH[..., 1:]
    begins_BTH = (there_BTH.floor() > here_BTH.floor()).float()
    part_BTH = ((there_BTH.floor() - here_BTH) / (there_BTH - here_BTH).clamp(min=1e-6)).clamp(0, 1)
    first_BN, second_BN = (begins_BTH * (1 - part_BTH)).flatten(1), (begins_BTH * part_BTH).flatten(1)
    beats_BN = first_BN + F.pad(second_BN[:, :-1], (1, 0))
    return beats_BN * keep_BT1[..., 0].repeat_interleave(hop, dim=1)


def centred_frames(audio_BN: Tensor, size: int, hop: int) -> Tensor:
    """[B, T, S] pieces of audio [B, T hop], centred at multiples of the hop; zeros are around it."""
    pieces = F.pad(audio_BN, (size // 2, size // 2)).unflatten(1, (-1, hop))
    frames = audio_BN.shape[1] // hop
    return torch.cat([pieces[:, i : i + frames] for i in range(size // hop)], 2)
