"""The networks that turn mel frames into audio: their sizes, as TOML files, flags and checkpoints give them."""

import math
from dataclasses import dataclass
from typing import Literal

from common.config import check_positive

# What a vocoder's mel spectrograms must have in common with those that it is given.
SAME_MEL = ("sample_rate", "mel_bins", "hop_samples", "n_fft", "window_samples", "lowest_hz", "highest_hz", "log_floor")


@dataclass(frozen=True, kw_only=True)
class HifiganConfig:
    """The generator of HiFi-GAN (Kong et al. 2020). The defaults are V1."""

    upsample_rates: tuple[int, ...] = (8, 8, 2, 2)
    """Output samples per input sample of each stage; their product is the hop."""
    upsample_kernels: tuple[int, ...] = (16, 16, 4, 4)
    """Output samples that the transposed convolution of each stage spans: its rate, or an even number more."""
    channels: int = 512
    """Channels after the first convolution; every stage halves them."""
    resblock: Literal["1", "2"] = "1"
    """Kind of residual block: 1 has a convolution without dilation after every dilated one, 2 has none."""
    resblock_kernels: tuple[int, ...] = (3, 7, 11)
    """Samples that the convolutions of each residual block of a stage span (odd); the blocks' outputs are averaged."""
    resblock_dilations: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    """Dilations of the convolutions of each residual block."""

    def __post_init__(self) -> None:
        _check_length("upsample_kernels", self.upsample_kernels, "upsample_rates", self.upsample_rates)
        _check_length("resblock_dilations", self.resblock_dilations, "resblock_kernels", self.resblock_kernels)
        for rate, kernel in zip(self.upsample_rates, self.upsample_kernels, strict=True):
            if kernel < rate or (kernel - rate) % 2:
                raise ValueError(
                    f"upsample kernel {kernel} for rate {rate}: expected the rate, or an even number of samples more"
                )
        if any(kernel % 2 == 0 for kernel in self.resblock_kernels):
            raise ValueError(f"resblock_kernels = {self.resblock_kernels}: expected odd numbers")
        if self.channels % 2 ** len(self.upsample_rates):
            raise ValueError(f"channels = {self.channels}: cannot be halved {len(self.upsample_rates)} times")

    @property
    def hop_samples(self) -> int:
        """Samples of audio per frame."""
        return math.prod(self.upsample_rates)


@dataclass(frozen=True, kw_only=True)
class IstftConfig:
    """A light generator: ConvNeXt blocks at the frame rate and an inverse STFT (as Vocos, Siuzdak 2023)."""

    channels: int = 384
    """Channels between blocks."""
    expansion: int = 3
    """Channels within a block, as a multiple of those between blocks."""
    layers: int = 8
    """ConvNeXt blocks."""
    kernel: int = 7
    """Frames that a block spans (odd)."""
    n_fft: int = 1024
    """Samples of a frame of the inverse STFT; a multiple of the hop, at least twice."""
    corrections: int = 0
    """Number of corrections: the mel frames of the output are compared with those that were given, and its magnitudes
    corrected. Each takes an eighth of the time of 6 layers of 256 channels. Any trained network will do."""

    phases: Literal["network", "pulses"] = "network"
    """Phases that corrections begin with: the network's; or those of pulses at the pitch of the network's audio where
    there is a voice, and of noise elsewhere, which takes as long as two or three corrections."""

    def __post_init__(self) -> None:
        check_positive(self, "channels", "expansion", "layers", "kernel", "n_fft")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel = {self.kernel}: expected an odd number of frames")
        if not 0 <= self.corrections <= 100:
            raise ValueError(f"corrections = {self.corrections}: expected 0 to 100")


@dataclass(frozen=True, kw_only=True)
class WaveglowConfig:
    """The network of WaveGlow (Prenger, Valle, Catanzaro 2018)."""

    flows: int = 12
    """Invertible steps, each a mixing of channels and a coupling layer."""
    group: int = 8
    """Samples that become the channels of one position."""
    early_every: int = 4
    """Flows between two early outputs, of some channels ahead of the others."""
    early_channels: int = 2
    """Channels of an early output."""
    layers: int = 8
    """Convolutions in the network of a coupling layer; the i-th has dilation 2^i."""
    kernel: int = 3
    """Positions that a convolution spans (odd)."""
    channels: int = 256
    """Channels of the network of a coupling layer: 256 in the released model, 512 in the paper."""

    def __post_init__(self) -> None:
        check_positive(self, "flows", "group", "early_every", "early_channels", "layers", "kernel", "channels")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel = {self.kernel}: expected an odd number of positions")
        early = (self.flows - 1) // self.early_every * self.early_channels
        if self.group % 2 or self.early_channels % 2 or self.group - early < 2:
            raise ValueError(
                f"group = {self.group} with {early} channels put out early: expected even numbers, and 2 channels left"
            )


def _check_length(name: str, values: tuple[object, ...], like: str, others: tuple[object, ...]) -> None:
    if len(values) != len(others):
        raise ValueError(f"{name} has {len(values)} values and {like} {len(others)}; expected as many")
