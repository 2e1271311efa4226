"""Schema, defaults and help of what the training of every vocoder reads from TOML files and flags."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.features import TTS, LogMelConfig
from common.optim import OptimConfig
from common.precision import Precision
from common.schedule import ScheduleConfig
from common.training import check_settings


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
class TrainingConfig:
    """A run; the networks, and the defaults that go with them, are each vocoder's own."""

    features: LogMelConfig = TTS
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig
    """Of each network that is trained."""
    schedule: ScheduleConfig
    output_dir: Path
    """The run directory: configuration, logs, checkpoints."""
    epochs: int
    """Passes over the training data; the learning-rate schedule spans them."""
    epochs_this_job: int = 0
    """Stop (and save) after so many epochs of this job, 0 for none; the schedule is not affected."""
    steps: int = 0
    """Stop (and save) at this step, 0 for none; the schedule is not affected."""
    batch_size: int
    """Segments per process and step."""
    grad_accumulation: int = 1
    """Micro-batches a step is split into; divides batch_size."""
    clip_norm: float = 0.0
    """Greatest norm of the gradient of each network that is trained; 0 for any."""
    ema: float = 0.0
    """Decay of the exponential moving average of the weights that speak, 0 for none."""
    precision: Precision = "fp32"
    """Arithmetic of the networks; weights and spectra stay fp32."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    seed: int = 1234
    """Initial weights, data order and segments are functions of it."""
    resume: bool = True
    """Go on from the newest checkpoint in output_dir if there is one."""
    save_every_epochs: int
    """Epochs between checkpoints; one is always written at the end."""
    keep_epochs: tuple[int, ...]
    """Epochs whose checkpoint is kept; of the others the last two and the best."""
    validate_every_epochs: int = 10
    """Epochs between validations; there is always one at the end."""
    log_every: int = 25
    """Steps between lines of training loss; the losses are checked to be finite then at the latest."""
    tensorboard: bool = True
    """Write TensorBoard event files."""

    def __post_init__(self) -> None:
        check_settings(
            self,
            counts=("epochs", "save_every_epochs", "validate_every_epochs", "log_every"),
            optional=("epochs_this_job", "steps", "clip_norm"),
        )
