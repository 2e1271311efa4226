"""The loss as an operator of torch, with what autograd, torch.func, torch.compile and vmap want to know of it.

The gradient is computed together with the loss, so that backward only hands it on. It is the caller's own: the first
backward gives it away, scaled in place, and another computes it anew from the logits. Shapes: T frames, B utterances, V
classes, L labels of the longest utterance; N is what vmap maps over.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from ctc.bindings import _cuda_library, _loss_library
from ctc.bindings._library import warn_slow
from ctc.bindings._loss_library import LossOptions, TargetLabels
from ctc.loss import reference
from ctc.loss.memory import GradientPool, gradient_like, readable

OPTIONS = ("blank", "reduction", "zero_infinity", "label_smoothing", "entropy_weight", "star")


def loss(
    logits_TBV: Tensor, labels: TargetLabels, options: LossOptions, in_place: bool, pool: GradientPool | None
) -> Tensor:
    """The reduced loss, or the losses [B], for autograd.

    `in_place` and `pool` save memory where tensors are ordinary, and change no number.
    """
    wants_gradient = _wants_derivative(logits_TBV)
    is_half = logits_TBV.dtype == torch.float16  # scaled (GradScaler) before it is rounded, so not before backward
    arguments: tuple[Any, ...] = (
        *(logits_TBV, *labels.arrays, labels.longest, *(getattr(options, name) for name in OPTIONS)),
        *(wants_gradient and not is_half, None),
    )
    if is_traced():
        return operator(*arguments)[0]
    is_ordinary = _are_ordinary(logits_TBV, labels.targets, labels.input_lengths, labels.target_lengths)
    if not wants_gradient:
        return _compute(logits_TBV, labels, options, None, None) if is_ordinary else operator(*arguments)[0]
    memory = None if is_half or not is_ordinary else _gradient_memory(logits_TBV, in_place, pool)
    return _Loss.apply(*arguments, memory, in_place and memory is not None)[0]


def is_traced() -> bool:
    """Whether what is called now is only written down, to be computed later."""
    return is_compiling() or torch._C._is_tracing()


def _wants_derivative(logits_TBV: Tensor) -> bool:
    if torch._C._are_functorch_transforms_active():
        return True
    if torch.is_grad_enabled() and logits_TBV.requires_grad:
        return True
    is_forward_mode = torch.autograd.forward_ad._current_level >= 0
    return is_forward_mode and torch.autograd.forward_ad.unpack_dual(logits_TBV).tangent is not None


def _are_ordinary(*tensors: Tensor) -> bool:
    """Whether tensors have memory that may be read now: none is fake, traced, or belongs to a transformation."""
    is_special = is_traced() or torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0
    return not is_special and all(
        type(x) in (Tensor, nn.Parameter) and not x.is_meta and not torch._C._functorch.is_legacy_batchedtensor(x)
        for x in tensors
    )


def _gradient_memory(logits_TBV: Tensor, in_place: bool, pool: GradientPool | None) -> Tensor:
    if in_place:
        return logits_TBV.detach()
    return gradient_like(logits_TBV) if pool is None else pool.empty_like(logits_TBV)


@torch.library.custom_op(
    "ctc::loss",
    mutates_args=(),
    schema="(Tensor logits_TBV, Tensor targets, Tensor input_lengths_B, Tensor target_lengths_B, SymInt longest, "
    "SymInt blank, str reduction, bool zero_infinity, float label_smoothing, float entropy_weight, SymInt? star, "
    "bool wants_gradient, Tensor? scale_B) -> (Tensor, Tensor)",
)
def operator(logits_TBV: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    """The loss and its gradient, of which each utterance's is multiplied with `scale_B`; empty if it is not wanted."""
    (labels, options), (wants_gradient, scale_B) = _taken(arguments[:10]), arguments[10:]
    gradient_TBV = gradient_like(logits_TBV) if wants_gradient else None
    loss = _compute(logits_TBV, labels, options, gradient_TBV, scale_B)
    return loss, logits_TBV.new_empty(0) if gradient_TBV is None else gradient_TBV


def _taken(arguments: Sequence[Any]) -> tuple[TargetLabels, LossOptions]:
    """Labels and options as `operator` takes them."""
    return TargetLabels(*arguments[:4]), LossOptions(**dict(zip(OPTIONS, arguments[4:], strict=True)))


def _compute(
    logits_TBV: Tensor, labels: TargetLabels, options: LossOptions, gradient_TBV: Tensor | None, scale_B: Tensor | None
) -> Tensor:
    logits_TBV = readable(logits_TBV)
    if scale_B is not None:
        scale_B = scale_B.to(torch.float64 if logits_TBV.dtype == torch.float64 else torch.float32).contiguous()
    if _cuda_library.serves(logits_TBV):
        return _cuda_library.run(logits_TBV, labels, options, gradient_TBV, scale_B)
    if _loss_library.is_available() and logits_TBV.device.type == "cpu":
        return _loss_library.run(logits_TBV, labels, options, gradient_TBV, scale_B)
    return _plain_loss(logits_TBV, labels, options, gradient_TBV, scale_B)


@operator.register_fake
def _(logits_TBV: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    reduction, wants_gradient = arguments[5], arguments[10]
    wide = torch.float64 if logits_TBV.dtype == torch.float64 else torch.float32
    shape = (logits_TBV.shape[1],) if reduction == "none" else ()
    gradient_TBV = gradient_like(logits_TBV) if wants_gradient else logits_TBV.new_empty(0)
    return logits_TBV.new_empty(shape, dtype=wide), gradient_TBV


class _Loss(torch.autograd.Function):
    """`operator` as autograd and torch.func see it; `memory`, where it is not None, is filled with the gradient."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        memory, in_place = arguments[13:]
        if memory is None:
            return operator(*arguments[:13])
        logits_TBV = arguments[0]
        loss = _compute(logits_TBV, *_taken(arguments[1:11]), memory, None)
        if in_place:
            torch.autograd.graph.increment_version(logits_TBV)
        return loss, logits_TBV.new_empty(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        memory, in_place = inputs[13:] or (None, False)
        wants_gradient = inputs[11]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])
        ctx.options = inputs[4:11]
        ctx.input_count = len(inputs)
        ctx.gradient_TBV = memory if memory is not None else output[1] if wants_gradient else None
        if not in_place:
            ctx.save_for_backward(*inputs[:4])
            ctx.save_for_forward(*inputs[:4])

    @staticmethod
    def backward(ctx: Any, by: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        nothing = (None,) * (ctx.input_count - 1)
        if by is None:
            return None, *nothing
        gradient_TBV, ctx.gradient_TBV = ctx.gradient_TBV, None
        if gradient_TBV is None:
            if not ctx.saved_tensors:
                raise RuntimeError("ctc_loss: a second backward needs the logits, which in_place=True has overwritten")
            logits_TBV, *labels = ctx.saved_tensors
            is_half = logits_TBV.dtype == torch.float16
            scale_B = by.expand(logits_TBV.shape[1]) if is_half else None
            if _are_ordinary(*ctx.saved_tensors, by):  # the operator cannot derive the plain loss
                gradient_TBV = gradient_like(logits_TBV)
                _compute(logits_TBV, *_taken((*labels, *ctx.options)), gradient_TBV, scale_B)
            else:
                gradient_TBV = operator(*ctx.saved_tensors, *ctx.options, True, scale_B)[1]
            by = torch.ones_like(by) if is_half else by
        gradient_TBV = _scaled(gradient_TBV, by)
        if torch.is_grad_enabled():
            gradient_TBV = _Underivable.apply(gradient_TBV, by, *ctx.saved_tensors[:1])
        return gradient_TBV, *nothing

    @staticmethod
    def jvp(ctx: Any, tangent_TBV: Tensor, *_: Any) -> tuple[Tensor, None]:
        logits_TBV = ctx.saved_tensors[0]
        gradient_TBV = ctx.gradient_TBV
        if gradient_TBV is None:  # of float16, which float32 has to stand for until all is added up
            arguments = (logits_TBV.float(), *ctx.saved_tensors[1:], *ctx.options)
            gradient_TBV = operator(*arguments, True, None)[1]
        wide = torch.float64 if logits_TBV.dtype == torch.float64 else torch.float32
        product_TBV = _Underivable.apply(gradient_TBV, logits_TBV).to(wide) * tangent_TBV
        return product_TBV.sum((0, 2)) if ctx.options[2] == "none" else product_TBV.sum(), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return _mapped(lambda *inputs: _Loss.apply(*inputs, None, False), info, in_dims, *arguments[:13])


def _mapped(
    call: Callable[..., tuple[Tensor, Tensor]], info: Any, in_dims: tuple[int | None, ...], *arguments: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int | None]]:
    """One call for all that vmap maps over, as one batch of N * B utterances."""

    def placed(number: int, place: int) -> Tensor:
        x, dim = arguments[number], in_dims[number]
        if dim is not None:
            return x.movedim(dim, place)
        return x.unsqueeze(place).expand(*x.shape[:place], info.batch_size, *x.shape[place:])

    logits_TNBV = placed(0, 1)
    targets_N, frames_NB, counts_NB = (placed(number, 0) for number in (1, 2, 3))
    batch = frames_NB.shape[1]
    reduction, wants_gradient = arguments[6], arguments[11]
    losses, gradient = call(
        logits_TNBV.flatten(1, 2).contiguous(),
        targets_N.flatten(0, 1),
        frames_NB.flatten(),
        counts_NB.flatten(),
        arguments[4],
        arguments[5],
        "none",
        *arguments[7:12],
        None if arguments[12] is None else placed(12, 0).flatten(),
    )
    losses_NB = losses.unflatten(0, (info.batch_size, batch))
    weight_NB = torch.ones_like(losses_NB)
    if reduction == "mean":
        weight_NB = weight_NB / (counts_NB.clamp(min=1) * max(batch, 1))
    reduced = losses_NB if reduction == "none" else (losses_NB * weight_NB).sum(1)
    if not wants_gradient:
        return (reduced, gradient), (0, None)
    gradient_TNBV = gradient.unflatten(1, (info.batch_size, batch)) * weight_NB[:, :, None].to(gradient.dtype)
    return (reduced, gradient_TNBV), (0, 1)


operator.register_autograd(_Loss.backward, setup_context=_Loss.setup_context)
operator.register_vmap(lambda info, in_dims, *arguments: _mapped(operator, info, in_dims, *arguments))


def _scaled(gradient_TBV: Tensor, by: Tensor) -> Tensor:
    """The gradient times a number, or one for every utterance; in place where that is possible.

    What comes back for an infinite loss must not spoil its gradient of 0. `CtcLossBackward` of csrc/torch/binding.cpp
    is the same for what is ordinary.
    """
    if not _are_ordinary(gradient_TBV, by):
        factor = by if by.dim() == 0 else by[:, None]
        return torch.where(gradient_TBV == 0, 0, gradient_TBV * factor.to(gradient_TBV.dtype))
    by = by.detach()
    if _cuda_library.serves(gradient_TBV):
        _cuda_library.scale(gradient_TBV, by)  # whether it is needed only the device knows
        return gradient_TBV
    if bool((by == 1).all()):
        return gradient_TBV
    nothing_TBV = None if bool(by.isfinite().all()) else gradient_TBV == 0
    gradient_TBV *= (by if by.dim() == 0 else by[:, None]).to(gradient_TBV.dtype)
    return gradient_TBV if nothing_TBV is None else gradient_TBV.masked_fill_(nothing_TBV, 0)


class _Underivable(torch.autograd.Function):
    """A gradient where a graph of it is wanted: to differentiate it by what it comes from is an error, not 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient_TBV: Tensor, *_: Tensor) -> Tensor:
        return gradient_TBV.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, ...]:
        raise RuntimeError("ctc_loss has a first derivative only, but its gradient is being differentiated")

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Tensor:
        raise RuntimeError("ctc_loss has a first derivative only, but its gradient is being differentiated")


def _plain_loss(
    logits_TBV: Tensor, labels: TargetLabels, options: LossOptions, gradient_TBV: Tensor | None, scale_B: Tensor | None
) -> Tensor:
    warn_slow("ctc_loss", _cuda_library.why_missing(logits_TBV.device))
    _loss_library.check(logits_TBV, labels.on_host(), options)
    with torch.enable_grad():
        wide = torch.float64 if logits_TBV.dtype == torch.float64 else torch.float32
        x_TBV = logits_TBV.detach().to(wide).requires_grad_(gradient_TBV is not None)
        losses_B = _plain_losses(x_TBV, labels, options)
        weight_B = labels.target_lengths.clamp(min=1) * max(len(losses_B), 1) if options.reduction == "mean" else 1
        if gradient_TBV is not None:
            shares_B = losses_B / weight_B if scale_B is None else losses_B / weight_B * scale_B
            gradient_TBV.copy_(torch.autograd.grad(shares_B.sum(), x_TBV)[0])
    losses_B = losses_B.detach()
    return losses_B if options.reduction == "none" else (losses_B / weight_B).sum()


def _plain_losses(x_TBV: Tensor, labels: TargetLabels, options: LossOptions) -> Tensor:
    targets_BL = reference.padded_targets(labels.targets, labels.target_lengths, labels.longest)
    sizes = (labels.input_lengths, labels.target_lengths)
    if options.star is None:
        losses_B = reference.torch_losses(x_TBV, targets_BL, *sizes, options.blank)
    else:
        losses_B = reference.star_losses(x_TBV, targets_BL, *sizes, options.blank, options.star)
    if options.label_smoothing or options.entropy_weight:
        losses_B = (1 - options.label_smoothing) * losses_B + reference.regularisation(
            x_TBV, labels.input_lengths, options.label_smoothing, options.entropy_weight
        )
    return torch.where(losses_B == torch.inf, 0.0, losses_B) if options.zero_infinity else losses_B
