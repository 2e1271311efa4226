"""Greedy decoding: the best label of every frame, repeats merged, blanks dropped (Graves et al. 2006, best path).

B utterances, S frames, V labels.
"""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ctc.bindings import _library, _native
from ctc.inputs import check_lengths, check_scores, host_lengths, is_tensor, length_tensor, on_host
from ctc.native import threads

if TYPE_CHECKING:  # arrays are decoded without it
    from torch import Tensor

# About 3 ms of work: with less, waiting for a second thread costs more than it saves on a machine that is busy.
SCORES_PER_THREAD = 4_000_000


class Decoded:
    """One utterance as its best path reads: four lists with one entry per label, made of the arrays when asked for.

    Two are equal where all of it is.
    """

    __slots__ = ("confidence_U", "runs_3U")

    def __init__(self, runs_3U: np.ndarray, confidence_U: np.ndarray) -> None:
        """`runs_3U`: int32, labels, first frames and frames past the last. `confidence_U`: float32."""
        self.runs_3U, self.confidence_U = runs_3U, confidence_U

    @property
    def labels(self) -> list[int]:
        """What the utterance spells."""
        return self.runs_3U[0].tolist()

    @property
    def start_frames(self) -> list[int]:
        """First frame of each label."""
        return self.runs_3U[1].tolist()

    @property
    def end_frames(self) -> list[int]:
        """One past the last frame of each label."""
        return self.runs_3U[2].tolist()

    @property
    def confidence(self) -> list[float]:
        """Geometric mean, over the frames of each label, of its probability."""
        return self.confidence_U.tolist()

    def __len__(self) -> int:
        return len(self.confidence_U)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decoded):
            return NotImplemented
        return np.array_equal(self.runs_3U, other.runs_3U) and np.array_equal(self.confidence_U, other.confidence_U)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Decoded(labels={self.labels}, start_frames={self.start_frames}, end_frames={self.end_frames}, "
            f"confidence={self.confidence})"
        )


def greedy(
    log_probs_BSV: "Tensor | np.ndarray", frames_B: "Tensor | np.ndarray | Sequence[int]", *, blank: int = 0
) -> list[Decoded]:
    """The labels that the best path of every utterance spells, with their frames and confidence.

    `log_probs_BSV`: log-probabilities or logits, any floating type, any device, never modified. `frames_B`: how many
    of the S frames belong to each utterance; the others are not read into any result. Of labels with
    equal scores the lowest counts. On a GPU with our kernels everything is collapsed there and copied back once.

    Raises ValueError for shapes, types, lengths and a blank that do not fit, and for an utterance that holds NaN.
    """
    check_scores(log_probs_BSV, blank, name="greedy: log_probs_BSV")
    if is_tensor(log_probs_BSV) and not log_probs_BSV.is_cpu:
        from ctc.bindings import _cuda_decode, _cuda_library

        if _cuda_library.serves(log_probs_BSV):
            there_B = length_tensor(frames_B, log_probs_BSV.shape[0], name="greedy: frames_B")
            return _unpack(_cuda_decode.greedy(log_probs_BSV, there_B, blank).cpu().numpy())
        why = _cuda_library.why_missing(log_probs_BSV.device)
        _library.warn_slow("ctc.greedy", why, computes_in="C++ on the processor")
    scores_BSV = on_host(log_probs_BSV)
    lengths_B = host_lengths(frames_B, *scores_BSV.shape[:2], name="greedy: frames_B")
    library = _native.load()
    if library is not None:
        return _greedy_native(library, scores_BSV, lengths_B, blank)
    _library.warn_slow("ctc.greedy", computes_in="numpy")
    return greedy_numpy(scores_BSV, lengths_B, blank)


def _greedy_native(library: ctypes.CDLL, scores_BSV: np.ndarray, frames_B: np.ndarray, blank: int) -> list[Decoded]:
    batch, frames, _ = scores_BSV.shape
    runs_B3S = np.empty((batch, 3, frames), np.int32)
    confidence_BS = np.empty((batch, frames), np.float32)
    counts_B, nan_frames_B = np.empty((2, batch), np.int32)
    n_threads = min(threads(), max(1, scores_BSV.size // SCORES_PER_THREAD))
    outputs = (runs_B3S, confidence_BS, counts_B, nan_frames_B)
    library.ctc_greedy(_native.scores(scores_BSV), frames_B, blank, n_threads, *outputs)
    return _decoded(runs_B3S, confidence_BS, counts_B.tolist(), nan_frames_B.tolist())


def greedy_numpy(scores_BSV: np.ndarray, frames_B: np.ndarray, blank: int) -> list[Decoded]:
    """The same without a compiler, utterance by utterance."""
    found = []
    for item, (scores_SV, frames) in enumerate(zip(scores_BSV, frames_B.tolist(), strict=True)):
        scores_SV = scores_SV[:frames].astype(np.float64)
        best_S = scores_SV.argmax(1)
        with np.errstate(invalid="ignore"):
            log_prob_S = scores_SV.max(1) - np.logaddexp.reduce(scores_SV, 1)
        _check_nan(item, int(np.isnan(log_prob_S).sum()))
        starts_R = np.flatnonzero(np.diff(best_S, prepend=-1))
        ends_R = np.append(starts_R[1:], frames)[: len(starts_R)]
        confidence_R = np.exp(np.add.reduceat(log_prob_S, starts_R) / (ends_R - starts_R))
        labels_R = best_S[starts_R]
        is_label_R = labels_R != blank
        runs_3U = np.stack([labels_R, starts_R, ends_R])[:, is_label_R].astype(np.int32)
        found.append(Decoded(runs_3U, confidence_R[is_label_R].astype(np.float32)))
    return found


def _unpack(packed_BP: np.ndarray) -> list[Decoded]:
    """What `_cuda_decode.greedy` gives, taken apart."""
    packed_BP = np.asarray(packed_BP)
    batch, size = packed_BP.shape
    frames = (size - 3) // 4
    runs_B4S = packed_BP[:, : 4 * frames].reshape(batch, 4, frames)
    counts, nan_frames, lengths = packed_BP[:, 4 * frames :].T.tolist()
    check_lengths(lengths, frames, name="greedy: frames_B")
    return _decoded(runs_B4S[:, :3], runs_B4S[:, 3].view(np.float32), counts, nan_frames)


def _decoded(
    runs_B3S: np.ndarray, confidence_BS: np.ndarray, counts: list[int], nan_frames: list[int]
) -> list[Decoded]:
    for item, nans in enumerate(nan_frames):
        _check_nan(item, nans)
    parts = zip(runs_B3S, confidence_BS, counts, strict=True)
    return [Decoded(runs_3S[:, :count], confidence_S[:count]) for runs_3S, confidence_S, count in parts]


def _check_nan(item: int, nans: int) -> None:
    if nans:
        raise ValueError(f"greedy: log_probs_BSV: item {item}: {nans} of its frames hold NaN")
