"""Schema, defaults and help of everything FastPitch reads from TOML files and flags."""

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from common.config import check_not_negative, check_positive, check_shares
from common.features import TTS, LogMelConfig
from common.runs.run_directory import FromCheckpoint
from common.training.course import EveryConfig
from common.training.optimizers import OptimConfig
from common.training.schedule import ScheduleConfig
from common.training.settings import ClipSettings, UtteranceSettings
from fastpitch.acoustic.pitch import PitchConfig
from fastpitch.front.symbols import TextConfig

PUBLISHED_BATCH = 256  # clips per step, of all processes, that the published learning rate was made for
MEAN_HZ, DEVIATION_HZ = 214.72203, 65.72038  # of the pitch of LJSpeech's speaker, over voiced frames
MEL_CENTRE, MEL_SCALE = -5.0, 0.4  # of log-mel values, which lie between -11.5 and 2


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The encoder, over symbols, or the decoder, over frames."""

    layers: int = 6
    """Layers, each of self-attention and two convolutions."""
    heads: int = 1
    """Attention heads per layer."""
    head_channels: int = 64
    """Channels of a head's queries, keys and values."""
    filter_channels: int = 1536
    """Channels between the two convolutions."""
    kernel: int = 3
    """Positions that a convolution spans (odd)."""
    dropout: float = 0.1
    """Dropout after attention and after the convolutions."""
    attention_dropout: float = 0.1
    """Dropout of the attention weights."""
    input_dropout: float = 0.0
    """Dropout of the inputs once their positions are added."""

    def __post_init__(self) -> None:
        check_positive(self, "layers", "heads", "head_channels", "filter_channels", "kernel")
        check_shares(self, "dropout", "attention_dropout", "input_dropout")
        _check_kernel(self.kernel)


@dataclass(frozen=True, kw_only=True)
class PredictorConfig:
    """Predicts a number for every symbol: log-duration, pitch or energy."""

    layers: int = 2
    """Convolutions, each followed by normalisation and dropout."""
    filter_channels: int = 256
    """Channels of the convolutions."""
    kernel: int = 3
    """Symbols that a convolution spans (odd)."""
    dropout: float = 0.1
    """Dropout after every convolution."""

    def __post_init__(self) -> None:
        check_positive(self, "layers", "filter_channels", "kernel")
        check_shares(self, "dropout")
        _check_kernel(self.kernel)


@dataclass(frozen=True, kw_only=True)
class RefinerConfig:
    """Predicts the lowest mel bins anew from the outline of the frames, by flow matching (Lipman et al. 2023,
    arXiv:2210.02747); for models that draw harmonics."""

    layers: int = 0
    """Blocks of its network; 0 for no refiner."""
    channels: int = 192
    """Channels of frames in it."""
    filter_channels: int = 512
    """Channels between the two layers of a block."""
    kernel: int = 7
    """Frames that a block spans (odd)."""
    bins: int = 32
    """Number of mel bins that it predicts, from the lowest."""
    window: int = 0
    """Frames of every clip, at a random place, that it learns from in a step; 0 for all of them."""
    share: float = 1.0
    """Part of the way from the decoder's lowest bins to its own that is spoken: 1 sounds best, less keeps more of what
    tells one consonant from another."""
    learns: Literal["flow", "mean"] = "flow"
    """What the network learns: the flow, of which speech takes one step, or the mean that this step leads to, best of a
    larger refiner (teacher); a packed voice has a mean."""

    def __post_init__(self) -> None:
        check_not_negative(self, "layers", "window")
        if not 0 < self.share <= 1:
            raise ValueError(f"share = {self.share:g}: expected above 0, at most 1")
        check_positive(self, "channels", "filter_channels", "kernel", "bins")
        _check_kernel(self.kernel)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The acoustic model: symbols in, mel frames out."""

    channels: int = 384
    """Channels of symbols and frames in encoder and decoder."""
    encoder: TransformerConfig = field(default_factory=TransformerConfig)
    decoder: TransformerConfig = field(default_factory=TransformerConfig)
    duration: PredictorConfig = field(default_factory=PredictorConfig)
    pitch: PredictorConfig = field(default_factory=PredictorConfig)
    energy: PredictorConfig = field(default_factory=PredictorConfig)
    uses_energy: bool = True
    """Whether the energy of symbols is predicted, and the frames are conditioned on it."""
    pitch_kernel: int = 3
    """Symbols that the embedding of pitch spans (odd)."""
    energy_kernel: int = 3
    """Symbols that the embedding of energy spans (odd)."""
    harmonics: bool = False
    """Whether the harmonics of each frame's pitch are drawn into its mel values, as deep as the decoder says. Pitch
    then goes on through unvoiced symbols. For little speech, which teaches no harmonics."""
    refiner: RefinerConfig = field(default_factory=RefinerConfig)
    aligner: bool = True
    """Whether there is an aligner, which finds durations in training; a packed voice has none."""
    aligner_channels: int = 0
    """Channels of the space in which the aligner compares symbols and frames; 0 for as many as mel bins. Published
    models have 80, whatever their mel bins."""
    speakers: int = 1
    """Number of voices; with more than one, each has an embedding."""
    speaker_weight: float = 1.0
    """Factor of the speaker's embedding."""
    speaker_conditions: Literal["encoder", "all"] = "encoder"
    """Places at which the speaker's embedding is added: to the input of the encoder (published), or to predictors and
    decoder too."""
    max_duration: float = 75.0
    """Greatest duration that is predicted for a symbol, in frames."""

    def __post_init__(self) -> None:
        check_positive(self, "channels", "pitch_kernel", "energy_kernel", "max_duration")
        check_not_negative(self, "speaker_weight", "aligner_channels")
        _check_kernel(self.pitch_kernel)
        _check_kernel(self.energy_kernel)
        if self.speakers < 1:
            raise ValueError(f"speakers = {self.speakers}: expected at least 1")
        if self.refiner.layers and not self.harmonics:
            raise ValueError("refiner.layers: expected harmonics = true beside it, whose places the refiner is told")
        if self.channels % 2:
            raise ValueError(f"channels = {self.channels}: expected an even number, half of them sines of the position")


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """Weights of the parts of the loss, beside the squared error of the mel frames, whose weight is 1."""

    duration: float = 0.1
    """Weight of the squared error of log(1 + frames) of the symbols."""
    pitch: float = 0.1
    """Weight of the squared error of the pitch of the symbols, in standard deviations."""
    energy: float = 0.1
    """Weight of the squared error of log(1 + energy) of the symbols."""
    alignment: float = 1.0
    """Weight of the forward-sum loss per symbol."""
    binarisation: float = 1.0
    """Weight, once warmed up, of minus the log-probability of the symbol that a frame is aligned to."""
    refiner: float = 1.0
    """Weight of the refiner's squared error; it changes nothing but the refiner."""
    binarisation_start_epoch: int = 0
    """Epoch after which the binarisation loss begins to count."""
    binarisation_warmup_epochs: int = 100
    """Epochs in which the weight of the binarisation loss rises to its full value."""

    def __post_init__(self) -> None:
        check_not_negative(self, *(field.name for field in fields(self)))

    def binarisation_weight(self, epoch: int) -> float:
        """In `epoch`, of which the first is 1."""
        risen = (epoch - self.binarisation_start_epoch) / max(1, self.binarisation_warmup_epochs)
        return self.binarisation * min(1.0, max(0.0, risen))


@dataclass(frozen=True, kw_only=True)
class AdversaryConfig:
    """A discriminator of mel frames, which keeps predictions sharp; worth its time once they are nearly right."""

    weight: float = 0.0
    """Weight of the least-squares loss against the discriminator, beside the mel frames' squared error; 0 for no
    discriminator."""
    features: float = 1.0
    """Weight of feature matching: mean absolute difference of the discriminator's activations."""
    frames: int = 128
    """Frames of the window of each clip that is judged."""
    channels: int = 32
    """Channels of its first layer; the last ones have four times as many."""

    def __post_init__(self) -> None:
        check_not_negative(self, "weight", "features")
        if self.frames < 8 or self.channels < 1:
            raise ValueError(f"frames = {self.frames}, channels = {self.channels}: expected at least 8 and at least 1")


@dataclass(frozen=True, kw_only=True)
class DataConfig(ClipSettings):
    """What is read, and how it is batched."""

    speakers: tuple[str, ...] = ()
    """Names of the speakers, in the order of their numbers; () for one speaker, or where manifests give numbers."""
    pitch_dir: Path | None = None
    """Folder of pitch, a .pt for each clip as `fastpitch.prepare` writes it; what is missing is extracted and kept."""
    mel_dir: Path | None = None
    """Folder of mel frames, a .pt for each clip as `fastpitch.prepare` writes it, read in place of the recordings."""
    durations_dir: Path | None = None
    """Folder of durations, a .pt for each clip as `fastpitch.align` writes it; the aligner then learns nothing. By
    default the aligner finds them."""
    pitch_mean: tuple[float, ...] = ()
    """Mean pitch of voiced frames, in Hz: one for all speakers, or one for each; (): measured when the run begins."""
    pitch_std: tuple[float, ...] = ()
    """Standard deviation of the pitch of voiced frames, in Hz: one for all speakers, or one for each; (): measured."""
    energy: Literal["log_mel", "mel"] = "log_mel"
    """Values whose norm is the energy of a frame: the log-mel values of its bins, or the mel values. The published
    models have the first, which is greatest in silence, where the logarithms are far below zero; the second rises with
    loudness."""
    on_error: Literal["stop", "skip"] = "stop"
    """Treatment of a bad manifest entry, recording or pitch: it ends the run, or is left out and logged. A clip with
    more symbols than frames is left out and logged in any case."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.pitch_mean) != len(self.pitch_std) or min(self.pitch_std, default=1) <= 0:
            raise ValueError(
                f"pitch_mean = {self.pitch_mean}, pitch_std = {self.pitch_std}: expected equally many, deviations > 0"
            )


def _published_optimiser() -> OptimConfig:
    return OptimConfig(kind="lamb", lr=0.1, betas=(0.9, 0.98), eps=1e-9, weight_decay=1e-6)


@dataclass(frozen=True, kw_only=True)
class Config(UtteranceSettings):
    """A run of FastPitch."""

    model: ModelConfig = field(default_factory=ModelConfig)
    text: TextConfig = field(default_factory=TextConfig)
    features: LogMelConfig = TTS
    pitch: PitchConfig = field(default_factory=PitchConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    adversary: AdversaryConfig = field(default_factory=AdversaryConfig)
    optim: OptimConfig = field(default_factory=_published_optimiser)
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(kind="noam", unit="steps", warmup=1000))
    output_dir: Path = Path("runs/fastpitch")
    epochs: int = 1000
    batch_size: int = 32
    """Clips per process and optimiser step; the published recipe has 256 over all processes."""
    lr_made_for: int = 0
    """Clips per step, of all processes, that optim.lr was made for: the rate is scaled by the square root of how many
    more or fewer there are (You et al. 2020, of LAMB). 0: optim.lr as it is."""
    trained: Literal["all", "refiner"] = "all"
    """Weights that learn: all, or those of the refiner alone. All others then stay as they are in checkpoint, also mean
    and deviation of the pitch where data.pitch_mean does not say them."""
    seed: int = 1234
    checkpoint: Path | None = None
    """Checkpoint whose weights are the start (ours, DeepLearningExamples', or a name of the hub or of a voice);
    embeddings of symbols that both know are kept."""
    from_checkpoint: FromCheckpoint = "architecture"
    """Parts of `checkpoint` that a new run takes. architecture: its model, features and reading of texts, in place of
    those configured (but for the number of speakers, an aligner, a refiner that is trained alone, and another language
    or symbol set than the usual), and all weights; half: weights that fit the configured model, at least half of the
    checkpoint; any: weights that fit, however few."""
    teacher: Path | None = None
    """Checkpoint whose refiner is imitated by one that learns a mean, in place of recorded frames; with trained =
    "refiner"."""
    every: EveryConfig = field(default_factory=lambda: EveryConfig(log_steps=10, validate_epochs=10, save_epochs=20))
    keep_epochs: tuple[int, ...] = (100, 200, 300, 400, 500, 600, 700, 800, 900)
    samples: int = 2
    """Validation clips shown in TensorBoard at each validation: alignment, pitch and sound; 0 for none."""
    vocoder: Path | None = None
    """Checkpoint of the vocoder for the sounds in TensorBoard; without one, Griffin-Lim's algorithm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.batch_seconds or self.data.fit) and self.lr_made_for:
            beside = "batch_seconds" if self.batch_seconds else "data.fit"
            raise ValueError(f"lr_made_for = {self.lr_made_for}: expected 0 beside {beside}, whose clips vary")
        if self.trained == "refiner" and not self.model.refiner.layers:
            raise ValueError('trained = "refiner": expected model.refiner.layers above 0')
        if self.teacher is not None and (self.trained != "refiner" or self.model.refiner.learns != "mean"):
            raise ValueError(
                f'teacher = {self.teacher}: expected trained = "refiner" and model.refiner.learns = "mean"'
            )
        if self.trained == "refiner" and self.adversary.weight:
            told = 'expected 0 with trained = "refiner", for a discriminator teaches the decoder alone'
            raise ValueError(f"adversary.weight = {self.adversary.weight}: {told}")
        check_not_negative(self, "samples", "lr_made_for")
        self.pitch.check_framing(self.features)
        if len(self.data.pitch_mean) not in (0, 1, self.model.speakers):
            raise ValueError(
                f"data.pitch_mean has {len(self.data.pitch_mean)} values: expected none, 1, or {self.model.speakers}, "
                "one for each speaker"
            )


def scaled_rate(cfg: Config, processes: int) -> float:
    """The peak of the learning rate for the clips of a step of all `processes`, as `lr_made_for` says."""
    ratio = cfg.batch_size * processes / cfg.lr_made_for if cfg.lr_made_for else 1.0
    return cfg.optim.lr * math.sqrt(ratio)


def rate_warning(cfg: Config, processes: int) -> str | None:
    """What is to be said where the published learning rate meets another number of clips than it was made for."""
    clips, published = cfg.batch_size * processes, _published_optimiser()
    if cfg.lr_made_for or clips == PUBLISHED_BATCH or (cfg.optim.kind, cfg.optim.lr) != (published.kind, published.lr):
        return None
    scaled = published.lr * math.sqrt(clips / PUBLISHED_BATCH)
    return (
        f"warning: the learning rate {published.lr} was made for steps of {PUBLISHED_BATCH} clips, and these have "
        f"{clips}: --lr_made_for {PUBLISHED_BATCH} scales it to {scaled:.3g}"
    )


def _check_kernel(kernel: int) -> None:
    if kernel % 2 == 0:
        raise ValueError(f"kernel = {kernel}: expected an odd number of positions")
