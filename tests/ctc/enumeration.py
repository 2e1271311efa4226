"""What CTC means, by enumerating every path: for sizes where V^S is small."""

import itertools

import numpy as np


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
