"""The CTC loss, a drop-in for `torch.nn.functional.ctc_loss`.

Shapes: T frames, B utterances, V classes, L labels of the longest utterance.
Source: Graves et al., Connectionist Temporal Classification, ICML 2006.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ctc import reference
from ctc._library import warn_slow

Lengths = Tensor | Sequence[int]
Reduction = Literal["none", "mean", "sum"]


def ctc_loss(
    logits_TBV: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
    *,
    batch_first: bool = False,
) -> Tensor:
    """Minus the log-probability of `targets`, summed over all alignments, from logits or log-probabilities.

    logits_TBV: [T, B, V], or [B, T, V] with `batch_first`, or [T, V] for one utterance; float32, float64 or a half
    type, which is computed in float32. Both logits and log-probabilities give the same loss and the same gradient.
    targets: labels as [B, L] (what lies behind an utterance's length is ignored), or all utterances' concatenated.
    input_lengths, target_lengths: [B], tensors or sequences of ints.
    reduction: "none" gives the losses [B], "sum" their sum, "mean" the mean of loss / max(labels, 1).
    zero_infinity: an utterance whose frames cannot carry its labels costs 0, not inf. Its gradient is 0 either way.

    Raises ValueError for shapes, lengths and labels that do not fit, TypeError for types.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction is {reduction!r}; expected 'none', 'mean' or 'sum'")
    is_single = logits_TBV.dim() == 2
    if is_single:
        logits_TBV = logits_TBV.unsqueeze(0 if batch_first else 1)
    if batch_first:
        logits_TBV = logits_TBV.transpose(0, 1)
    warn_slow("ctc_loss")
    device = logits_TBV.device
    input_lengths_B = torch.as_tensor(input_lengths, device=device).reshape(-1)
    target_lengths_B = torch.as_tensor(target_lengths, device=device).reshape(-1)
    targets_BL = _padded(targets.to(device), target_lengths_B)
    losses_B = reference.torch_losses(logits_TBV, targets_BL, input_lengths_B, target_lengths_B, blank)
    if zero_infinity:
        losses_B = torch.where(losses_B == torch.inf, 0.0, losses_B)
    if reduction == "none":
        return losses_B[0] if is_single else losses_B
    if reduction == "sum":
        return losses_B.sum()
    return (losses_B / target_lengths_B.clamp(min=1)).mean()


class CTCLoss(nn.Module):
    """`ctc_loss` as a module, with the arguments of `torch.nn.CTCLoss`."""

    def __init__(
        self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False, *, batch_first: bool = False
    ) -> None:
        super().__init__()
        self.blank = blank
        self.reduction: Reduction = reduction
        self.zero_infinity = zero_infinity
        self.batch_first = batch_first

    def forward(self, logits_TBV: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths) -> Tensor:
        """See `ctc_loss`."""
        return ctc_loss(
            logits_TBV,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
            batch_first=self.batch_first,
        )


def _padded(targets: Tensor, target_lengths_B: Tensor) -> Tensor:
    """Concatenated labels as [B, L]; padded ones as they are."""
    if targets.dim() == 2:
        return targets
    starts_B = target_lengths_B.cumsum(0) - target_lengths_B
    longest = int(target_lengths_B.max()) if target_lengths_B.numel() else 0
    index_BL = starts_B[:, None] + torch.arange(longest, device=targets.device)
    return (
        targets[index_BL.clamp(max=max(targets.numel() - 1, 0))]
        if targets.numel()
        else targets.new_zeros((len(target_lengths_B), longest))
    )
