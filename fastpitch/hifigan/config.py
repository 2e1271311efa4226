"""Schema, defaults and help of everything that the vocoders with discriminators read from TOML files and flags."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.optim import OptimConfig
from common.schedule import ScheduleConfig
from fastpitch.vocoder_config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class HifiganConfig:
    """The generator of HiFi-GAN (Kong et al. 2020). The defaults are V1."""

    upsample_rates: tuple[int, ...] = (8, 8, 2, 2)
    """Output samples per input sample of each stage; their product is the hop."""
    upsample_kernels: tuple[int, ...] = (16, 16, 4, 4)
    """Output samples that a transposed convolution spans; exceeds its rate by an even number."""
    channels: int = 512
    """After the first convolution; every stage halves them."""
    resblock: Literal["1", "2"] = "1"
    """1: every dilated convolution is followed by one without dilation. 2: it is not."""
    resblock_kernels: tuple[int, ...] = (3, 7, 11)
    """Of the residual blocks of a stage, whose outputs are averaged; odd."""
    resblock_dilations: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    """For each block, those of its convolutions."""

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
    """Between blocks."""
    expansion: int = 3
    """Channels within a block, as a multiple."""
    layers: int = 8
    """Blocks."""
    kernel: int = 7
    """Frames that a block spans (odd)."""
    n_fft: int = 1024
    """Samples of a frame of the inverse STFT; a multiple of the hop, at least twice."""

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel = {self.kernel}: expected an odd number of frames")


@dataclass(frozen=True, kw_only=True)
class DiscriminatorConfig:
    """Who judges the audio. The defaults are HiFi-GAN's periods and scales."""

    periods: tuple[int, ...] = (2, 3, 5, 7, 11)
    """A network for each: audio folded into rows of so many samples."""
    scales: int = 3
    """Networks over the audio, and the audio averaged down to a half, a quarter …"""
    resolutions: tuple[int, ...] = ()
    """Networks over magnitude spectrograms with these window lengths (UnivNet, Jang et al. 2021)."""
    divide_channels: int = 1
    """Fewer channels everywhere: 4 and 16 are for training on a CPU."""
    fp32_grouped: bool = False
    """Grouped convolutions in fp32 whatever the precision, as some GPUs are slow with them in fp16."""

    def __post_init__(self) -> None:
        if self.divide_channels not in (1, 2, 4, 8, 16):
            raise ValueError(f"divide_channels = {self.divide_channels}: expected 1, 2, 4, 8 or 16")


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """What the generator minimises: a weighted sum."""

    mel: float = 45.0
    """Weight of the mean absolute difference of log-mel spectrograms over the full band."""
    stft: float = 0.0
    """Weight of the multi-resolution STFT loss (Parallel WaveGAN, Yamamoto et al. 2020); 0 for none."""
    features: float = 2.0
    """Weight of feature matching: mean absolute difference of the discriminators' activations."""
    adversarial: float = 1.0
    """Weight of the least-squares loss against the discriminators."""
    adversarial_from: int = 0
    """Step at which the discriminators come in; before it only `mel` and `stft` count."""

    @property
    def needs_discriminators(self) -> bool:
        """Whether anything depends on them, from `adversarial_from` on."""
        return self.features > 0 or self.adversarial > 0


@dataclass(frozen=True, kw_only=True)
class Config(TrainingConfig):
    """A run of a vocoder with discriminators."""

    generator: Literal["hifigan", "istft"] = "hifigan"
    """Which of the two is trained."""
    hifigan: HifiganConfig = field(default_factory=HifiganConfig)
    istft: IstftConfig = field(default_factory=IstftConfig)
    discriminator: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(
        default_factory=lambda: OptimConfig(kind="adamw", lr=3e-4, betas=(0.8, 0.99), weight_decay=0.01)
    )
    schedule: ScheduleConfig = field(
        default_factory=lambda: ScheduleConfig(kind="exponential", hold=1, gamma=0.9998, floor=0.0)
    )
    output_dir: Path = Path("runs/hifigan")
    epochs: int = 6500
    batch_size: int = 16
    checkpoint: Path | None = None
    """Start from this generator (ours or DeepLearningExamples'), and its discriminators where the file has them."""
    checkpoint_discriminators: Path | None = None
    """Start from the discriminators of this file (DeepLearningExamples' hifigan_discrim_checkpoint_*.pt)."""
    save_every_epochs: int = 10
    keep_epochs: tuple[int, ...] = (1000, 2000, 3000, 4000, 5000, 6000)
    samples_every_epochs: int = 100
    """Epochs between sounds and spectrograms of validation clips in TensorBoard, 0 for none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples_every_epochs < 0:
            raise ValueError(f"samples_every_epochs = {self.samples_every_epochs}: expected a number, or 0 for none")
        hop = self.features.hop_samples
        if self.generator == "hifigan" and self.hifigan.hop_samples != hop:
            raise ValueError(
                f"upsample_rates {self.hifigan.upsample_rates} make {self.hifigan.hop_samples} samples of a frame; "
                f"features.hop_samples is {hop}"
            )
        if self.generator == "istft" and (self.istft.n_fft % hop or self.istft.n_fft < 2 * hop):
            raise ValueError(
                f"istft.n_fft = {self.istft.n_fft}: expected a multiple of features.hop_samples = {hop}, at least twice"
            )


def _check_length(name: str, values: tuple[object, ...], like: str, others: tuple[object, ...]) -> None:
    if len(values) != len(others):
        raise ValueError(f"{name} has {len(values)} values and {like} {len(others)}; expected as many")
