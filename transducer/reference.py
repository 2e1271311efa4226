"""Slow and obvious: greedy decoding frame by frame, losses by the definition in float64. Tests compare with them.

Shapes: B utterances, T (or S) encoder frames, U label positions (one more than labels), V labels and blank,
W = V, then one output per duration (TDT), C encoder width, H prediction network, J joint.

Sources: Graves, Sequence Transduction with Recurrent Neural Networks, 2012 (RNN-T); Xu et al., Efficient Sequence
Transduction by Jointly Predicting Tokens and Durations, ICML 2023 (TDT); Yu et al., FastEmit, ICASSP 2021.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from transducer.weights import Decoded, DecoderWeights, LSTMLayer

State = list[tuple[Tensor, Tensor]]
"""Hidden and cell [H] of every layer."""


def greedy(
    encoded_BSC: Tensor, frames_B: Tensor | Sequence[int], weights: DecoderWeights, *, max_symbols: int = 10
) -> list[Decoded]:
    """The most probable label or blank at every step, one utterance at a time, as the papers define it.

    With durations the pointer moves on by the most probable one, after a label or a blank; blank moves by 1 at least.
    Without, a blank moves it by 1. After `max_symbols` labels at one frame it moves by 1 anyway.
    """
    frames = [int(n) for n in frames_B]
    return [_greedy(encoded_SC[:n], weights, max_symbols) for encoded_SC, n in zip(encoded_BSC, frames, strict=True)]


def _greedy(encoded_SC: Tensor, weights: DecoderWeights, max_symbols: int) -> Decoded:
    n_tokens = weights.blank + 1
    found, entropies = Decoded([], [], [] if weights.durations else None, []), []
    prediction_H, state = predict(weights.blank, start_state(weights), weights)
    frame = n_symbols = 0
    while frame < len(encoded_SC):
        logits_W = joint(encoded_SC[frame], prediction_H, weights)
        token = int(logits_W[:n_tokens].argmax())
        duration = weights.durations[int(logits_W[n_tokens:].argmax())] if weights.durations else 0
        if token == weights.blank:
            duration = max(1, duration)
        else:
            found.tokens.append(token)
            found.frames.append(frame)
            if found.durations is not None:
                found.durations.append(duration)
            probability_V = logits_W[:n_tokens].softmax(0)
            found.confidence.append(float(probability_V[token]))
            entropies.append(float(torch.special.entr(probability_V).sum()))
            prediction_H, state = predict(token, state, weights)
            n_symbols += 1
            if duration == 0 and n_symbols == max_symbols:
                duration = 1
        if duration:
            frame, n_symbols = frame + duration, 0
    return found._replace(entropies=entropies)


def start_state(weights: DecoderWeights) -> State:
    """What the prediction network starts from: zeros."""
    zeros = weights.embedding.new_zeros(weights.embedding.shape[1])
    return [(zeros, zeros) for _ in weights.lstm]


def predict(token: int, state: State, weights: DecoderWeights) -> tuple[Tensor, State]:
    """Output [H] of the prediction network after one more label (or blank, at the start), and its new state."""
    x_H = weights.embedding[token]
    new: State = []
    for layer, (hidden_H, cell_H) in zip(weights.lstm, state, strict=True):
        hidden_H, cell_H = _lstm(x_H, hidden_H, cell_H, layer)
        new.append((hidden_H, cell_H))
        x_H = hidden_H
    return x_H, new


def _lstm(x_H: Tensor, hidden_H: Tensor, cell_H: Tensor, layer: LSTMLayer) -> tuple[Tensor, Tensor]:
    gates = F.linear(x_H, layer.input_weight, layer.input_bias) + F.linear(
        hidden_H, layer.hidden_weight, layer.hidden_bias
    )
    enter, forget, candidate, leave = gates.chunk(4)
    cell_H = forget.sigmoid() * cell_H + enter.sigmoid() * candidate.tanh()
    return leave.sigmoid() * cell_H.tanh(), cell_H


def joint(encoded_C: Tensor, prediction_H: Tensor, weights: DecoderWeights) -> Tensor:
    """Logits [W] of a frame and a label position."""
    sum_J = F.linear(encoded_C, weights.encoder_weight, weights.encoder_bias) + F.linear(
        prediction_H, weights.prediction_weight, weights.prediction_bias
    )
    hidden_J = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}[weights.activation](sum_J)
    return F.linear(hidden_J, weights.output_weight, weights.output_bias)


def rnnt_losses(
    logits_BTUV: Tensor,
    targets_BU: Tensor,
    frames_B: Tensor | Sequence[int],
    target_lengths_B: Tensor | Sequence[int],
    *,
    blank: int = -1,
    fastemit: float = 0.0,
) -> Tensor:
    """RNN-T loss of every utterance, float64, differentiable; inf where there are no frames.

    With `fastemit` the loss is (1 + fastemit) times that without, and the gradient that reaches a label's
    probability is too, but not that of blank.
    """
    return _each(
        logits_BTUV, targets_BU, frames_B, target_lengths_B, durations=None, blank=blank, sigma=0.0, fastemit=fastemit
    )


def tdt_losses(
    logits_BTUW: Tensor,
    targets_BU: Tensor,
    frames_B: Tensor | Sequence[int],
    target_lengths_B: Tensor | Sequence[int],
    durations: Sequence[int],
    *,
    blank: int = -1,
    sigma: float = 0.0,
) -> Tensor:
    """TDT loss of every utterance, float64, differentiable; inf where no path of durations ends at its last frame.

    Label logits and duration logits are normalised apart; `sigma` is taken off every log-probability of the former.
    `blank` counts among the labels: -1 is the last of them.
    """
    return _each(
        logits_BTUW, targets_BU, frames_B, target_lengths_B, durations=durations, blank=blank, sigma=sigma, fastemit=0.0
    )


def _each(
    logits_BTUW: Tensor,
    targets_BU: Tensor,
    frames_B: Tensor | Sequence[int],
    target_lengths_B: Tensor | Sequence[int],
    *,
    durations: Sequence[int] | None,
    blank: int,
    sigma: float,
    fastemit: float,
) -> Tensor:
    n_tokens = logits_BTUW.shape[3] - len(durations or ())
    losses = []
    for b, (n_frames, n_labels) in enumerate(zip(map(int, frames_B), map(int, target_lengths_B), strict=True)):
        logits_TUW = logits_BTUW[b, :n_frames, : n_labels + 1].double()
        tokens_TUV = logits_TUW[..., :n_tokens].log_softmax(-1) - sigma
        blank_TU = tokens_TUV[..., blank % n_tokens]
        index_TU1 = targets_BU[b, :n_labels].long().expand(n_frames, -1)[..., None]
        label_TU = tokens_TUV[:, :n_labels].gather(2, index_TU1)[..., 0]
        label_TU = label_TU + fastemit * (label_TU - label_TU.detach())
        if durations is None:
            arcs = [(1, blank_TU, None), (0, None, label_TU)]
        else:
            durations_TUD = logits_TUW[..., n_tokens:].log_softmax(-1)
            arcs = [
                (d, blank_TU + durations_TUD[..., i] if d else None, label_TU + durations_TUD[:, :n_labels, i])
                for i, d in enumerate(durations)
            ]
        loss = _loss(arcs, n_frames, n_labels)
        losses.append(loss + fastemit * loss.detach() if fastemit else loss)
    return torch.stack(losses) if losses else logits_BTUW.new_zeros(0, dtype=torch.float64)


def _loss(arcs: list[tuple[int, Tensor | None, Tensor | None]], n_frames: int, n_labels: int) -> Tensor:
    """Minus the log of the probability of all paths from (0, 0) to (n_frames, n_labels).

    An arc (d, blank_TU, label_TU) leads from (t, u) to (t + d, u) by blank, and to (t + d, u + 1) by the label.
    The last arc of a path is a blank: labels cannot be emitted at frame n_frames.
    """
    alpha: dict[tuple[int, int], Tensor] = {(0, 0): torch.zeros((), dtype=torch.float64)}
    for t in range(n_frames + 1):
        for u in range(n_labels + 1):
            ways = []
            for d, blank_TU, label_TU in arcs:
                if blank_TU is not None and (t - d, u) in alpha and t >= d > 0:
                    ways.append(alpha[t - d, u] + blank_TU[t - d, u])
                if label_TU is not None and t < n_frames and (t - d, u - 1) in alpha:
                    ways.append(alpha[t - d, u - 1] + label_TU[t - d, u - 1])
            ways = [way for way in ways if way > -math.inf]  # their gradient would be NaN
            if ways:
                alpha[t, u] = torch.stack(ways).logsumexp(0)
    end = alpha.get((n_frames, n_labels))
    return -end if end is not None and n_frames else torch.tensor(math.inf, dtype=torch.float64)
