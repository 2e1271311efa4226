"""Decoders on an accelerator, which wait for nothing: those of the CUDA library, through ctypes, or in plain torch.

B utterances, S frames, V labels, U labels of a transcript.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ctc.bindings import _cuda_library, _native
from ctc.bindings._library import warn_slow
from ctc.bindings._loss_library import TYPES
from ctc.inputs import length_tensor


def collapsed(log_probs_BSV: Tensor, frames_B: Tensor | np.ndarray | Sequence[int], blank: int) -> Tensor:
    """What `collapsed_in_torch` gives, by the CUDA library where it is built. Raises ValueError."""
    frames_B = length_tensor(frames_B, log_probs_BSV.shape[0], name="greedy: frames_B")
    if _cuda_library.serves(log_probs_BSV):
        return greedy(log_probs_BSV, frames_B, blank)
    warn_slow("ctc.greedy", _cuda_library.why_missing(log_probs_BSV.device))
    return collapsed_in_torch(log_probs_BSV.detach(), frames_B, blank)


def collapsed_in_torch(log_probs_BSV: Tensor, frames_B: Tensor, blank: int) -> Tensor:
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


def greedy(scores_BSV: Tensor, frames_B: Tensor, blank: int) -> Tensor:
    """What `collapsed_in_torch` gives: int32 [B, 4 S + 3], without waiting for the device."""
    native = _cuda_library.DEVICE.loaded()
    scores_BSV = _with_adjacent_labels(scores_BSV)
    batch, frames, _ = scores_BSV.shape
    device = scores_BSV.device
    frames_B = frames_B.to(device).contiguous()
    workspace = torch.empty(native.ctc_greedy_cuda_workspace(batch, frames), dtype=torch.uint8, device=device)
    packed = torch.empty(batch, 4 * frames + 3, dtype=torch.int32, device=device)
    inputs = (_native.scores(scores_BSV), TYPES[scores_BSV.dtype], frames_B, blank)
    _cuda_library.launch(native.ctc_greedy_cuda, device, *inputs, packed, workspace)
    return packed


def viterbi(
    scores_BSV: Tensor, targets_BU: Tensor, frames_B: Tensor, lengths_B: Tensor, blank: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """First frames and frames past the last [B, U], sums of log-probabilities [B, U], totals [B], all on the device."""
    native = _cuda_library.DEVICE.loaded()
    scores_BSV = _with_adjacent_labels(scores_BSV)
    batch, frames, _ = scores_BSV.shape
    width = targets_BU.shape[1]
    device = scores_BSV.device
    targets_BU, frames_B, lengths_B = (values.to(device).contiguous() for values in (targets_BU, frames_B, lengths_B))
    bytes_needed = native.ctc_align_cuda_workspace(batch, frames, width)
    workspace = torch.empty(bytes_needed, dtype=torch.uint8, device=device)
    start_BU, end_BU = torch.empty(2, batch, width, dtype=torch.int64, device=device)
    log_prob_BU = torch.empty(batch, width, dtype=torch.float64, device=device)
    log_prob_B = torch.empty(batch, dtype=torch.float64, device=device)
    inputs = (_native.scores(scores_BSV), TYPES[scores_BSV.dtype], frames_B, targets_BU, width, lengths_B, blank)
    outputs = (start_BU, end_BU, log_prob_BU, log_prob_B)
    _cuda_library.launch(native.ctc_align_cuda, device, *inputs, *outputs, workspace)
    return outputs


def _with_adjacent_labels(scores_BSV: Tensor) -> Tensor:
    scores_BSV = scores_BSV.detach().resolve_neg()
    return scores_BSV if scores_BSV.stride(2) == 1 else scores_BSV.contiguous()
