"""Schema, defaults and help of what pre-training and fine-tuning read from TOML files and flags.

A sub-batch is what one small GPU held when the recipes were made: up to `data.max_tokens` samples. An update sees
processes x concat_batches x update_freq of them. Masks, distractors and statistics of the quantiser are each
sub-batch's own, so the constants of a recipe hold for any number of processes as long as that product is the same.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

from common.config import ConfigError, check_not_negative, check_positive
from common.runs.run_directory import FromCheckpoint
from common.training.optimizers import OptimConfig
from common.training.schedule import ScheduleConfig
from common.training.settings import FitSettings, SpellingSettings, TrainingSettings
from wav2vec2.contrastive.masking import MaskConfig
from wav2vec2.contrastive.objective import ObjectiveConfig
from wav2vec2.contrastive.quantizer import TemperatureConfig
from wav2vec2.network.config import LearningConfig, ModelConfig

SAMPLE_RATE = 16000
FEWEST_FRAMES = 3  # in pre-training, of which two can be hidden and one be seen


def fewest_samples(model: ModelConfig) -> int:
    """The fewest samples of a recording that pre-training can use."""
    return model.shortest_audio + (FEWEST_FRAMES - 1) * model.samples_per_frame


@dataclass(frozen=True, kw_only=True)
class DataConfig(FitSettings, SpellingSettings):
    """Data, and how they are batched. A token is one sample of audio."""

    max_tokens: int = 1_400_000
    """Samples of a sub-batch, padding included."""
    max_tokens_valid: int = 1_400_000
    """Samples of a validation batch, padding included."""
    batch_size: int = 0
    """Utterances of a sub-batch instead of max_tokens; 0: as many as fit."""
    min_samples: int = 0
    """Fewest samples of a training utterance; shorter ones are left out."""
    max_samples: int = 0
    """Most samples of an utterance in pre-training; longer ones are cropped, at a random place. 0: max_tokens."""
    buckets: int = 50
    """Groups of similar length that sub-batches are drawn from: more of them waste less, fewer mix more."""
    dictionary: Path | None = None
    """Fairseq's dict.ltr.txt for fine-tuning, which python -m common.text.alphabet makes of any data. Default: the one
    beside the first training list, else LibriSpeech's."""
    workers: int = 6

    def __post_init__(self) -> None:
        check_positive(self, "max_tokens", "max_tokens_valid", "buckets")
        super().__post_init__()
        check_not_negative(self, "batch_size", "min_samples", "max_samples")
        if self.max_samples > self.max_tokens:
            raise ValueError(
                f"max_samples = {self.max_samples} does not fit into max_tokens = {self.max_tokens}: "
                "lower the one or raise the other"
            )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(TrainingSettings):
    """Options of pre-training and fine-tuning alike."""

    BUDGET: ClassVar = ("data.max_tokens", "data.batch_size", "data.max_samples")
    model: ModelConfig = field(default_factory=ModelConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(
        default_factory=lambda: OptimConfig(kind="adamw", lr=5e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
    )
    schedule: ScheduleConfig = field(
        default_factory=lambda: ScheduleConfig(kind="polynomial", unit="steps", warmup=32_000, power=1.0, floor=0.0)
    )
    output_dir: Path = Path("runs/wav2vec2")
    """Run directory: configuration, logs, checkpoints."""
    max_updates: int = 400_000
    """Optimiser steps of the whole training; the learning-rate schedule spans them."""
    stop_at: int = 0
    """Update after which this job saves and stops, 0 for none; the schedule is not affected."""
    concat_batches: int = 1
    """Sub-batches that go through the network at once (the published NUM_CONCAT_BATCHES)."""
    update_freq: int = 1
    """Forward and backward passes of an update, whose gradients are added up."""
    batches_per_update: int = 0
    """Required product of processes, concat_batches and update_freq, to which the recipe is tuned; 0: any."""
    clip_norm: float = 25.0
    """Largest norm of the gradient of all parameters, in every precision; 0 does not clip."""
    compile: bool = False
    """torch.compile of each Transformer layer."""
    fsdp: bool = False
    """Sharding (FSDP2): each process keeps a part of weights, gradients and moments in place of all of them."""
    seed: int = 1
    save: bool = True
    """Whether checkpoints are written; false for measurements."""
    from_checkpoint: FromCheckpoint = "architecture"
    """Parts of the model to start from that a new run takes. architecture: its network in place of `model`, and all
    weights; half: weights that fit the configured network, at least half of the checkpoint; any: weights that fit,
    however few."""
    keep_steps: tuple[int, ...] = (100_000, 200_000, 300_000, 400_000)
    """Updates that are milestones, whose checkpoints are all kept; of the others the last two and the best."""
    save_best_from: int = 0
    """First update whose validation may become the best checkpoint."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "max_updates", "concat_batches", "update_freq")
        check_not_negative(self, "save_best_from", "stop_at", "batches_per_update", "clip_norm")
        if min(self.keep_steps, default=0) < 0:
            raise ValueError(f"keep_steps = {self.keep_steps}: expected no negative number")
        if self.save_best_from > self.max_updates:
            raise ValueError(
                f"save_best_from = {self.save_best_from} is beyond the last of {self.max_updates} updates: "
                "the run would end without a best checkpoint; lower it"
            )
        if self.fsdp and self.ema:
            raise ValueError("ema with fsdp: averages of sharded weights are not kept; set ema = 0 or fsdp = false")
        if self.fsdp and self.data.fit:
            raise ValueError("data.fit with fsdp: what one process has memory for alone is less; set data.max_tokens")

    def budgeted(self, seconds: float) -> Self:
        """With sub-batches that have so many seconds together; 0: of one utterance, with all that takes memory."""
        if not seconds:
            learning = replace(self.learning, layer_drop=0.0)
            return replace(self, learning=learning, update_freq=1, data=replace(self.data, batch_size=1))
        tokens = round(seconds * SAMPLE_RATE) // self.concat_batches
        most = min(self.data.max_samples, tokens)
        return replace(self, data=replace(self.data, batch_size=0, max_tokens=tokens, max_samples=most))

    def check_batches(self, processes: int) -> None:
        """Raises ConfigError, with what would fit, unless an update sees `batches_per_update` sub-batches."""
        wanted, found = self.batches_per_update, processes * self.concat_batches * self.update_freq
        if wanted in (0, found):
            return
        told = (
            f"an update would see {processes} processes (NUM_GPUS) x {self.concat_batches} concat_batches "
            f"(NUM_CONCAT_BATCHES) x {self.update_freq} update_freq (UPDATE_FREQ) = {found} sub-batches; "
            f"the recipe is tuned to {wanted}"
        )
        if wanted % processes:
            fitting = [n for n in range(1, wanted + 1) if wanted % n == 0]
            advice = f"take a number of processes out of {', '.join(map(str, fitting))}"
        else:
            share = wanted // processes
            pairs = [(n, share // n) for n in range(1, share + 1) if share % n == 0]
            advice = "concat_batches x update_freq may be " + ", ".join(f"{n} x {m}" for n, m in pairs)
        raise ConfigError(f"{told}: {advice}; or set batches_per_update = 0 and tune the learning rate yourself")


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(TrainingConfig):
    """A run of self-supervised pre-training."""

    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    temperature: TemperatureConfig = field(default_factory=TemperatureConfig)
    output_dir: Path = Path("runs/wav2vec2_pretrain")
    """Run directory: configuration, logs, checkpoints."""
    checkpoint: Path | None = None
    """Pre-trained weights to start from: ours, Fairseq's or DeepLearningExamples'."""

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "max_samples" if self.data.max_samples else "max_tokens"
        if getattr(self.data, name) < fewest_samples(self.model):
            raise ValueError(
                f"data.{name} = {getattr(self.data, name)}: expected at least the {fewest_samples(self.model)} samples "
                f"of {FEWEST_FRAMES} frames"
            )


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(TrainingConfig):
    """A run of fine-tuning for recognition with CTC."""

    learning: LearningConfig = field(
        default_factory=lambda: LearningConfig(
            dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.1,
            input_dropout=0.0,
            layer_drop=0.1,
            extractor_gradient=0.0,
        )
    )
    mask: MaskConfig = field(default_factory=lambda: MaskConfig(time_prob=0.5, channel_prob=0.1, channel_length=64))
    optim: OptimConfig = field(
        default_factory=lambda: OptimConfig(kind="adamw", lr=1e-4, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.0)
    )
    schedule: ScheduleConfig = field(
        default_factory=lambda: ScheduleConfig(kind="tri_stage", unit="fraction", warmup=0.1, hold=0.4)
    )
    output_dir: Path = Path("runs/wav2vec2_finetune")
    """Run directory: configuration, logs, checkpoints."""
    pretrained: Path | None = None
    """Pre-trained model to start from (ours, Fairseq's, DeepLearningExamples', a Hugging Face folder or hub name);
    none: random weights."""
    freeze_updates: int = 0
    """Updates at the beginning in which only the new output layer learns."""
    prediction_frequency: int = 0
    """Updates between examples in the log of what the model writes, beside the reference; 0 for none."""
    clip_norm: float = 0.0
    """Largest norm of the gradient of all parameters, in every precision; 0 does not clip."""
    max_updates: int = 320_000
    """Optimiser steps of the whole training; the learning-rate schedule spans them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "freeze_updates", "prediction_frequency")

    def budgeted(self, seconds: float) -> Self:
        """As above; what is tried has nothing frozen."""
        found = super().budgeted(seconds)
        return found if seconds else replace(found, freeze_updates=0)
