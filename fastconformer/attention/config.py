"""Schema, defaults and help of the attention decoder."""

from dataclasses import dataclass
from typing import Literal

from common.config import check_not_negative, check_positive, check_shares

Prompts = Literal["canary", "canary2", "cohere"]
Times = Literal["auto", "tokens", "ctc", "aligner", "none"]
DecoderPrecision = Literal["fp32", "bf16", "int8"]


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """An attention decoder (a pre-norm Transformer) over encoder frames. The sizes are those of canary-180m-flash."""

    layers: int = 0
    """Blocks of the attention decoder; 0 for no such head."""
    width: int = 1024
    """Width of the decoder; frames of an encoder of another width are projected to it."""
    projects: bool = False
    """Whether frames are projected where the encoder has the same width, too."""
    heads: int = 8
    """Attention heads; divides width."""
    inner: int = 4096
    """Inner size of the feed-forward modules."""
    activation: Literal["relu", "gelu"] = "relu"
    """Nonlinearity of the feed-forward modules."""
    positions: int = 1024
    """Longest text, in tokens of prompt and transcript together."""
    learned_positions: bool = False
    """Whether positions are learned, in place of sinusoids."""
    tied: bool = True
    """Whether the output layer has the weights of the token embedding."""
    classes: int = 0
    """Outputs of the network, at least one for each piece; 0 for as many as there are pieces."""
    prompt: Prompts = "canary2"
    """Format of the prompt in front of a text."""
    language: str = ""
    """Language of recordings of which nothing is said; none, if there is no such default."""
    directions: tuple[str, ...] = ()
    """What is written of what is spoken, as en-de, where a model has learned some alone; all, if none is named. The
    checkpoints of a training name those of its data."""
    longest_seconds: float = 35.0
    """Longest stretch of a recording that is heard at once. A model that was trained here hears none that is longer
    than what it learned from (data.max_seconds, and data.join.max_seconds where it joins)."""
    dropout: float = 0.1
    """Probability of zeroing an activation or an attention weight in training."""

    def __post_init__(self) -> None:
        check_not_negative(self, "layers", "classes")
        check_positive(self, "width", "heads", "inner", "positions", "longest_seconds")
        check_shares(self, "dropout")
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width = {self.width}, heads = {self.heads}: expected an even multiple of the heads")
