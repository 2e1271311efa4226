"""Schema, defaults and help of everything WaveGlow reads from TOML files and flags."""

from dataclasses import dataclass, field
from pathlib import Path

from common.features import TTS, LogMelConfig
from common.optim import OptimConfig
from common.precision import Precision
from common.schedule import ScheduleConfig
from fastpitch.hifigan.config import DataConfig


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
class Config:
    """A run of WaveGlow."""

    model: WaveglowConfig = field(default_factory=WaveglowConfig)
    features: LogMelConfig = TTS
    data: DataConfig = field(default_factory=lambda: DataConfig(segment_frames=32, peak=0.0))
    sigma: float = 1.0
    """Standard deviation of the noise that audio is mapped to."""
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(kind="adamw", lr=1e-4, weight_decay=0.0))
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(kind="constant"))
    clip_norm: float = 0.0
    """Greatest norm of the gradient, 0 for any."""
    output_dir: Path = Path("runs/waveglow")
    """The run directory: configuration, logs, checkpoints."""
    epochs: int = 1000
    """Passes over the training data."""
    epochs_this_job: int = 0
    """Stop (and save) after so many epochs of this job, 0 for none."""
    steps: int = 0
    """Stop (and save) at this step, 0 for none."""
    batch_size: int = 10
    """Segments per process and step."""
    grad_accumulation: int = 1
    """Micro-batches a step is split into; divides batch_size."""
    ema: float = 0.0
    """Decay of the exponential moving average of the weights, 0 for none."""
    precision: Precision = "fp32"
    """Arithmetic of the network; weights, features and the loss stay fp32."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    seed: int = 1234
    """Initial weights, data order and segments are functions of it."""
    resume: bool = True
    """Go on from the newest checkpoint in output_dir if there is one."""
    checkpoint: Path | None = None
    """Start from these weights (ours or DeepLearningExamples')."""
    save_every_epochs: int = 50
    """Epochs between checkpoints; one is always written at the end."""
    keep_epochs: tuple[int, ...] = (250, 500, 750, 1000)
    """Epochs whose checkpoint is kept; of the others the last two and the best."""
    validate_every_epochs: int = 10
    """Epochs between validations; there is always one at the end."""
    log_every: int = 25
    """Steps between lines of training loss; the loss is checked to be finite then."""
    tensorboard: bool = True
    """Write TensorBoard event files."""

    def __post_init__(self) -> None:
        counts = (
            "epochs",
            "batch_size",
            "grad_accumulation",
            "save_every_epochs",
            "validate_every_epochs",
            "log_every",
        )
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: expected at least 1")
        if self.batch_size % self.grad_accumulation:
            raise ValueError(
                f"batch_size = {self.batch_size} is not a multiple of grad_accumulation = {self.grad_accumulation}"
            )
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema = {self.ema}: expected a decay from 0, for none, to below 1")
        if self.sigma <= 0:
            raise ValueError(f"sigma = {self.sigma}: expected a standard deviation above 0")
        if self.features.hop_samples % self.model.group:
            raise ValueError(
                f"features.hop_samples = {self.features.hop_samples}: expected a multiple of model.group = "
                f"{self.model.group}"
            )
