"""Schema, defaults and help of everything that the transducers read from TOML files and flags."""

from dataclasses import dataclass, field
from typing import Literal

from common.features import NEMO, LogMelConfig
from transducer.weights import Activation


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """FastConformer (Rekesh et al. 2023, arXiv:2305.05084). The defaults are the large model, 109 M parameters."""

    width: int = 512
    """Size of a frame between the layers."""
    layers: int = 17
    """Conformer blocks."""
    heads: int = 8
    """Attention heads; divides width."""
    subsampling: Literal[2, 4, 8] = 8
    """Feature frames per encoder frame."""
    subsampling_channels: int = 256
    """Channels of the convolutions that subsample."""
    causal_subsampling: bool = False
    """Convolutions that subsample see no frame after their own, as streaming models need."""
    kernel: int = 9
    """Frames a depthwise convolution spans (odd)."""
    causal_convolution: bool = False
    """Depthwise convolutions see no frame after their own."""
    norm: Literal["batch", "layer"] = "batch"
    """Normalisation in the convolution module."""
    expansion: int = 4
    """Inner size of the feed-forward modules, in widths."""
    biases: bool = True
    """Linear layers and convolutions of the blocks have biases."""
    scale_input: bool = False
    """Multiply frames by the root of width before the first block."""
    attention: Literal["regular", "chunked", "chunked_right"] = "regular"
    """Who sees whom: a window around each frame, chunks that see whole chunks before them, or chunks and some frames
    after them."""
    left_frames: int = -1
    """Frames before a frame (or its chunk) that it sees; -1 for all."""
    right_frames: int = -1
    """Frames after it; -1 for all. A chunk of "chunked" has one frame more than this."""
    chunk_frames: int = 0
    """Length of a chunk of "chunked_right"; 0 for all in one."""
    dropout: float = 0.1
    """Probability of zeroing an activation in training."""
    attention_dropout: float = 0.1
    """Probability of zeroing an attention weight in training."""

    def __post_init__(self) -> None:
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
    """An encoder and its heads: a transducer (RNN-T or TDT), CTC, or both."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    transducer: Literal["tdt", "rnnt", "none"] = "tdt"
    """Tokens and durations, tokens alone, or no transducer."""
    ctc: bool = True
    """There is a CTC head."""
    pieces: int = 1024
    """Labels, without the blank."""
    durations: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Of TDT: the frames that a label or a blank may take, ascending."""
    prediction_width: int = 640
    """Hidden size of the prediction network."""
    prediction_layers: int = 1
    """Its LSTM layers."""
    joint_width: int = 640
    """Hidden size of the joint."""
    joint_activation: Activation = "relu"
    """Nonlinearity of the joint."""
    head_dropout: float = 0.2
    """Probability of zeroing an activation of prediction network and joint in training."""

    def __post_init__(self) -> None:
        if self.transducer == "none" and not self.ctc:
            raise ValueError("a model needs a head: expected transducer = tdt or rnnt, or ctc = true")
        if list(self.durations) != sorted({d for d in self.durations if d >= 0}) or max(self.durations, default=0) < 1:
            raise ValueError(f"durations = {self.durations}: expected frames in ascending order, one above 0")

    @property
    def jumps(self) -> tuple[int, ...]:
        """Durations that the joint has outputs for: none for RNN-T."""
        return self.durations if self.transducer == "tdt" else ()


FEATURES: LogMelConfig = NEMO
"""What the models hear, unless their checkpoint says otherwise."""
