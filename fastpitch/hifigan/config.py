"""Schema, defaults and help of everything that the vocoders with discriminators read from TOML files and flags."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.features import TTS, LogMelConfig
from common.optim import OptimConfig
from common.precision import Precision
from common.schedule import ScheduleConfig


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
class DataConfig:
    """What is read, and how it is cut."""

    root: Path | None = None
    """Folder that relative paths in manifests and of manifests start from (the published DATASET_PATH)."""
    train: tuple[str, ...] = ()
    """Manifests, file lists or corpus folders to train on."""
    validation: tuple[str, ...] = ()
    """The same for validation during training."""
    mels: Path | None = None
    """Fine-tuning: folder of <utterance id>.npy or .pt, [mel bins, frames], that the generator gets to hear."""
    segment_frames: int = 32
    """Frames of a training segment; a shorter clip is followed by silence."""
    segments_per_clip: int = 1
    """Segments of every clip in an epoch."""
    peak: float = 0.95
    """Every clip is scaled to this peak, 0 for not at all; not in fine-tuning, whose mels are as they are."""
    workers: int = 4
    """Loader processes per training process; 0 loads in the training process itself."""
    on_error: Literal["stop", "skip"] = "stop"
    """A bad manifest entry or audio file ends the run, or another clip is taken in its place."""

    def __post_init__(self) -> None:
        if self.segment_frames < 8 or self.segments_per_clip < 1:
            raise ValueError(
                f"segment_frames = {self.segment_frames}, segments_per_clip = {self.segments_per_clip}: "
                "expected at least 8 frames and 1 segment"
            )


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run of a vocoder with discriminators."""

    generator: Literal["hifigan", "istft"] = "hifigan"
    """Which of the two is trained."""
    hifigan: HifiganConfig = field(default_factory=HifiganConfig)
    istft: IstftConfig = field(default_factory=IstftConfig)
    discriminator: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)
    features: LogMelConfig = TTS
    loss: LossConfig = field(default_factory=LossConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(
        default_factory=lambda: OptimConfig(kind="adamw", lr=3e-4, betas=(0.8, 0.99), weight_decay=0.01)
    )
    """Of the generator and of the discriminators."""
    schedule: ScheduleConfig = field(
        default_factory=lambda: ScheduleConfig(kind="exponential", hold=1, gamma=0.9998, floor=0.0)
    )
    output_dir: Path = Path("runs/hifigan")
    """The run directory: configuration, logs, checkpoints."""
    epochs: int = 6500
    """Passes over the training data; the learning-rate schedule spans them."""
    epochs_this_job: int = 0
    """Stop (and save) after so many epochs of this job, 0 for none; the schedule is not affected."""
    steps: int = 0
    """Stop (and save) at this step, 0 for none; the schedule is not affected."""
    batch_size: int = 16
    """Segments per process and step."""
    grad_accumulation: int = 1
    """Micro-batches a step is split into; divides batch_size."""
    clip_norm: float = 0.0
    """Greatest norm of the gradient of the generator, and of the discriminators; 0 for any."""
    ema: float = 0.0
    """Decay of the exponential moving average of the generator's weights, 0 for none."""
    precision: Precision = "fp32"
    """Arithmetic of the networks; weights and spectra stay fp32."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    seed: int = 1234
    """Initial weights, data order and segments are functions of it."""
    resume: bool = True
    """Go on from the newest checkpoint in output_dir if there is one."""
    checkpoint: Path | None = None
    """Start from this generator (ours or DeepLearningExamples'), and its discriminators where the file has them."""
    checkpoint_discriminators: Path | None = None
    """Start from the discriminators of this file (DeepLearningExamples' hifigan_discrim_checkpoint_*.pt)."""
    save_every_epochs: int = 10
    """Epochs between checkpoints; one is always written at the end."""
    keep_epochs: tuple[int, ...] = (1000, 2000, 3000, 4000, 5000, 6000)
    """Epochs whose checkpoint is kept; of the others the last two and the best."""
    validate_every_epochs: int = 10
    """Epochs between validations; there is always one at the end."""
    samples_every_epochs: int = 100
    """Epochs between sounds and spectrograms of validation clips in TensorBoard, 0 for none."""
    log_every: int = 25
    """Steps between lines of training loss; the losses are checked to be finite then."""
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
        for name in ("epochs_this_job", "steps", "samples_every_epochs", "clip_norm"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)}: expected a number, or 0 for none")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema = {self.ema}: expected a decay from 0, for none, to below 1")
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
