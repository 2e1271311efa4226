"""What a transducer decoder computes with: the weights of prediction network and joint, as tensors.

Shapes: V labels, H prediction network, C encoder, J joint, W outputs: V labels, blank, then one per duration.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from torch import Tensor

Activation = Literal["relu", "tanh", "sigmoid"]


class LSTMLayer(NamedTuple):
    """One layer of an LSTM with torch's order of the gates (input, forget, cell, output) along the first dimension."""

    input_weight: Tensor
    """[4H, H]"""
    hidden_weight: Tensor
    """[4H, H]"""
    input_bias: Tensor
    """[4H]"""
    hidden_bias: Tensor
    """[4H]"""


class DecoderWeights(NamedTuple):
    """Prediction network and joint. Blank is the output after the V labels: `blank` = V."""

    embedding: Tensor
    """[V + 1, H]; the row of blank is what stands before the first label."""
    lstm: tuple[LSTMLayer, ...]
    """First layer first; each starts from zeros."""
    encoder_weight: Tensor
    """[J, C]"""
    encoder_bias: Tensor
    """[J]"""
    prediction_weight: Tensor
    """[J, H]"""
    prediction_bias: Tensor
    """[J]"""
    output_weight: Tensor
    """[W, J]"""
    output_bias: Tensor
    """[W]"""
    durations: tuple[int, ...] = ()
    """What the outputs after blank stand for, in frames, ascending; none for RNN-T."""
    activation: Activation = "relu"
    """Activation of the sum of both projections."""

    @property
    def blank(self) -> int:
        """The number of blank, which is that of labels too."""
        return len(self.embedding) - 1


class Decoded(NamedTuple):
    """Labels of one utterance, the encoder frame each was emitted at, and how sure the model is of each.

    `durations` are the frames that the model gave each label (TDT), None for RNN-T. `confidence` is the
    probability of the label among all labels and blank, `entropies` those of their probabilities, in nats.
    """

    tokens: list[int]
    frames: list[int]
    durations: list[int] | None
    confidence: list[float]
    entropies: Sequence[float] = ()


def on_host(weights: DecoderWeights) -> DecoderWeights:
    """The same weights on the CPU, float32, without gradients."""

    def moved(tensor: Tensor) -> Tensor:
        return tensor.detach().float().cpu()

    return weights._replace(
        embedding=moved(weights.embedding),
        lstm=tuple(LSTMLayer(*map(moved, layer)) for layer in weights.lstm),
        encoder_weight=moved(weights.encoder_weight),
        encoder_bias=moved(weights.encoder_bias),
        prediction_weight=moved(weights.prediction_weight),
        prediction_bias=moved(weights.prediction_bias),
        output_weight=moved(weights.output_weight),
        output_bias=moved(weights.output_bias),
    )
