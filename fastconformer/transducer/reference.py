"""Slow and obvious: greedy decoding frame by frame, losses by the definition in float64. Tests compare with them.

Shapes: B utterances, T (or S) encoder frames, U label positions (one more than labels), V labels and blank,
W = V, then one output per duration (TDT), C encoder width, H prediction network, J joint.

Sources: Graves, Sequence Transduction with Recurrent Neural Networks, 2012 (RNN-T); Xu et al., Efficient Sequence
Transduction by Jointly Predicting Tokens and Durations, ICML 2023 (TDT); Yu et al., FastEmit, ICASSP 2021.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

import ctc
from ctc.scorer import State as LanguageState
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer.weights import INTERNAL_MOST, DecoderWeights, LSTMLayer

State = list[tuple[Tensor, Tensor]]
"""Hidden and cell [H] of every layer."""


def greedy(
    encoded_BSC: Tensor,
    frames_B: Tensor | Sequence[int],
    weights: DecoderWeights,
    *,
    max_symbols: int = 10,
    scorers: Sequence[ctc.Scorer | None] = (),
    internal_weight: float = 0.0,
) -> list[DecodedLabels]:
    """The most probable label or blank at every step, one utterance at a time, as the papers define it.

    With durations the pointer moves on by the most probable one, after a label or a blank; blank moves by 1 at least.
    Without, a blank moves it by 1. After `max_symbols` labels at one frame it moves by 1 anyway. With a scorer a label
    that is more probable than blank gives way to the one that is best with what the scorer adds, less `internal_weight`
    times what the network knows without hearing anything.
    """
    frames = [int(n) for n in frames_B]
    each = scorers or [None] * len(frames)
    return [
        _greedy(encoded_SC[:n], weights, max_symbols, scorer, internal_weight)
        for encoded_SC, n, scorer in zip(encoded_BSC, frames, each, strict=True)
    ]


def _greedy(
    encoded_SC: Tensor, weights: DecoderWeights, max_symbols: int, scorer: ctc.Scorer | None, internal_weight: float
) -> DecodedLabels:
    n_tokens = weights.blank + 1
    found, entropies = DecodedLabels([], [], [] if weights.durations else None, []), []
    prediction_H, state = predict(weights.blank, start_state(weights), weights)
    language = scorer.start() if scorer is not None else None
    frame = n_symbols = 0
    while frame < len(encoded_SC):
        logits_W = joint(encoded_SC[frame], prediction_H, weights)
        token = int(logits_W[:n_tokens].argmax())
        duration = weights.durations[int(logits_W[n_tokens:].argmax())] if weights.durations else 0
        if token == weights.blank:
            duration = max(1, duration)
        else:
            if scorer is not None and language is not None:
                gains = torch.tensor([scorer.extend(language, label)[0] for label in range(weights.blank)])
                internal_V = internal_log_probs(prediction_H, weights)
                less_V = (internal_V[token] - internal_V).clamp(-INTERNAL_MOST, INTERNAL_MOST)
                token = int((logits_W[: weights.blank].double() + gains + internal_weight * less_V).argmax())
                language = scorer.extend(language, token)[1]
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


def internal_log_probs(prediction_H: Tensor, weights: DecoderWeights) -> Tensor:
    """[V] of the labels without blank, by a frame of zeros: the internal language model (arXiv:2011.01991)."""
    nothing_C = weights.encoder_weight.new_zeros(weights.encoder_weight.shape[1])
    return joint(nothing_C, prediction_H, weights)[: weights.blank].double().log_softmax(0)


class ReferenceBest(NamedTuple):
    """A label sequence with its most probable alignment, as `DecodedLabels`, and its scores."""

    tokens: list[int]
    frames: list[int]
    durations: list[int] | None
    confidence: list[float]
    entropies: list[float]
    log_prob: float
    external: float


class _Path(NamedTuple):
    """All alignments of a sequence that go on at a frame: their sum, the best of them, and its labels there."""

    mass: float
    best: float
    symbols: int
    marks: tuple[tuple[int, int, float, float], ...]
    """(frame, duration, probability, entropy) of every label on the best alignment."""


Cut = dict[tuple[int, ...], dict[int, _Path]]
"""{sequence: {frame: paths}}: every alignment goes through one of these."""


def beam_search(
    encoded_SC: Tensor,
    weights: DecoderWeights,
    *,
    beam: int = 4,
    drop: float = -math.inf,
    max_symbols: int = 10,
    scorer: ctc.Scorer | None = None,
    internal_weight: float = 0.0,
) -> list[ReferenceBest]:
    """The best label sequences of one utterance, as `csrc/decode_beam.cpp` finds them; with a wide beam, all there are.

    With a scorer, each label has `internal_weight` times its log-probability without hearing anything taken off.

    Raises ValueError for frames that hold NaN.
    """
    if encoded_SC.isnan().any():
        raise ValueError("encoded: its frames hold NaN")
    cut: Cut = {(): {0: _Path(0.0, 0.0, 0, ())}}
    known: dict[tuple[int, ...], tuple[Tensor, State]] = {(): predict(weights.blank, start_state(weights), weights)}
    start = scorer.start() if scorer else None
    external: dict[tuple[int, ...], tuple[float, LanguageState | None]] = {(): (0.0, start)}
    while any(frame < len(encoded_SC) for paths in cut.values() for frame in paths):
        now = min(frame for paths in cut.values() for frame in paths)
        scores: dict[tuple[int, ...], tuple[_Path, Tensor]] = {}
        for labels in sorted(cut, key=len):
            if now in cut[labels]:
                path = cut[labels].pop(now)
                scores[labels] = path, joint(encoded_SC[now], known[labels][0], weights).double()
                for arc in _arcs(scores[labels][1], weights):
                    longer = labels if arc.label is None else (*labels, arc.label)
                    if longer in cut:
                        _follow(cut[longer], path, now, arc, max_symbols)
        for labels, (path, logits_W) in scores.items():
            fresh: Cut = {}
            for arc in _arcs(logits_W, weights):
                if arc.label is not None and (*labels, arc.label) not in cut:
                    paths = fresh.setdefault((*labels, arc.label), {})
                    _follow(paths, path, now, arc, max_symbols)
            internal_V = internal_log_probs(known[labels][0], weights).tolist()
            for longer, paths in fresh.items():
                gain, state = 0.0, external[labels][1]
                if scorer is not None and state is not None:
                    gain, state = scorer.extend(state, longer[-1])
                    gain -= internal_weight * internal_V[longer[-1]]
                external[longer] = external[labels][0] + gain, state
                cut[longer] = paths
        total = {y: _total(paths.values()) + external[y][0] for y, paths in cut.items() if paths}
        best = max(total.values())
        lowest = max(best + drop, -sys.float_info.max)
        kept = [y for y in sorted(total, key=lambda y: -total[y])[:beam] if total[y] >= lowest]
        cut = {y: _probable(cut[y], lowest - external[y][0]) for y in kept}
        for y in kept:
            if y not in known:
                known[y] = predict(y[-1], known[y[:-1]][1], weights)
    found = []
    for labels, paths in cut.items():
        path = max(paths.values(), key=lambda p: p.best)
        gain, state = external[labels]
        frames, durations, confidence, entropies = ([mark[i] for mark in path.marks] for i in range(4))
        added = gain + (scorer.finish(state) if scorer is not None and state is not None else 0.0)
        own = durations if weights.durations else None
        marked = (frames, own, confidence, entropies)
        found.append(ReferenceBest(list(labels), *marked, _total(paths.values()), added))  # type: ignore[arg-type]
    return sorted(found, key=lambda one: -(one.log_prob + one.external))


class _Arc(NamedTuple):
    label: int | None
    """None for blank."""
    duration: int
    log_prob: float
    """Log-probability of the label and the duration together."""
    confidence: float
    """Probability of the label."""
    entropy: float


def _arcs(logits_W: Tensor, weights: DecoderWeights) -> Iterator[_Arc]:
    n_tokens = weights.blank + 1
    tokens = logits_W[:n_tokens].log_softmax(0).tolist()
    entropy = float(torch.special.entr(logits_W[:n_tokens].softmax(0)).sum())
    durations = logits_W[n_tokens:].log_softmax(0).tolist() if weights.durations else [0.0]
    for token, log_prob in enumerate(tokens):
        label = None if token == weights.blank else token
        for duration, of_duration in zip(weights.durations or (0,), durations, strict=True):
            yield _Arc(label, duration, log_prob + of_duration, math.exp(log_prob), entropy)


def _follow(paths: dict[int, _Path], path: _Path, frame: int, arc: _Arc, max_symbols: int) -> None:
    """Adds what an arc makes of `path` to the paths of the sequence that it leads to."""
    symbols = path.symbols + (arc.label is not None)
    must_move = arc.label is None or symbols >= max_symbols
    step = max(1, arc.duration) if must_move else arc.duration
    marks = path.marks if arc.label is None else (*path.marks, (frame, arc.duration, arc.confidence, arc.entropy))
    one = _Path(path.mass + arc.log_prob, path.best + arc.log_prob, 0 if step else symbols, marks)
    to = frame + step
    if to in paths:
        better = max(paths[to], one, key=lambda p: p.best)
        one = better._replace(mass=_total([paths[to], one]))
    paths[to] = one


def _total(paths: Iterable[_Path]) -> float:
    return float(torch.tensor([path.mass for path in paths], dtype=torch.float64).logsumexp(0))


def _probable(paths: dict[int, _Path], lowest: float) -> dict[int, _Path]:
    largest = max(path.mass for path in paths.values())
    return {frame: path for frame, path in paths.items() if path.mass >= min(lowest, largest)}


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
