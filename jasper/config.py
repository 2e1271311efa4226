"""Schema, defaults and help of everything Jasper reads from TOML files and flags."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from tyro.conf import Suppress

from common.audio.silence import SilenceConfig
from common.augmentation import CutoutConfig, SpecAugmentConfig
from common.config import check_not_negative, check_positive
from common.data.digest import Changed
from common.data.joining import JoinConfig
from common.data.mixing import MixConfig
from common.data.perturbation import PerturbationConfig
from common.data.speed import SpeedConfig
from common.devices.precision import Precision
from common.features import LogMelConfig
from common.runs.run_directory import FromCheckpoint
from common.text.language import Language, UnknownLetters
from common.training.course import RENAMED, USUAL, EveryConfig, check_batches, check_budget
from common.training.optimizers import OptimConfig
from common.training.schedule import ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """One block: `repeat` sub-blocks of convolution, batch normalisation, activation and dropout."""

    filters: int
    """Output channels."""
    kernel: int
    """Frames a convolution spans (odd, so that "same" padding keeps the length)."""
    repeat: int = 1
    """Sub-blocks."""
    stride: int = 1
    """Frames from one output to the next; only of the first sub-block."""
    dilation: int = 1
    """Frames between the taps of a convolution."""
    dropout: float = 0.0
    """Probability of zeroing an activation in training."""
    residual: Literal["none", "block", "dense"] = "none"
    """What is added before the last activation: nothing, the block's input, or the inputs of all blocks so far."""
    separable: bool = False
    """Depthwise then pointwise convolutions (QuartzNet) instead of plain ones (Jasper)."""

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel = {self.kernel}: expected an odd number of frames")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The acoustic model: log-mel features in, log-probabilities of labels out."""

    blocks: Annotated[tuple[BlockConfig, ...], Suppress] = ()
    """The blocks, first to last (TOML only)."""
    labels: str = " abcdefghijklmnopqrstuvwxyz'"
    """Characters that the model writes, in order of their index; the CTC blank follows them."""
    activation: Literal["relu", "hardtanh", "selu"] = "relu"
    """Nonlinearity of every sub-block; hardtanh is clipped to [0, 20]."""
    init: Literal["xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal"] = "xavier_uniform"
    """Distribution of the initial convolution weights."""
    sync_batch_norm: bool = False
    """Whether batch statistics are taken over all processes, or in each by itself."""

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels):
            raise ValueError(f"labels = {self.labels!r}: a character stands there twice")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What is read, and how it is batched."""

    root: Path | None = None
    """Folder that relative paths of manifests, and in manifests, start from (the published DATA_DIR)."""
    train: tuple[str, ...] = ()
    """Manifests, file lists or corpus folders to train on."""
    validation: tuple[str, ...] = ()
    """Manifests, file lists or corpus folders for validation during training and for evaluation."""
    min_seconds: float = 0.1
    """Least duration of a training utterance; shorter ones are left out."""
    max_seconds: float = 16.7
    """Greatest duration of a training utterance; longer ones are left out."""
    speakers: tuple[str, ...] = ()
    """Speakers to train on; all, if none is named."""
    trim_silence: bool = True
    """Whether leading and trailing silence (60 dB under the peak) is cut, in training and validation alike."""
    pad_to_max: bool = False
    """Whether every training batch is padded to max_seconds."""
    normalize_text: bool | None = None
    """Normalisation of transcripts, as `language` says, and of punctuation that is no label; by default unless labels
    are of both cases."""
    language: Language = "auto"
    """Language of the transcripts. english: numbers and symbols are spelled out; mandarin: numbers; none: every letter
    stays, in the case of the labels; auto: english where no letters but a to z are labels, else none."""
    unknown_letters: UnknownLetters = "stop"
    """Treatment of letters that are no labels. stop: they end the run before its first step; latin: they are written in
    Latin letters (é as e); drop: they are left out."""
    dictionary: Path | None = None
    """Dictionary, as python -m common.text.alphabet makes of any data, whose letters take the place of model.labels."""
    speed: SpeedConfig = field(default_factory=SpeedConfig)
    perturbation: PerturbationConfig = field(default_factory=PerturbationConfig)
    silence: SilenceConfig = field(default_factory=SilenceConfig)
    join: JoinConfig = field(default_factory=JoinConfig)
    mix: MixConfig = field(default_factory=MixConfig)
    changed: Changed = "refuse"
    """Treatment of other data than those that the run was begun with. refuse: it is not gone on with; accept: it is."""
    workers: int = 4
    """Loader processes per training process; 0 loads in the training process itself."""
    on_error: Literal["stop", "skip"] = "stop"
    """Treatment of a bad manifest entry or audio file: it ends the run, or is left out and counted."""

    def __post_init__(self) -> None:
        check_not_negative(self, "min_seconds", "workers")
        check_positive(self, "max_seconds", or_infinite=True)


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run of Jasper or QuartzNet."""

    RENAMED: ClassVar = RENAMED
    USUAL: ClassVar = USUAL
    model: ModelConfig = field(default_factory=ModelConfig)
    features: LogMelConfig = field(default_factory=LogMelConfig)
    spec_augment: SpecAugmentConfig = field(default_factory=SpecAugmentConfig)
    cutout: CutoutConfig = field(default_factory=CutoutConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    output_dir: Path = Path("runs/jasper")
    """The run directory: configuration, logs, checkpoints."""
    epochs: int = 400
    """Passes over the training data; the learning-rate schedule spans them."""
    epochs_this_job: int = 0
    """Epochs after which this job saves and stops, 0 for none; the schedule is not affected."""
    steps: int = 0
    """Optimiser step at which this job saves and stops, 0 for none; the schedule is not affected."""
    batch_size: int = 64
    """Utterances per process and optimiser step."""
    batch_seconds: float = 0.0
    """Seconds of audio per process and optimiser step, padding included, in place of batch_size; 0 for batch_size."""
    grad_accumulation: int = 1
    """Micro-batches that a step is split into; divides batch_size."""
    ema: float = 0.999
    """Decay of the exponential moving average of the weights, 0 for none."""
    precision: Precision = "fp32"
    """Arithmetic of the network; weights and features stay fp32."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    seed: int = 0
    """Seed of initial weights, data order, augmentation and dropout."""
    resume: bool = True
    """Whether the run goes on from the newest checkpoint in output_dir, if there is one."""
    checkpoint: Path | None = None
    """Checkpoint whose weights are the start (ours, DeepLearningExamples', NeMo's, or a name of the hub); of other
    labels than its own the output layer starts anew."""
    from_checkpoint: FromCheckpoint = "architecture"
    """Parts of `checkpoint` that a new run takes. architecture: its model, but for labels, and its features, in place
    of those configured, and all weights; half: weights that fit the configured model, at least half of the checkpoint;
    any: weights that fit, however few."""
    every: EveryConfig = field(default_factory=lambda: EveryConfig(save_epochs=10))
    keep_epochs: tuple[int, ...] = (100, 200, 300, 400)
    """Epochs whose checkpoints are kept, besides the last two and the best."""
    save_best_from: int = 1
    """First epoch whose validation may become the best checkpoint."""
    prediction_frequency: int = 0
    """Optimiser steps between examples in the log of what the model writes, beside the reference; 0 for none."""
    compile: bool = False
    """torch.compile of each block."""
    checkpoint_activations: bool = False
    """Saving of memory: blocks compute their activations again in the backward pass, which takes a third more time."""
    dry_run: bool = False
    """Whether only one step is made, on the longest batch, to see whether it fits in memory."""
    tensorboard: bool = True
    """Whether TensorBoard event files are written."""

    def __post_init__(self) -> None:
        check_not_negative(self, "seed", "epochs_this_job", "steps", "prediction_frequency", "batch_seconds")
        check_batches(self.batch_size, self.grad_accumulation, self.ema)
        check_budget(self.batch_seconds, self.data.max_seconds)
        if self.epochs < 1:
            raise ValueError(f"epochs = {self.epochs}: expected at least 1")
        if self.save_best_from > self.epochs:
            raise ValueError(
                f"save_best_from = {self.save_best_from} is beyond the last of {self.epochs} epochs: "
                "the run would end without a best checkpoint; lower it"
            )
