"""Optimisers whose step never waits for the device.

Legend: P parameters of one group that have a gradient.

What an optimiser decides per tensor (a norm, a trust ratio) stays on the device as a tensor, and so does whether a step
in fp16 is taken at all. On a CPU, where memory is the limit, the operations of a step are done on one stretch of a
parameter after the other, which stays in the cache.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

# Values per stretch on a CPU: three tensors of 1 MiB fit the last-level cache, and calls are few. Chosen by benchmark.
CPU_STRETCH = 2**18

_INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int16}
_INTEGERS |= {torch.float16: torch.int16}

Tensors = list[Tensor]
Stretch = tuple[Tensors, Tensors, Tensors, Tensors]


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """Which optimiser, and its numbers."""

    kind: Literal["novograd", "lamb", "adamw"] = "novograd"
    """Optimiser: NovoGrad as for Jasper, LAMB as for FastPitch, or AdamW."""
    lr: float = 0.01
    """Peak of the learning rate; the schedule scales it."""
    betas: tuple[float, float] | None = None
    """Decay of the first and second moments. Default: (0.95, 0) for NovoGrad, (0.9, 0.999) for the others."""
    eps: float | None = None
    """Number added to the denominator against a division by zero. Default: 1e-8; 1e-6 for LAMB."""
    weight_decay: float = 1e-3
    """Weight decay: factor of the pull of every parameter towards zero."""
    max_skipped: int = 10
    """Steps in a row whose gradients are not finite, and which are skipped, after which the run ends."""

    def __post_init__(self) -> None:
        if self.max_skipped < 1:
            raise ValueError(f"max_skipped = {self.max_skipped}: expected at least 1")
        given = {name: getattr(self, name) for name in ("betas", "eps") if getattr(self, name) is not None}
        _check_options(lr=self.lr, weight_decay=self.weight_decay, **given)


def build_optimizer(parameters: Iterable[Tensor], cfg: OptimConfig) -> Optimizer:
    """The optimiser of `cfg` over `parameters`."""
    given = {name: getattr(cfg, name) for name in ("betas", "eps") if getattr(cfg, name) is not None}
    options = {"lr": cfg.lr, "weight_decay": cfg.weight_decay, **given}
    if cfg.kind == "novograd":
        return NovoGrad(parameters, **options)
    if cfg.kind == "lamb":
        return Lamb(parameters, **options)
    return AdamW(parameters, fused=True, **options)


def _call_without_compiler() -> None:
    """Lets the methods of torch's optimisers run without torch's compiler.

    They are marked as not to be compiled, and to heed the mark they import the compiler at their first call, sympy with
    it: more than a second of a core for every training, and every process of it. No optimiser is compiled here.
    """
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        plain = getattr(getattr(Optimizer, name), "__wrapped__", None)
        if plain is not None and not hasattr(plain, "__dynamo_disable"):
            setattr(plain, "__dynamo_disable", plain)


_call_without_compiler()


class AdamW(torch.optim.AdamW):
    """AdamW of torch (Loshchilov and Hutter 2019)."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))  # as `_call_without_compiler` says


class NovoGrad(Optimizer):
    """Momentum over gradients that are normalised per tensor (Ginsburg et al. 2019), in Jasper's form.

    With v the decayed ||g||² of a tensor (the first one as it is) and m its momentum:
    m = β₁ m + g / (√v + eps) + weight_decay w;  w = w - lr m. No bias correction. State names are those of Jasper's
    published checkpoints.
    """

    _step_supports_amp_scaling = True  # torch's GradScaler gives `grad_scale` and `found_inf`, and does not ask

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 0.01,
        betas: tuple[float, float] = (0.95, 0.0),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        _check_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every parameter that has a gradient; only a GradScaler's scale is taken out of gradients."""
        loss = _evaluate(closure)
        with _if_finite(self, self._state_of):
            for group in self.param_groups:
                weights, grads = _with_gradient(group)
                if weights:
                    self._update(weights, grads, group)
        return loss

    def _update(self, weights: Tensors, grads: Tensors, group: dict[str, Any]) -> None:
        states = [self._state_of(weight) for weight in weights]
        scales = _novograd_scales([state["exp_avg_sq"] for state in states], grads, group["betas"][1], group["eps"])
        momenta = [state["exp_avg"] for state in states]
        for stretch in stretches(weights, grads, momenta, scales):
            _novograd_(*stretch, group["lr"], group["betas"][0], group["weight_decay"])

    def _state_of(self, weight: Tensor) -> dict[str, Tensor]:
        state = self.state[weight]
        if not state:
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros((), device=weight.device)
        return state


def _novograd_scales(moments: Tensors, grads: Tensors, beta: float, eps: float) -> Tensors:
    """Updates the second moments and returns 1 / (√v + eps) of each tensor."""
    energy_P = torch.stack(torch._foreach_norm(grads)).float().square()
    moment_P = torch.stack(moments)
    moment_P = torch.where(moment_P == 0, energy_P, beta * moment_P + (1 - beta) * energy_P)
    torch._foreach_copy_(moments, list(moment_P.unbind()))
    return list((1 / (moment_P.sqrt() + eps)).unbind())


def _novograd_(
    weights: Tensors, grads: Tensors, momenta: Tensors, scales: Tensors, lr: float, beta: float, weight_decay: float
) -> None:
    torch._foreach_mul_(momenta, beta)
    if weight_decay:
        torch._foreach_add_(momenta, weights, alpha=weight_decay)
    torch._foreach_addcmul_(momenta, grads, scales)
    torch._foreach_add_(weights, momenta, alpha=-lr)


class Lamb(Optimizer):
    """Adam with a trust ratio per tensor (You et al. 2020), in the form that FastPitch was trained with.

    Gradients are divided by max(1, norm of all of them / max_grad_norm). With m and v Adam's corrected moments and
    u = m / (√v + eps) + weight_decay w:  w = w - lr (||w|| / ||u||) u. The ratio is 1 where a norm is zero, and
    without weight decay.
    """

    _step_supports_amp_scaling = True  # torch's GradScaler gives `grad_scale` and `found_inf`, and does not ask

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = 1.0,
    ) -> None:
        _check_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        self.max_grad_norm = max_grad_norm
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "step": 0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every parameter that has a gradient; only a GradScaler's scale is taken out of gradients."""
        loss = _evaluate(closure)
        every_grad = [grad for group in self.param_groups for grad in _with_gradient(group)[1]]
        if not every_grad:
            return loss
        with _if_finite(self, self._state_of) as is_taken:
            shrink = (torch.stack(torch._foreach_norm(every_grad)).norm() / self.max_grad_norm).clamp(min=1)
            for group in self.param_groups:
                weights, grads = _with_gradient(group)
                group["step"] = group["step"] + is_taken
                if weights:
                    self._update(weights, list(torch._foreach_div(grads, shrink)), group)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """As of every optimiser; steps taken are a number, which a device may have counted."""
        state = super().state_dict()
        for group in state["param_groups"]:
            group["step"] = int(group["step"])
        return state

    def _update(self, weights: Tensors, grads: Tensors, group: dict[str, Any]) -> None:
        states = [self._state_of(weight) for weight in weights]
        momenta, squares = [s["exp_avg"] for s in states], [s["exp_avg_sq"] for s in states]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(momenta, grads, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, value=1 - beta2)

        divisors = torch._foreach_sqrt(squares)
        torch._foreach_div_(divisors, _bias_correction(beta2, group["step"], weights[0].dtype, is_root=True))
        torch._foreach_add_(divisors, group["eps"])
        updates = list(torch._foreach_div(momenta, divisors))
        torch._foreach_div_(updates, _bias_correction(beta1, group["step"], weights[0].dtype))
        if group["weight_decay"]:
            torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
            torch._foreach_mul_(updates, _trust_ratios(weights, updates))
        torch._foreach_add_(weights, updates, alpha=-group["lr"])

    def _state_of(self, weight: Tensor) -> dict[str, Tensor]:
        state = self.state[weight]
        if not state:
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        return state


def _bias_correction(beta: float, step: int | Tensor, dtype: torch.dtype, *, is_root: bool = False) -> float | Tensor:
    """1 - beta^step or its root; of a step that the device counts a 0-dimensional tensor of `dtype`."""
    if isinstance(step, Tensor):
        correction = 1 - beta ** step.double()
        return (correction.sqrt() if is_root else correction).to(dtype)
    return math.sqrt(1 - beta**step) if is_root else 1 - beta**step


@contextmanager
def _if_finite(optimizer: Optimizer, state_of: Callable[[Tensor], dict[str, Tensor]]) -> Iterator[int | Tensor]:
    """A step inside, of which nothing is left if `found_inf` says that gradients are not finite, without asking the
    device.

    Gives 1, or whether the step is taken as a tensor on the device. Weights and moments are copied for it, when a
    step's activations are gone; a GradScaler's scale is taken out of gradients as `GradScaler.unscale_` does.
    """
    pairs = [_with_gradient(group) for group in optimizer.param_groups]
    weights = [weight for weights, _ in pairs for weight in weights]
    found = getattr(optimizer, "found_inf", None)
    if found is None or not weights:
        yield 1
        return
    scale = getattr(optimizer, "grad_scale", None)  # none where they are unscaled already, to be clipped
    if scale is not None:
        grads = [grad for _, grads in pairs for grad in grads]
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found.clone(), scale.double().reciprocal().float())
    kept = [tensor for weight in weights for tensor in (weight, *state_of(weight).values())]
    before = [torch.empty_like(tensor) for tensor in kept]
    torch._foreach_copy_(before, kept)
    is_taken = found == 0
    yield is_taken
    # old + taken (new - old) in integers, which wrap around, and of which what was NaN is 0 when it is multiplied by 0.
    new, old = ([tensor.view(_INTEGERS[tensor.dtype]) for tensor in tensors] for tensors in (kept, before))
    torch._foreach_sub_(new, old)
    torch._foreach_mul_(new, is_taken.to(new[0].dtype))
    torch._foreach_add_(new, old)


def _trust_ratios(weights: Tensors, updates: Tensors) -> Tensors:
    weight_P, update_P = (torch.stack(torch._foreach_norm(tensors)) for tensors in (weights, updates))
    is_defined_P = (weight_P > 0) & (update_P > 0)
    return list(torch.where(is_defined_P, weight_P / update_P, 1.0).unbind())


def stretches(weights: Tensors, grads: Tensors, momenta: Tensors, scales: Tensors) -> Iterator[Stretch]:
    """All tensors at once; on a CPU one stretch of one parameter after the other."""
    if weights[0].device.type != "cpu":
        yield weights, grads, momenta, scales
        return
    for weight, grad, momentum, scale in zip(weights, grads, momenta, scales, strict=True):
        same = (weight, grad, momentum)
        if weight.numel() <= CPU_STRETCH or not all(tensor.is_contiguous() for tensor in same):
            yield [weight], [grad], [momentum], [scale]
            continue
        for w, g, m in zip(*(tensor.view(-1).split(CPU_STRETCH) for tensor in same), strict=True):
            yield [w], [g], [m], [scale]


def _with_gradient(group: dict[str, Any]) -> tuple[Tensors, Tensors]:
    weights = [weight for weight in group["params"] if weight.grad is not None]
    return weights, [weight.grad for weight in weights]


def _evaluate(closure: Callable[[], float] | None) -> float | None:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _check_options(
    *, lr: float, weight_decay: float, betas: tuple[float, float] = (0.0, 0.0), eps: float = 1.0
) -> None:
    for name, value in (("lr", lr), ("weight_decay", weight_decay)):
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} = {value}: expected a number of at least 0")
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas = {tuple(betas)}: expected decays from 0 to below 1")
    if not 0 < eps < math.inf:
        raise ValueError(f"eps = {eps}: expected a number above 0")
