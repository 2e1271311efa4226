"""Finds the sentences of a long text in a long recording (after Kürzinger et al. 2020, "CTC-segmentation").

S frames, V labels. Needs no torch.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctc.alignment.align import Spans, frames_needed, normalised, read_transcripts, viterbi_of_one
from ctc.inputs import UTTERANCE, host_scores

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SegmentOptions:
    """What may lie between sentences, and how much of the text is looked at."""

    gap_log_prob: float = -2.0
    """Between sentences, and at both ends, a frame that is not in the text costs this on top of its best label's
    log-probability (or is blank, if that is better); -inf admits nothing but blank there. Nearer to 0, to wait in
    a gap is so cheap that where the text has what nobody says, the best label so far lags far behind the best path,
    and the window must be wide."""
    window: int = 2000
    """Labels followed at a time, around the best; doubled until the best path keeps clear of the edges. Memory is one
    byte per frame and label of the window."""
    score_frames: int = 30
    """Length of the stretches of which the worst gives the score of a sentence."""

    def __post_init__(self) -> None:
        if not self.gap_log_prob <= 0:
            raise ValueError(f"gap_log_prob: expected at most 0, found {self.gap_log_prob}")
        for name in ("window", "score_frames"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, found {getattr(self, name)}")


class Segment(NamedTuple):
    """One sentence in the recording."""

    start_frame: int
    end_frame: int
    """One past the last frame of the last label."""
    score: float
    """Mean log-probability per frame of the worst stretch: near 0 for what was said, far below for what was not."""


def segment(
    log_probs_SV: "Tensor | np.ndarray",
    sentences: Sequence[Sequence[int]],
    *,
    blank: int = 0,
    options: SegmentOptions | None = None,
) -> list[Segment]:
    """Where each of `sentences` (labels, in the order they are spoken) lies in the recording.

    `log_probs_SV`: log-probabilities or logits of the whole recording, never modified. Speech that is not in the text
    is skipped between sentences, not within. Raises ValueError for arguments that do not fit, for an
    empty sentence, for text that needs more frames than there are and for scores without a path.
    """
    options = options or SegmentOptions()
    scores_SV = host_scores(log_probs_SV, blank, name="segment: log_probs_SV", axes=UTTERANCE)
    frames, vocabulary = scores_SV.shape
    rows = read_transcripts(sentences, None, len(sentences), vocabulary, blank, name="segment: sentences")
    for item, row in enumerate(rows):
        if not row:
            raise ValueError(f"segment: sentences: item {item}: expected labels, found none")
    labels = [label for row in rows for label in row]
    if frames_needed(labels) > frames:
        raise ValueError(f"segment: {len(labels)} labels need at least {frames_needed(labels)} frames, found {frames}")
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    gaps = {0, *ends.tolist()}
    is_gap = [place in gaps for place in range(len(labels) + 1)]
    spans = _spans(scores_SV, labels, is_gap, blank, options)
    if not np.isfinite(spans.log_prob_B).all():
        raise ValueError(f"segment: log_probs_SV: the best path has log-probability {spans.log_prob_B[0]}")
    return _segments(scores_SV, spans, labels, ends, blank, options.score_frames)


def _spans(scores_SV: np.ndarray, labels: list[int], is_gap: list[bool], blank: int, options: SegmentOptions) -> Spans:
    window, is_clipped = options.window, True
    while is_clipped:
        spans, is_clipped = viterbi_of_one(scores_SV, labels, is_gap, options.gap_log_prob, blank, window)
        is_clipped = is_clipped and window <= len(labels)
        window *= 2
    return spans


def _segments(
    scores_SV: np.ndarray, spans: Spans, labels: list[int], ends: np.ndarray, blank: int, score_frames: int
) -> list[Segment]:
    start_U, end_U = spans.start_BU[0], spans.end_BU[0]
    path_S = np.full(len(scores_SV), blank)
    for label, start, end in zip(labels, start_U.tolist(), end_U.tolist(), strict=True):
        path_S[start:end] = label
    total_S = np.concatenate([[0.0], normalised(scores_SV)[np.arange(len(path_S)), path_S].cumsum()])
    segments = []
    for first, last in itertools.pairwise([0, *ends.tolist()]):
        start, end = int(start_U[first]), int(end_U[last - 1])
        width = min(score_frames, end - start)
        stretches = (total_S[start + width : end + 1] - total_S[start : end + 1 - width]) / width
        segments.append(Segment(start, end, float(stretches.min())))
    return segments
