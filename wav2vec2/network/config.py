"""Schema, defaults and help of the wav2vec 2.0 network: its architecture, and how it behaves while it learns.

The defaults are the Base model of Baevski et al. 2020 (arXiv:2006.11477).
"""

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch.nn import functional as F

from common.config import check_not_negative, check_positive

ConvLayer = tuple[int, int, int]
CONV_LAYERS: tuple[ConvLayer, ...] = ((512, 10, 5), *[(512, 3, 2)] * 4, *[(512, 2, 2)] * 2)
Activation = Literal[
    "gelu",
    "gelu_pytorch_tanh",
    "quick_gelu",
    "relu",
    "relu6",
    "leaky_relu",
    "silu",
    "mish",
    "tanh",
    "sigmoid",
    "linear",
]
ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "silu": F.silu,
    "mish": F.mish,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "linear": lambda x: x,
}
"""By the names of transformers."""
LONGEST_HOURGLASS = 64  # characters; a longer one is no configuration, and parsing it could take memory without bound
LARGEST_FACTOR = 1000  # frames that an hourglass makes one, 20 s; every utterance is filled up to a multiple of it


@dataclass(frozen=True, kw_only=True)
class HourglassConfig:
    """Transformer layers that see a shortened sequence (Hourglass Transformer, Nawrot et al. 2021)."""

    before: int
    """Layers at the full frame rate before the shortening."""
    shortened: int
    """Layers in between, each of whose frames stands for `factor`."""
    factor: int
    """Frames that are averaged into one."""
    after: int
    """Layers at the full frame rate after it."""

    @classmethod
    def parse(cls, text: str) -> "HourglassConfig":
        """Reads "[2,(8,4),2]": 2 layers, 8 that see every 4 frames as one, 2 layers. Raises ValueError."""
        match _literal(text):
            case [int(before), (int(shortened), int(factor)), int(after)] if (
                min(before, shortened, after) >= 0 and 1 <= factor <= LARGEST_FACTOR
            ):
                return cls(before=int(before), shortened=int(shortened), factor=int(factor), after=int(after))
        shown = text if len(text) <= LONGEST_HOURGLASS else f"{text[:LONGEST_HOURGLASS]}…"
        raise ValueError(
            f"hourglass = {shown!r}: expected [layers before, (layers shortened, factor), layers after], as [2,(8,4),2]"
        )

    @property
    def n_layers(self) -> int:
        """Transformer layers in all."""
        return self.before + self.shortened + self.after

    def __str__(self) -> str:
        return f"[{self.before},({self.shortened},{self.factor}),{self.after}]"


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The architecture. A checkpoint carries it, so it cannot be changed when a model is fine-tuned or used."""

    conv_layers: tuple[ConvLayer, ...] = CONV_LAYERS
    """Channels, kernel and stride (samples, then frames of the layer before) of each convolution of the extractor."""
    conv_bias: bool = False
    """Bias in the convolutions of the extractor."""
    extractor_norm: Literal["group", "layer"] = "group"
    """Normalisation in the extractor. group: of each channel of the first convolution, over time; layer: of each frame
    of every convolution."""
    normalize_audio: bool = False
    """Normalisation of every utterance to mean 0 and variance 1 before the network."""
    audio_epsilon: float = 1e-5
    """Number that normalize_audio adds to the variance: 1e-5 in Fairseq, 1e-7 in Hugging Face's models."""
    conv_activation: Activation = "gelu"
    """Activation after the convolutions of the extractor and of the positions."""
    feature_norm: bool = True
    """Layer normalisation of the extractor's output."""
    layers: int = 12
    """Transformer layers."""
    dim: int = 768
    """Width of the Transformer."""
    ffn_dim: int = 3072
    """Width inside the feed-forward parts of the Transformer."""
    heads: int = 12
    """Attention heads; divides dim."""
    pre_norm: bool = False
    """Layer normalisation before attention and feed-forward (Large) instead of after the residual sum (Base)."""
    activation: Activation = "gelu"
    """Activation inside the feed-forward parts of the Transformer."""
    norm_epsilon: float = 1e-5
    """Number that layer normalisation outside the extractor adds to the variance."""
    pos_kernel: int = 128
    """Frames that the positional convolution spans."""
    pos_groups: int = 16
    """Groups of channels of the positional convolution; divides dim."""
    pos_layers: int = 0
    """Positional convolutions one after the other, each layer-normalised (data2vec); 0: one, weight-normalised."""
    relative_buckets: int = 0
    """Distances that attention tells apart by a gated bias (WavLM); 0: none."""
    relative_distance: int = 800
    """Distance in frames from which on attention no longer tells distances apart."""
    adapter_dim: int = 0
    """Width inside the adapter after each layer (MMS); 0 for none."""
    hourglass: str = ""
    """Shortening, as "[2,(8,4),2]": 2 layers, 8 layers that see every 4 frames as one, 2 layers. Empty for none."""
    hourglass_resample: Literal["naive", "linear"] = "naive"
    """Shortening and restoring by average and repetition (naive), or by linear layers (linear)."""
    codebooks: int = 2
    """Codebooks of the quantiser; divides the width of the codes."""
    codebook_size: int = 320
    """Entries of each codebook."""
    code_dim: int = 0
    """Width of the codes of all codebooks together, 0 for that of final_dim."""
    final_dim: int = 256
    """Width in which predictions and quantised targets are compared."""
    labels: tuple[str, ...] = ()
    """Symbols that the CTC head writes, by index, with the blank; empty for a model without such a head."""
    blank: int = 0
    """Index of the CTC blank."""

    def __post_init__(self) -> None:
        if not self.conv_layers or any(min(layer) < 1 or layer[1] < layer[2] for layer in self.conv_layers):
            raise ValueError(f"conv_layers = {self.conv_layers}: expected (channels, kernel, stride), kernel >= stride")
        positive = ("layers", "dim", "ffn_dim", "heads", "pos_kernel", "pos_groups", "codebooks", "codebook_size")
        check_positive(self, *positive, "final_dim", "width_of_codes")
        check_not_negative(self, "pos_layers", "adapter_dim")
        for name in ("audio_epsilon", "norm_epsilon"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: expected a number above 0 and below 1")
        if self.relative_buckets and (self.relative_buckets < 4 or self.relative_distance < 1):
            raise ValueError(
                f"relative_buckets = {self.relative_buckets}, relative_distance = {self.relative_distance}: expected "
                "at least 4 (0 for none), and a distance of at least 1"
            )
        if self.hourglass and (self.relative_buckets or self.adapter_dim):
            raise ValueError("hourglass with relative_buckets or adapter_dim: shortened layers have neither")
        if self.adapter_dim and not self.pre_norm:
            raise ValueError(f"adapter_dim = {self.adapter_dim}: only pre-norm models (Large) have adapters")
        for name, whole in (("heads", "dim"), ("pos_groups", "dim"), ("codebooks", "width_of_codes")):
            if getattr(self, whole) % getattr(self, name):
                raise ValueError(f"{name} = {getattr(self, name)} does not divide {whole} = {getattr(self, whole)}")
        if self.labels and not 0 <= self.blank < len(self.labels):
            raise ValueError(f"blank = {self.blank}: expected the index of one of {len(self.labels)} labels")
        shortening = self.shortening
        if shortening is not None and shortening.n_layers != self.layers:
            raise ValueError(f"hourglass = {self.hourglass!r} has {shortening.n_layers} layers; layers = {self.layers}")

    @property
    def shortening(self) -> HourglassConfig | None:
        """`hourglass`, parsed."""
        return HourglassConfig.parse(self.hourglass) if self.hourglass else None

    @property
    def width_of_codes(self) -> int:
        """Width of the entries of all codebooks, side by side."""
        return self.code_dim or self.final_dim

    @property
    def samples_per_frame(self) -> int:
        """Samples of audio from one frame to the next."""
        return samples_per_frame(self.conv_layers)

    @property
    def shortest_audio(self) -> int:
        """Samples that one frame sees."""
        return samples_seen(self.conv_layers)


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """Options of the network that matter in training only."""

    dropout: float = 0.1
    """Dropout of the outputs of attention and feed-forward, and of the Transformer's input."""
    attention_dropout: float = 0.1
    """Dropout of attention weights."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward parts."""
    input_dropout: float = 0.1
    """Dropout of the projected features."""
    feature_dropout: float = 0.1
    """Dropout of the features from which targets are quantised."""
    final_dropout: float = 0.0
    """Dropout of the input of the CTC head."""
    layer_drop: float = 0.05
    """Probability that a Transformer layer is left out of a step."""
    extractor_gradient: float = 0.1
    """Factor of the gradient that reaches the extractor; 0 freezes it."""
    checkpoint_activations: bool = False
    """Saving of memory: Transformer layers are computed again in the backward pass in place of keeping activations."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if "drop" in field.name):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: expected a probability from 0 to below 1")
        check_not_negative(self, "extractor_gradient")


def samples_per_frame(layers: Sequence[ConvLayer]) -> int:
    """Samples from one frame to the next after `layers`."""
    return math.prod(stride for _, _, stride in layers)


def samples_seen(layers: Sequence[ConvLayer]) -> int:
    """Samples that one frame after `layers` sees."""
    samples = 1
    for _, kernel, stride in reversed(layers):
        samples = (samples - 1) * stride + kernel
    return samples


def _literal(text: str) -> object:
    """What Python's notation `text` stands for; None where it is no plain value."""
    if len(text) > LONGEST_HOURGLASS:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return None
