"""Schema, defaults and help of everything FastPitch reads from TOML files and flags."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from common.course import RENAMED, EveryConfig, check_batches
from common.features import TTS, LogMelConfig
from common.optim import OptimConfig
from common.precision import Precision
from common.schedule import ScheduleConfig
from fastpitch.acoustic.pitch import PitchConfig
from fastpitch.front.symbols import TextConfig

MEAN_HZ, DEVIATION_HZ = 214.72203, 65.72038  # of the pitch of LJSpeech's speaker, over voiced frames


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The encoder, over symbols, or the decoder, over frames."""

    layers: int = 6
    """Of self-attention and two convolutions each."""
    heads: int = 1
    """Of attention."""
    head_channels: int = 64
    """Channels of a head's queries, keys and values."""
    filter_channels: int = 1536
    """Channels between the two convolutions."""
    kernel: int = 3
    """Positions a convolution spans (odd)."""
    dropout: float = 0.1
    """After attention and after the convolutions."""
    attention_dropout: float = 0.1
    """Of what a position looks at."""
    input_dropout: float = 0.0
    """Of the inputs with their positions."""

    def __post_init__(self) -> None:
        _check_kernel(self.kernel)


@dataclass(frozen=True, kw_only=True)
class PredictorConfig:
    """Predicts a number for every symbol: log-duration, pitch or energy."""

    layers: int = 2
    """Convolutions, each with normalisation and dropout."""
    filter_channels: int = 256
    """Channels of the convolutions."""
    kernel: int = 3
    """Symbols a convolution spans (odd)."""
    dropout: float = 0.1
    """After every convolution."""

    def __post_init__(self) -> None:
        _check_kernel(self.kernel)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The acoustic model: symbols in, mel frames out."""

    channels: int = 384
    """Of symbols and frames in encoder and decoder."""
    encoder: TransformerConfig = field(default_factory=TransformerConfig)
    decoder: TransformerConfig = field(default_factory=TransformerConfig)
    duration: PredictorConfig = field(default_factory=PredictorConfig)
    pitch: PredictorConfig = field(default_factory=PredictorConfig)
    energy: PredictorConfig = field(default_factory=PredictorConfig)
    uses_energy: bool = True
    """Predict the energy of symbols and condition the frames on it."""
    pitch_kernel: int = 3
    """Symbols that the embedding of pitch spans (odd)."""
    energy_kernel: int = 3
    """Symbols that the embedding of energy spans (odd)."""
    speakers: int = 1
    """Voices; with more than one, each has an embedding."""
    speaker_weight: float = 1.0
    """Factor of the speaker's embedding."""
    speaker_conditions: Literal["encoder", "all"] = "encoder"
    """The speaker's embedding is added to the input of the encoder (published), or of predictors and decoder too."""
    max_duration: float = 75.0
    """Frames; no symbol is predicted to be longer."""

    def __post_init__(self) -> None:
        _check_kernel(self.pitch_kernel)
        _check_kernel(self.energy_kernel)
        if self.speakers < 1:
            raise ValueError(f"speakers = {self.speakers}: expected at least 1")
        if self.channels % 2:
            raise ValueError(f"channels = {self.channels}: expected an even number, half of them sines of the position")


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """What each part of the loss counts. The squared error of the mel frames counts 1."""

    duration: float = 0.1
    """Squared error of log(1 + frames) of the symbols."""
    pitch: float = 0.1
    """Squared error of the pitch of the symbols, in deviations."""
    energy: float = 0.1
    """Squared error of log(1 + energy) of the symbols."""
    alignment: float = 1.0
    """Forward-sum loss per symbol."""
    binarisation: float = 1.0
    """Minus the log-probability of a frame's symbol, once warmed up."""
    binarisation_start_epoch: int = 0
    """Epoch after which it begins to count."""
    binarisation_warmup_epochs: int = 100
    """Epochs in which it rises to its full weight."""

    def binarisation_weight(self, epoch: int) -> float:
        """In `epoch`, of which the first is 1."""
        risen = (epoch - self.binarisation_start_epoch) / max(1, self.binarisation_warmup_epochs)
        return self.binarisation * min(1.0, max(0.0, risen))


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What is read, and how it is batched."""

    root: Path | None = None
    """Folder that relative paths in manifests and of manifests start from (the published DATASET_PATH)."""
    train: tuple[str, ...] = ()
    """Manifests, file lists or corpus folders to train on."""
    validation: tuple[str, ...] = ()
    """The same for validation."""
    min_seconds: float = 0.1
    """Shorter training clips are left out."""
    max_seconds: float = 20.0
    """Longer training clips are left out."""
    speakers: tuple[str, ...] = ()
    """Names of the speakers, in the order of their numbers; () for one speaker, or where manifests give numbers."""
    pitch_dir: Path | None = None
    """Folder of pitch, a .pt for each clip as `fastpitch.prepare` writes it; what is missing is extracted and kept."""
    mel_dir: Path | None = None
    """Folder of mel frames, a .pt for each clip as `fastpitch.prepare` writes it, read in place of the recordings."""
    pitch_mean: tuple[float, ...] = (MEAN_HZ,)
    """Of voiced frames, in Hz: one for all speakers, or one for each."""
    pitch_std: tuple[float, ...] = (DEVIATION_HZ,)
    """Deviation from it, likewise."""
    energy: Literal["log_mel", "mel"] = "log_mel"
    """Norm over the bins of a frame of the log-mel values, or of the mel values. The published models have the first,
    which is greatest in silence, where the logarithms are far below zero; the second rises with loudness."""
    workers: int = 4
    """Loader processes per training process; 0 loads in the training process itself."""
    on_error: Literal["stop", "skip"] = "stop"
    """A bad manifest entry, recording or pitch ends the run, or is left out and told. A clip with more symbols than
    frames is left out and told in any case."""

    def __post_init__(self) -> None:
        if len(self.pitch_mean) != len(self.pitch_std) or not self.pitch_mean or min(self.pitch_std) <= 0:
            raise ValueError(
                f"pitch_mean = {self.pitch_mean}, pitch_std = {self.pitch_std}: expected equally many, deviations > 0"
            )


def _published_optimiser() -> OptimConfig:
    return OptimConfig(kind="lamb", lr=0.1, betas=(0.9, 0.98), eps=1e-9, weight_decay=1e-6)


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run of FastPitch."""

    RENAMED: ClassVar[dict[str, str]] = RENAMED
    model: ModelConfig = field(default_factory=ModelConfig)
    text: TextConfig = field(default_factory=TextConfig)
    features: LogMelConfig = TTS
    pitch: PitchConfig = field(default_factory=PitchConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=_published_optimiser)
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(kind="noam", unit="steps", warmup=1000))
    output_dir: Path = Path("runs/fastpitch")
    """The run directory: configuration, logs, checkpoints."""
    epochs: int = 1000
    """Passes over the training data."""
    epochs_this_job: int = 0
    """Stop (and save) after so many epochs of this job, 0 for none."""
    steps: int = 0
    """Stop (and save) at this optimiser step, 0 for none."""
    batch_size: int = 32
    """Clips per process and optimiser step; the published one is 256 over all processes."""
    grad_accumulation: int = 1
    """Micro-batches a step is split into; divides batch_size."""
    ema: float = 0.0
    """Decay of the exponential moving average of the weights, 0 for none."""
    precision: Precision = "fp32"
    """Arithmetic of the network; weights, features and the alignment stay fp32."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    seed: int = 1234
    """Initial weights, data order, pronunciations and dropout are functions of it."""
    resume: bool = True
    """Go on from the newest checkpoint in output_dir if there is one."""
    checkpoint: Path | None = None
    """Start from these weights (ours or DeepLearningExamples'); embeddings of symbols that both know are kept."""
    every: EveryConfig = field(default_factory=lambda: EveryConfig(log_steps=10, validate_epochs=10, save_epochs=20))
    keep_epochs: tuple[int, ...] = (100, 200, 300, 400, 500, 600, 700, 800, 900)
    """Epochs whose checkpoint is kept; of the others the last two and the best."""
    samples: int = 2
    """Validation clips shown in TensorBoard at each validation: alignment, pitch and sound; 0 for none."""
    vocoder: Path | None = None
    """Checkpoint of the vocoder that makes their sound; Griffin-Lim's algorithm without one."""
    dry_run: bool = False
    """Only run forward and backward on the longest batch, to see that it fits in memory."""
    tensorboard: bool = True
    """Write TensorBoard event files."""

    def __post_init__(self) -> None:
        check_batches(self.batch_size, self.grad_accumulation, self.ema)
        if self.epochs < 1:
            raise ValueError(f"epochs = {self.epochs}: expected at least 1")
        for name in ("epochs_this_job", "steps", "samples"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)}: expected a number, or 0 for none")
        framing = (self.features.sample_rate, self.features.hop_samples)
        if framing != (self.pitch.sample_rate, self.pitch.hop_samples):
            raise ValueError(
                f"pitch.sample_rate = {self.pitch.sample_rate}, pitch.hop_samples = {self.pitch.hop_samples}: expected "
                f"{framing[0]} and {framing[1]}, those of features"
            )
        if len(self.data.pitch_mean) not in (1, self.model.speakers):
            raise ValueError(
                f"data.pitch_mean has {len(self.data.pitch_mean)} values: expected 1, or {self.model.speakers}, "
                "one for each speaker"
            )


def _check_kernel(kernel: int) -> None:
    if kernel % 2 == 0:
        raise ValueError(f"kernel = {kernel}: expected an odd number of positions")
