"""Slow and obvious CTC losses: the path taken without the native library, and what the kernels are tested against.

Shapes: T frames, B utterances, V classes, L labels of one utterance.
Source: Graves et al., Connectionist Temporal Classification, ICML 2006.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ctc.alignment.align import split_stars

NEARLY_MINUS_INFINITY = -1e30
"""Stands for -inf where torch would answer NaN; a loss beyond half of it is infinite."""


def torch_losses(
    logits_TBV: Tensor, targets_BL: Tensor, input_lengths_B: Tensor, target_lengths_B: Tensor, blank: int
) -> Tensor:
    """Loss of every utterance from `torch.nn.functional.ctc_loss`, with its corner cases put right.

    An impossible alignment costs inf and has gradient 0 (torch: NaN), frames behind an utterance's length are never
    looked at, and -inf logits leave the gradient of the others finite. Half types are computed in float32.
    """
    frames, batch, _ = logits_TBV.shape
    if batch == 0:
        return logits_TBV.sum(dim=(0, 2)).to(_wide(logits_TBV.dtype))
    possible_B = input_lengths_B >= frames_needed(targets_BL, target_lengths_B)
    computed_B = possible_B & (input_lengths_B > 0)
    is_frame_TB = torch.arange(frames, device=logits_TBV.device)[:, None] < input_lengths_B
    x_TBV = logits_TBV.to(_wide(logits_TBV.dtype))
    x_TBV = torch.where((is_frame_TB & computed_B)[:, :, None], x_TBV, 0.0)
    x_TBV = torch.where(x_TBV == -math.inf, NEARLY_MINUS_INFINITY, x_TBV)
    if frames == 0:
        return torch.where(possible_B, 0.0, math.inf).to(x_TBV.dtype) + x_TBV.sum()
    is_label_BL = torch.arange(targets_BL.shape[1], device=targets_BL.device) < target_lengths_B[:, None]
    filler = 0 if blank != 0 else min(1, logits_TBV.shape[2] - 1)
    losses_B = F.ctc_loss(
        F.log_softmax(x_TBV, dim=2),
        torch.where(is_label_BL, targets_BL, filler),
        torch.where(computed_B, input_lengths_B, 1),
        torch.where(computed_B, target_lengths_B, 0),
        blank=blank,
        reduction="none",
    )
    losses_B = torch.where(computed_B, losses_B.clamp(min=0), 0.0)
    hopeless_B = ~possible_B | (losses_B > -NEARLY_MINUS_INFINITY / 2)
    return torch.where(hopeless_B, math.inf, losses_B)


def star_losses(
    logits_TBV: Tensor, targets_BL: Tensor, input_lengths_B: Tensor, target_lengths_B: Tensor, blank: int, star: int
) -> Tensor:
    """Loss of every utterance whose targets may hold `star`, any number of frames of anything.

    An alignment gives every frame to a label, or to the gap before a label or behind the last. Frames in a gap are
    blank; in a gap where a star stands they are anything, and count with the probability of all classes together, 1.
    Equal neighbours need a frame in the gap between them. The loss is minus the log of the sum over all
    alignments. It may be below 0: of frames that repeat the label beside a star, each may be given to either, so
    that one sequence of classes is summed more than once.
    Source: Cai et al., W-CTC: a Connectionist Temporal Classification Loss with Wild Cards, ICLR 2022, whose wild
    card likewise weighs 1.
    """
    wide = _wide(logits_TBV.dtype)
    losses = []
    for item, (frames, count) in enumerate(zip(input_lengths_B.tolist(), target_lengths_B.tolist(), strict=True)):
        x_TV = logits_TBV[:frames, item].to(wide)
        x_TV = torch.where(x_TV == -math.inf, NEARLY_MINUS_INFINITY, x_TV)
        labels, is_star = split_stars(targets_BL[item, :count].tolist(), star)
        loss = _star_loss(x_TV.log_softmax(1), labels, is_star, blank)
        losses.append(torch.where(loss > -NEARLY_MINUS_INFINITY / 2, math.inf, loss))
    return torch.stack(losses) if losses else logits_TBV.sum(dim=(0, 2)).to(wide)


def _star_loss(log_probs_TV: Tensor, labels: list[int], is_star: list[bool], blank: int) -> Tensor:
    index_L = torch.tensor(labels, dtype=torch.int64, device=log_probs_TV.device)
    is_star_G = torch.tensor(is_star, device=log_probs_TV.device)
    may_skip_L = torch.ones(len(labels), dtype=torch.bool, device=log_probs_TV.device)
    may_skip_L[1:] = index_L[1:] != index_L[:-1]
    impossible_L = log_probs_TV.new_full((len(labels),), NEARLY_MINUS_INFINITY)
    label_L = impossible_L
    gap_G = log_probs_TV.new_full((len(labels) + 1,), NEARLY_MINUS_INFINITY)
    gap_G = torch.cat([gap_G.new_zeros(1), gap_G[1:]])  # before the first frame: in the first gap
    for log_probs_V in log_probs_TV:
        entering_G = torch.cat([gap_G.new_full((1,), NEARLY_MINUS_INFINITY), label_L])
        skipping_L = torch.where(may_skip_L, entering_G[:-1], impossible_L)
        label_L = torch.stack([label_L, gap_G[:-1], skipping_L]).logsumexp(0) + log_probs_V[index_L]
        gap_G = torch.logaddexp(gap_G, entering_G) + torch.where(is_star_G, 0.0, log_probs_V[blank])
    return -torch.cat([gap_G[-1:], label_L[-1:]]).logsumexp(0)


def regularisation(
    logits_TBV: Tensor, input_lengths_B: Tensor, label_smoothing: float, entropy_weight: float
) -> Tensor:
    """label_smoothing * KL(uniform || p) - entropy_weight * entropy(p), summed over the frames of each utterance."""
    is_frame_TB = torch.arange(logits_TBV.shape[0], device=logits_TBV.device)[:, None] < input_lengths_B
    x_TBV = torch.where(is_frame_TB[:, :, None], logits_TBV.to(_wide(logits_TBV.dtype)), 0.0)
    log_p_TBV = x_TBV.log_softmax(2)
    divergence_TB = -log_p_TBV.mean(2) - math.log(logits_TBV.shape[2])
    entropy_TB = -(log_p_TBV.exp() * log_p_TBV).sum(2)
    return ((label_smoothing * divergence_TB - entropy_weight * entropy_TB) * is_frame_TB).sum(0)


def frames_needed(targets_BL: Tensor, target_lengths_B: Tensor) -> Tensor:
    """Fewest frames that can carry each utterance's labels: one per label and one blank between equal neighbours."""
    position_L = torch.arange(targets_BL.shape[1], device=targets_BL.device)[1:]
    is_repeat_BL = (targets_BL[:, 1:] == targets_BL[:, :-1]) & (position_L < target_lengths_B[:, None])
    return target_lengths_B + is_repeat_BL.sum(dim=1)


def padded_targets(targets: Tensor, target_lengths_B: Tensor, longest: int) -> Tensor:
    """Concatenated labels as [B, longest], filled up with whatever label is next; padded ones as they are."""
    if targets.dim() == 2 or targets.numel() == 0:
        return targets.reshape(len(target_lengths_B), -1)
    starts_B = target_lengths_B.cumsum(0) - target_lengths_B
    index_BL = starts_B[:, None] + torch.arange(longest, device=targets.device)
    return targets[index_BL.clamp(max=targets.numel() - 1)]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
