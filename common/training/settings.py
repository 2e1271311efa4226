"""What every training asks for: schema, defaults and help of settings that models would otherwise each repeat."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from common.audio.silence import SilenceConfig
from common.config import check_not_negative, check_positive
from common.data.digest import Changed
from common.data.lists.utterances import Order
from common.data.mixing import MixConfig
from common.data.variation.joining import JoinConfig
from common.data.variation.perturbation import PerturbationConfig
from common.data.variation.speed import SpeedConfig
from common.devices.precision import Precision
from common.text.language import Language, UnknownLetters
from common.training.course import USUAL, EveryConfig


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """Where data come from."""

    root: Path | None = None
    """Folder that relative paths of manifests, and in manifests, start from (the published DATA_DIR, DATASET_PATH or
    DATASET_DIR)."""
    train: tuple[str, ...] = ()
    """Manifests, file lists or corpus folders to train on."""
    validation: tuple[str, ...] = ()
    """Manifests, file lists or corpus folders to validate on."""
    order: Order = "auto"
    """Order of an epoch. full: any utterances may meet; windows: those of parts of files that were drawn together, so
    that a store is read in large parts; auto: windows where recordings lie in a store."""
    changed: Changed = "refuse"
    """Treatment of other data than those that the run was begun with. refuse: it is not gone on with; accept: it is."""
    workers: int = 4
    """Loader processes per training process; 0 loads in the training process itself."""
    on_error: Literal["stop", "skip"] = "stop"
    """Treatment of a bad manifest entry or audio file: it ends the run, or is left out and counted."""

    def __post_init__(self) -> None:
        check_not_negative(self, "workers")


@dataclass(frozen=True, kw_only=True)
class FitSettings(SourceSettings):
    """Where utterances come from that batches have seconds of."""

    fit: bool = False
    """Whether the seconds of a batch are found when a run begins: as many as the device has memory for, by bisection on
    real steps. They are stored with the run."""


@dataclass(frozen=True, kw_only=True)
class ClipSettings(FitSettings):
    """Where utterances come from, and which of them."""

    min_seconds: float = 0.1
    """Least duration of a training utterance; shorter ones are left out."""
    max_seconds: float = 20.0
    """Greatest duration of a training utterance; longer ones are left out."""
    speakers: tuple[str, ...] = ()
    """Speakers to train on; all, if none is named."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "min_seconds")
        check_positive(self, "max_seconds", or_infinite=True)


@dataclass(frozen=True, kw_only=True)
class SpellingSettings:
    """How transcripts are spelled before anything is learned from them."""

    normalize_text: bool | None = None
    """Normalisation of transcripts, as `language` says, and of punctuation that is no label; by default unless labels
    are of both cases, pieces of a checkpoint have capitals or punctuation, or an attention decoder is learned."""
    language: Language = "auto"
    """Language of the transcripts. english: numbers and symbols are spelled out; mandarin: numbers; none: every letter
    stays, in the case of the labels; auto: english where no letters but a to z are labels, else none."""
    unknown_letters: UnknownLetters = "stop"
    """Treatment of letters that are no labels, or that the language does not have. stop: they end the run before its
    first step; latin: they are written in Latin letters (é as e); drop: they are left out."""


@dataclass(frozen=True, kw_only=True)
class RecognitionSettings(ClipSettings, SpellingSettings):
    """Utterances that a recogniser learns from: how their texts are spelled, and what becomes of their sound."""

    speed: SpeedConfig = field(default_factory=SpeedConfig)
    perturbation: PerturbationConfig = field(default_factory=PerturbationConfig)
    silence: SilenceConfig = field(default_factory=SilenceConfig)
    join: JoinConfig = field(default_factory=JoinConfig)
    mix: MixConfig = field(default_factory=MixConfig)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """A training, however it counts its steps."""

    USUAL: ClassVar = USUAL
    output_dir: Path
    """The run directory: configuration, logs, checkpoints."""
    epochs_this_job: int = 0
    """Epochs after which this job saves and stops, 0 for none; the schedule is not affected."""
    ema: float = 0.0
    """Decay of the exponential moving average of the weights, 0 for none."""
    precision: Precision = "fp32"
    """Arithmetic of the network; weights, features and losses stay fp32, in checkpoints too."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    seed: int = 0
    """Seed of initial weights, data order, augmentation and dropout."""
    resume: bool = True
    """Whether the run goes on from the newest checkpoint in output_dir, if there is one."""
    every: EveryConfig = field(default_factory=EveryConfig)
    tensorboard: bool = True
    """Whether TensorBoard event files are written."""

    def __post_init__(self) -> None:
        check_not_negative(self, "seed", "epochs_this_job")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema = {self.ema}: expected a decay from 0, for none, to below 1")


@dataclass(frozen=True, kw_only=True)
class EpochSettings(TrainingSettings):
    """A training that counts epochs."""

    epochs: int
    """Passes over the training data; the learning-rate schedule spans them, where it has no number of steps."""
    steps: int = 0
    """Optimiser step at which this job saves and stops, 0 for none; the schedule is not affected."""
    batch_size: int
    """Utterances per process and optimiser step."""
    grad_accumulation: int = 1
    """Micro-batches that a step is split into; divides batch_size."""
    keep_epochs: tuple[int, ...] = ()
    """Epochs whose checkpoints are kept, besides the last two and the best."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "steps")
        for name in ("batch_size", "grad_accumulation", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: expected at least 1")
        if self.batch_size % self.grad_accumulation:
            raise ValueError(
                f"batch_size = {self.batch_size} is not a multiple of grad_accumulation = {self.grad_accumulation}"
            )


@dataclass(frozen=True, kw_only=True)
class UtteranceSettings(EpochSettings):
    """A training on whole utterances that counts epochs."""

    BUDGET: ClassVar = ("batch_seconds", "data.max_seconds")
    data: ClipSettings
    batch_seconds: float = 0.0
    """Seconds of audio per process and optimiser step, padding included, in place of batch_size; 0 for batch_size."""
    dry_run: bool = False
    """Whether only one step is made, on the longest batch, to see whether it fits in memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "batch_seconds")
        if 0 < self.batch_seconds < self.data.max_seconds:
            raise ValueError(
                f"batch_seconds = {self.batch_seconds} does not hold an utterance of data.max_seconds = "
                f"{self.data.max_seconds}: raise the one or lower the other"
            )

    def budgeted(self, seconds: float) -> Self:
        """With batches of so many seconds, and no utterance that does not fit; 0: with one utterance in each part."""
        if not seconds:
            return replace(self, batch_seconds=0.0, batch_size=self.grad_accumulation)
        data = replace(self.data, max_seconds=min(self.data.max_seconds, seconds))
        return replace(self, batch_seconds=seconds, data=data)


@dataclass(frozen=True, kw_only=True)
class RecogniserSettings(UtteranceSettings):
    """A training of a recogniser that counts epochs."""

    data: RecognitionSettings
    batch_tokens: int = 0
    """Labels of the texts per process and optimiser step, padding and prompts included, besides batch_seconds; 0 for
    any number."""
    save_best_from: int = 1
    """First epoch whose validation may become the best checkpoint."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "batch_tokens")
        if self.save_best_from > self.epochs:
            raise ValueError(
                f"save_best_from = {self.save_best_from} is beyond the last of {self.epochs} epochs: "
                "the run would end without a best checkpoint; lower it"
            )
        if self.batch_tokens and not (self.batch_seconds or self.data.fit):
            raise ValueError(f"batch_tokens = {self.batch_tokens}: expected batch_seconds above 0 besides")
