"""The CTC loss, a drop-in for `torch.nn.functional.ctc_loss`.

The gradient is computed together with the loss, so that backward only hands it on: one pass over the logits, one
over the gradient. Shapes: T frames, B utterances, V classes, L labels of the longest utterance.
Source: Graves et al., Connectionist Temporal Classification, ICML 2006; the algorithm is in `csrc/recurrence.h`.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ctc.bindings import _compiled_loss, _cuda_library, _loss_library
from ctc.bindings._loss_library import LossOptions, TargetLabels
from ctc.inputs import integer_tensor
from ctc.loss import _loss_operator
from ctc.loss.memory import GradientPool, check_no_overlap, readable

Lengths = Tensor | Sequence[int]
Reduction = Literal["none", "mean", "sum"]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
    *,
    batch_first: bool = False,
    label_smoothing: float = 0.0,
    entropy_weight: float = 0.0,
    star: int | None = None,
    in_place: bool = False,
    pool: GradientPool | None = None,
) -> Tensor:
    """Minus the log-probability of `targets`, summed over all alignments, from logits or log-probabilities.

    log_probs: [T, B, V], or [B, T, V] with `batch_first`, or [T, V] for one utterance; float32, float64 or a half
    type, which is computed in float32. Both logits and log-probabilities give the same loss and the same gradient.
    targets: labels as [B, L] (what lies behind an utterance's length is ignored), or all utterances' concatenated; of
    any type of numbers, fractions are cut off.
    input_lengths, target_lengths: [B], tensors of integers or sequences of ints.
    reduction: "none" gives the losses [B], "sum" their sum, "mean" the mean of loss / max(labels, 1).
    zero_infinity: an utterance whose frames cannot carry its labels costs 0, not inf. Its gradient is 0 either way.
    label_smoothing: e makes it (1 - e) CTC + e * sum over frames of KL(uniform || p), against overconfidence.
    entropy_weight: w lowers it by w * sum over frames of the entropy of p, which rewards doubt (Pereyra et al. 2017).
    star: a number that is no class. Where it stands in targets, any number of frames, or none, may hold anything: for
    transcripts that are not complete. See `reference.star_losses` for what is summed; it counts as a label in "mean".
    in_place: the gradient takes the place of the logits, which nobody may need any more. Saves its memory.
    pool: lends the memory of large gradients; see `GradientPool`.

    The loss is float64 for float64 logits, else float32. It has a first derivative only, in backward and in forward
    mode; `torch.func.grad`, `vmap`, `jacrev` and `jvp` take it, and so do `torch.compile` and fake and meta tensors.
    Raises ValueError for shapes, lengths and labels that do not fit, TypeError for types; RuntimeError for a second
    derivative.
    """
    compiled = None if in_place or _loss_operator.is_traced() else _compiled_loss.function()
    if compiled is not None:
        loss = compiled(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank,
            reduction,
            zero_infinity,
            batch_first,
            label_smoothing,
            entropy_weight,
            star,
            pool,
        )
        if loss is not None:
            return loss
    logits_TBV = log_probs
    is_single = logits_TBV.dim() == 2
    if is_single:
        logits_TBV = logits_TBV.unsqueeze(0 if batch_first else 1)
    if batch_first:
        logits_TBV = logits_TBV.transpose(0, 1)
    labels = _checked_labels(logits_TBV, targets, input_lengths, target_lengths, is_single)
    options = LossOptions(
        blank=blank,
        reduction=reduction,
        zero_infinity=zero_infinity,
        label_smoothing=label_smoothing,
        entropy_weight=entropy_weight,
        star=star,
    )
    if reduction not in _loss_library.REDUCTIONS:
        raise ValueError(f"reduction: expected 'none', 'mean' or 'sum', found {reduction!r}")
    if _cuda_library.serves(logits_TBV):
        _cuda_library.check_on_host(logits_TBV, options, targets, input_lengths, target_lengths)
    if in_place:
        check_no_overlap(logits_TBV)
        logits_TBV = readable(logits_TBV)
    loss = _loss_operator.loss(logits_TBV, labels, options, in_place, pool)
    return loss[0] if is_single and reduction == "none" else loss


class CTCLoss(nn.Module):
    """`ctc_loss` as a module, with the arguments of `torch.nn.CTCLoss`.

    It keeps the memory of its last large gradient for the next one, as much as one batch of logits; see
    `GradientPool`. `reuse_memory=False` gives it back every time.
    """

    def __init__(
        self,
        blank: int = 0,
        reduction: Reduction = "mean",
        zero_infinity: bool = False,
        *,
        batch_first: bool = False,
        reuse_memory: bool = True,
    ) -> None:
        super().__init__()
        self.blank = blank
        self.reduction: Reduction = reduction
        self.zero_infinity = zero_infinity
        self.batch_first = batch_first
        self.pool = GradientPool() if reuse_memory else None

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths) -> Tensor:
        """See `ctc_loss`."""
        return ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
            batch_first=self.batch_first,
            pool=self.pool,
        )


def _checked_labels(
    logits_TBV: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths, is_single: bool
) -> TargetLabels:
    if logits_TBV.dim() != 3:
        raise ValueError(f"logits: expected 3 dimensions, or 2 for one utterance; found shape {list(logits_TBV.shape)}")
    if logits_TBV.dtype not in _loss_library.TYPES:
        raise TypeError(f"logits: expected float32, float64, float16 or bfloat16, found {logits_TBV.dtype}")
    if logits_TBV.shape[2] == 0:
        raise ValueError(f"logits: expected at least one class, found shape {list(logits_TBV.shape)}")
    if not isinstance(targets, Tensor):
        raise TypeError(f"targets: expected a tensor, found {type(targets).__name__}")
    if targets.is_complex():
        raise TypeError(f"targets: expected numbers of classes, found {targets.dtype}")
    if targets.dtype not in (torch.int32, torch.int64):
        targets = targets.to(torch.int64)
    batch = logits_TBV.shape[1]
    if targets.dim() not in (1, 2) or (targets.dim() == 2 and targets.shape[0] != batch):
        raise ValueError(
            f"targets: expected [{batch}, labels] or all labels in one dimension, found shape {list(targets.shape)}"
        )
    device, dtype = logits_TBV.device, targets.dtype
    input_lengths_B = _checked_lengths("input_lengths", input_lengths, batch, device, dtype)
    target_lengths_B = _checked_lengths("target_lengths", target_lengths, batch, device, dtype)
    longest = targets.shape[1] if targets.dim() == 2 else targets.shape[0]
    if is_single and targets.dim() == 1:
        longest = targets.shape[0]
    return TargetLabels(targets.to(device).contiguous(), input_lengths_B, target_lengths_B, longest)


def _checked_lengths(name: str, lengths: Lengths, batch: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    lengths_B = integer_tensor(lengths, name=name)
    if lengths_B.dtype == dtype and lengths_B.shape == (batch,) and lengths_B.device == device:
        return lengths_B.contiguous()
    if lengths_B.numel() != batch:
        raise ValueError(f"{name}: expected one for each of {batch} utterances, found shape {list(lengths_B.shape)}")
    lengths_B = lengths_B.long()
    if dtype == torch.int32:  # what is beyond it is too long still, and does not wrap around
        lengths_B = lengths_B.clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    return lengths_B.to(device, dtype).reshape(-1).contiguous()
