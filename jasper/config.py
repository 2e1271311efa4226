"""Schema, defaults and help of everything Jasper reads from TOML files and flags."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Suppress

from common.augmentation import CutoutConfig, SpecAugmentConfig
from common.config import check_not_negative
from common.features import LogMelConfig
from common.runs.run_directory import FromCheckpoint
from common.training.course import EveryConfig
from common.training.optimizers import OptimConfig
from common.training.schedule import ScheduleConfig
from common.training.settings import RecogniserSettings, RecognitionSettings


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
class DataConfig(RecognitionSettings):
    """What is read, and how it is batched."""

    max_seconds: float = 16.7
    trim_silence: bool = True
    """Whether leading and trailing silence (60 dB under the peak) is cut, in training and validation alike."""
    pad_to_max: bool = False
    """Whether every training batch is padded to max_seconds."""
    dictionary: Path | None = None
    """Dictionary, as python -m common.text.alphabet makes of any data, whose letters take the place of model.labels."""


@dataclass(frozen=True, kw_only=True)
class Config(RecogniserSettings):
    """A run of Jasper or QuartzNet."""

    model: ModelConfig = field(default_factory=ModelConfig)
    features: LogMelConfig = field(default_factory=LogMelConfig)
    spec_augment: SpecAugmentConfig = field(default_factory=SpecAugmentConfig)
    cutout: CutoutConfig = field(default_factory=CutoutConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    output_dir: Path = Path("runs/jasper")
    epochs: int = 400
    batch_size: int = 64
    ema: float = 0.999
    checkpoint: Path | None = None
    """Checkpoint whose weights are the start (ours, DeepLearningExamples', NeMo's, or a name of the hub); of other
    labels than its own the output layer starts anew."""
    from_checkpoint: FromCheckpoint = "architecture"
    """Parts of `checkpoint` that a new run takes. architecture: its model, but for labels, and its features, in place
    of those configured, and all weights; half: weights that fit the configured model, at least half of the checkpoint;
    any: weights that fit, however few."""
    every: EveryConfig = field(default_factory=lambda: EveryConfig(save_epochs=10))
    keep_epochs: tuple[int, ...] = (100, 200, 300, 400)
    prediction_frequency: int = 0
    """Optimiser steps between examples in the log of what the model writes, beside the reference; 0 for none."""
    compile: bool = False
    """torch.compile of each block."""
    checkpoint_activations: bool = False
    """Saving of memory: blocks compute their activations again in the backward pass, which takes a third more time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "prediction_frequency")
