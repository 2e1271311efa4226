"""Forced alignment: the best path that spells a given transcript (Viterbi over the lattice of Graves et al. 2006).

B utterances, S frames, V labels, U labels of a transcript (padded to the longest), X states: a blank before each label,
the labels, a blank at the end. Needs no torch.
"""

import ctypes
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctc.bindings import _library, _native
from ctc.inputs import check_scores, host_lengths, integer_array, integer_list, is_tensor, on_host
from ctc.native import threads

if TYPE_CHECKING:
    from torch import Tensor


class Alignment(NamedTuple):
    """One transcript on the frames of its utterance. The three lists have one entry per label of the transcript."""

    start_frames: list[int]
    """First frame of the label."""
    end_frames: list[int]
    """One past the last frame of the label; what lies between two labels is blank."""
    scores: list[float]
    """Mean over the frames of the label of its log-probability."""
    log_prob: float
    """Log-probability of the whole path, blanks included."""


class WordSpan(NamedTuple):
    """One word on the frames of its utterance."""

    labels: list[int]
    start_frame: int
    end_frame: int
    """One past the last frame."""


class Spans(NamedTuple):
    """What a Viterbi kernel returns: frames as int64, log-probabilities summed over frames as float64."""

    start_BU: np.ndarray
    end_BU: np.ndarray
    log_prob_BU: np.ndarray
    log_prob_B: np.ndarray


def align(
    log_probs_BSV: "Tensor | np.ndarray",
    targets: "Tensor | np.ndarray | Sequence[Sequence[int]]",
    frames_B: "Tensor | Sequence[int]",
    target_lengths: "Tensor | Sequence[int] | None" = None,
    *,
    blank: int = 0,
    star: int | None = None,
) -> list[Alignment]:
    """Where every label of every transcript lies on the best path that spells the transcript.

    `log_probs_BSV`: log-probabilities or logits, never modified. `targets`: [B, U] or [sum of lengths] with
    `target_lengths`, as for the loss, or one list of labels per utterance without. `frames_B`: how many of the S
    frames belong to each utterance. Scores are summed in double precision. Between equally good paths the one
    that moves on earlier is taken.

    `star`: a number that is no class. Where it stands in a transcript, any number of frames may hold anything, each at
    the log-probability of its best class (the loss, which sums, counts all classes together); its span is all
    that lies between its neighbours.

    Raises ValueError that names the item for labels out of range, for a transcript that does not fit into
    its frames (it needs one frame per label and one more between two equal ones) and for one that has no
    path of finite log-probability.
    """
    check_scores(log_probs_BSV, blank, name="align: log_probs_BSV")
    batch, frames, vocabulary = log_probs_BSV.shape
    counts_B = host_lengths(frames_B, batch, frames, name="align: frames_B")
    if star is not None and 0 <= star < vocabulary:
        raise ValueError(f"align: star: expected a number that is no class in [0, {vocabulary}), found {star}")
    transcripts = read_transcripts(targets, target_lengths, batch, vocabulary, blank, name="align: targets", star=star)
    for item, (labels, available) in enumerate(zip(transcripts, counts_B.tolist(), strict=True)):
        needed = frames_needed([label for label in labels if label != star])
        if needed > available:
            raise ValueError(
                f"align: targets: item {item}: {len(labels)} labels need at least {needed} frames, found {available}"
            )
    if star is not None:
        scores_BSV = on_host(log_probs_BSV)
        return [
            _align_around_stars(item, scores_BSV[item, :frames], labels, star, blank)
            for item, (labels, frames) in enumerate(zip(transcripts, counts_B.tolist(), strict=True))
        ]
    lengths_B = np.array([len(labels) for labels in transcripts], np.int64)
    targets_BU = np.full((batch, max(map(len, transcripts), default=0)), blank, np.int32)
    for row_U, labels in zip(targets_BU, transcripts, strict=True):
        row_U[: len(labels)] = labels
    return _alignments(viterbi(log_probs_BSV, targets_BU, counts_B, lengths_B, blank)[0], lengths_B.tolist())


def word_spans(labels: Sequence[int], alignment: Alignment, *, boundary: int) -> list[WordSpan]:
    """Where the words of a transcript lie: `labels` between `boundary` labels, with the `alignment` of all of them.

    A word ends with its last label, and starts with the boundary before it, where there is one: without a pause
    between them, as nearly always, a boundary has no sound of its own and is heard in the start of the next word. The
    peak of a word's first label comes when much of its sound is over.
    """
    words = []
    for is_boundary, places in itertools.groupby(range(len(labels)), lambda i: labels[i] == boundary):
        if is_boundary:
            continue
        run = list(places)
        first, last = run[0], run[-1]
        start = alignment.start_frames[max(first - 1, 0)]
        words.append(WordSpan([labels[i] for i in run], start, alignment.end_frames[last]))
    return words


def _align_around_stars(item: int, log_probs_SV: np.ndarray, targets: list[int], star: int, blank: int) -> Alignment:
    labels, is_star = split_stars(targets, star)
    spans, _ = viterbi_of_one(log_probs_SV, labels, is_star, 0.0, blank)
    (found,) = _alignments(spans, [len(labels)], first_item=item)
    best_S = normalised(log_probs_SV).max(1)
    starts, ends, scores = [], [], []
    i = end = 0
    for target in targets:
        if target == star:
            start, end = end, found.start_frames[i] if i < len(labels) else len(log_probs_SV)
            score = float(best_S[start:end].mean()) if start < end else 0.0
        else:
            start, end, score = found.start_frames[i], found.end_frames[i], found.scores[i]
            i += 1
        starts.append(start)
        ends.append(end)
        scores.append(score)
    return Alignment(starts, ends, scores, found.log_prob)


def split_stars(targets: list[int], star: int) -> tuple[list[int], list[bool]]:
    """The labels without stars; whether a star stands before each of them, and behind the last."""
    labels: list[int] = []
    is_star = [False]
    for target in targets:
        if target == star:
            is_star[-1] = True
        else:
            labels.append(target)
            is_star.append(False)
    return labels, is_star


def normalised(scores_SV: np.ndarray) -> np.ndarray:
    """Log-probabilities, in float64."""
    scores_SV = scores_SV.astype(np.float64)
    most_S1 = scores_SV.max(1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return scores_SV - most_S1 - np.log(np.exp(scores_SV - most_S1).sum(1, keepdims=True))


def viterbi(
    log_probs_BSV: "Tensor | np.ndarray",
    targets_BU: np.ndarray,
    frames_B: np.ndarray,
    lengths_B: np.ndarray,
    blank: int,
    *,
    gaps: tuple[np.ndarray, float] | None = None,
    window: int = 0,
) -> tuple[Spans, bool]:
    """The spans, and whether a path came near the edge of the window (in labels; 0: none).

    `gaps`: before which labels of an utterance, and at its end, something that is not in the transcript may lie, each
    frame of which costs this number and its best class.
    """
    if gaps is None and is_tensor(log_probs_BSV) and not log_probs_BSV.is_cpu:
        import torch

        from ctc.bindings import _cuda_decode, _cuda_library

        if _cuda_library.serves(log_probs_BSV):
            targets, frames, lengths = map(torch.from_numpy, (targets_BU, frames_B, lengths_B))
            found = _cuda_decode.viterbi(log_probs_BSV, targets, frames, lengths, blank)
            return Spans(*(tensor.cpu().numpy() for tensor in found)), False
        _library.warn_slow(
            "ctc.align", _cuda_library.why_missing(log_probs_BSV.device), computes_in="C++ on the processor"
        )
    scores_BSV, library = on_host(log_probs_BSV), _native.load()
    if library is None:
        _library.warn_slow("ctc.align", computes_in="numpy")
        return viterbi_numpy(scores_BSV, targets_BU, frames_B, lengths_B, blank, gaps=gaps), False
    options = _native.AlignOptions(blank=blank, threads=threads(), window=window)
    if gaps is not None:
        options.is_gap, options.gap_log_prob = gaps[0].ctypes.data, gaps[1]
    spans, is_clipped_B = viterbi_native(library, scores_BSV, targets_BU, frames_B, lengths_B, options)
    return spans, bool(is_clipped_B.any())


def viterbi_of_one(
    scores_SV: np.ndarray, labels: list[int], is_gap: Sequence[bool], gap_log_prob: float, blank: int, window: int = 0
) -> tuple[Spans, bool]:
    """As `viterbi`, of one utterance with gaps."""
    gaps = (np.array(is_gap, bool), gap_log_prob)
    sizes = (np.array([len(scores_SV)]), np.array([len(labels)]))
    return viterbi(scores_SV[None], np.array([labels], np.int32), *sizes, blank, gaps=gaps, window=window)


def viterbi_native(
    library: ctypes.CDLL,
    scores_BSV: np.ndarray,
    targets_BU: np.ndarray,
    frames_B: np.ndarray,
    lengths_B: np.ndarray,
    options: _native.AlignOptions,
) -> tuple[Spans, np.ndarray]:
    """The spans, and [B] whether the best path came near the edge of the window. Targets are int32, lengths int64."""
    batch, width = targets_BU.shape
    start_BU, end_BU = np.zeros((2, batch, width), np.int64)
    log_prob_BU, log_prob_B = np.zeros((batch, width)), np.zeros(batch)
    is_clipped_B = np.zeros(batch, np.int32)
    most_frames, longest = (max(values.tolist(), default=0) for values in (frames_B, lengths_B))
    workspace = np.empty(library.ctc_align_workspace(most_frames, longest, options), np.uint8)
    inputs = (_native.scores(scores_BSV), frames_B, targets_BU, width, lengths_B, options)
    outputs = (start_BU, end_BU, log_prob_BU, log_prob_B, is_clipped_B)
    library.ctc_align(*inputs, *outputs, workspace, workspace.nbytes)
    return Spans(start_BU, end_BU, log_prob_BU, log_prob_B), is_clipped_B.astype(bool)


def _alignments(spans: Spans, target_lengths: list[int], *, first_item: int = 0) -> list[Alignment]:
    alignments = []
    for item, length in enumerate(target_lengths):
        log_prob = float(spans.log_prob_B[item])
        if not math.isfinite(log_prob):
            named = f"item {first_item + item}"
            raise ValueError(f"align: log_probs_BSV: {named}: the best path has log-probability {log_prob}")
        start_U, end_U = spans.start_BU[item, :length], spans.end_BU[item, :length]
        scores = (spans.log_prob_BU[item, :length] / (end_U - start_U)).tolist()
        alignments.append(Alignment(start_U.tolist(), end_U.tolist(), scores, log_prob))
    return alignments


def read_transcripts(
    targets: "Tensor | np.ndarray | Sequence[Sequence[int]]",
    target_lengths: "Tensor | Sequence[int] | None",
    batch: int,
    vocabulary: int,
    blank: int,
    *,
    name: str,
    star: int | None = None,
) -> list[list[int]]:
    """One list of labels per utterance; ValueError names the item and label that are not in the vocabulary."""
    if is_tensor(targets) or (isinstance(targets, np.ndarray) and target_lengths is not None):
        rows = _padded_rows(targets, target_lengths, batch, name=name)
    elif target_lengths is not None:
        raise ValueError(f"{name}: expected a tensor or an array beside target_lengths, or lists of labels without")
    else:
        rows = [integer_list(row, name=f"{name}: item {item}") for item, row in enumerate(targets)]
    if len(rows) != batch:
        raise ValueError(f"{name}: expected {batch} transcripts, one per utterance, found {len(rows)}")
    for item, row in enumerate(rows):
        for label in row:
            if (not 0 <= label < vocabulary and label != star) or label == blank:
                expected = f"labels in [0, {vocabulary}) other than the blank {blank}"
                raise ValueError(f"{name}: item {item}: expected {expected}, found {label}")
    return rows


def _padded_rows(
    targets: "Tensor | np.ndarray", target_lengths: "Tensor | Sequence[int] | None", batch: int, *, name: str
) -> list[list[int]]:
    rows = integer_array(targets, name=name)
    if target_lengths is None:
        raise ValueError(f"{name}: expected target_lengths with a tensor of shape {rows.shape}")
    if rows.ndim not in (1, 2):
        raise ValueError(f"{name}: expected [utterance, label] or all labels in a row, found shape {rows.shape}")
    lengths_name = name.replace("targets", "target_lengths")
    lengths_B = host_lengths(target_lengths, batch, rows.shape[-1], name=lengths_name)
    if rows.ndim == 2:
        return [row_U[:length].tolist() for row_U, length in zip(rows, lengths_B, strict=True)]
    ends_B = lengths_B.cumsum()
    if len(rows) != lengths_B.sum():
        raise ValueError(f"{name}: expected {lengths_B.sum()} labels in all, as target_lengths say, found {len(rows)}")
    return [rows[end - length : end].tolist() for end, length in zip(ends_B, lengths_B, strict=True)]


def frames_needed(labels: Sequence[int]) -> int:
    """The fewest frames on which `labels` can be spelled: equal neighbours need a blank between them."""
    return len(labels) + sum(left == right for left, right in itertools.pairwise(labels))


def viterbi_numpy(
    scores_BSV: np.ndarray,
    targets_BU: np.ndarray,
    frames_B: np.ndarray,
    lengths_B: np.ndarray,
    blank: int,
    *,
    gaps: tuple[np.ndarray, float] | None = None,
) -> Spans:
    """The reference, and what serves without a compiler: one step per frame.

    State 2 i is the blank before label i, state 2 i + 1 label i: a path never goes back, so that the frames of
    a label are where its state is. `gaps`: before which labels (and at the end) [U + 1] something else may be
    heard, at how much below a frame's best label.
    """
    start_BU, end_BU = np.zeros((2, *targets_BU.shape), np.int64)
    spans = Spans(start_BU, end_BU, np.zeros(targets_BU.shape), np.zeros(len(targets_BU)))
    for item, (frames, length) in enumerate(zip(frames_B.tolist(), lengths_B.tolist(), strict=True)):
        states_X = np.full(2 * length + 1, blank)
        states_X[1::2] = targets_BU[item, :length]
        log_probs_SV = normalised(scores_BSV[item, :frames])
        emission_SX = log_probs_SV[:, states_X]
        if gaps is not None:
            is_gap_U, gap_log_prob = gaps
            gap_S1 = log_probs_SV.max(1, keepdims=True) + gap_log_prob
            emission_SX[:, ::2] = np.where(is_gap_U, np.maximum(emission_SX[:, ::2], gap_S1), emission_SX[:, ::2])
        may_skip_X = np.zeros(len(states_X), bool)
        may_skip_X[3::2] = states_X[3::2] != states_X[1:-2:2]
        path_S, spans.log_prob_B[item] = _best_path(emission_SX, may_skip_X)
        wanted_U = 2 * np.arange(length) + 1
        start_BU[item, :length] = np.searchsorted(path_S, wanted_U)
        end_BU[item, :length] = np.searchsorted(path_S, wanted_U, side="right")
        for label, state in enumerate(wanted_U):
            own_S = emission_SX[start_BU[item, label] : end_BU[item, label], state]
            spans.log_prob_BU[item, label] = own_S.sum()
    return spans


def _best_path(emission_SX: np.ndarray, may_skip_X: np.ndarray) -> tuple[np.ndarray, float]:
    """The state of every frame, and the sum of what they emit; of equally good paths that which moves on earlier."""
    frames, states = emission_SX.shape
    score_X = np.full(states, -np.inf)
    score_X[0] = 0.0  # stands before the first frame: that one may be a blank, or enter label 0 by a step
    steps_SX = np.zeros(emission_SX.shape, np.int8)
    for frame, emission_X in enumerate(emission_SX):
        stepped_X, skipped_X = np.full((2, states), -np.inf)
        stepped_X[1:], skipped_X[2:] = score_X[:-1], score_X[:-2]
        choices_3X = np.stack([score_X, stepped_X, np.where(may_skip_X, skipped_X, -np.inf)])
        steps_SX[frame] = choices_3X.argmax(0)
        score_X = choices_3X.max(0) + emission_X
    state = states - (2 if states > 1 and score_X[-2] > score_X[-1] else 1)
    total, path_S = float(score_X[state]), np.zeros(frames, np.int64)
    for frame in reversed(range(frames)):
        path_S[frame] = state
        state -= steps_SX[frame, state]
    return path_S, total
