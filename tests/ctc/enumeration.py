"""What CTC means, by enumerating every path: for sizes where V^S is small; and n-grams by their definition.

Shapes: T or S frames, V classes.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ctc.alignment.align import split_stars
from ctc.language_models.arpa import BackoffModel


def collapse(path, blank):
    """The labels that a path spells: repeats merged, then blanks dropped."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


def prefix_log_probs(log_probs_SV, blank):
    """Log-probability, summed over its paths, of every label sequence that has one: {labels: log_prob}."""
    frames, vocabulary = log_probs_SV.shape
    rows = log_probs_SV.double().tolist()
    paths = {}
    for path in itertools.product(range(vocabulary), repeat=frames):
        log_prob = sum(row[label] for row, label in zip(rows, path, strict=True))
        paths.setdefault(tuple(collapse(path, blank)), []).append(log_prob)
    return {labels: float(np.logaddexp.reduce(values)) for labels, values in paths.items()}


def brute_force_loss(logits_TV: Tensor, labels: list[int], blank: int = 0) -> Tensor:
    """Loss of one tiny utterance: minus the log of the summed probability of all V**T paths. Differentiable."""
    log_probs_TV = logits_TV.double().log_softmax(dim=1)
    frames, classes = logits_TV.shape
    scores = [
        sum((log_probs_TV[t, k] for t, k in enumerate(path)), start=logits_TV.new_zeros((), dtype=torch.float64))
        for path in itertools.product(range(classes), repeat=frames)
        if collapse(path, blank) == labels
    ]
    if not scores:
        return logits_TV.new_full((), math.inf, dtype=torch.float64)
    return -torch.logsumexp(torch.stack(scores), dim=0)


def brute_force_star_loss(logits_TV: Tensor, targets: list[int], star: int, blank: int = 0) -> Tensor:
    """`reference.star_losses` of one tiny utterance, from every sequence of classes and every way to spend frames."""
    log_probs_TV = logits_TV.double().log_softmax(dim=1)
    frames, classes = logits_TV.shape
    labels, is_star = split_stars(targets, star)
    places = range(2 * len(labels) + 1)  # gap 0, label 0, gap 1, ...

    def follows(place: int, before: int) -> bool:
        skips_gap = place % 2 == 1 and place - before == 2 and labels[place // 2] != labels[before // 2]
        return place - before in (0, 1) or skips_gap

    def holds(place: int, k: int) -> bool:
        return k == labels[place // 2] if place % 2 else k == blank or is_star[place // 2]

    given = [
        way
        for way in itertools.product(places, repeat=frames)
        if all(follows(place, before) for before, place in itertools.pairwise((0, *way)))
        and (0, *way)[-1] >= 2 * len(labels) - 1
    ]
    scores = [
        sum((log_probs_TV[t, k] for t, k in enumerate(path)), start=logits_TV.new_zeros((), dtype=torch.float64))
        for path in itertools.product(range(classes), repeat=frames)
        for way in given
        if all(holds(place, k) for place, k in zip(way, path, strict=True))
    ]
    if not scores:
        return logits_TV.new_full((), math.inf, dtype=torch.float64)
    return -torch.logsumexp(torch.stack(scores), dim=0)


NgramIndex = dict[tuple[int, ...], tuple[float, float]]


def log10_prob(model: BackoffModel, index: NgramIndex, history: Sequence[int], word: int) -> float:
    """log10 p(word | history), by the definition."""
    history = tuple(history)[max(0, len(history) - model.order + 1) :]
    backoff = 0.0
    while (*history, word) not in index:
        backoff += index.get(history, (0.0, 0.0))[1]
        history = history[1:]
    return backoff + index[(*history, word)][0]


def index_ngrams(model: BackoffModel) -> NgramIndex:
    """{n-gram: (log10 probability, log10 back-off weight)}."""
    index: NgramIndex = {}
    for level in model.levels:
        values = zip(level.log10_prob.tolist(), level.log10_backoff.tolist(), strict=True)
        index.update(zip(map(tuple, level.words.tolist()), values, strict=True))
    return index
