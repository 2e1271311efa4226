"""Schema, defaults and help of `python -m wav2vec2.benchmark`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from common.benchmark import USUAL, TimingSettings
from common.config import check_not_negative, check_positive
from common.devices.precision import Precision
from wav2vec2.contrastive.masking import MaskConfig
from wav2vec2.contrastive.objective import ObjectiveConfig
from wav2vec2.contrastive.quantizer import TemperatureConfig
from wav2vec2.network.config import LearningConfig, ModelConfig


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(TimingSettings):
    """A measurement."""

    USUAL: ClassVar = USUAL
    model: ModelConfig = field(default_factory=ModelConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    temperature: TemperatureConfig = field(default_factory=TemperatureConfig)
    task: Literal["inference", "pretraining", "finetuning"] = "inference"
    """Work that is measured: audio to representations; whole optimiser steps."""
    sides: tuple[Literal["ours", "hourglass", "transformers"], ...] = ("ours", "hourglass", "transformers")
    """Implementations that are compared. A model with an hourglass is compared with none; fine-tuning has no
    transformers."""
    hourglass: tuple[str, ...] = ("[2,(8,4),2]",)
    """Shortenings that are compared, one side each."""
    batch_sizes: tuple[int, ...] = (1,)
    """Utterances of a call or, in training, of a sub-batch."""
    concat_batches: int = 1
    """Sub-batches of a training step, which go through the network at once."""
    seconds: float = 10.0
    """Length of the utterances, in seconds."""
    audio: Path | None = None
    """Folder of recordings that are cut to `seconds`; noise without one."""
    precision: Precision = "fp32"
    """Arithmetic of the network."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    repeats: int = 5
    """Timed turns."""
    warmup: int = 1
    """Untimed turns before the timed ones, besides a first call."""
    seed: int = 0
    """Seed of weights, noise and masks."""
    name: str = ""
    """Name of the model in the rows; by default that of the TOML file."""

    def __post_init__(self) -> None:
        if not self.sides:
            raise ValueError("sides: expected at least one of ours, hourglass, transformers")
        if min(self.batch_sizes, default=0) < 1:
            raise ValueError(f"batch_sizes = {self.batch_sizes}: expected numbers above 0")
        if self.concat_batches > 1 and self.task == "inference":
            raise ValueError(f"concat_batches = {self.concat_batches}: {self.task} has no sub-batches; leave it out")
        check_positive(self, "concat_batches", "repeats", "seconds")
        check_not_negative(self, "warmup")
