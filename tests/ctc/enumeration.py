"""What CTC means, by enumerating every path: for sizes where V^S is small."""

import itertools

import torch


def collapse(path, blank):
    """The labels that a path spells: repeats merged, then blanks dropped."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


def prefix_log_probs(log_probs_SV, blank):
    """Log-probability, summed over its paths, of every label sequence that has one: {labels: log_prob}."""
    frames, vocabulary = log_probs_SV.shape
    paths = {}
    for path in itertools.product(range(vocabulary), repeat=frames):
        log_prob = log_probs_SV.double()[range(frames), list(path)].sum() if frames else torch.zeros(())
        paths.setdefault(tuple(collapse(path, blank)), []).append(log_prob)
    return {labels: torch.stack(values).logsumexp(0).item() for labels, values in paths.items()}
