"""Slow and obvious CTC losses: the path taken without the native library, and what the kernels are tested against.

Shapes: T frames, B utterances, V classes, L labels of one utterance.
Source: Graves et al., Connectionist Temporal Classification, ICML 2006.
"""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

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


def brute_force_loss(logits_TV: Tensor, labels: list[int], blank: int = 0) -> Tensor:
    """Loss of one tiny utterance: minus the log of the summed probability of all V**T paths. Differentiable."""
    log_probs_TV = logits_TV.double().log_softmax(dim=1)
    frames, classes = logits_TV.shape
    scores = [
        sum((log_probs_TV[t, k] for t, k in enumerate(path)), start=logits_TV.new_zeros((), dtype=torch.float64))
        for path in itertools.product(range(classes), repeat=frames)
        if collapse(path, blank) == labels
    ]
    if not scores:
        return logits_TV.new_full((), math.inf, dtype=torch.float64)
    return -torch.logsumexp(torch.stack(scores), dim=0)


def collapse(path: tuple[int, ...] | list[int], blank: int = 0) -> list[int]:
    """The labels that a path of classes spells: repetitions merged, then blanks removed."""
    return [k for k, _ in itertools.groupby(path) if k != blank]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
