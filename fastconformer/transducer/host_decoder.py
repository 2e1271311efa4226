"""Greedy decoding of arrays without torch, for runtimes: the native decoder, or numpy where it cannot be built.

Shapes: B utterances, S encoder frames, C encoder width, Z layers of LSTM, H prediction network, J joint, W outputs.
"""

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import ctc
from ctc import Scorer
from ctc.inputs import integer_array
from ctc.scorer import State
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer._decoder_library import NativeNetwork, decoded_of, functions, padded
from fastconformer.transducer._library import LIBRARY
from fastconformer.transducer.weights import INTERNAL_MOST, DecoderWeights, arrays_of

if TYPE_CHECKING:  # runtimes without torch decode too
    from torch import Tensor

SLOTS, WINDOW = 32, 4
"""Utterances that a thread decodes at once; frames of one that go through the joint at once, where they are few."""


MOST_SYMBOLS = 1000
"""Labels on a frame, at most: there is room for so many on each, and nobody says a tenth of it."""


def window_rows(weights: DecoderWeights) -> int:
    """Frames of all utterances of a thread that go through the joint at once, at most: what was fastest."""
    return 6 if weights.durations else 24


@dataclass(kw_only=True, slots=True)
class HostState:
    """Where utterances go on whose frames come in pieces, of the network and of scorers; every call updates it."""

    network_BX: np.ndarray
    position_B3: np.ndarray
    language_B3: np.ndarray
    rows: list["Row"] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class Row:
    """An utterance in numpy: the prediction network after its labels, and the frame to come that it looks at."""

    hidden_ZH: np.ndarray
    cell_ZH: np.ndarray
    prediction_J: np.ndarray
    frame: int = 0
    symbols: int = 0
    language: State | None = None


class HostDecoder:
    """Prediction network and joint, made ready to decode arrays."""

    def __init__(self, weights: DecoderWeights, *, threads: int = 0) -> None:
        """`weights`: arrays or tensors. `threads`: 0 for one per core."""
        self.weights = arrays_of(weights)
        self.threads = threads or os.cpu_count() or 1
        self._native = NativeNetwork(self.weights) if functions() is not None else None
        if self._native is None:
            reason = f"{LIBRARY.cpu} is missing; `{LIBRARY.command}` makes it where there is a C++ compiler"
            warnings.warn(f"transducers decode in numpy, which is slower: {reason}", ctc.SlowPathWarning, stacklevel=2)

    def start(self, batch: int) -> HostState:
        """The state of `batch` utterances before their first frames."""
        hidden, joint = padded(self.weights.embedding.shape[1]), padded(len(self.weights.encoder_weight))
        width = 2 * len(self.weights.lstm) * hidden + joint
        rows = [] if self._native is not None else [first_row(self.weights) for _ in range(batch)]
        return HostState(
            network_BX=np.zeros((batch, width), np.float32),
            position_B3=np.zeros((batch, 3), np.int64),
            language_B3=np.zeros((batch, 3), np.int32),
            rows=rows,
        )

    def __call__(
        self,
        encoded_BSC: np.ndarray,
        frames_B: "Tensor | np.ndarray | Sequence[int]",
        *,
        max_symbols: int = 10,
        state: HostState | None = None,
        scorers: Scorer | Sequence[Scorer | None] | None = None,
        internal_weight: float = 0.0,
    ) -> list[DecodedLabels]:
        """As `fastconformer.Decoder`: frames are numbered from the first of this call.

        Raises ValueError for scorers that do not fit, and for an utterance whose frames hold NaN.
        """
        check_shape(self.weights, encoded_BSC.shape, max_symbols)
        frames_B = frame_counts(frames_B, *encoded_BSC.shape[:2])
        each = scorers_of_all(scorers, len(frames_B), self.weights.blank)
        check_internal_weight(internal_weight)
        encoded_BSC = np.ascontiguousarray(encoded_BSC, np.float32)
        if self._native is not None:
            found = self._native.decode(
                encoded_BSC,
                frames_B,
                None if state is None else (state.network_BX, state.position_B3, state.language_B3),
                each if any(each) else (),
                max_symbols=max_symbols,
                slots=SLOTS,
                window=WINDOW,
                window_rows=window_rows(self.weights),
                threads=self.threads,
                internal_weight=internal_weight,
            )
            return decoded_of(found, has_durations=bool(self.weights.durations))
        rows = [first_row(self.weights) for _ in frames_B] if state is None else state.rows
        return [
            decode_in_numpy(self.weights, encoded_SC[:count], row, b, max_symbols, scorer, internal_weight)
            for b, (encoded_SC, count, row, scorer) in enumerate(zip(encoded_BSC, frames_B, rows, each, strict=True))
        ]


def first_row(weights: DecoderWeights) -> Row:
    """Before the first label, which a blank stands for. `weights` are arrays, here and below."""
    nothing_ZH = np.zeros((len(weights.lstm), weights.embedding.shape[1]), np.float32)
    row = Row(hidden_ZH=nothing_ZH, cell_ZH=nothing_ZH.copy(), prediction_J=nothing_ZH[0])
    _predict(weights, row, weights.blank)
    return row


def decode_in_numpy(
    weights: DecoderWeights,
    encoded_SC: np.ndarray,
    row: Row,
    utterance: int,
    max_symbols: int,
    scorer: Scorer | None = None,
    internal_weight: float = 0.0,
) -> DecodedLabels:
    """One utterance after the other, one frame after the other; `row` moves on."""
    if np.isnan(encoded_SC).any():
        raise ValueError(f"encoded: utterance {utterance}: its frames hold NaN")
    found = DecodedLabels([], [], [] if weights.durations else None, [], [])
    encoded_SJ = encoded_SC @ weights.encoder_weight.T + weights.encoder_bias
    while row.frame < len(encoded_SJ):
        joint_J = _ACTIVATIONS[weights.activation](encoded_SJ[row.frame] + row.prediction_J)
        logits_W = weights.output_weight @ joint_J + weights.output_bias
        score_V, score_D = np.split(logits_W, [weights.blank + 1])
        token = int(score_V.argmax())
        duration = weights.durations[int(score_D.argmax())] if weights.durations else 0
        if token != weights.blank:
            if scorer is not None:
                before = row.language or scorer.start()
                gain_V = np.array([scorer.extend(before, i)[0] for i in range(weights.blank)])
                gain_V += _less_internal(weights, row, token, internal_weight)
                token = int((score_V[: weights.blank] + gain_V).argmax())
                row.language = scorer.extend(before, token)[1]
            log_prob_V = score_V - score_V.max()
            log_prob_V = log_prob_V - np.log(np.exp(log_prob_V).sum())
            probability_V = np.exp(log_prob_V)
            found.tokens.append(token)
            found.frames.append(row.frame)
            if found.durations is not None:
                found.durations.append(duration)
            found.confidence.append(float(probability_V[token]))
            found.entropies.append(-float((probability_V * log_prob_V)[probability_V > 0].sum()))  # type: ignore[attr-defined]
            row.symbols += 1
            _predict(weights, row, token)
        if token == weights.blank or row.symbols >= max_symbols:
            duration = max(duration, 1)
        row.frame += duration
        row.symbols = 0 if duration else row.symbols
    row.frame -= len(encoded_SJ)
    return found


def _less_internal(weights: DecoderWeights, row: Row, best: int, weight: float) -> np.ndarray:
    """[V]: what labels gain beside the best by taking off what is known without hearing anything."""
    if weight == 0:
        return np.zeros(weights.blank)
    joint_J = _ACTIVATIONS[weights.activation](np.asarray(weights.encoder_bias) + row.prediction_J)
    score_V = (weights.output_weight @ joint_J + weights.output_bias)[: weights.blank].astype(np.float64)
    return weight * np.clip(score_V[best] - score_V, -INTERNAL_MOST, INTERNAL_MOST)


def _predict(weights: DecoderWeights, row: Row, token: int) -> None:
    """The row after one more label."""
    x_H = np.asarray(weights.embedding[token])
    for z, layer in enumerate(weights.lstm):
        gates_G = (
            layer.input_weight @ x_H + layer.input_bias + layer.hidden_weight @ row.hidden_ZH[z] + layer.hidden_bias
        )
        enter_H, forget_H, candidate_H, leave_H = np.split(gates_G, 4)
        row.cell_ZH[z] = _sigmoid(forget_H) * row.cell_ZH[z] + _sigmoid(enter_H) * np.tanh(candidate_H)
        x_H = row.hidden_ZH[z] = _sigmoid(leave_H) * np.tanh(row.cell_ZH[z])
    row.prediction_J = weights.prediction_weight @ x_H + weights.prediction_bias


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"relu": _relu, "tanh": np.tanh, "sigmoid": _sigmoid}


def check_shape(weights: DecoderWeights, shape: Sequence[int], max_symbols: int) -> None:
    """Raises ValueError for frames of this shape, and for a number of labels on a frame, that do not fit."""
    width = weights.encoder_weight.shape[1]
    if len(shape) != 3 or shape[2] != width:
        raise ValueError(f"encoded: expected [utterance, frame, {width}], found shape {list(shape)}")
    check_max_symbols(max_symbols)


def check_max_symbols(number: int) -> None:
    """Raises ValueError for one that is no number of labels on a frame."""
    if not isinstance(number, int | np.integer) or not 1 <= number <= MOST_SYMBOLS:
        expected = f"{MOST_SYMBOLS} at most" if isinstance(number, int) and number > 0 else "1 or more"
        raise ValueError(f"max_symbols: expected {expected}, found {number}")


def frame_counts(frames_B: "Tensor | np.ndarray | Sequence[int]", batch: int, frames: int) -> np.ndarray:
    """How many of `frames` belong to each utterance, int64. Raises ValueError for what does not fit, and TypeError."""
    counts_B = integer_array(frames_B, name="frames")
    if counts_B.shape != (batch,):
        raise ValueError(f"frames: expected one for each of {batch} utterances, found {list(counts_B.shape)}")
    for n, count in enumerate(counts_B.tolist()):
        if not 0 <= count <= frames:
            raise ValueError(f"frames: utterance {n}: expected at least 0 and at most {frames}, found {count}")
    return np.ascontiguousarray(counts_B, np.int64)


def check_internal_weight(weight: float) -> None:
    """Raises ValueError for one that is negative, infinite or no number."""
    if not 0 <= weight < math.inf:
        raise ValueError(f"internal_weight: expected a number, at least 0, found {weight}")


def scorers_of_all(scorers: Scorer | Sequence[Scorer | None] | None, batch: int, labels: int) -> list[Scorer | None]:
    """One for each utterance. Raises ValueError for another number of them, or of labels."""
    each = [scorers] * batch if scorers is None or isinstance(scorers, Scorer) else list(scorers)
    if len(each) != batch:
        raise ValueError(f"scorers: expected one for each of {batch} utterances, found {len(each)}")
    for scorer in each:
        if scorer is not None and len(scorer.labels) not in (labels, labels + 1):
            raise ValueError(f"scorers: expected {labels} labels, found {len(scorer.labels)}")
    return each
