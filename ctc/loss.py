"""The CTC loss, a drop-in for `torch.nn.functional.ctc_loss`.

The gradient is computed together with the loss, so that backward only hands it on: one pass over the logits, one
over the gradient. Shapes: T frames, B utterances, V classes, L labels of the longest utterance.
Source: Graves et al., Connectionist Temporal Classification, ICML 2006; the algorithm is in `csrc/recurrence.h`.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from ctc import _compiled_loss, _cuda_library, _cuda_loss, _loss_library, reference
from ctc._library import warn_slow
from ctc._loss_library import Labels, Options
from ctc._underivable import underivable
from ctc.memory import GradientPool

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
    label_smoothing: float = 0.0,
    entropy_weight: float = 0.0,
    star: int | None = None,
    in_place: bool = False,
    pool: GradientPool | None = None,
) -> Tensor:
    """Minus the log-probability of `targets`, summed over all alignments, from logits or log-probabilities.

    logits_TBV: [T, B, V], or [B, T, V] with `batch_first`, or [T, V] for one utterance; float32, float64 or a half
    type, which is computed in float32. Both logits and log-probabilities give the same loss and the same gradient.
    targets: labels as [B, L] (what lies behind an utterance's length is ignored), or all utterances' concatenated.
    input_lengths, target_lengths: [B], tensors or sequences of ints.
    reduction: "none" gives the losses [B], "sum" their sum, "mean" the mean of loss / max(labels, 1).
    zero_infinity: an utterance whose frames cannot carry its labels costs 0, not inf. Its gradient is 0 either way.
    label_smoothing: e makes it (1 - e) CTC + e * sum over frames of KL(uniform || p), against overconfidence.
    entropy_weight: w lowers it by w * sum over frames of the entropy of p, which rewards doubt (Pereyra et al. 2017).
    star: a number that is no class. Where it stands in targets, any number of frames, or none, may hold anything: for
    transcripts that are not complete. See `reference.star_losses` for what is summed; it counts as a label in "mean".
    in_place: the gradient takes the place of the logits, which nobody may need any more. Saves its memory.
    pool: lends the memory of large gradients; see `GradientPool`.

    The loss is float64 for float64 logits, else float32. It has a first derivative only.
    Raises ValueError for shapes, lengths and labels that do not fit, TypeError for types.
    """
    compiled = None if in_place or is_compiling() else _compiled_loss.function()
    if compiled is not None:
        loss = compiled(
            logits_TBV,
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
    is_single = logits_TBV.dim() == 2
    if is_single:
        logits_TBV = logits_TBV.unsqueeze(0 if batch_first else 1)
    if batch_first:
        logits_TBV = logits_TBV.transpose(0, 1)
    labels = _checked_labels(logits_TBV, targets, input_lengths, target_lengths, is_single)
    options = Options(
        blank=blank,
        reduction=reduction,
        zero_infinity=zero_infinity,
        label_smoothing=label_smoothing,
        entropy_weight=entropy_weight,
        star=star,
    )
    if reduction not in _loss_library.REDUCTIONS:
        raise ValueError(f"reduction: expected 'none', 'mean' or 'sum', found {reduction!r}")
    if _cuda_loss.serves(logits_TBV, options):
        _cuda_loss.check_on_host(logits_TBV, options, targets, input_lengths, target_lengths)
    loss = _loss(logits_TBV, labels, options, in_place, pool)
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
            pool=self.pool,
        )


def _loss(logits_TBV: Tensor, labels: Labels, options: Options, in_place: bool, pool: GradientPool | None) -> Tensor:
    if logits_TBV.stride(2) != 1 and logits_TBV.shape[2] != 1:
        logits_TBV = logits_TBV.contiguous()
    if is_compiling():
        return _loss_op(
            logits_TBV,
            labels.targets,
            labels.input_lengths,
            labels.target_lengths,
            labels.longest,
            options.blank,
            options.reduction,
            options.zero_infinity,
            options.label_smoothing,
            options.entropy_weight,
            options.star,
            logits_TBV.requires_grad,
        )[0]
    logits_TBV = logits_TBV.resolve_neg()  # the kernels know nothing of numbers that are to be negated when read
    if _cuda_loss.serves(logits_TBV, options):
        return _cuda_loss.loss(logits_TBV, labels, options, in_place)
    if not _loss_library.is_available() or logits_TBV.device.type != "cpu":
        return _plain_loss(logits_TBV, labels, options)
    if torch.is_grad_enabled() and logits_TBV.requires_grad:
        return _Loss.apply(logits_TBV, labels, options, in_place, pool)
    return _loss_library.run(logits_TBV, labels, options, None)


class _Loss(torch.autograd.Function):
    """Loss and gradient at once, saved for backward.

    Of float16 the gradient is computed in backward, since it must be scaled (GradScaler) before it is rounded.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_TBV: Tensor, labels: Labels, options: Options, in_place: bool, pool: GradientPool | None
    ) -> Tensor:
        ctx.reduction = options.reduction
        ctx.pool = pool
        if logits_TBV.dtype == torch.float16:
            ctx.labels, ctx.options = labels, options
            ctx.save_for_backward(logits_TBV)
            return _loss_library.run(logits_TBV, labels, options, None)
        gradient_TBV = _gradient_memory(logits_TBV, in_place, pool)
        loss = _loss_library.run(logits_TBV, labels, options, gradient_TBV)
        if in_place:
            torch.autograd.graph.increment_version(logits_TBV)
        ctx.save_for_backward(gradient_TBV)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        (saved_TBV,) = ctx.saved_tensors
        gradient_TBV = _scaled_gradient(ctx, saved_TBV, gradient.detach())
        if torch.is_grad_enabled():  # create_graph
            gradient_TBV = underivable(gradient_TBV)
        return gradient_TBV, None, None, None, None


def _gradient_memory(logits_TBV: Tensor, in_place: bool, pool: GradientPool | None) -> Tensor:
    if in_place:
        return logits_TBV.detach()
    return torch.empty_like(logits_TBV) if pool is None else pool.empty_like(logits_TBV)


def _scaled_gradient(ctx: Any, saved_TBV: Tensor, by: Tensor) -> Tensor:
    """The gradient times a number, or one for every utterance; the saved tensor itself where they are 1."""
    if saved_TBV.dtype == torch.float16:
        return _half_gradient(saved_TBV, by, ctx.labels, ctx.options)
    is_one = by.item() == 1 if by.dim() == 0 else bool((by == 1).all())
    if is_one:
        return saved_TBV
    out = torch.empty_like(saved_TBV) if ctx.pool is None else ctx.pool.empty_like(saved_TBV)
    by = by if by.dim() == 0 else by[:, None]
    torch.mul(saved_TBV, by.to(saved_TBV.dtype), out=out)
    if not bool(by.isfinite().all()):  # what comes back for an infinite loss must not spoil its gradient of 0
        out.masked_fill_(saved_TBV == 0, 0)
    return out


def _half_gradient(logits_TBV: Tensor, by: Tensor, labels: Labels, options: Options) -> Tensor:
    gradient_TBV = torch.empty_like(logits_TBV)
    scale_B = by.to(torch.float32).expand(logits_TBV.shape[1]).contiguous()
    _loss_library.run(logits_TBV, labels, options, gradient_TBV, scale_B)
    return gradient_TBV


def _plain_loss(logits_TBV: Tensor, labels: Labels, options: Options) -> Tensor:
    if options.star is not None and not logits_TBV.is_cpu:
        warn_slow("ctc_loss with stars on a GPU", None)
    else:
        warn_slow("ctc_loss", "cpu" if logits_TBV.is_cpu else "cuda")
    _loss_library.check(logits_TBV, labels.on_host(), options)
    targets_BL = reference.padded_targets(labels.targets, labels.target_lengths, labels.longest)
    sizes = (labels.input_lengths, labels.target_lengths)
    if options.star is None:
        losses_B = reference.torch_losses(logits_TBV, targets_BL, *sizes, options.blank)
    else:
        losses_B = reference.star_losses(logits_TBV, targets_BL, *sizes, options.blank, options.star)
    if options.label_smoothing or options.entropy_weight:
        losses_B = (1 - options.label_smoothing) * losses_B + reference.regularisation(
            logits_TBV, labels.input_lengths, options.label_smoothing, options.entropy_weight
        )
    if options.zero_infinity:
        losses_B = torch.where(losses_B == torch.inf, 0.0, losses_B)
    if options.reduction == "none":
        return losses_B
    if options.reduction == "sum":
        return losses_B.sum()
    return (losses_B / labels.target_lengths.clamp(min=1)).sum() / max(len(losses_B), 1)


def _checked_labels(
    logits_TBV: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths, is_single: bool
) -> Labels:
    if logits_TBV.dim() != 3:
        raise ValueError(f"logits: expected 3 dimensions, or 2 for one utterance; found shape {list(logits_TBV.shape)}")
    if logits_TBV.dtype not in _loss_library.TYPES:
        raise TypeError(f"logits: expected float32, float64, float16 or bfloat16, found {logits_TBV.dtype}")
    if logits_TBV.shape[2] == 0:
        raise ValueError(f"logits: expected at least one class, found shape {list(logits_TBV.shape)}")
    if targets.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"targets: expected int32 or int64, found {targets.dtype}")
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
    return Labels(targets.to(device).contiguous(), input_lengths_B, target_lengths_B, longest)


def _checked_lengths(name: str, lengths: Lengths, batch: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    lengths_B = torch.as_tensor(lengths)
    if lengths_B.dtype == dtype and lengths_B.shape == (batch,) and lengths_B.device == device:
        return lengths_B.contiguous()
    if lengths_B.numel() != batch:
        raise ValueError(f"{name}: expected one for each of {batch} utterances, found shape {list(lengths_B.shape)}")
    if lengths_B.is_floating_point() and batch > 0:  # an empty list is one of floats to torch
        raise TypeError(f"{name}: expected integers, found {lengths_B.dtype}")
    if dtype == torch.int32:  # what is beyond it is too long still, and does not wrap around
        lengths_B = lengths_B.clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    return lengths_B.to(device, dtype).reshape(-1).contiguous()


@torch.library.custom_op("ctc::loss", mutates_args=())
def _loss_op(
    logits_TBV: Tensor,
    targets: Tensor,
    input_lengths_B: Tensor,
    target_lengths_B: Tensor,
    longest: int,
    blank: int,
    reduction: str,
    zero_infinity: bool,
    label_smoothing: float,
    entropy_weight: float,
    star: int | None,
    wants_gradient: bool,
) -> tuple[Tensor, Tensor]:
    """What `torch.compile` sees of the loss: the loss and its gradient, which is empty where it is not wanted."""
    labels = Labels(targets, input_lengths_B, target_lengths_B, longest)
    options = Options(
        blank=blank,
        reduction=reduction,  # type: ignore[arg-type]
        zero_infinity=zero_infinity,
        label_smoothing=label_smoothing,
        entropy_weight=entropy_weight,
        star=star,
    )
    gradient_TBV = torch.empty_like(logits_TBV) if wants_gradient else None
    if _cuda_loss.serves(logits_TBV, options):
        loss = _cuda_library.run(logits_TBV, labels, options, gradient_TBV)
    elif _loss_library.is_available() and logits_TBV.device.type == "cpu":
        loss = _loss_library.run(logits_TBV, labels, options, gradient_TBV)
    else:
        with torch.enable_grad():
            x_TBV = logits_TBV.detach().requires_grad_(wants_gradient)
            loss = _plain_loss(x_TBV, labels, options)
            if gradient_TBV is not None:
                gradient_TBV.copy_(torch.autograd.grad(loss.sum(), x_TBV)[0])
        loss = loss.detach()
    return loss, logits_TBV.new_empty(0) if gradient_TBV is None else gradient_TBV


@_loss_op.register_fake
def _(
    logits_TBV: Tensor,
    targets: Tensor,
    input_lengths_B: Tensor,
    target_lengths_B: Tensor,
    longest: int,
    blank: int,
    reduction: str,
    zero_infinity: bool,
    label_smoothing: float,
    entropy_weight: float,
    star: int | None,
    wants_gradient: bool,
) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if logits_TBV.dtype == torch.float64 else torch.float32
    shape = (logits_TBV.shape[1],) if reduction == "none" else ()
    gradient_TBV = torch.empty_like(logits_TBV) if wants_gradient else logits_TBV.new_empty(0)
    return logits_TBV.new_empty(shape, dtype=wide), gradient_TBV


def _save_gradient(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _op_backward(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    (gradient_TBV,) = ctx.saved_tensors
    by = gradient if gradient.dim() == 0 else gradient[:, None]
    return (gradient_TBV * by).to(gradient_TBV.dtype), *(None,) * 11


_loss_op.register_autograd(_op_backward, setup_context=_save_gradient)
