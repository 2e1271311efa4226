"""Schema, defaults and help of everything that the training of vocoders reads from TOML files and flags."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.config import check_not_negative, check_positive
from common.features import TTS, LogMelConfig
from common.runs.run_directory import FromCheckpoint
from common.training.course import EveryConfig
from common.training.optimizers import OptimConfig
from common.training.schedule import ScheduleConfig
from common.training.settings import EpochSettings, SourceSettings
from fastpitch.vocoders.networks.config import HifiganConfig, IstftConfig, WaveglowConfig


@dataclass(frozen=True, kw_only=True)
class DataConfig(SourceSettings):
    """What is read, and how it is cut."""

    mels: Path | None = None
    """Folder of mel spectrograms for fine-tuning: <utterance id>.npy or .pt, [mel bins, frames], which the generator
    gets to hear."""
    segment_frames: int = 32
    """Frames per training segment; silence follows a shorter clip."""
    segments_per_clip: int = 1
    """Segments that are drawn from every clip in an epoch."""
    peak: float = 0.95
    """Peak that every clip is scaled to, 0 for no scaling; not in fine-tuning, whose mel spectrograms are as they
    are."""
    on_error: Literal["stop", "skip"] = "stop"
    """Treatment of a bad manifest entry or recording: it ends the run, or another clip is taken in its place."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "peak")
        if self.segment_frames < 8 or self.segments_per_clip < 1:
            raise ValueError(
                f"segment_frames = {self.segment_frames}, segments_per_clip = {self.segments_per_clip}: "
                "expected at least 8 frames and 1 segment"
            )


@dataclass(frozen=True, kw_only=True)
class VocoderRun(EpochSettings):
    """A run; the networks, and the defaults that go with them, are each vocoder's own."""

    features: LogMelConfig = TTS
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig
    """Optimiser of each network that is trained."""
    schedule: ScheduleConfig
    batch_size: int
    """Segments per process and step."""
    clip_norm: float = 0.0
    """Greatest norm of the gradient of each network that is trained; 0 for no limit."""
    cudnn_benchmark: bool = True
    """Whether cuDNN times its algorithms for the shapes of a training step and takes the fastest; on CUDA alone. False
    gives runs that repeat more exactly."""
    seed: int = 1234
    from_checkpoint: FromCheckpoint = "architecture"
    """Parts of `checkpoint` that a new run takes. architecture: its generator and features, in place of those
    configured, and all weights; half: weights that fit the configured networks, at least half of each; any: weights
    that fit, however few."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "clip_norm")


@dataclass(frozen=True, kw_only=True)
class DiscriminatorConfig:
    """The discriminators, networks that tell real audio from generated. The defaults are HiFi-GAN's."""

    periods: tuple[int, ...] = (2, 3, 5, 7, 11)
    """Periods of the period discriminators, one network each: audio folded into rows of so many samples."""
    scales: int = 3
    """Number of scale discriminators: over the audio, and over the audio averaged down to a half, a quarter ..."""
    resolutions: tuple[int, ...] = ()
    """Window lengths of the spectrogram discriminators, one network each (UnivNet, Jang et al. 2021)."""
    divide_channels: int = 1
    """Divisor of all channels: 4 and 16 are for training on a CPU."""
    fp32_grouped: bool = False
    """Whether grouped convolutions run in fp32 whatever the precision, as some GPUs are slow with them in fp16."""

    def __post_init__(self) -> None:
        check_not_negative(self, "scales")
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
    """Step from which the discriminators count; before it only mel and stft do."""

    def __post_init__(self) -> None:
        check_not_negative(self, "mel", "stft", "features", "adversarial", "adversarial_from")

    @property
    def needs_discriminators(self) -> bool:
        """Whether anything depends on them, from `adversarial_from` on."""
        return self.features > 0 or self.adversarial > 0


@dataclass(frozen=True, kw_only=True)
class HifiganRun(VocoderRun):
    """A run of a vocoder with discriminators."""

    generator: Literal["hifigan", "istft"] = "hifigan"
    """Generator that is trained."""
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
    """Checkpoint whose generator is the start (ours, DeepLearningExamples', or a name of the hub or of a voice), with
    its discriminators where the file has them."""
    checkpoint_discriminators: Path | None = None
    """Checkpoint whose discriminators are the start (DeepLearningExamples' hifigan_discrim_checkpoint_*.pt, or a name
    of the hub)."""
    every: EveryConfig = field(default_factory=lambda: EveryConfig(validate_epochs=10, save_epochs=10))
    keep_epochs: tuple[int, ...] = (1000, 2000, 3000, 4000, 5000, 6000)
    samples_every_epochs: int = 100
    """Epochs between sounds and spectrograms of validation clips in TensorBoard, 0 for none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "samples_every_epochs")
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
        own = self.features
        alike = own.spectrum == "magnitude" and self.istft.n_fft == own.n_fft == own.window_samples
        if self.generator == "istft" and self.istft.corrections and not alike:
            raise ValueError(
                f"istft.corrections = {self.istft.corrections}: expected mel frames of magnitudes, and "
                f"features.n_fft = features.window_samples = istft.n_fft = {self.istft.n_fft}"
            )


@dataclass(frozen=True, kw_only=True)
class WaveglowRun(VocoderRun):
    """A run of WaveGlow."""

    generator: Literal["waveglow"] = "waveglow"
    """Network that is trained."""
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
    """Checkpoint whose weights are the start (ours, DeepLearningExamples', or a name of the hub)."""
    every: EveryConfig = field(default_factory=lambda: EveryConfig(validate_epochs=10, save_epochs=50))
    keep_epochs: tuple[int, ...] = (250, 500, 750, 1000)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "sigma")
        if self.features.hop_samples % self.model.group:
            raise ValueError(
                f"features.hop_samples = {self.features.hop_samples}: expected a multiple of model.group = "
                f"{self.model.group}"
            )
