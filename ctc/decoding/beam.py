"""Beam search: the most probable label sequences, each summed over its alignments, with what is known of the language.

Prefix beam search as in Graves (2012, "Sequence transduction", for CTC) and Hannun et al. (2014), with shallow fusion.
B utterances, S frames, V labels.
"""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctc.bindings import _library, _native
from ctc.inputs import host_lengths, host_scores
from ctc.language_models.scorer import Scorer, State
from ctc.language_models.tables import NONE, Labels
from ctc.native import threads

if TYPE_CHECKING:  # arrays are searched without it
    from torch import Tensor

MOST_BEAM = 2**20
"""Prefixes that a search keeps, at most: many times what any text needs."""
WIDENINGS = 2  # how often a search that finds nothing is repeated with a wider beam


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """How much of the search space is looked at."""

    beam: int = 100
    """Prefixes kept after every frame."""
    n_best: int = 1
    """Hypotheses returned, at most `beam`."""
    token_log_prob: float = -7.0
    """Labels whose log-probability is this far below that of a frame's best start no new prefix there."""
    beam_log_prob: float = -16.0
    """Prefixes whose score is this far below the best are dropped; -inf keeps all that fit."""
    thorough: bool = False
    """Never a worse hypothesis than is found by a search of the same beam that counts those which end in blank apart,
    as flashlight's does: what it would keep is kept too, and at the end hypotheses are summed over all alignments."""
    memory: int = 2 << 30
    """Bytes that a search may take; fewer utterances are searched at a time where all threads would take more."""

    def __post_init__(self) -> None:
        if self.beam > MOST_BEAM:
            raise ValueError(f"beam: expected {MOST_BEAM} at most, found {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best: expected between 1 and the beam of {self.beam}, found {self.n_best}")
        if self.memory < 1:
            raise ValueError(f"memory: expected at least 1 byte, found {self.memory}")
        for name in ("token_log_prob", "beam_log_prob"):
            if not getattr(self, name) <= 0:
                raise ValueError(f"{name}: expected at most 0, found {getattr(self, name)}")


class Hypothesis(NamedTuple):
    """One way to read an utterance."""

    labels: list[int]
    score: float
    """What hypotheses are ranked by: log_prob + external."""
    log_prob: float
    """Log-probability of the labels, summed over the alignments that the beam kept; over all, in a thorough search."""
    external: float
    """What the scorer adds: language model, word bonus, penalties, hot words."""
    start_frames: list[int]
    """First frame of every label, on the best path that the beam kept."""
    end_frames: list[int]
    """The frame behind each label's last."""


def beam_search(
    log_probs_BSV: "Tensor | np.ndarray",
    frames_B: "Tensor | np.ndarray | Sequence[int]",
    *,
    blank: int = 0,
    scorer: Scorer | None = None,
    options: BeamOptions | None = None,
) -> list[list[Hypothesis]]:
    """For every utterance its best hypotheses, best first; fewer than `n_best` where there are not as many.

    `log_probs_BSV`: log-probabilities or logits, any floating type, never modified. `frames_B`: how many of the S
    frames belong to each utterance. A scorer's labels are those of `log_probs_BSV`. Runs on the CPU, one thread per
    utterance, as many as torch has, or one for each core without it; the result does not depend on how many. The frames
    of a hypothesis are those of the best path that the search itself kept; `ctc.align` finds the best there is.

    A closed list of words can lead every prefix of a beam into a word that the recording does not finish: such an
    utterance is searched again without cut-offs and with a beam that is wider, 4 and then 16 times.

    An utterance that holds NaN, or that nothing can be read from, as under a closed list of words, has no hypotheses.
    Raises ValueError for arguments that do not fit, and for a search that would take more than `options.memory`.
    """
    options = options or BeamOptions()
    scores_BSV = host_scores(log_probs_BSV, blank, name="beam_search: log_probs_BSV")
    batch, frames, vocabulary = scores_BSV.shape
    frames_B = host_lengths(frames_B, batch, frames, name="beam_search: frames_B")
    if scorer is not None and len(scorer.labels) not in (vocabulary, vocabulary - (blank == vocabulary - 1)):
        raise ValueError(f"beam_search: scorer: expected {vocabulary} labels, found {len(scorer.labels)}")
    found = _search(scores_BSV, frames_B, blank, scorer, options)
    for _ in range(WIDENINGS if scorer is not None and scorer.is_closed else 0):
        lost = [item for item, hypotheses in enumerate(found) if not hypotheses]
        if not lost:
            break
        options = replace(
            options, beam=min(4 * options.beam, MOST_BEAM), token_log_prob=-math.inf, beam_log_prob=-math.inf
        )
        for item, again in zip(lost, _search(scores_BSV[lost], frames_B[lost], blank, scorer, options), strict=True):
            found[item] = again
    return found


def _search(
    scores_BSV: np.ndarray, frames_B: np.ndarray, blank: int, scorer: Scorer | None, options: BeamOptions
) -> list[list[Hypothesis]]:
    library = _native.load()
    if library is not None:
        return search_native(library, scores_BSV, frames_B, blank, scorer, options)
    _library.warn_slow("ctc.beam_search")
    return search_python(scores_BSV, frames_B, blank, scorer, options)


def search_native(
    library: ctypes.CDLL,
    scores_BSV: np.ndarray,
    frames_B: np.ndarray,
    blank: int,
    scorer: Scorer | None,
    options: BeamOptions,
) -> list[list[Hypothesis]]:
    """`beam_search` in C++ (csrc/decode_beam.cpp)."""
    batch, frames, vocabulary = scores_BSV.shape
    most_frames = max(frames_B.tolist(), default=0)
    native = native_options(blank, options)
    share = library.ctc_beam_workspace(most_frames, vocabulary, native)
    check_memory(share, options)
    native.threads = max(1, min(threads(), batch, options.memory // max(share, 1)))
    workspace = np.empty(share * native.threads, np.uint8)
    labels_BNS, start_BNS, end_BNS = np.empty((3, batch, options.n_best, frames), np.int32)
    lengths_BN = np.empty((batch, options.n_best), np.int32)
    log_prob_BN, external_BN = np.empty((2, batch, options.n_best))
    counts_B = np.empty(batch, np.int32)
    arrays = (labels_BNS, lengths_BN, log_prob_BN, external_BN, counts_B, start_BNS, end_BNS)
    table = scorer.table() if scorer is not None else None
    inputs = (_native.scores(scores_BSV), frames_B, table, native)
    library.ctc_beam_search(*inputs, *arrays, workspace, workspace.size)
    return [
        hypotheses_of(count, *rows) for count, *rows in zip(counts_B.tolist(), *arrays[:4], *arrays[5:], strict=True)
    ]


def native_options(blank: int, options: BeamOptions) -> _native.BeamSearchOptions:
    """`ctc_beam_options`, for one thread."""
    return _native.BeamSearchOptions(
        blank=blank,
        threads=1,
        beam=options.beam,
        n_best=options.n_best,
        token_log_prob=options.token_log_prob,
        beam_log_prob=options.beam_log_prob,
        is_thorough=options.thorough,
        stream_frames=0,
    )


def check_memory(share: int, options: BeamOptions) -> None:
    """ValueError where one search takes more than it may."""
    if not 0 < share <= options.memory:
        raise ValueError(
            f"beam_search: memory: expected at least {share} bytes for a beam of {options.beam}, found {options.memory}"
        )


def hypotheses_of(
    count: int,
    labels_NS: np.ndarray,
    lengths_N: np.ndarray,
    log_prob_N: np.ndarray,
    external_N: np.ndarray,
    start_NS: np.ndarray,
    end_NS: np.ndarray,
) -> list[Hypothesis]:
    """The first `count` of an utterance's hypotheses, from the arrays of the native search."""
    found = []
    for n, (length, log_prob, external) in enumerate(
        zip(lengths_N[:count].tolist(), log_prob_N[:count].tolist(), external_N[:count].tolist(), strict=True)
    ):
        rows = (labels_NS[n, :length].tolist(), log_prob + external, log_prob, external)
        found.append(Hypothesis(*rows, start_NS[n, :length].tolist(), end_NS[n, :length].tolist()))
    return found


class _Mark(NamedTuple):
    """A label on a path: that before it and the frame behind that one's last, and its own first frame."""

    before: "_Mark | None"
    end_before: int
    start: int


class _Path(NamedTuple):
    """The best path of a prefix, by its last label."""

    log_prob: float
    mark: _Mark | None
    end: int


class _Prefix(NamedTuple):
    """A prefix of the beam: log-probabilities of its paths that end in blank and in its last label."""

    blank: float
    nonblank: float
    external: float
    state: State
    best_blank: _Path
    best_nonblank: _Path

    @property
    def best(self) -> _Path:
        return max(self.best_blank, self.best_nonblank, key=lambda path: path.log_prob)

    @property
    def total(self) -> float:
        return float(np.logaddexp(self.blank, self.nonblank))


def search_python(
    scores_BSV: np.ndarray, frames_B: np.ndarray, blank: int, scorer: Scorer | None, options: BeamOptions
) -> list[list[Hypothesis]]:
    """`beam_search` as its recurrence reads: the reference, and what serves without a compiler."""
    scores_BSV = np.asarray(scores_BSV, np.float64)
    with np.errstate(invalid="ignore"):
        log_probs_BSV = scores_BSV - np.logaddexp.reduce(scores_BSV, -1, keepdims=True)
    return [
        _search_one(log_probs_SV[:frames].tolist(), blank, scorer, options)
        for log_probs_SV, frames in zip(log_probs_BSV, frames_B.tolist(), strict=True)
    ]


def _search_one(
    log_probs_SV: list[list[float]], blank: int, scorer: Scorer | None, options: BeamOptions
) -> list[Hypothesis]:
    start = scorer.start() if scorer is not None else State(0, 0, 0)
    nothing = _Path(-math.inf, None, 0)
    beam: dict[Labels, _Prefix] = {(): _Prefix(0.0, -math.inf, 0.0, start, _Path(0.0, None, 0), nothing)}
    followed = [_Followed(keeps_best_path, blank, scorer, options) for keeps_best_path in (True, False)]
    for frame, log_probs_V in enumerate(log_probs_SV):
        if any(math.isnan(log_prob) for log_prob in log_probs_V):
            return []
        present = set(beam)
        after = _advance(beam, frame, log_probs_V, blank, scorer, options.token_log_prob)
        beam = _prune(after, options)
        if options.thorough:
            others = {labels for rule in followed for labels in rule.advance(log_probs_V, present)} - set(beam)
            beam |= {labels: after[labels]._replace(blank=-math.inf, nonblank=-math.inf) for labels in others}
    if options.thorough:
        beam = {labels: _summed(prefix, labels, log_probs_SV, blank) for labels, prefix in beam.items()}
    found = []
    for labels, prefix in beam.items():
        external = prefix.external + (scorer.finish(prefix.state) if scorer is not None else 0.0)
        spans = _spans(prefix.best)
        found.append(Hypothesis(list(labels), prefix.total + external, prefix.total, external, *spans))
    found.sort(key=lambda hypothesis: -hypothesis.score)
    return [hypothesis for hypothesis in found[: options.n_best] if hypothesis.score > -math.inf]


class _Followed:
    """A search whose hypotheses are label sequences together with whether they end in blank, of which the best `beam`
    survive a frame; with the log-probability of the best path, or of all that were kept."""

    def __init__(self, keeps_best_path: bool, blank: int, scorer: Scorer | None, options: BeamOptions) -> None:
        self._add = max if keeps_best_path else lambda a, b: float(np.logaddexp(a, b))
        self._blank, self._scorer, self._options = blank, scorer, options
        start = scorer.start() if scorer is not None else State(0, 0, 0)
        self._external: dict[Labels, tuple[float, State]] = {(): (0.0, start)}
        self._states: dict[tuple[Labels, bool], float] = {((), True): 0.0}

    def advance(self, log_probs_V: list[float], present: set[Labels]) -> list[Labels]:
        """One frame; the label sequences of what is left. A label that starts no new prefix may lead to one that is
        `present`."""
        lowest = max(log_probs_V) + self._options.token_log_prob
        after: dict[tuple[Labels, bool], float] = {}
        for (labels, is_blank), log_prob in self._states.items():
            self._offer(after, labels, True, log_prob + log_probs_V[self._blank])
            for label, added in enumerate(log_probs_V):
                if label == self._blank:
                    continue
                if labels[-1:] == (label,) and not is_blank:
                    self._offer(after, labels, False, log_prob + added)
                elif added >= lowest or (*labels, label) in present:
                    self._offer(after, (*labels, label), False, log_prob + added)
        scores = {state: log_prob + self._externally(state[0]) for state, log_prob in after.items()}
        kept = [state for state in sorted(after, key=lambda state: -scores[state]) if scores[state] > -math.inf]
        kept = kept[: self._options.beam]
        kept = [state for state in kept if scores[state] >= scores[kept[0]] + self._options.beam_log_prob]
        self._states = {state: after[state] for state in kept}
        return [labels for labels, _ in kept]

    def _offer(self, after: dict[tuple[Labels, bool], float], labels: Labels, is_blank: bool, log_prob: float) -> None:
        state = (labels, is_blank)
        after[state] = self._add(after[state], log_prob) if state in after else log_prob

    def _externally(self, labels: Labels) -> float:
        if labels not in self._external:
            self._externally(labels[:-1])
            external, before = self._external[labels[:-1]]
            gain, state = self._scorer.extend(before, labels[-1]) if self._scorer is not None else (0.0, before)
            self._external[labels] = (external + gain, state)
        return self._external[labels][0]


def _summed(prefix: _Prefix, labels: Labels, log_probs_SV: list[list[float]], blank: int) -> _Prefix:
    """The prefix with its log-probability over all alignments."""
    blanks, nonblanks = [0.0, *[-math.inf] * len(labels)], [-math.inf] * (len(labels) + 1)
    for log_probs_V in log_probs_SV:
        for i in range(len(labels), 0, -1):
            arrived = blanks[i - 1]
            if labels[i - 2 : i - 1] != labels[i - 1 : i]:
                arrived = float(np.logaddexp(arrived, nonblanks[i - 1]))
            total = float(np.logaddexp(blanks[i], nonblanks[i]))
            nonblanks[i] = float(np.logaddexp(nonblanks[i], arrived)) + log_probs_V[labels[i - 1]]
            blanks[i] = total + log_probs_V[blank]
        blanks[0] += log_probs_V[blank]
    return prefix._replace(blank=blanks[-1], nonblank=nonblanks[-1])


def _spans(path: _Path) -> tuple[list[int], list[int]]:
    starts, ends, mark, end = [], [], path.mark, path.end
    while mark is not None:
        starts.append(mark.start)
        ends.append(end)
        end, mark = mark.end_before, mark.before
    return starts[::-1], ends[::-1]


def _arrived(shorter: _Prefix, is_repeat: bool, frame: int, log_prob: float) -> _Path:
    """The best path of a prefix, and one more label in this frame."""
    path = shorter.best_blank if is_repeat else shorter.best
    return _Path(path.log_prob + log_prob, _Mark(path.mark, path.end, frame), frame + 1)


def _advance(
    beam: dict[Labels, _Prefix],
    frame: int,
    log_probs_V: list[float],
    blank: int,
    scorer: Scorer | None,
    token_log_prob: float,
) -> dict[Labels, _Prefix]:
    lowest = max(log_probs_V) + token_log_prob
    after: dict[Labels, _Prefix] = {}
    for labels, prefix in beam.items():
        last = labels[-1] if labels else NONE
        held = prefix.nonblank + log_probs_V[last] if labels else -math.inf
        shorter = beam.get(labels[:-1]) if labels else None
        nonblank = prefix.best_nonblank
        if labels:
            nonblank = nonblank._replace(log_prob=nonblank.log_prob + log_probs_V[last], end=frame + 1)
        if shorter is not None:
            is_repeat = labels[-2:-1] == (last,)
            arrived = shorter.blank if is_repeat else shorter.total
            if prefix.total > -math.inf or log_probs_V[last] >= lowest:  # what only others keep is as a new prefix
                held = float(np.logaddexp(held, arrived + log_probs_V[last]))
            nonblank = max(nonblank, _arrived(shorter, is_repeat, frame, log_probs_V[last]), key=lambda p: p.log_prob)
        after[labels] = prefix._replace(
            blank=prefix.total + log_probs_V[blank],
            nonblank=held,
            best_blank=prefix.best._replace(log_prob=prefix.best.log_prob + log_probs_V[blank]),
            best_nonblank=nonblank,
        )
    for labels, prefix in beam.items():
        for label, log_prob in enumerate(log_probs_V):
            if label == blank or log_prob < lowest or (*labels, label) in beam:
                continue
            total = (prefix.blank if labels[-1:] == (label,) else prefix.total) + log_prob
            gain, state = scorer.extend(prefix.state, label) if scorer is not None else (0.0, prefix.state)
            path = _arrived(prefix, labels[-1:] == (label,), frame, log_prob)
            nothing = _Path(-math.inf, None, 0)
            after[(*labels, label)] = _Prefix(-math.inf, total, prefix.external + gain, state, nothing, path)
    return after


def _prune(beam: dict[Labels, _Prefix], options: BeamOptions) -> dict[Labels, _Prefix]:
    scores = {labels: prefix.total + prefix.external for labels, prefix in beam.items()}
    kept = sorted(beam, key=lambda labels: -scores[labels])[: options.beam]
    lowest = scores[kept[0]] + options.beam_log_prob if kept else 0.0
    return {labels: beam[labels] for labels in kept if scores[labels] >= lowest and scores[labels] > -math.inf}
