"""The losses of transducers from logits: RNN-T (Graves 2012) and TDT (Xu et al., ICML 2023).

Alpha and beta are float64 on a CPU, whatever the logits are; on a GPU they are pairs of floats with exponents of their
own, as exact. Both are native (`csrc/`): the loss reads the logits once, backward once more, where the gradient is not
negligible. Elsewhere plain torch computes the same (`plain_losses.py`).

Shapes: B utterances, T frames, L labels of the longest target, U positions: L + 1, W outputs: V labels and blank, and
for TDT one more per duration.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor

from ctc.inputs import integer_tensor
from ctc.loss.memory import check_no_overlap, gradient_like, readable
from fastconformer.transducer._library import warn_slow
from fastconformer.transducer.loss import _cuda_library, _loss_library
from fastconformer.transducer.loss._loss_library import GIVEN, TransducerLossOptions, TransducerTargets, given, taken
from fastconformer.transducer.loss.plain_losses import plain_losses

Lengths = Tensor | Sequence[int]
Reduction = Literal["none", "mean", "sum"]
SKIP_BELOW = 1e-9
"""Cells of the lattice with less than this of the probability of all paths, times what other sequences have of it, have
gradient 0 and are not read again."""


def rnnt_loss(
    logits_BTUV: Tensor,
    targets_BL: Tensor,
    frames_B: Lengths,
    target_lengths_B: Lengths,
    blank: int = -1,
    reduction: Reduction = "mean",
    fastemit: float = 0.0,
    *,
    skip_below: float = SKIP_BELOW,
    in_place: bool = False,
) -> Tensor:
    """Minus the log-probability of `targets_BL`, summed over all alignments, from logits [B, T, U, V].

    `blank` is a class, counted from the end if negative. `reduction`: "none" gives the losses [B], "sum" their sum,
    "mean" their mean over utterances. `fastemit`, l, multiplies the loss, and the gradient of emitting a label, by
    1 + l, which makes labels early (Yu et al. 2021).
    `skip_below`: the gradient is 0 where less of the probability of all paths goes through a cell, times 1 - p, which
    other sequences have, or 1e-4 where that is more: a model that is sure has a small gradient. 0 computes all.
    `in_place`: backward writes the gradient over the logits, which nobody may need any more; saves its memory.

    The loss is float64 for float64 logits, else float32; half types are summed in float32. An utterance without a path
    (it has no frames, or needs a class at -inf) costs inf, and its gradient is 0. NaN or +inf in a cell of an utterance
    makes its own loss and gradient NaN; anything behind its lengths has no effect and gradient 0. There is no second
    derivative. Raises ValueError for shapes, lengths and labels that do not fit, TypeError for types. Lengths and
    labels on a GPU are not waited for: where they do not fit, loss and gradient of their utterance are NaN.
    """
    options = TransducerLossOptions(blank=blank, fastemit=fastemit, skip_below=skip_below)
    return _loss(logits_BTUV, targets_BL, frames_B, target_lengths_B, options, reduction, in_place)


def tdt_loss(
    logits_BTUW: Tensor,
    targets_BL: Tensor,
    frames_B: Lengths,
    target_lengths_B: Lengths,
    durations: Sequence[int],
    blank: int = -1,
    sigma: float = 0.0,
    reduction: Reduction = "mean",
    *,
    fastemit: float = 0.0,
    skip_below: float = SKIP_BELOW,
    in_place: bool = False,
) -> Tensor:
    """As `rnnt_loss`, of labels with durations: the last outputs of a cell are logits of `durations`, in frames.

    Both parts are normalised by themselves. `durations` ascend; a blank never has duration 0; a path ends with a blank
    that lands exactly behind the last frame. `sigma` is taken off every log-probability of a label or blank. `blank`
    counts among labels and blank: -1 is the last of them.

    Raises ValueError and TypeError as `rnnt_loss`, and ValueError for durations that do not ascend from 0 or more to 1
    or more.
    """
    steps = tuple(int(d) for d in durations)
    if not steps or steps[0] < 0 or steps[-1] < 1 or any(b <= a for a, b in pairwise(steps)):
        raise ValueError(f"durations: expected ascending numbers of frames, one above 0 at least, found {list(steps)}")
    options = TransducerLossOptions(blank=blank, durations=steps, sigma=sigma, fastemit=fastemit, skip_below=skip_below)
    return _loss(logits_BTUW, targets_BL, frames_B, target_lengths_B, options, reduction, in_place)


def _loss(
    logits_BTUW: Tensor,
    targets_BL: Tensor,
    frames_B: Lengths,
    target_lengths_B: Lengths,
    options: TransducerLossOptions,
    reduction: Reduction,
    in_place: bool,
) -> Tensor:
    if logits_BTUW.dim() != 4:
        raise ValueError(
            f"logits: expected [utterance, frame, position, output], found shape {list(logits_BTUW.shape)}"
        )
    if logits_BTUW.dtype not in _loss_library.TYPES:
        raise TypeError(f"logits: expected float32, float64, float16 or bfloat16, found {logits_BTUW.dtype}")
    options = checked_options(options, logits_BTUW.shape[3])
    if logits_BTUW.shape[2] == 0:
        raise ValueError(f"logits: expected one position at least, found shape {list(logits_BTUW.shape)}")
    labels = checked_labels(logits_BTUW, logits_BTUW.shape, options, targets_BL, frames_B, target_lengths_B)
    if is_native(logits_BTUW, logits_BTUW.shape[:3], options, "the transducer loss"):
        if in_place:
            check_no_overlap(logits_BTUW)
            logits_BTUW = readable(logits_BTUW)
        wants_gradient = torch.is_grad_enabled() and logits_BTUW.requires_grad
        losses_B, _ = _losses_op(logits_BTUW, *given(labels, options), wants_gradient, in_place)
    else:
        if not torch.compiler.is_compiling() and logits_BTUW.is_cpu:
            _loss_library.check(logits_BTUW.shape, labels, options)
        losses_B = plain_losses(logits_BTUW, labels, options)
    return reduced(losses_B, reduction, logits_BTUW.dtype)


def is_native(tensor: Tensor, shape: Sequence[int], options: TransducerLossOptions, what: str) -> bool:
    """Whether kernels compute losses of `shape` [B, T, U]; says once that they do not, where `what` could be faster."""
    if _cuda_library.serves(tensor):
        if _cuda_library.can_compute(shape, options):
            return True
        warn_slow(what, "it has no kernel")
        return False
    if tensor.is_cpu and _loss_library.functions() is not None:
        return True
    warn_slow(what, _cuda_library.why_missing(tensor.device))
    return False


def reduced(losses_B: Tensor, reduction: Reduction, dtype: torch.dtype) -> Tensor:
    """The losses, their sum or mean; float64 for float64, else float32. Raises ValueError for other reductions."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction: expected 'none', 'mean' or 'sum', found {reduction!r}")
    if reduction == "sum":
        losses_B = losses_B.sum()
    elif reduction == "mean":
        losses_B = losses_B.sum() / max(len(losses_B), 1)
    return losses_B if dtype == torch.float64 else losses_B.float()


def checked_options(options: TransducerLossOptions, outputs: int) -> TransducerLossOptions:
    """`options` with the blank counted from the start. Raises ValueError for those that do not fit the outputs."""
    classes = outputs - len(options.durations)
    if classes < 1 or not -classes <= options.blank < classes:
        raise ValueError(f"blank: expected one of {max(classes, 0)} classes, found {options.blank}")
    for name in ("fastemit", "skip_below"):
        if not 0 <= getattr(options, name) < float("inf"):
            raise ValueError(f"{name}: expected a number that is not negative, found {getattr(options, name)}")
    if not abs(options.sigma) < float("inf"):
        raise ValueError(f"sigma: expected a finite number, found {options.sigma}")
    return replace(options, blank=options.blank % classes)


def checked_labels(
    like: Tensor,
    shape: Sequence[int],
    options: TransducerLossOptions,
    targets_BL: Tensor | Sequence[Sequence[int]],
    frames_B: Lengths,
    target_lengths_B: Lengths,
) -> TransducerTargets:
    """Targets and lengths as int64 on the device of `like`, for logits of `shape` [B, T, U, W].

    For a device it raises ValueError where they do not fit, if they are on the host; if not, kernels make NaN of them.
    """
    batch = shape[0]
    targets_BL = integer_tensor(targets_BL, name="targets")
    if targets_BL.dim() != 2 or len(targets_BL) != batch:
        raise ValueError(f"targets: expected [{batch}, labels], found shape {list(targets_BL.shape)}")
    lengths = []
    for name, values in (("frames", frames_B), ("target_lengths", target_lengths_B)):
        values_B = integer_tensor(values, name=name)
        if values_B.shape != (batch,):
            raise ValueError(f"{name}: expected one for each of {batch} utterances, found {list(values_B.shape)}")
        lengths.append(values_B.to(torch.int64))
    labels = TransducerTargets(targets_BL.to(torch.int64), *lengths)
    is_on_device = not like.is_cpu or _cuda_library.serves(like)
    if is_on_device and not torch.compiler.is_compiling() and all(x.is_cpu for x in labels):
        _loss_library.check(shape, labels, options)
    return TransducerTargets(*(x.to(like.device).contiguous() for x in labels))


def _kernels(tensor: Tensor) -> ModuleType:
    """The library whose memory `tensor` is in."""
    return _cuda_library if _cuda_library.serves(tensor) else _loss_library


# What `torch.compile` sees of the losses: an operator each for the loss and for its gradient.


@torch.library.custom_op(
    "transducer::losses",
    mutates_args=(),
    schema=f"(Tensor logits_BTUW, {GIVEN}, bool wants_gradient, bool in_place) -> (Tensor, Tensor)",
)
def _losses_op(logits_BTUW: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    """The losses, float64 [B], and the lattices that the gradient is made of."""
    labels, options, (wants_gradient, _) = taken(arguments)
    kernels = _kernels(logits_BTUW)
    found: tuple[Tensor, Tensor] = kernels.losses(readable(logits_BTUW), labels, options, wants_gradient=wants_gradient)
    return found


@_losses_op.register_fake
def _(logits_BTUW: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    size = torch.library.get_ctx().new_dynamic_size()
    losses_B = logits_BTUW.new_empty(logits_BTUW.shape[0], dtype=torch.float64)
    return losses_B, logits_BTUW.new_empty(size, dtype=torch.uint8)


@torch.library.custom_op(
    "transducer::gradient",
    mutates_args=(),
    schema=f"(Tensor logits_BTUW, {GIVEN}, Tensor scale_B, Tensor lattices) -> Tensor",
)
def _gradient_op(logits_BTUW: Tensor, *arguments: Any) -> Tensor:
    """The gradient of the sum of the losses times `scale_B`."""
    gradient_BTUW = gradient_like(logits_BTUW)
    _write_gradient(readable(logits_BTUW), gradient_BTUW, arguments)
    return gradient_BTUW


@_gradient_op.register_fake
def _(logits_BTUW: Tensor, *_: Any) -> Tensor:
    return gradient_like(logits_BTUW)


@torch.library.custom_op(
    "transducer::gradient_",
    mutates_args=("logits_BTUW",),
    schema=f"(Tensor(a!) logits_BTUW, {GIVEN}, Tensor scale_B, Tensor lattices) -> ()",
)
def _gradient_in_place_op(logits_BTUW: Tensor, *arguments: Any) -> None:
    """The same, over the logits."""
    _write_gradient(logits_BTUW, logits_BTUW, arguments)


def _write_gradient(logits_BTUW: Tensor, out_BTUW: Tensor, arguments: Sequence[Any]) -> None:
    labels, options, (scale_B, lattices) = taken(arguments)
    _kernels(logits_BTUW).gradient(logits_BTUW, labels, options, scale_B.contiguous(), lattices, out_BTUW)


def _save_for_gradient(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.options, ctx.in_place = inputs[4:9], inputs[10]
    ctx.save_for_backward(*inputs[:4], output[1])
    ctx.mark_non_differentiable(output[1])


def _losses_backward(ctx: Any, scale_B: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    logits_BTUW, *labels, lattices = ctx.saved_tensors
    arguments = (*labels, *ctx.options, scale_B, lattices)
    if not ctx.in_place:
        return _gradient_op(logits_BTUW, *arguments), *(None,) * 10
    logits_BTUW = logits_BTUW.detach()
    _gradient_in_place_op(logits_BTUW, *arguments)
    return logits_BTUW, *(None,) * 10


_losses_op.register_autograd(_losses_backward, setup_context=_save_for_gradient)
