"""Schema, defaults and help of everything FastPitch reads from TOML files and flags."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The encoder, over symbols, or the decoder, over frames."""

    layers: int = 6
    """Of self-attention and two convolutions each."""
    heads: int = 1
    """Of attention."""
    head_channels: int = 64
    """Channels of a head's queries, keys and values."""
    filter_channels: int = 1536
    """Channels between the two convolutions."""
    kernel: int = 3
    """Positions a convolution spans (odd)."""
    dropout: float = 0.1
    """After attention and after the convolutions."""
    attention_dropout: float = 0.1
    """Of what a position looks at."""
    input_dropout: float = 0.0
    """Of the inputs with their positions."""

    def __post_init__(self) -> None:
        _check_kernel(self.kernel)


@dataclass(frozen=True, kw_only=True)
class PredictorConfig:
    """Predicts a number for every symbol: log-duration, pitch or energy."""

    layers: int = 2
    """Convolutions, each with normalisation and dropout."""
    filter_channels: int = 256
    """Channels of the convolutions."""
    kernel: int = 3
    """Symbols a convolution spans (odd)."""
    dropout: float = 0.1
    """After every convolution."""

    def __post_init__(self) -> None:
        _check_kernel(self.kernel)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The acoustic model: symbols in, mel frames out."""

    channels: int = 384
    """Of symbols and frames in encoder and decoder."""
    encoder: TransformerConfig = field(default_factory=TransformerConfig)
    decoder: TransformerConfig = field(default_factory=TransformerConfig)
    duration: PredictorConfig = field(default_factory=PredictorConfig)
    pitch: PredictorConfig = field(default_factory=PredictorConfig)
    energy: PredictorConfig = field(default_factory=PredictorConfig)
    uses_energy: bool = True
    """Predict the energy of symbols and condition the frames on it."""
    pitch_kernel: int = 3
    """Symbols that the embedding of pitch spans (odd)."""
    energy_kernel: int = 3
    """Symbols that the embedding of energy spans (odd)."""
    speakers: int = 1
    """Voices; with more than one, each has an embedding."""
    speaker_weight: float = 1.0
    """Factor of the speaker's embedding."""
    speaker_conditions: Literal["encoder", "all"] = "encoder"
    """The speaker's embedding is added to the input of the encoder (published), or of predictors and decoder too."""
    max_duration: float = 75.0
    """Frames; no symbol is predicted to be longer."""

    def __post_init__(self) -> None:
        _check_kernel(self.pitch_kernel)
        _check_kernel(self.energy_kernel)
        if self.speakers < 1:
            raise ValueError(f"speakers = {self.speakers}: expected at least 1")
        if self.channels % 2:
            raise ValueError(f"channels = {self.channels}: expected an even number, half of them sines of the position")


def _check_kernel(kernel: int) -> None:
    if kernel % 2 == 0:
        raise ValueError(f"kernel = {kernel}: expected an odd number of positions")
