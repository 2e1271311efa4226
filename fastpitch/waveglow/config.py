"""Schema, defaults and help of everything WaveGlow reads from TOML files and flags."""

from dataclasses import dataclass, field
from pathlib import Path

from common.optim import OptimConfig
from common.schedule import ScheduleConfig
from fastpitch.vocoder_config import DataConfig, TrainingConfig


@dataclass(frozen=True, kw_only=True)
class WaveglowConfig:
    """The network of WaveGlow (Prenger, Valle, Catanzaro 2018)."""

    flows: int = 12
    """Invertible steps."""
    group: int = 8
    """Samples that are the channels of one position."""
    early_every: int = 4
    """Flows between two outputs of some channels ahead of the others."""
    early_channels: int = 2
    """Channels of an early output."""
    layers: int = 8
    """Convolutions in the network of a coupling layer; the i-th has dilation 2^i."""
    kernel: int = 3
    """Positions a convolution spans (odd)."""
    channels: int = 256
    """Of the network of a coupling layer: 256 in the released model, 512 in the paper."""

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel = {self.kernel}: expected an odd number of positions")
        early = (self.flows - 1) // self.early_every * self.early_channels
        if self.group % 2 or self.early_channels % 2 or self.group - early < 2:
            raise ValueError(
                f"group = {self.group} with {early} channels put out early: expected even numbers, and 2 channels left"
            )


@dataclass(frozen=True, kw_only=True)
class Config(TrainingConfig):
    """A run of WaveGlow."""

    model: WaveglowConfig = field(default_factory=WaveglowConfig)
    sigma: float = 1.0
    """Standard deviation of the noise that audio is mapped to."""
    data: DataConfig = field(default_factory=lambda: DataConfig(peak=0.0))
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(kind="adamw", lr=1e-4, weight_decay=0.0))
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(kind="constant"))
    output_dir: Path = Path("runs/waveglow")
    epochs: int = 1000
    batch_size: int = 10
    checkpoint: Path | None = None
    """Start from these weights (ours or DeepLearningExamples')."""
    save_every_epochs: int = 50
    keep_epochs: tuple[int, ...] = (250, 500, 750, 1000)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma <= 0:
            raise ValueError(f"sigma = {self.sigma}: expected a standard deviation above 0")
        if self.features.hop_samples % self.model.group:
            raise ValueError(
                f"features.hop_samples = {self.features.hop_samples}: expected a multiple of model.group = "
                f"{self.model.group}"
            )
