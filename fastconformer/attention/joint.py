"""Joint scores: what a CTC head beside the decoder gives a text, label by label while it is searched. Needs no torch.

Source: Watanabe et al. 2017, hybrid CTC/attention, doi:10.1109/JSTSP.2017.2763455.

Shapes: S encoder frames, T = S + 1 places before, between and after them, V pieces and the blank.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fastconformer.attention.search import TextScorer

LEAST, IMPOSSIBLE = -1e4, -1e6
"""Log-probabilities of frames and of texts are no lower, so that sums and differences of them stay finite."""


class Prefix:
    """The labels that a text begins with. What follows from them is computed when one more is asked for."""

    __slots__ = ("before", "following", "label", "score", "silent_T", "spoken_T")

    def __init__(self, label: int, score: float, before: "Prefix | None" = None) -> None:
        """`score`: log-probability of all texts that begin so."""
        self.label, self.score, self.before = label, score, before
        self.spoken_T: np.ndarray = np.zeros(0)  # of all paths up to a place that end in the last label
        self.silent_T: np.ndarray = np.zeros(0)  # that end in the blank
        self.following: np.ndarray = np.zeros(0)  # [V] scores with one label more


class CtcPrefixes:
    """Log-probabilities by CTC of the texts that begin with some labels, over all their alignments."""

    def __init__(self, log_probs: np.ndarray, blank: int) -> None:
        self.log_probs, self.blank = log_probs, blank
        self.blanks_T = self._sums(blank)

    @functools.cached_property
    def _probs(self) -> np.ndarray:
        return np.exp(self.log_probs)

    def start(self) -> Prefix:
        """Before the first label."""
        first = Prefix(-1, 0.0)
        first.silent_T = self.blanks_T
        first.spoken_T = np.full_like(self.blanks_T, -np.inf)
        return first

    def extended(self, prefix: Prefix, label: int) -> Prefix:
        """With one label more."""
        self.compute(prefix)
        if not len(prefix.following):
            prefix.following = self._likely(np.logaddexp(prefix.spoken_T, prefix.silent_T)[:-1], self._probs)
            if prefix.label >= 0:
                own_SV = self._probs[:, prefix.label, None]
                prefix.following[prefix.label] = self._likely(prefix.silent_T[:-1], own_SV)[0]
        return Prefix(label, float(prefix.following[label]), prefix)

    def whole(self, prefix: Prefix) -> float:
        """Log-probability of the text that has these labels and no more."""
        self.compute(prefix)
        return float(np.logaddexp(prefix.spoken_T[-1], prefix.silent_T[-1]))

    def compute(self, prefix: Prefix) -> None:
        """What is needed to go on from a prefix."""
        if len(prefix.silent_T):
            return
        before = prefix.before
        assert before is not None
        arriving_S = before.silent_T[:-1]
        if before.label != prefix.label:
            arriving_S = np.logaddexp(before.spoken_T[:-1], arriving_S)
        sums_T = self._sums(prefix.label)
        prefix.spoken_T = self._summed(arriving_S, sums_T)
        prefix.silent_T = self._summed(prefix.spoken_T[:-1], self.blanks_T)
        prefix.before = None

    def _sums(self, label: int) -> np.ndarray:
        """[T] log-probabilities that all frames up to a place are this label."""
        return np.concatenate([[0.0], np.cumsum(np.maximum(self.log_probs[:, label], LEAST, dtype=np.float64))])

    @staticmethod
    def _summed(arriving_S: np.ndarray, sums_T: np.ndarray) -> np.ndarray:
        """[T] of paths that come to a label before some frame, and are this label from there on."""
        held_S = np.logaddexp.accumulate(arriving_S - sums_T[:-1]) if len(arriving_S) else arriving_S
        return np.concatenate([[-np.inf], held_S + sums_T[1:]])

    @staticmethod
    def _likely(arriving_S: np.ndarray, probs_SV: np.ndarray) -> np.ndarray:
        """[V] log-probabilities of a first frame of each label."""
        most = arriving_S.max(initial=-np.inf)
        if most == -np.inf:
            return np.full(probs_SV.shape[1], -np.inf)
        with np.errstate(divide="ignore"):
            found_V: np.ndarray = most + np.log(np.exp(arriving_S - most).astype(probs_SV.dtype) @ probs_SV)
        return found_V


def log_likelihood(log_probs: np.ndarray, labels: Sequence[int], *, blank: int) -> float:
    """Log-probability of labels by CTC, over all their alignments; minus infinity where they do not fit the frames."""
    prefixes = CtcPrefixes(log_probs, blank)
    prefix = prefixes.start()
    for label in labels:
        prefix = Prefix(label, 0.0, prefix)
        prefixes.compute(prefix)
    return prefixes.whole(prefix)


class JointState(NamedTuple):
    """Where a text stands by CTC, and by what is known of its language."""

    prefix: Prefix
    state: Any


class JointScorer:
    """A `TextScorer`: a share of `weight` of what CTC gives a text, and the rest of what another scorer adds."""

    def __init__(self, prefixes: CtcPrefixes, weight: float, scorer: TextScorer | None = None) -> None:
        self.prefixes, self.weight, self.scorer = prefixes, weight, scorer

    def start(self) -> JointState:
        """Before the first label."""
        return JointState(self.prefixes.start(), self.scorer.start() if self.scorer else None)

    def extend(self, state: JointState, label: int) -> tuple[float, JointState]:
        """(what one more label adds, the state after it)."""
        prefix = self.prefixes.extended(state.prefix, label)
        gain, own = self.weight * (max(prefix.score, IMPOSSIBLE) - max(state.prefix.score, IMPOSSIBLE)), None
        if self.scorer is not None:
            added, own = self.scorer.extend(state.state, label)
            gain += (1 - self.weight) * added
        return gain, JointState(prefix, own)

    def finish(self, state: JointState) -> float:
        """What the end adds."""
        whole, before = self.prefixes.whole(state.prefix), state.prefix.score
        gain = self.weight * (max(whole, IMPOSSIBLE) - max(before, IMPOSSIBLE))
        return gain + ((1 - self.weight) * self.scorer.finish(state.state) if self.scorer is not None else 0.0)
