"""Slow and obvious: greedy decoding frame by frame, and a beam search, in numpy. Tests compare with them, and where the
native library is missing they decode.

Weights are arrays. Shapes: B utterances, S encoder frames, V labels and blank, W = V, then one output per duration
(TDT), C encoder width, H prediction network, J joint.

Sources: Graves, Sequence Transduction with Recurrent Neural Networks, 2012 (RNN-T); Xu et al., Efficient Sequence
Transduction by Jointly Predicting Tokens and Durations, ICML 2023 (TDT).
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

import ctc
from ctc.language_models.scorer import State as LanguageState
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer.weights import INTERNAL_MOST, DecoderWeights, LSTMLayer, array_of, arrays_of

State = list[tuple[np.ndarray, np.ndarray]]
"""Hidden and cell [H] of every layer."""


class Reached(NamedTuple):
    """Where an utterance goes on: the prediction network after its labels, and the frame that it looks at."""

    output_H: np.ndarray
    state: State
    frame: int = 0
    symbols: int = 0
    """Labels on this frame already."""
    language: LanguageState | None = None


def start(weights: DecoderWeights) -> Reached:
    """Before the first frame, after a blank."""
    return Reached(*predict(weights.blank, start_state(weights), weights))


def greedy(
    encoded_BSC: np.ndarray,
    frames_B: Iterable[int],
    weights: DecoderWeights,
    *,
    max_symbols: int = 10,
    scorers: Sequence[ctc.Scorer | None] = (),
    internal_weight: float = 0.0,
    reached: list[Reached] | None = None,
) -> list[DecodedLabels]:
    """The most probable label or blank at every step, one utterance at a time, as the papers define it.

    With durations the pointer moves on by the most probable one, after a label or a blank; blank moves by 1 at least.
    Without, a blank moves it by 1. After `max_symbols` labels at one frame it moves by 1 anyway. With a scorer a label
    that is more probable than blank gives way to the one that is best with what the scorer adds, less `internal_weight`
    times what the network knows without hearing anything.

    `reached`: where the utterances go on, which is updated. Raises ValueError for frames that hold NaN.
    """
    weights, frames = arrays_of(weights), [int(count) for count in frames_B]
    reached = [start(weights) for _ in frames] if reached is None else reached
    found = []
    for n, (count, scorer) in enumerate(zip(frames, scorers or [None] * len(frames), strict=True)):
        encoded_SC = array_of(encoded_BSC[n, :count])
        if np.isnan(encoded_SC).any():
            raise ValueError(f"encoded: utterance {n}: its frames hold NaN")
        one, reached[n] = _greedy(encoded_SC, weights, reached[n], max_symbols, scorer, internal_weight)
        found.append(one)
    return found


def _greedy(
    encoded_SC: np.ndarray,
    weights: DecoderWeights,
    reached: Reached,
    max_symbols: int,
    scorer: ctc.Scorer | None,
    internal_weight: float,
) -> tuple[DecodedLabels, Reached]:
    n_tokens = weights.blank + 1
    found, entropies = DecodedLabels([], [], [] if weights.durations else None, []), []
    output_H, state, frame, n_symbols, language = reached
    while frame < len(encoded_SC):
        logits_W = joint(encoded_SC[frame], output_H, weights)
        token = int(logits_W[:n_tokens].argmax())
        duration = weights.durations[int(logits_W[n_tokens:].argmax())] if weights.durations else 0
        if token == weights.blank:
            duration = max(1, duration)
        else:
            if scorer is not None:
                language = language or scorer.start()
                gains = np.array([scorer.extend(language, label)[0] for label in range(weights.blank)])
                if internal_weight:
                    internal_V = internal_log_probs(output_H, weights)
                    gains += internal_weight * (internal_V[token] - internal_V).clip(-INTERNAL_MOST, INTERNAL_MOST)
                token = int((logits_W[: weights.blank] + gains).argmax())
                language = scorer.extend(language, token)[1]
            found.tokens.append(token)
            found.frames.append(frame)
            if found.durations is not None:
                found.durations.append(duration)
            log_prob_V = log_softmax(logits_W[:n_tokens])
            found.confidence.append(math.exp(log_prob_V[token]))
            entropies.append(_entropy(log_prob_V))
            output_H, state = predict(token, state, weights)
            n_symbols += 1
            if duration == 0 and n_symbols == max_symbols:
                duration = 1
        if duration:
            frame, n_symbols = frame + duration, 0
    after = Reached(output_H, state, frame - len(encoded_SC), n_symbols, language)
    return found._replace(entropies=entropies), after


def start_state(weights: DecoderWeights) -> State:
    """What the prediction network starts from: zeros."""
    zeros_H = np.zeros(weights.embedding.shape[1], np.float32)
    return [(zeros_H, zeros_H) for _ in weights.lstm]


def predict(token: int, state: State, weights: DecoderWeights) -> tuple[np.ndarray, State]:
    """Output [H] of the prediction network after one more label (or blank, at the start), and its new state."""
    x_H = weights.embedding[token]
    new: State = []
    for layer, (hidden_H, cell_H) in zip(weights.lstm, state, strict=True):
        hidden_H, cell_H = _lstm(x_H, hidden_H, cell_H, layer)
        new.append((hidden_H, cell_H))
        x_H = hidden_H
    return x_H, new


def _lstm(x_H: np.ndarray, hidden_H: np.ndarray, cell_H: np.ndarray, layer: LSTMLayer) -> tuple[np.ndarray, np.ndarray]:
    gates = layer.input_weight @ x_H + layer.input_bias + layer.hidden_weight @ hidden_H + layer.hidden_bias
    enter, forget, candidate, leave = np.split(gates, 4)
    cell_H = _sigmoid(forget) * cell_H + _sigmoid(enter) * np.tanh(candidate)
    return _sigmoid(leave) * np.tanh(cell_H), cell_H


def joint(encoded_C: np.ndarray, prediction_H: np.ndarray, weights: DecoderWeights) -> np.ndarray:
    """Logits [W] of a frame and a label position."""
    encoded_J = weights.encoder_weight @ encoded_C + weights.encoder_bias
    sum_J = encoded_J + (weights.prediction_weight @ prediction_H + weights.prediction_bias)
    hidden_J = ACTIVATIONS[weights.activation](sum_J)
    logits_W: np.ndarray = weights.output_weight @ hidden_J + weights.output_bias
    return logits_W


def internal_log_probs(prediction_H: np.ndarray, weights: DecoderWeights) -> np.ndarray:
    """[V] of the labels without blank, by a frame of zeros: the internal language model (arXiv:2011.01991)."""
    nothing_C = np.zeros(weights.encoder_weight.shape[1], np.float32)
    return log_softmax(joint(nothing_C, prediction_H, weights)[: weights.blank])


def log_softmax(logits_V: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities, float64."""
    below_V = logits_V.astype(np.float64) - logits_V.max()
    log_probs_V: np.ndarray = below_V - np.log(np.exp(below_V).sum())
    return log_probs_V


def _entropy(log_prob_V: np.ndarray) -> float:
    possible = log_prob_V[log_prob_V > -np.inf]
    return -float((np.exp(possible) * possible).sum())


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"relu": _relu, "tanh": np.tanh, "sigmoid": _sigmoid}


class ReferenceBest(NamedTuple):
    """A label sequence with its most probable alignment, and its scores."""

    decoded: DecodedLabels
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
    encoded_SC: np.ndarray,
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
    encoded_SC, weights = array_of(encoded_SC), arrays_of(weights)
    if np.isnan(encoded_SC).any():
        raise ValueError("encoded: its frames hold NaN")
    cut: Cut = {(): {0: _Path(0.0, 0.0, 0, ())}}
    known: dict[tuple[int, ...], tuple[np.ndarray, State]] = {(): predict(weights.blank, start_state(weights), weights)}
    start = scorer.start() if scorer else None
    external: dict[tuple[int, ...], tuple[float, LanguageState | None]] = {(): (0.0, start)}
    while any(frame < len(encoded_SC) for paths in cut.values() for frame in paths):
        now = min(frame for paths in cut.values() for frame in paths)
        scores: dict[tuple[int, ...], tuple[_Path, np.ndarray]] = {}
        for labels in sorted(cut, key=len):
            if now in cut[labels]:
                path = cut[labels].pop(now)
                scores[labels] = path, joint(encoded_SC[now], known[labels][0], weights)
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
        decoded = DecodedLabels(list(labels), frames, own, confidence, entropies)  # type: ignore[arg-type]
        found.append(ReferenceBest(decoded, _total(paths.values()), added))
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


def _arcs(logits_W: np.ndarray, weights: DecoderWeights) -> Iterator[_Arc]:
    n_tokens = weights.blank + 1
    tokens = log_softmax(logits_W[:n_tokens])
    entropy = _entropy(tokens)
    durations = log_softmax(logits_W[n_tokens:]).tolist() if weights.durations else [0.0]
    for token, log_prob in enumerate(tokens.tolist()):
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
    return float(np.logaddexp.reduce([path.mass for path in paths]))


def _probable(paths: dict[int, _Path], lowest: float) -> dict[int, _Path]:
    largest = max(path.mass for path in paths.values())
    return {frame: path for frame, path in paths.items() if path.mass >= min(lowest, largest)}
