"""A light vocoder for CPUs: all layers work at the frame rate, and an inverse STFT makes the samples.

The idea is iSTFTNet's (Kaneko et al. 2022) taken to its end by Vocos (Siuzdak 2023): ConvNeXt blocks (Liu et al. 2022)
say the magnitude and phase of every frame. Here the mel spectrogram itself gives a first estimate of the magnitudes,
so that the network has only harmonics and phases to learn.

Shapes: B utterances, M mel bins, T frames, C channels, K frequencies, S samples of a frame, N samples of audio.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.linear import Linear
from common.convolution.operator import along_time
from common.features import LogMelConfig, mel_filters
from common.lengths import inside
from fastpitch.vocoders.networks.config import IstftConfig
from fastpitch.vocoders.networks.pulses import centred_frames, pitch_of, pulses

MEL_CENTRE, MEL_SCALE = -5.0, 0.4  # of log-mel values, which lie between -11.5 and 2
LOUDEST = 7.0  # log-magnitude of a frame that is a sine at full scale: n_fft / 4 * 4
LARGEST_CORRECTION = 10.0  # of a mel value at once, up or down
MOMENTUM = 0.9  # of corrections
STEADY_HZ = 3000.0  # frequencies above it have steady phases where there is a voice
STEADY_SHARE = 1 / 2  # of the corrections leave them so
NOISE = 11.0  # times a phase that is to be as good as drawn


class Pulsed(NamedTuple):
    """phases_BTK, numbers of magnitude 1; is_steady_BTK: where the first corrections leave them as they are, which else
    blur the pulses of high frequencies; steady_corrections: how many."""

    phases_BTK: Tensor
    is_steady_BTK: Tensor
    steady_corrections: int


class IstftGenerator(nn.Module):
    """Log-mel frames [B, M, T] of `features` to audio [B, T hop].

    Frame t is centred at sample t hop, as in `common.features`. The inverse STFT divides by the sum of squared windows,
    so audio is complete up to both ends.
    """

    window_S: Tensor
    prior_KM: Tensor
    prior_K: Tensor
    filters_MK: Tensor

    def __init__(self, cfg: IstftConfig, features: LogMelConfig):
        super().__init__()
        self.cfg, self.hop_samples, self.sample_rate = cfg, features.hop_samples, features.sample_rate
        frequencies = cfg.n_fft // 2 + 1
        self.embed = nn.Conv1d(features.mel_bins, cfg.channels, cfg.kernel, padding=cfg.kernel // 2)
        self.norm = nn.LayerNorm(cfg.channels, eps=1e-6)
        self.blocks = nn.ModuleList(ConvNextBlock(cfg) for _ in range(cfg.layers))
        self.last_norm = nn.LayerNorm(cfg.channels, eps=1e-6)
        self.head = Linear(cfg.channels, 2 * frequencies)
        self.log_floor = features.log_floor
        filters_MK = torch.from_numpy(mel_filters(features))
        self._constants = (*magnitude_prior(features, cfg.n_fft), torch.hann_window(cfg.n_fft), filters_MK)
        for name in ("prior_KM", "prior_K", "window_S", "filters_MK"):
            self.register_buffer(name, None, persistent=False)
        self._set_constants(torch.device("cpu"))
        self._initialize()

    def forward(self, mel_BMT: Tensor, frames_B: Tensor | None = None) -> Tensor:
        """Audio [B, T hop]. An utterance of `frames_B[b]` frames is the same in every batch, zero beyond its end."""
        magnitude_BTK, phase_BTK, keep_BT1 = self.polar(mel_BMT, frames_B)
        with torch.autocast(mel_BMT.device.type, enabled=False):  # phases need the digits, whatever the network is
            spectrum_BTK = torch.polar(magnitude_BTK, phase_BTK)
            audio_BN = inverse_stft(spectrum_BTK, keep_BT1, self.window_S, self.hop_samples)
            pulsed = None
            if self.cfg.phases == "pulses":
                pulsed = self.pulsed(audio_BN, phase_BTK, keep_BT1)
                spectrum_BTK = magnitude_BTK * pulsed.phases_BTK
                audio_BN = inverse_stft(spectrum_BTK, keep_BT1, self.window_S, self.hop_samples)
            return self.corrected(audio_BN, mel_BMT.float().mT.exp(), keep_BT1, pulsed)

    def polar(self, mel_BMT: Tensor, frames_B: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Magnitudes and phases [B, T, K], float32, and [B, T, 1] 1 for frames of the utterance; all is 0 beyond."""
        keep_BT1 = _keep(mel_BMT, frames_B)
        x_BTC = self._hidden(mel_BMT, keep_BT1)
        log_magnitude_BTK, phase_BTK = self.head(x_BTC).float().chunk(2, dim=-1)
        with torch.autocast(mel_BMT.device.type, enabled=False):
            prior_BTK = mel_BMT.float().mT @ self.prior_KM.mT + self.prior_K
            magnitude_BTK = (log_magnitude_BTK + prior_BTK).clamp(max=LOUDEST).exp() * keep_BT1.float()
        return magnitude_BTK, phase_BTK, keep_BT1.float()

    @property
    def context_frames(self) -> int:
        """Frames on either side of its own that a sample of audio depends on."""
        reach = self.cfg.n_fft // (2 * self.hop_samples)
        pulses = 3 * reach + 1 if self.cfg.phases == "pulses" else 0
        return (self.cfg.layers + 1) * (self.cfg.kernel // 2) + reach * (1 + 2 * self.cfg.corrections) + pulses

    def pulsed(self, audio_BN: Tensor, phase_BTK: Tensor, keep_BT1: Tensor) -> Pulsed:
        """The phases of pulses where `audio_BN` is voiced, elsewhere those of a noise.

        A multiple of the network's phases is as good as drawn, and the same in every batch and stream; its own phases
        in silence, which change little from frame to frame, are a hum.
        """
        pitch = pitch_of(audio_BN, self.window_S, self.hop_samples, self.sample_rate)
        beats_BTK = stft(pulses(pitch, keep_BT1, self.hop_samples), self.window_S, self.hop_samples)
        voicing_BT1 = pitch.voicing_BT[..., None]
        noise_BTK = torch.polar(torch.ones_like(phase_BTK), NOISE * phase_BTK)
        mixed_BTK = voicing_BT1 * _unit(beats_BTK) + (1 - voicing_BT1) * noise_BTK
        hertz_K = torch.arange(mixed_BTK.shape[2], device=mixed_BTK.device) * self.sample_rate / self.cfg.n_fft
        is_steady_BTK = (voicing_BT1 > 0.5) & (hertz_K > STEADY_HZ)
        return Pulsed(_unit(mixed_BTK), is_steady_BTK, int(STEADY_SHARE * self.cfg.corrections))

    def corrected(self, audio_BN: Tensor, wanted_BTM: Tensor, keep_BT1: Tensor, pulsed: Pulsed | None = None) -> Tensor:
        """Audio whose mel values are nearer to `wanted_BTM`, after as many corrections as the configuration says.

        In each, every frequency is multiplied by the mean ratio of the filters that hear it, phases stay (in the first
        of them the steady ones of `pulsed`), and overlapping frames settle what they disagree on; steps gather
        momentum, as in the fast Griffin-Lim algorithm (Perraudin et al. 2013). Frequencies that no filter hears stay as
        they are.
        """
        total_K = self.filters_MK.sum(0)
        unheard_K = (total_K == 0).float()
        before_BTK = None
        for done in range(self.cfg.corrections):
            spectrum_BTK = stft(audio_BN, self.window_S, self.hop_samples)
            magnitude_BTK = (spectrum_BTK.real.square() + spectrum_BTK.imag.square()).clamp(min=1e-12).sqrt()
            if pulsed is not None and done < pulsed.steady_corrections:
                steady_BTK = pulsed.is_steady_BTK.float()  # ONNX chooses between no complex numbers
                spectrum_BTK = steady_BTK * (magnitude_BTK * pulsed.phases_BTK) + (1 - steady_BTK) * spectrum_BTK
            found_BTM = (magnitude_BTK @ self.filters_MK.mT).clamp(min=self.log_floor)
            ratio_BTM = (wanted_BTM / found_BTM).clamp(1 / LARGEST_CORRECTION, LARGEST_CORRECTION)
            gain_BTK = (ratio_BTM @ self.filters_MK + unheard_K) / (total_K + unheard_K)
            corrected_BTK = spectrum_BTK * (gain_BTK * keep_BT1)
            ahead_BTK = corrected_BTK
            if before_BTK is not None:
                ahead_BTK = corrected_BTK + MOMENTUM * (corrected_BTK - before_BTK)
            audio_BN, before_BTK = inverse_stft(ahead_BTK, keep_BT1, self.window_S, self.hop_samples), corrected_BTK
        return audio_BN

    def _hidden(self, mel_BMT: Tensor, keep_BT1: Tensor) -> Tensor:
        scaled_BMT = (mel_BMT - MEL_CENTRE) * MEL_SCALE * keep_BT1.mT
        x_BTC = self.norm(along_time(self.embed, scaled_BMT.mT))
        for block in self.blocks:
            x_BTC = block(x_BTC, keep_BT1)
        return self.last_norm(x_BTC)

    def _set_constants(self, device: torch.device) -> None:
        moved = (constant.to(device) for constant in self._constants)
        self.prior_KM, self.prior_K, self.window_S, self.filters_MK = moved

    def _apply(self, fn, recurse: bool = True):  # type: ignore[no-untyped-def]
        # .half() and .to(dtype) move the module but must not round its constants.
        super()._apply(fn, recurse)
        self._set_constants(self.head.weight.device)
        return self

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv1d | nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]


class ConvNextBlock(nn.Module):
    """x + scale * linear(GELU(linear(norm(depthwise convolution(x)))))."""

    def __init__(self, cfg: IstftConfig):
        super().__init__()
        width, wide = cfg.channels, cfg.channels * cfg.expansion
        self.depthwise = nn.Conv1d(width, width, cfg.kernel, padding=cfg.kernel // 2, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.widen = Linear(width, wide)
        self.narrow = Linear(wide, width)
        self.scale_C = nn.Parameter(torch.full((width,), 1 / cfg.layers))

    def forward(self, x_BTC: Tensor, keep_BT1: Tensor) -> Tensor:
        """The output, as long as the input; of frames outside `keep_BT1` nothing is seen."""
        y_BTC = self.norm(along_time(self.depthwise, x_BTC * keep_BT1))
        return x_BTC + self.scale_C * self.narrow(self.widen(y_BTC, "gelu"))


def stft(audio_BN: Tensor, window_S: Tensor, hop: int) -> Tensor:
    """Spectrum [B, T, K] of audio [B, T hop], of frames centred at multiples of the hop; zeros are around it."""
    return torch.fft.rfft(centred_frames(audio_BN, len(window_S), hop) * window_S)


def _unit(spectrum_BTK: Tensor) -> Tensor:
    """The spectrum of the same phases whose magnitudes are 1."""
    power_BTK = spectrum_BTK.real.square() + spectrum_BTK.imag.square()
    return spectrum_BTK * power_BTK.clamp(min=1e-12).rsqrt()  # the exporter drops what is as small in a sum


def inverse_stft(spectrum_BTK: Tensor, keep_BT1: Tensor, window_S: Tensor, hop: int) -> Tensor:
    """Audio [B, T hop] of complex frames centred at multiples of the hop (Griffin, Lim 1984).

    `window_S` is that of analysis and synthesis, a multiple of `hop` long. Frames outside `keep_BT1` must be zero;
    audio from the end of an utterance on is zero.
    """
    frames_BTS = torch.fft.irfft(spectrum_BTK, n=len(window_S)) * window_S
    return overlapped(frames_BTS, keep_BT1, window_S, hop)


def overlapped(frames_BTS: Tensor, keep_BT1: Tensor, window_S: Tensor, hop: int) -> Tensor:
    """The audio of windowed frames, as `inverse_stft`."""
    size = len(window_S)
    squares_BTS = keep_BT1 * window_S.square()
    audio_BN, squares_BN = (_overlap_add(x, hop)[:, size // 2 :] for x in (frames_BTS, squares_BTS))
    samples = frames_BTS.shape[1] * hop
    audio_BN, squares_BN = audio_BN[:, :samples], squares_BN[:, :samples]
    keep_BN = keep_BT1.repeat_interleave(hop, dim=1).squeeze(-1)
    return audio_BN / squares_BN.clamp(min=1e-3) * keep_BN


def _overlap_add(frames_BTS: Tensor, hop: int) -> Tensor:
    """The sum of frames that start every `hop` samples: [B, (T - 1) hop + S]."""
    n_utterances, n_frames, size = frames_BTS.shape
    pieces = frames_BTS.view(n_utterances, n_frames, size // hop, hop).unbind(2)
    total_BTS = sum(F.pad(piece, (0, 0, i, len(pieces) - 1 - i)) for i, piece in enumerate(pieces))
    return total_BTS.flatten(1)  # type: ignore[union-attr]


def magnitude_prior(features: LogMelConfig, n_fft: int) -> tuple[Tensor, Tensor]:
    """[K, M] and [K]: `slopes @ log_mel + offsets` are log-magnitudes of a spectrum of that mel spectrogram.

    Between the centres of mel bins log-magnitudes are interpolated; a bin's own is its value less the log of the sum
    of its filter's weights.
    """
    filters_MK = mel_filters(features).astype(np.float64)
    own_hz = np.linspace(0, features.sample_rate / 2, filters_MK.shape[1])
    centres_hz = (filters_MK @ own_hz) / filters_MK.sum(1)
    wanted_hz = np.linspace(0, features.sample_rate / 2, n_fft // 2 + 1)
    one_hot_MM = np.eye(features.mel_bins)
    slopes_KM = np.stack([np.interp(wanted_hz, centres_hz, row) for row in one_hot_MM], axis=1)
    scale = math.log(n_fft / features.n_fft) - np.log(filters_MK.sum(1))
    return torch.from_numpy(slopes_KM).float(), torch.from_numpy(slopes_KM @ scale).float()


def _keep(mel_BMT: Tensor, frames_B: Tensor | None) -> Tensor:
    """[B, T, 1]: 1 within the frames of an utterance, 0 beyond."""
    if frames_B is None:
        return mel_BMT.new_ones(mel_BMT.shape[0], mel_BMT.shape[2], 1)
    return inside(frames_B, mel_BMT.shape[2]).to(mel_BMT.dtype)[:, :, None]
