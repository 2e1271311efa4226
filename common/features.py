"""Log-mel features and their normalisation: batched, on the device of the audio, without waiting for it.

Legend: B utterances, N samples, T frames, F mel bins, K frequencies of the Fourier transform.

Nothing here is random, and nothing modifies its input.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from common.audio.silence import Keep, keeper
from common.config import check_not_negative, check_positive
from common.devices.precision import float32_math
from common.lengths import inside, utterances_per_block

# Utterances are taken in blocks of about this many values, which stay in the cache of a CPU from one pass to the next,
# and which bound the memory of the transform on a GPU.
NORMALIZE_BLOCK = {"cpu": 2**21}
TRANSFORM_BLOCK = {"cpu": 2**18, "cuda": 2**22}

Count = TypeVar("Count", int, Tensor)
Normalization = Literal["per_feature", "all_features", "none"]


@dataclass(frozen=True, kw_only=True)
class LogMelConfig:
    """From samples to log-mel features."""

    # The defaults are the recipe of Jasper and QuartzNet; others are below, beginning with `TTS`.
    sample_rate: int = 16_000
    """Sample rate of the audio, in Hz."""
    n_fft: int = 512
    """Length of the Fourier transform, in samples."""
    window_samples: int = 320
    """Length of the Hann window, which sits in the middle of the transform."""
    hop_samples: int = 160
    """Samples from the start of one frame to the start of the next."""
    window_is_periodic: bool = False
    """Form of the Hann window: of period `window_samples` (True), or ending in zero (False)."""
    mel_bins: int = 64
    """Number of features per frame."""
    lowest_hz: float = 0.0
    """Lower edge of the first mel bin."""
    highest_hz: float = 8_000.0
    """Upper edge of the last mel bin."""
    spectrum: Literal["power", "magnitude"] = "power"
    """Spectrum that the mel filters are applied to."""
    preemphasis: float = 0.97
    """Factor of the pre-emphasis x[n] - preemphasis * x[n-1]; 0 for none."""
    noise_floor: float = 1e-5
    """Standard deviation of the white noise whose expected power is added to every spectrum, against the logarithm of
    digital silence: the dither of the published recipes without its randomness; 0 for none."""
    log_guard: Literal["add", "clamp"] = "add"
    """Guard against the logarithm of 0: log(x + log_floor) for add, log(max(x, log_floor)) for clamp."""
    log_floor: float = 1e-20
    """Smallest value of which the logarithm is taken, or that is added to each; see log_guard."""
    normalize: Normalization = "per_feature"
    """Normalisation over the frames of an utterance to mean 0 and deviation 1: per mel bin, of all bins, or none."""
    longest_pause: float = 0.0
    """Length in seconds that longer pauses of a recording are cut to before features are computed, at its ends to half
    of it: the network is not given silence; 0 for recordings as they are, as the published models have it."""
    pause_db: float = 25.0
    """Decibels below the loudest hundredth of a second from which on a recording pauses."""
    edges: Literal["reflect", "zeros"] = "reflect"
    """Samples that a window meets beyond the ends of an utterance: the audio reflected there, or zeros."""
    frame_count: Literal["ceil", "centered", "floor"] = "ceil"
    """Number of frames: samples / hop rounded up (ceil) or down (floor), or every frame whose centre lies inside the
    audio, 1 + floor(samples / hop) (centered)."""
    pad_to_multiple: int = 16
    """Divisor of the number of frames of a batch, which is padded to a multiple of it."""

    def __post_init__(self) -> None:
        check_positive(self, "sample_rate", "window_samples", "hop_samples", "mel_bins", "log_floor", "pad_to_multiple")
        check_not_negative(self, "noise_floor", "longest_pause")
        check_positive(self, "pause_db")
        if self.window_samples % 2 or self.n_fft % 2 or self.window_samples > self.n_fft:
            raise ValueError(
                f"LogMelConfig: window_samples {self.window_samples} and n_fft {self.n_fft}; "
                "both must be even, and the window no longer than the transform"
            )
        if not 0 <= self.lowest_hz < self.highest_hz <= self.sample_rate / 2:
            raise ValueError(
                f"LogMelConfig: mel bins from {self.lowest_hz:g} to {self.highest_hz:g} Hz; "
                f"expected 0 <= lowest_hz < highest_hz <= {self.sample_rate / 2:g}, half of the sample rate"
            )

    def keeper(self, *, trim: bool = False) -> Keep | None:
        """What cuts pauses out of recordings, or with `trim` silence off their ends where pauses stay."""
        return keeper(self.sample_rate, longest_pause=self.longest_pause, pause_db=self.pause_db, trim=trim)

    def frames(self, samples: Count) -> Count:
        """Number of frames of an utterance, or of each in a tensor."""
        if self.frame_count == "ceil":
            return (samples + self.hop_samples - 1) // self.hop_samples
        return samples // self.hop_samples + (self.frame_count == "centered")


TTS = LogMelConfig(
    sample_rate=22_050,
    n_fft=1024,
    window_samples=1024,
    hop_samples=256,
    window_is_periodic=True,
    mel_bins=80,
    spectrum="magnitude",
    preemphasis=0.0,
    noise_floor=0.0,
    log_guard="clamp",
    log_floor=1e-5,
    normalize="none",
    frame_count="centered",
    pad_to_multiple=1,
)
"""The features of FastPitch, WaveGlow and Tacotron 2."""

NEMO = LogMelConfig(
    window_samples=400, mel_bins=80, log_floor=2**-24, edges="zeros", frame_count="floor", pad_to_multiple=1
)
"""The features of NeMo's FastConformer."""


class Features(NamedTuple):
    """`features_BFT` float32, zero from `frames_B` on."""

    features_BFT: Tensor
    frames_B: Tensor


class LogMel(nn.Module):
    """Log-mel features of a batch of audio, always in float32, whatever autocast or `.half()` say.

    An utterance has the same features alone and in any batch: audio is reflected (or followed by zeros) at the end of
    each utterance, not at the end of the batch. Audio too short for one reflection is reflected to and fro. Gradients
    reach the audio only with `normalize="none"`.
    """

    window: Tensor
    filters_FK: Tensor

    def __init__(self, cfg: LogMelConfig | None = None) -> None:
        super().__init__()
        self.cfg = cfg or LogMelConfig()
        self.register_buffer("window", None, persistent=False)
        self.register_buffer("filters_FK", None, persistent=False)
        self._set_constants(torch.device("cpu"))
        self.noise_power = self.cfg.noise_floor**2 * float(self.window.double().square().sum())
        """What white noise of deviation `noise_floor` adds to every frequency of a power spectrum in expectation."""

    def forward(self, audio_BN: Tensor, samples_B: Tensor, *, window_frames: int = 0) -> Features:
        """Features of `samples_B[b]` samples of each row in [-1, 1]; what follows them is ignored.

        `window_frames`: frames around each that features are normalised over, 0 for all. Raises ValueError for wrong
        shapes.
        """
        _check_audio(audio_BN, samples_B)
        with torch.autocast(audio_BN.device.type, enabled=False), float32_math("fp32"):
            audio_BN = audio_BN.float()
            samples_B = samples_B.to(audio_BN.device)
            frames_B = self.cfg.frames(samples_B)
            step = utterances_per_block(audio_BN, TRANSFORM_BLOCK)
            blocks = zip(audio_BN.split(step), samples_B.split(step), strict=True)
            features_BFT = torch.cat([self._log_mel(*block) for block in blocks])
            kind = self.cfg.normalize
            if window_frames:
                normal_BFT = normalize_moving(features_BFT, frames_B, window_frames, kind)
                return Features(normal_BFT, frames_B)
            return Features(normalize(features_BFT, frames_B, kind, in_place=True), frames_B)

    def _log_mel(self, audio_BN: Tensor, samples_B: Tensor) -> Tensor:
        cfg = self.cfg
        frames = max(1, -(-cfg.frames(audio_BN.shape[1]) // cfg.pad_to_multiple)) * cfg.pad_to_multiple
        continued = _reflected if cfg.edges == "reflect" else _silenced
        signal_BN = continued(emphasized(audio_BN, cfg.preemphasis), samples_B, cfg.n_fft // 2)
        missing = (frames - 1) * cfg.hop_samples + cfg.n_fft - signal_BN.shape[1]
        pieces_BTN = nn.functional.pad(signal_BN, (0, missing)).unfold(1, cfg.n_fft, cfg.hop_samples) * self.window
        # In single precision the rounding of the transform shows as 1e-4 in weak bins of loud frames. MPS has no other.
        precise = torch.float32 if audio_BN.device.type == "mps" else torch.float64
        spectrum_BTK = torch.fft.rfft(pieces_BTN.to(precise))
        if cfg.spectrum == "power":
            energy_BTK = spectrum_BTK.real.float().square() + spectrum_BTK.imag.float().square() + self.noise_power
        else:
            # Half the time of `abs`; clamped, because the gradient of a square root at zero is not finite.
            power_BTK = spectrum_BTK.real.square() + spectrum_BTK.imag.square() + self.noise_power
            energy_BTK = power_BTK.clamp(min=torch.finfo(precise).tiny).sqrt().float()
        mel_BFT = self.filters_FK @ energy_BTK.mT
        guarded_BFT = mel_BFT + cfg.log_floor if cfg.log_guard == "add" else mel_BFT.clamp(min=cfg.log_floor)
        return guarded_BFT.log()

    def _set_constants(self, device: torch.device) -> None:
        cfg = self.cfg
        hann = torch.hann_window(cfg.window_samples, periodic=cfg.window_is_periodic, device=device)
        margin = (cfg.n_fft - cfg.window_samples) // 2
        self.window = nn.functional.pad(hann, (margin, cfg.n_fft - cfg.window_samples - margin))
        self.filters_FK = torch.from_numpy(mel_filters(cfg)).to(device)

    def _apply(self, fn, recurse: bool = True):  # type: ignore[no-untyped-def]
        # .half() and .to(dtype) move the module but must not round its constants.
        super()._apply(fn, recurse)
        self._set_constants(self.window.device)
        return self


def normalize(
    features_BFT: Tensor, frames_B: Tensor, kind: Normalization = "per_feature", *, in_place: bool = False
) -> Tensor:
    """(x - mean) / (deviation + 1e-5) over the frames of each utterance; zero beyond. `in_place`: over the features.

    The deviation has the divisor frames - 1 (one frame alone becomes zero), and so do constant features: what is left
    of them after subtraction is rounding.
    """
    keep_B1T = _inside(features_BFT, frames_B)
    if kind == "none":
        return features_BFT.mul_(keep_B1T) if in_place else features_BFT * keep_B1T
    out = features_BFT if in_place else torch.empty_like(features_BFT)
    dims = (1, 2) if kind == "all_features" else 2
    # The product with the mask sums over the frames of an utterance in one pass.
    sum_BF1, count_B11 = torch.bmm(keep_B1T, features_BFT.mT).mT, frames_B[:, None, None]
    if kind == "all_features":
        sum_BF1, count_B11 = sum_BF1.sum(1, keepdim=True), count_B11 * features_BFT.shape[1]
    mean_BF1 = sum_BF1 / count_B11.clamp(min=1)
    rounding_BF1 = 1e-5 * mean_BF1.abs()
    root_B11 = (count_B11 - 1).clamp(min=1).sqrt()
    step = utterances_per_block(features_BFT, NORMALIZE_BLOCK)
    tensors = (features_BFT, keep_B1T, mean_BF1, root_B11, rounding_BF1, out)
    for features, keep, mean, root, rounding, result in zip(*(x.split(step) for x in tensors), strict=True):
        torch.sub(features, mean, out=result).mul_(keep)
        # A norm is thirty times as fast as torch.std.
        deviation = torch.linalg.vector_norm(result, dim=dims, keepdim=True) / root
        result.mul_((deviation + 1e-5).masked_fill_(deviation <= rounding, torch.inf).reciprocal_())
    return out


def normalize_moving(
    features_BFT: Tensor,
    frames_B: Tensor,
    window_frames: int,
    kind: Normalization = "per_feature",
) -> Tensor:
    """As `normalize`, over the `window_frames` frames around each, which are as many at the ends of an utterance.

    For recordings in which voices and loudness change, by models of single utterances. One that is no longer than the
    window is normalised over all of it.
    """
    if kind == "none":
        return normalize(features_BFT, frames_B, kind)
    is_one, bins = kind == "all_features", features_BFT.shape[1] if kind == "all_features" else 1
    # Sums over windows are differences of sums from the start, which need their digits; of differences from the mean.
    precise = torch.float32 if features_BFT.device.type == "mps" else torch.float64
    keep_B1T = _inside(features_BFT, frames_B).to(precise)
    centred_BFT = features_BFT * keep_B1T
    whole = centred_BFT.sum((1, 2) if is_one else 2, keepdim=True) / (bins * frames_B[:, None, None]).clamp(min=1)
    centred_BFT = (centred_BFT - whole) * keep_B1T
    first_BT = torch.arange(features_BFT.shape[2], device=features_BFT.device) - window_frames // 2
    first_BT = torch.minimum(first_BT, (frames_B - window_frames)[:, None]).clamp(min=0)
    last_BT = torch.minimum(first_BT + window_frames, frames_B[:, None])

    def over_windows(values_BFT: Tensor) -> Tensor:
        sums_BFT = nn.functional.pad((values_BFT.sum(1, keepdim=True) if is_one else values_BFT).cumsum(2), (1, 0))
        last, first = (at_BT[:, None].expand(-1, sums_BFT.shape[1], -1) for at_BT in (last_BT, first_BT))
        return sums_BFT.gather(2, last) - sums_BFT.gather(2, first)

    count_B1T = bins * (last_BT - first_BT)[:, None].clamp(min=1)
    mean_BFT = over_windows(centred_BFT) / count_B1T
    squares_BFT = (over_windows(centred_BFT.square()) - count_B1T * mean_BFT.square()).clamp(min=0)
    deviation_BFT = (squares_BFT / (count_B1T - 1).clamp(min=1)).sqrt()
    constant_BFT = deviation_BFT <= 1e-5 * (whole + mean_BFT).abs()
    scale_BFT = (deviation_BFT + 1e-5).masked_fill(constant_BFT, torch.inf).reciprocal()
    return ((centred_BFT - mean_BFT) * scale_BFT * keep_B1T).to(features_BFT.dtype)


def mel_filters(cfg: LogMelConfig) -> np.ndarray:
    """Triangles of equal area on the mel scale of Slaney's Auditory Toolbox (1998), float32 [F, K]."""
    frequencies_K = np.linspace(0, cfg.sample_rate / 2, cfg.n_fft // 2 + 1)
    edges = _mel_to_hz(np.linspace(_hz_to_mel(cfg.lowest_hz), _hz_to_mel(cfg.highest_hz), cfg.mel_bins + 2))
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising_FK = (frequencies_K - left) / (middle - left)
    falling_FK = (right - frequencies_K) / (right - middle)
    triangles_FK = np.maximum(0, np.minimum(rising_FK, falling_FK))
    return (triangles_FK * 2 / (right - left)).astype(np.float32)


# Slaney's scale is linear up to 1 kHz (mel 15) and then grows by a factor of 6.4 every 27 mel.
_HZ_PER_MEL, _LINEAR_UP_TO_HZ, _GROWTH_PER_MEL = 200 / 3, 1_000.0, math.log(6.4) / 27


def _hz_to_mel(hz: float) -> float:
    if hz < _LINEAR_UP_TO_HZ:
        return hz / _HZ_PER_MEL
    return _LINEAR_UP_TO_HZ / _HZ_PER_MEL + math.log(hz / _LINEAR_UP_TO_HZ) / _GROWTH_PER_MEL


def _mel_to_hz(mel: np.ndarray) -> np.ndarray:
    above = mel - _LINEAR_UP_TO_HZ / _HZ_PER_MEL
    return np.where(above < 0, mel * _HZ_PER_MEL, _LINEAR_UP_TO_HZ * np.exp(above * _GROWTH_PER_MEL))


def _check_audio(audio_BN: Tensor, samples_B: Tensor) -> None:
    if audio_BN.ndim != 2 or samples_B.shape != audio_BN.shape[:1]:
        raise ValueError(
            f"LogMel: audio of shape {tuple(audio_BN.shape)} and samples of shape {tuple(samples_B.shape)}; "
            "expected [utterances, samples] and [utterances]"
        )
    if not audio_BN.numel():
        raise ValueError(f"LogMel: audio of shape {tuple(audio_BN.shape)} holds no samples")


def emphasized(audio_BN: Tensor, coefficient: float) -> Tensor:
    """x[n] - coefficient x[n-1], of a silence before the first sample."""
    return audio_BN - coefficient * nn.functional.pad(audio_BN, (1, 0))[:, :-1] if coefficient else audio_BN


def _reflected(signal_BN: Tensor, samples_B: Tensor, reach: int) -> Tensor:
    """`reach` samples reflected at the beginning and at the end of each utterance; zeros after that."""
    n_utterances, n_samples = signal_BN.shape
    samples_B1 = samples_B[:, None]
    inside_BN = inside(samples_B, n_samples)
    offset = torch.arange(reach, device=signal_BN.device)
    before_BR = _reflect_index((offset - reach).expand(n_utterances, -1), samples_B1)
    after_BR = _reflect_index(samples_B1 + offset, samples_B1)
    signal_BN = torch.where(inside_BN, signal_BN, 0.0)
    middle_BN = nn.functional.pad(signal_BN, (0, reach)).scatter(1, samples_B1 + offset, signal_BN.gather(1, after_BR))
    return torch.cat([signal_BN.gather(1, before_BR), middle_BN], 1)


def _silenced(signal_BN: Tensor, samples_B: Tensor, reach: int) -> Tensor:
    """`reach` zeros before each utterance and after it."""
    inside_BN = inside(samples_B, signal_BN.shape[1])
    return nn.functional.pad(torch.where(inside_BN, signal_BN, 0.0), (reach, reach))


def _reflect_index(index_BR: Tensor, samples_B1: Tensor) -> Tensor:
    """Where the sample at `index_BR`, outside of the utterance, is found inside: a walk to and fro between the ends."""
    last_B1 = (samples_B1 - 1).clamp(min=0)
    return last_B1 - (last_B1 - index_BR.remainder((2 * last_B1).clamp(min=1))).abs()


def _inside(features_BFT: Tensor, frames_B: Tensor) -> Tensor:
    return inside(frames_B, features_BFT.shape[2])[:, None].to(features_BFT.dtype)
