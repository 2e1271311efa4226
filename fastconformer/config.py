"""Schema, defaults and help of everything that the transducers read from TOML files and flags."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.augmentation import SpecAugmentConfig
from common.config import ConfigError, check_not_negative, check_positive, check_shares
from common.features import NEMO, LogMelConfig
from common.text.language import Language
from common.training.optimizers import OptimConfig
from common.training.schedule import ScheduleConfig
from common.training.settings import RecogniserSettings, RecognitionSettings
from fastconformer.attention.config import AttentionConfig
from fastconformer.transducer.weights import Activation


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """FastConformer (Rekesh et al. 2023, arXiv:2305.05084). The defaults are the large model, 109 M parameters."""

    width: int = 512
    """Width of the encoder: channels of a frame between its layers."""
    layers: int = 17
    """Conformer blocks."""
    heads: int = 8
    """Attention heads; divides width."""
    subsampling: Literal[2, 4, 8] = 8
    """Feature frames per encoder frame."""
    subsampling_channels: int = 256
    """Channels of the convolutions that subsample."""
    causal_subsampling: bool = False
    """Whether the convolutions that subsample see no frame after their own, as streaming models need."""
    kernel: int = 9
    """Frames that a depthwise convolution spans (odd)."""
    causal_convolution: bool = False
    """Whether depthwise convolutions see no frame after their own."""
    norm: Literal["batch", "layer"] = "batch"
    """Normalisation in the convolution module."""
    expansion: int = 4
    """Inner size of the feed-forward modules, in widths."""
    biases: bool = True
    """Whether linear layers and convolutions of the blocks have biases."""
    scale_input: bool = False
    """Whether frames are multiplied by the square root of width before the first block."""
    attention: Literal["regular", "chunked", "chunked_right"] = "regular"
    """Frames that a frame attends to: a window around each frame, chunks that see whole chunks before them, or chunks
    and some frames after them."""
    left_frames: int = -1
    """Frames before a frame (or its chunk) that attention sees; -1 for all."""
    right_frames: int = -1
    """Frames after a frame that attention sees; -1 for all. A chunk of "chunked" has one frame more than this."""
    chunk_frames: int = 0
    """Length of a chunk of "chunked_right"; 0 for all in one."""
    dropout: float = 0.1
    """Probability of zeroing an activation in training."""
    adapter_width: int = 0
    """Inner width of a linear adapter after each block, which starts as nothing; 0 for none."""
    attention_dropout: float = 0.1
    """Probability of zeroing an attention weight in training."""

    def __post_init__(self) -> None:
        check_positive(self, "layers", "heads", "kernel", "expansion", "subsampling", "subsampling_channels")
        check_not_negative(self, "adapter_width")
        check_shares(self, "dropout", "attention_dropout")
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width = {self.width}, heads = {self.heads}: expected an even multiple of the heads")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel = {self.kernel}: expected an odd number of frames")
        if self.attention == "chunked" and self.right_frames < 0 <= self.left_frames:
            raise ValueError("attention in chunks that see all frames after them: expected right_frames >= 0")
        if self.attention == "chunked_right" and self.chunk_frames < 1 and self.left_frames + self.right_frames != -2:
            raise ValueError(f"chunk_frames = {self.chunk_frames}: expected chunks of at least one frame")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """An encoder and its heads: a transducer (RNN-T or TDT) or an attention decoder, CTC, or one of them and CTC."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    transducer: Literal["tdt", "rnnt", "none"] = "tdt"
    """Transducer: with tokens and durations (TDT), tokens alone (RNN-T), or none."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    ctc: bool = True
    """Whether there is a CTC head."""
    pieces: int = 1024
    """Number of text pieces, the labels without the blank. Those of an attention decoder are its special tokens and, in
    equal shares, pieces of each language that is written."""
    durations: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Durations of TDT: the numbers of frames that a label or a blank may take, ascending."""
    prediction_width: int = 640
    """Hidden size of the prediction network."""
    prediction_layers: int = 1
    """LSTM layers of the prediction network."""
    joint_width: int = 640
    """Hidden size of the joint network."""
    joint_activation: Activation = "relu"
    """Nonlinearity of the joint network."""
    head_dropout: float = 0.2
    """Probability of zeroing an activation of prediction network and joint in training."""

    def __post_init__(self) -> None:
        check_positive(self, "pieces", "prediction_width", "prediction_layers", "joint_width")
        check_shares(self, "head_dropout")
        if self.transducer != "none" and self.attention.layers:
            raise ValueError("transducer and attention decoder in one model: expected transducer = none beside layers")
        if self.transducer == "none" and not self.ctc and not self.attention.layers:
            raise ValueError("a model needs a head: expected transducer = tdt or rnnt, attention.layers, or ctc = true")
        if list(self.durations) != sorted({d for d in self.durations if d >= 0}) or max(self.durations, default=0) < 1:
            raise ValueError(f"durations = {self.durations}: expected frames in ascending order, one above 0")

    @property
    def jumps(self) -> tuple[int, ...]:
        """Durations that the joint has outputs for: none for RNN-T."""
        return self.durations if self.transducer == "tdt" else ()


@dataclass(frozen=True, kw_only=True)
class DataConfig(RecognitionSettings):
    """What is read, and how it is batched."""

    language: Language = "english"
    piece_kind: Literal["unigram", "bpe"] = "unigram"
    """Algorithm that learns model.pieces pieces from the training texts; a checkpoint to start from has its own."""


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """The loss: a sum of that of CTC and the transducer's, per utterance, or the attention decoder's, per token."""

    ctc_weight: float = 0.3
    """Share of CTC in the loss where there are both heads; transducer or attention decoder have the rest. Beside an
    attention decoder it learns transcripts alone, no translations."""
    ctc_epochs: int = 0
    """Epochs at the beginning in which CTC counts alone, where there are both heads."""
    sigma: float = 0.02
    """Number taken off every log-probability of a piece or blank of TDT, which favours long durations."""
    omega: float = 0.1
    """Probability that a step of TDT takes the RNN-T loss of the pieces, without durations."""
    fastemit: float = 0.0
    """Additional weight of emitting a piece, which makes pieces early (Yu et al. 2021)."""
    mask_prediction: float = 0.0
    """Probability that an utterance is learned without its text so far: the output of the prediction network is zero
    (HAINAN, Xu et al. 2024)."""
    smoothing: float = 0.0
    """Share of the attention decoder's targets that goes to the other classes, in equal parts (NeMo's formula)."""
    learns_prompt: bool = False
    """Whether the attention decoder learns its prompts as well, by which it can tell which language it hears."""
    clip: float = 1.0
    """Greatest norm of the gradient of a step; 0 for no limit."""

    def __post_init__(self) -> None:
        check_shares(self, "ctc_weight", "omega", "mask_prediction", "smoothing")
        check_not_negative(self, "ctc_epochs", "sigma", "fastemit", "clip")


@dataclass(frozen=True, kw_only=True)
class Config(RecogniserSettings):
    """A training run of a transducer, an attention decoder, a CTC model or one of these beside CTC."""

    model: ModelConfig = field(default_factory=ModelConfig)
    features: LogMelConfig = field(default=NEMO)
    spec_augment: SpecAugmentConfig = field(
        default=SpecAugmentConfig(freq_masks=2, max_freq=27, time_masks=10, max_time_fraction=0.05)
    )
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default=OptimConfig(kind="adamw", lr=2e-3, betas=(0.9, 0.98), weight_decay=1e-3))
    schedule: ScheduleConfig = field(
        default=ScheduleConfig(kind="polynomial", unit="fraction", warmup=0.1, power=1.0, floor=0.0)
    )
    output_dir: Path = Path("runs/transducer")
    epochs: int = 100
    batch_size: int = 16
    lookaheads: tuple[int, ...] = ()
    """Frames after a frame that attention in chunks may see, of which each step draws one: the model can then be heard
    with any of them. model.encoder.right_frames, which validations have, is among them; () for it alone."""
    sync_batch_norm: bool = True
    """Whether batch statistics are taken over all processes, as in NeMo's recipes, or in each by itself."""
    ema: float = 0.997
    checkpoint: Path | None = None
    """Model to start from (ours, .nemo, a Hugging Face folder or hub name)."""
    from_checkpoint: Literal["architecture", "encoder", "half", "any"] = "architecture"
    """Parts of `checkpoint` that a new run takes. architecture: its model (with its pieces) and
    features, in place of those configured, and all weights; encoder: its encoder and features, with new heads for
    model.pieces new pieces;
    half: weights that fit the configured model, at least half of the checkpoint; any: weights that fit, however few."""
    learns: Literal["all", "heads", "adapters"] = "all"
    """Parts that learn. heads: the encoder stays as it is, running statistics too; adapters: only those of the encoder
    (model.encoder.adapter_width) learn, and all else stays."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checkpoint is None or self.from_checkpoint not in ("architecture", "encoder"):
            self.check_lookaheads()  # else once its encoder is known
        if self.learns == "adapters" and not self.model.encoder.adapter_width:
            raise ValueError("learns = adapters: the encoder has none; expected model.encoder.adapter_width above 0")

    def check_lookaheads(self) -> None:
        """Raises ConfigError for lookaheads that the encoder cannot learn."""
        own = self.model.encoder
        if self.lookaheads and (own.attention != "chunked" or min(self.lookaheads) < 0):
            raise ConfigError(f"lookaheads = {self.lookaheads}: expected numbers from 0, and attention = chunked")
        if self.lookaheads and own.right_frames not in self.lookaheads:
            expected = f"expected model.encoder.right_frames = {own.right_frames} among them"
            raise ConfigError(f"lookaheads = {self.lookaheads}: {expected}")
