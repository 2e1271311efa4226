"""Where the labels of one transcript lie on the best path that spells it, on arrays; `alignment.py` is of tensors.

S frames, V labels, U labels of the transcript, X states: a blank before each label, the labels, a blank at the end.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from ctc import _library, _native, native


def label_spans(log_probs_SV: np.ndarray, labels: Sequence[int], *, blank: int) -> list[tuple[int, int]]:
    """First frame of each label, and the one past its last: as `ctc.align`.

    Raises ValueError for a transcript that does not fit into the frames, and where no path has a finite probability.
    """
    needed = len(labels) + sum(left == right for left, right in itertools.pairwise(labels))
    if needed > len(log_probs_SV):
        raise ValueError(f"label_spans: {len(labels)} labels need {needed} frames, found {len(log_probs_SV)}")
    if not labels:
        return []
    log_probs_SV = np.ascontiguousarray(log_probs_SV, np.float32)
    library = _native.load()
    if library is None:
        _library.warn_slow("ctc.label_spans")
        spans, total = _plain(log_probs_SV, labels, blank)
    else:
        count = len(labels)
        start_U, end_U, frames_1 = np.zeros(count, np.int64), np.zeros(count, np.int64), np.array([len(log_probs_SV)])
        log_probs_U, total_1, is_clipped_1 = np.zeros(count), np.zeros(1), np.zeros(1, np.int32)
        targets_U, lengths_1 = np.array(labels, np.int32), np.array([count])
        options = _native.AlignOptions(blank=blank, threads=native.threads())
        workspace = np.empty(library.ctc_align_workspace(len(log_probs_SV), count, options), np.uint8)
        inputs = (_native.scores(log_probs_SV[None]), frames_1, targets_U, count, lengths_1, options)
        outputs = (start_U, end_U, log_probs_U, total_1, is_clipped_1)
        _native.call(library.ctc_align, *inputs, *outputs, workspace, workspace.nbytes)
        spans, total = list(zip(start_U.tolist(), end_U.tolist(), strict=True)), float(total_1[0])
    if not np.isfinite(total):
        raise ValueError(f"label_spans: the best path has log-probability {total}")
    return spans


def _plain(log_probs_SV: np.ndarray, labels: Sequence[int], blank: int) -> tuple[list[tuple[int, int]], float]:
    states_X = np.full(2 * len(labels) + 1, blank)
    states_X[1::2] = labels
    emission_SX = log_probs_SV[:, states_X].astype(np.float64)
    may_skip_X = np.zeros(len(states_X), bool)
    may_skip_X[3::2] = states_X[3::2] != states_X[1:-2:2]
    score_X = np.full(len(states_X), -np.inf)
    score_X[0] = 0.0  # stands before the first frame
    steps_SX = np.zeros(emission_SX.shape, np.int8)
    for frame, emission_X in enumerate(emission_SX):
        stepped_X, skipped_X = np.full((2, len(states_X)), -np.inf)
        stepped_X[1:], skipped_X[2:] = score_X[:-1], score_X[:-2]
        choices_3X = np.stack([score_X, stepped_X, np.where(may_skip_X, skipped_X, -np.inf)])
        steps_SX[frame] = choices_3X.argmax(0)
        score_X = choices_3X.max(0) + emission_X
    state = len(states_X) - (2 if score_X[-2] > score_X[-1] else 1)
    total, path_S = float(score_X[state]), np.zeros(len(emission_SX), np.int64)
    for frame in reversed(range(len(path_S))):
        path_S[frame] = state
        state -= steps_SX[frame, state]
    wanted_U = 2 * np.arange(len(labels)) + 1
    starts, ends = (np.searchsorted(path_S, wanted_U, side=side).tolist() for side in ("left", "right"))
    return list(zip(starts, ends, strict=True)), total
