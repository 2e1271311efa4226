"""What a transducer decoder computes with: the weights of prediction network and joint, as tensors or as arrays.

Needs no torch.

Shapes: V labels, H prediction network, C encoder, J joint, W outputs: V labels, blank, then one per duration.
"""

from collections.abc import Callable, Mapping, Sized
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

Numbers = TypeVar("Numbers", bound=Sized)
"""torch.Tensor or np.ndarray."""
Activation = Literal["relu", "tanh", "sigmoid"]
INTERNAL_MOST = 8.0
"""Largest difference between two labels by the internal language model that counts in greedy decoding, in nats: it does
not know well what it holds to be next to impossible."""


class LSTMLayer(NamedTuple, Generic[Numbers]):
    """One layer of an LSTM with torch's order of the gates (input, forget, cell, output) along the first dimension."""

    input_weight: Numbers
    """[4H, H]"""
    hidden_weight: Numbers
    """[4H, H]"""
    input_bias: Numbers
    """[4H]"""
    hidden_bias: Numbers
    """[4H]"""


class DecoderWeights(NamedTuple, Generic[Numbers]):
    """Prediction network and joint. Blank is the output after the V labels: `blank` = V."""

    embedding: Numbers
    """[V + 1, H]; the row of blank is what stands before the first label."""
    lstm: tuple[LSTMLayer[Numbers], ...]
    """First layer first; each starts from zeros."""
    encoder_weight: Numbers
    """[J, C]"""
    encoder_bias: Numbers
    """[J]"""
    prediction_weight: Numbers
    """[J, H]"""
    prediction_bias: Numbers
    """[J]"""
    output_weight: Numbers
    """[W, J]"""
    output_bias: Numbers
    """[W]"""
    durations: tuple[int, ...] = ()
    """What the outputs after blank stand for, in frames, ascending; none for RNN-T."""
    activation: Activation = "relu"
    """Activation of the sum of both projections."""

    @property
    def blank(self) -> int:
        """The number of blank, which is that of labels too."""
        return len(self.embedding) - 1


MATRICES = tuple(name for name in DecoderWeights._fields if name not in ("lstm", "durations", "activation"))


def on_host(weights: DecoderWeights) -> DecoderWeights:
    """The same weights as tensors on the CPU, float32, without gradients."""
    return _each(weights, lambda tensor: tensor.detach().float().cpu())


def arrays_of(weights: DecoderWeights) -> DecoderWeights[np.ndarray]:
    """The same weights as float32 arrays, of tensors or of arrays."""
    return _each(weights, array_of)


def array_of(value: Any) -> np.ndarray:
    """A tensor of any device as a float32 array; an array as it is."""
    return value if isinstance(value, np.ndarray) else value.detach().float().cpu().numpy()


def named(weights: DecoderWeights) -> dict[str, Any]:
    """All of them under one name each, as files hold them."""
    whole = {name: value for name, value in weights._asdict().items() if name in MATRICES}
    layers = {
        f"lstm.{i}.{name}": value for i, layer in enumerate(weights.lstm) for name, value in layer._asdict().items()
    }
    return whole | layers


def of_named(values: Mapping[str, Any], *, durations: tuple[int, ...], activation: Activation) -> DecoderWeights:
    """What `named` took apart. Raises KeyError for a name that is missing."""
    layers = 1 + max((int(name.split(".")[1]) for name in values if name.startswith("lstm.")), default=0)
    return DecoderWeights(
        lstm=tuple(LSTMLayer(*(values[f"lstm.{i}.{name}"] for name in LSTMLayer._fields)) for i in range(layers)),
        durations=durations,
        activation=activation,
        **{name: values[name] for name in MATRICES},
    )


def _each(weights: DecoderWeights, change: Callable[[Any], Any]) -> DecoderWeights:
    changed = {name: change(getattr(weights, name)) for name in MATRICES}
    return weights._replace(lstm=tuple(LSTMLayer(*map(change, layer)) for layer in weights.lstm), **changed)
