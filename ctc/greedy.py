"""Greedy decoding: the best label of every frame, repeats merged, blanks dropped (Graves et al. 2006, best path).

B utterances, S frames, V labels.
"""

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ctc import _cuda_decode, _cuda_library, _library, _native
from ctc._inputs import batch_scores, check_lengths, length_tensor

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


def greedy(log_probs_BSV: Tensor | np.ndarray, frames_B: Tensor | Sequence[int], *, blank: int = 0) -> list[Decoded]:
    """The labels that the best path of every utterance spells, with their frames and confidence.

    `log_probs_BSV`: log-probabilities or logits, any floating type, any device, never modified. `frames_B`: how many
    of the S frames belong to each utterance; the others are not read into any result. Of labels with
    equal scores the lowest counts. On an accelerator everything is collapsed there and copied back once.

    Raises ValueError for shapes, types, lengths and a blank that do not fit, and for an utterance that holds NaN.
    """
    log_probs_BSV = batch_scores(log_probs_BSV, blank, name="greedy: log_probs_BSV")
    frames_B = length_tensor(frames_B, log_probs_BSV.shape[0], name="greedy: frames_B")
    library = _native.load()
    if log_probs_BSV.is_cpu and library is not None:
        return _greedy_native(library, log_probs_BSV, frames_B, blank)
    if log_probs_BSV.is_cpu:
        _library.warn_slow("ctc.greedy")
    if log_probs_BSV.is_cuda and _cuda_library.is_available():
        return _unpack(_cuda_decode.greedy(log_probs_BSV, frames_B, blank))
    return _unpack(_collapse(log_probs_BSV.detach(), frames_B, blank))


def _greedy_native(library: ctypes.CDLL, log_probs_BSV: Tensor, frames_B: Tensor, blank: int) -> list[Decoded]:
    batch, frames, _ = log_probs_BSV.shape
    frames_B = frames_B.cpu()
    check_lengths(frames_B.tolist(), frames, name="greedy: frames_B")
    scores_BSV = _native.native_scores(log_probs_BSV)
    runs_B3S = np.empty((batch, 3, frames), np.int32)
    confidence_BS = np.empty((batch, frames), np.float32)
    counts_B, nan_frames_B = np.empty((2, batch), np.int32)
    outputs = [array.ctypes.data for array in (runs_B3S, confidence_BS, counts_B, nan_frames_B)]
    threads = min(torch.get_num_threads(), max(1, log_probs_BSV.numel() // SCORES_PER_THREAD))
    _native.call(
        library.ctc_greedy, _native.scores(scores_BSV), frames_B.contiguous().data_ptr(), blank, threads, *outputs
    )
    return _decoded(runs_B3S, confidence_BS, counts_B.tolist(), nan_frames_B.tolist())


def _collapse(log_probs_BSV: Tensor, frames_B: Tensor, blank: int) -> Tensor:
    """int32 [B, 4 S + 3]: labels, starts, ends, confidence (its bits); then number of labels, frames with NaN, frames.

    Row b has its labels in front: what follows the first `number of labels` of each of the four parts is unspecified.
    """
    batch, frames, _ = log_probs_BSV.shape
    device = log_probs_BSV.device
    time_S = torch.arange(frames, device=device)
    frames_B1 = frames_B.to(device)[:, None]
    is_speech_BS = time_S < frames_B1
    best_BS = log_probs_BSV.argmax(-1)
    log_prob_BS = log_probs_BSV.gather(-1, best_BS[..., None])[..., 0].float() - log_probs_BSV.float().logsumexp(-1)
    nan_frames_B1 = (log_prob_BS.isnan() & is_speech_BS).sum(1, keepdim=True)

    is_label_BS = is_speech_BS & (best_BS != blank)
    run_BS = torch.where(is_label_BS, best_BS, blank)
    padded_BS = torch.nn.functional.pad(run_BS, (1, 1), value=blank)
    is_start_BS = is_label_BS & (run_BS != padded_BS[:, :-2])
    is_end_BS = is_label_BS & (run_BS != padded_BS[:, 2:])

    # Column `frames` collects what is not a start (an end): scattering is a compaction without a data-dependent shape.
    position_BS = is_start_BS.cumsum(1) - 1
    start_position_BS = torch.where(is_start_BS, position_BS, frames)
    end_position_BS = torch.where(is_end_BS, position_BS, frames)
    total_BS = torch.where(is_label_BS, log_prob_BS.double(), 0.0).cumsum(1)

    def compact(position_BS: Tensor, values_BS: Tensor) -> Tensor:
        row = values_BS.new_zeros(batch, frames + 1)
        return row.scatter_(1, position_BS, values_BS.expand(batch, frames))[:, :frames]

    label_BS = compact(start_position_BS, run_BS)
    start_BS = compact(start_position_BS, time_S)
    end_BS = compact(end_position_BS, time_S + 1)
    last_BS = compact(end_position_BS, total_BS)
    first_BS = torch.nn.functional.pad(last_BS, (1, 0))[:, :-1]
    confidence_BS = ((last_BS - first_BS) / (end_BS - start_BS).clamp(min=1)).exp().float()
    parts = [label_BS.int(), start_BS.int(), end_BS.int(), confidence_BS.view(torch.int32)]
    counts = [is_start_BS.sum(1, keepdim=True).int(), nan_frames_B1.int(), frames_B1.int()]
    return torch.cat([*parts, *counts], dim=1)


def _unpack(packed: Tensor) -> list[Decoded]:
    packed_BP = packed.cpu()  # the only place where decoding waits for the device
    batch, size = packed_BP.shape
    frames = (size - 3) // 4
    runs_B4S = packed_BP[:, : 4 * frames].reshape(batch, 4, frames).numpy()
    counts, nan_frames, lengths = packed_BP[:, 4 * frames :].T.tolist()
    check_lengths(lengths, frames, name="greedy: frames_B")
    return _decoded(runs_B4S[:, :3], runs_B4S[:, 3].view(np.float32), counts, nan_frames)


def _decoded(
    runs_B3S: np.ndarray, confidence_BS: np.ndarray, counts: list[int], nan_frames: list[int]
) -> list[Decoded]:
    for item, nans in enumerate(nan_frames):
        if nans:
            raise ValueError(f"greedy: log_probs_BSV: item {item}: {nans} of its frames hold NaN")
    parts = zip(runs_B3S, confidence_BS, counts, strict=True)
    return [Decoded(runs_3S[:, :count], confidence_S[:count]) for runs_3S, confidence_S, count in parts]
