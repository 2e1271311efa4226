"""The best monotonic alignment of frames to a sequence of tokens that has no blanks, as speech synthesis learns it.

B utterances, T frames, L tokens. Source: the Viterbi search of Kim et al. 2020 (Glow-TTS, arXiv:2005.11129).
"""

import ctypes

import torch
from torch import Tensor
from torch.nn import functional as F

from ctc.bindings import _library, _native
from ctc.inputs import on_host

LEAST = -1e9  # takes the place of minus infinity, whose sums cannot be subtracted from each other


def monotonic_alignment(log_probs_BTL: Tensor, frames_B: Tensor, lengths_B: Tensor) -> Tensor:
    """Durations [B, L] in frames (int64) that maximise the summed log-probability of every frame's token.

    The first frame belongs to the first token, the last to the last, and each to the token of the frame before or to
    the next one. Of equally good alignments the one whose last tokens begin latest is taken. What lies beyond
    `frames_B` and `lengths_B` is ignored; an utterance with fewer frames than tokens has durations of zero.
    Everything is done on the device of `log_probs_BTL`, without waiting for it.
    """
    if log_probs_BTL.ndim != 3 or not frames_B.shape == lengths_B.shape == log_probs_BTL.shape[:1]:
        raise ValueError(
            f"monotonic_alignment: log-probabilities of shape {tuple(log_probs_BTL.shape)}, frames of "
            f"{tuple(frames_B.shape)}, lengths of {tuple(lengths_B.shape)}; expected [B, T, L], [B] and [B]"
        )
    if log_probs_BTL.is_cpu and log_probs_BTL.shape[2] > 0:
        library = _native.load()
        if library is not None:
            return monotonic_native(library, log_probs_BTL, frames_B, lengths_B)
        _library.warn_slow("ctc.monotonic_alignment")
    return monotonic_torch(log_probs_BTL, frames_B, lengths_B)


def monotonic_native(library: ctypes.CDLL, log_probs_BTL: Tensor, frames_B: Tensor, lengths_B: Tensor) -> Tensor:
    """One byte per frame and token; ValueError where frames or lengths exceed the log-probabilities."""
    scores_BTL = on_host(log_probs_BTL)
    batch, frames, tokens = scores_BTL.shape
    frames_B, lengths_B = frames_B.cpu().long().contiguous(), lengths_B.cpu().long().contiguous()
    if batch and (frames_B.max() > frames or lengths_B.max() > tokens or min(frames_B.min(), lengths_B.min()) < 0):
        raise ValueError(
            f"monotonic_alignment: up to {int(frames_B.max())} frames and {int(lengths_B.max())} tokens; "
            f"the log-probabilities have {frames} and {tokens}"
        )
    durations_BL = torch.empty(batch, tokens, dtype=torch.int64)
    threads = min(torch.get_num_threads(), max(batch, 1))
    workspace = torch.empty(library.ctc_monotonic_workspace(frames, tokens, threads), dtype=torch.uint8)
    inputs = (_native.scores(scores_BTL), frames_B, lengths_B, threads)
    library.ctc_monotonic(*inputs, durations_BL, workspace, workspace.numel())
    return durations_BL


@torch.no_grad()
def monotonic_torch(log_probs_BTL: Tensor, frames_B: Tensor, lengths_B: Tensor) -> Tensor:
    """Four operations per token for all frames of the batch, since a device is told each of them.

    With S_l(t) the sum of token l's log-probabilities up to frame t, the best alignment of frames 0 … t that ends in
    token l has the score  S_l(t) + max over u <= t of (best of token l-1 at u-1) - S_l(u-1),  and u is where l begins.
    """
    batch, frames, tokens = log_probs_BTL.shape
    sums_LBT = log_probs_BTL.double().clamp(min=LEAST).cumsum(1).permute(2, 0, 1).contiguous()
    earlier_LBT = F.pad(sums_LBT, (1, -1))
    begins_LBT = torch.empty(sums_LBT.shape, dtype=torch.int64, device=sums_LBT.device)
    before_BT = F.pad(sums_LBT.new_zeros(batch, 1), (0, frames), value=-torch.inf)  # token 0 begins at frame 0
    scores_BT, best_BT = sums_LBT.new_empty(2, batch, frames)
    for token, (sums_BT, earlier_BT, begins_BT) in enumerate(
        zip(sums_LBT.unbind(), earlier_LBT.unbind(), begins_LBT.unbind(), strict=True)
    ):
        torch.sub(before_BT[:, :-1], earlier_BT, out=scores_BT)
        torch.cummax(scores_BT, 1, out=(best_BT, begins_BT))
        torch.add(best_BT, sums_BT, out=before_BT[:, 1:])
        if token == 0:
            before_BT[:, 0] = -torch.inf

    token_L11 = torch.arange(tokens, device=begins_LBT.device)[:, None, None]
    # The last frame of the token before, by that of each token; beyond an utterance's tokens the same.
    same_T = torch.arange(frames, device=begins_LBT.device)
    last_LBT = torch.where(token_L11 < lengths_B[:, None], (begins_LBT - 1).clamp(min=0), same_T)
    lasts = [(frames_B - 1).clamp(min=0)[:, None]]
    for last_BT in reversed(last_LBT.unbind()[1:]):
        lasts.append(last_BT.gather(1, lasts[-1]))
    last_BL = torch.cat(lasts[::-1], 1)
    is_token_BL = (token_L11[:, 0].mT < lengths_B[:, None]) & (lengths_B <= frames_B)[:, None]
    return torch.where(is_token_BL, last_BL - F.pad(last_BL, (1, -1), value=-1), 0)
