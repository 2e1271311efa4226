"""Decoders on an accelerator, which wait for nothing: those of the CUDA library, through ctypes.

B utterances, S frames, V labels, U labels of a transcript.
"""

import torch
from torch import Tensor

from ctc.bindings import _cuda_library, _native
from ctc.bindings._loss_library import TYPES


def greedy(scores_BSV: Tensor, frames_B: Tensor, blank: int) -> Tensor:
    """int32 [B, 4 S + 3]: labels, starts, ends, confidence (its bits); then number of labels, frames with NaN, frames.

    Row b has its labels in front: what follows the first `number of labels` of each of the four parts is unspecified.
    """
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
