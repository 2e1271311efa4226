"""What a model offers for export: plain graphs, with the inputs that they are traced and checked with.

Shapes: B utterances, N samples, F mel bands, T feature frames, K frequencies of the transform.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.features import LogMel, LogMelConfig


class ExportGraph(NamedTuple):
    """A network whose inputs and outputs are tensors alone; inputs have the names of the module's arguments."""

    module: nn.Module
    reference: Callable[..., Sequence[Tensor]]
    """What the model computes where it is at home, features and all; takes the inputs by name."""
    inputs: Mapping[str, Tensor]
    """An example, with no two of its sizes equal by chance, from which the graph is traced."""
    axes: Mapping[str, Mapping[int, str]]
    """For each input the dimensions of any size, by the names of these sizes; of equal names are equal sizes."""
    outputs: Sequence[str]
    checks: Sequence[Mapping[str, Tensor]]
    """Other inputs on which the exported graph must agree: ragged batches, silence, one frame."""
    tolerance: float
    """Greatest difference that is taken for rounding."""
    metadata: Mapping[str, str]
    """What a runtime must know besides: labels, rates, kind of input. Every value is JSON."""


def encoded(**values: Any) -> dict[str, str]:
    """Plain values as the metadata of a graph: JSON, in which a space is a space and a number has a type."""
    return {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}


class PlainLogMel(nn.Module):
    """`LogMel` in evaluation, as a convolution with the windowed basis of the transform: operations every runtime has.

    It gives as many frames as the longest utterance has, and none for padding to a multiple.
    """

    basis_K1N: Tensor
    filters_FK: Tensor

    def __init__(self, log_mel: LogMel):
        super().__init__()
        cfg = self.cfg = log_mel.cfg
        time_N = torch.arange(cfg.n_fft, dtype=torch.float64)
        phase_KN = 2 * math.pi / cfg.n_fft * torch.arange(cfg.n_fft // 2 + 1, dtype=torch.float64)[:, None] * time_N
        basis_KN = torch.cat([phase_KN.cos(), phase_KN.sin()]) * log_mel.window.double().cpu()
        self.register_buffer("basis_K1N", basis_KN.float()[:, None])
        self.register_buffer("filters_FK", log_mel.filters_FK.clone())

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, Tensor]:
        """features_BFT, zero beyond each utterance's frames, and frames_B."""
        cfg = self.cfg
        frames_B = cfg.frames(samples_B)
        n_frames = cfg.frames(audio_BN.shape[1])
        signal_BN = self._continued(_emphasized(audio_BN, cfg.preemphasis), samples_B)
        missing = (n_frames - 1) * cfg.hop_samples + cfg.n_fft - signal_BN.shape[1]
        signal_BN = F.pad(signal_BN, (0, cfg.n_fft))[:, : signal_BN.shape[1] + missing]
        parts_BKT = F.conv1d(signal_BN[:, None], self.basis_K1N, stride=cfg.hop_samples)
        real_BKT, imaginary_BKT = parts_BKT.chunk(2, 1)
        energy_BKT = real_BKT.square() + imaginary_BKT.square()
        if cfg.spectrum == "magnitude":
            energy_BKT = energy_BKT.sqrt()
        mel_BFT = torch.matmul(self.filters_FK, energy_BKT)
        # A sum with 1e-20 guards only the logarithm of zeros, and exporters drop it: they see no difference in float32.
        is_guard = cfg.log_guard == "clamp" or cfg.log_floor < 1e-12
        log_BFT = (mel_BFT.clamp(min=cfg.log_floor) if is_guard else mel_BFT + cfg.log_floor).log()
        frame_T = torch.arange(n_frames, device=audio_BN.device)
        keep_B1T = (frame_T < frames_B[:, None, None]).to(log_BFT.dtype)
        return _normalized(log_BFT, keep_B1T, frames_B, cfg), frames_B

    def _continued(self, signal_BN: Tensor, samples_B: Tensor) -> Tensor:
        """Half a transform before and after each utterance, reflected there or silent; zeros after that."""
        reach = self.cfg.n_fft // 2
        place_N = torch.arange(signal_BN.shape[1] + 2 * reach, device=signal_BN.device) - reach
        samples_B1 = samples_B[:, None]
        inside_BN = (place_N >= 0) & (place_N < samples_B1)
        if self.cfg.edges == "reflect":
            last_B1 = (samples_B1 - 1).clamp(min=0)
            found_BN = last_B1 - (last_B1 - place_N.remainder((2 * last_B1).clamp(min=1))).abs()
            inside_BN = place_N < samples_B1 + reach
        else:
            found_BN = place_N.clamp(min=0) + torch.zeros_like(samples_B1)
        found_BN = found_BN.clamp(min=0).minimum((samples_B1 - 1).clamp(min=0))
        return signal_BN.gather(1, found_BN) * inside_BN.to(signal_BN.dtype)


def _emphasized(audio_BN: Tensor, coefficient: float) -> Tensor:
    if not coefficient:
        return audio_BN
    return audio_BN - coefficient * F.pad(audio_BN, (1, 0))[:, :-1]


def _normalized(features_BFT: Tensor, keep_B1T: Tensor, frames_B: Tensor, cfg: LogMelConfig) -> Tensor:
    """As `common.features.normalize`, in operations that every runtime has."""
    features_BFT = features_BFT * keep_B1T
    if cfg.normalize == "none":
        return features_BFT
    dims = [2] if cfg.normalize == "per_feature" else [1, 2]
    bands = 1 if cfg.normalize == "per_feature" else features_BFT.shape[1]
    count_B11 = (frames_B * bands)[:, None, None].to(features_BFT.dtype)
    mean_B_1 = features_BFT.sum(dims, keepdim=True) / count_B11.clamp(min=1)
    centred_BFT = (features_BFT - mean_B_1) * keep_B1T
    deviation_B_1 = (centred_BFT.square().sum(dims, keepdim=True) / (count_B11 - 1).clamp(min=1)).sqrt()
    is_constant_B_1 = deviation_B_1 <= 1e-5 * mean_B_1.abs()
    return torch.where(is_constant_B_1, torch.zeros_like(centred_BFT), centred_BFT / (deviation_B_1 + 1e-5))
