"""The loss under torch's transformations: derivatives in both modes, vmap, batched backward, tracing, fake tensors."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import ctc
from ctc.loss import function as loss_module
from tests.ctc.losses import random_batch

TARGETS, FRAMES, LABELS = torch.tensor([[1, 2, 2], [1, 3, 4]]), torch.tensor([9, 7]), torch.tensor([3, 2])
REDUCTIONS = ("none", "sum", "mean")
SECOND = "ctc_loss has a first derivative only"


@pytest.fixture(params=["compiled node", "operator"], autouse=True)
def with_or_without_the_node(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "operator":
        monkeypatch.setattr(loss_module._compiled_loss, "function", lambda: None)


@pytest.fixture(params=REDUCTIONS)
def loss(request: pytest.FixtureRequest):
    """The loss as a function of logits alone."""
    return lambda logits: ctc.ctc_loss(logits, TARGETS, FRAMES, LABELS, reduction=request.param)


def logits(*, dtype=torch.float64, seed=0) -> Tensor:
    return torch.randn(9, 2, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def jacobian(loss, x: Tensor) -> Tensor:
    """Rows of plain backward, one for each number of the loss; [losses, 9, 2, 5]."""
    x = x.detach().requires_grad_()
    found = loss(x).reshape(-1)
    return torch.stack([torch.autograd.grad(row, x, retain_graph=True)[0] for row in found])


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_grad_is_that_of_backward(loss):
    assert_close(torch.func.grad(lambda x: loss(x).sum())(logits()), jacobian(loss, logits()).sum(0))


def test_jacobians_in_both_modes_are_those_of_backward(loss):
    expected = jacobian(loss, logits()).reshape(*loss(logits()).shape, 9, 2, 5)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        assert_close(transform(loss)(logits()), expected)
    assert_close(torch.autograd.functional.jacobian(loss, logits(), vectorize=True), expected)


def test_vmap_is_a_loop(loss):
    many = torch.stack([logits(seed=seed) for seed in range(3)])
    assert_close(torch.func.vmap(loss)(many), torch.stack([loss(x) for x in many]))
    expected = torch.stack([jacobian(loss, x).sum(0) for x in many])
    assert_close(torch.func.vmap(torch.func.grad(lambda x: loss(x).sum()))(many), expected)
    assert_close(torch.func.grad(lambda x: torch.func.vmap(loss)(x).sum())(many), expected)
    last = torch.func.vmap(lambda x: loss(x).sum(), in_dims=3)(many.movedim(0, 3))
    assert_close(last, torch.stack([loss(x).sum() for x in many]))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_vmap_maps_targets_and_lengths_too(reduction):
    frames = torch.tensor([[9, 7], [5, 6]])
    concatenated = torch.tensor([[1, 2, 3, 4, 1], [4, 4, 2, 1, 3]])

    x = logits()

    def loss(targets_and_frames):
        targets, frames = targets_and_frames
        return ctc.ctc_loss(x, targets, frames, LABELS, reduction=reduction)

    for targets in (torch.stack([TARGETS, TARGETS.flip(1)]), concatenated):
        expected = torch.stack([loss(pair) for pair in zip(targets, frames, strict=True)])
        assert_close(torch.func.vmap(loss)((targets, frames)), expected)


def test_vmap_of_one_utterance_is_a_batch():
    labels = torch.tensor([3, 3])
    found = torch.func.vmap(ctc.ctc_loss, in_dims=(1, 0, 0, 0))(logits(), TARGETS, FRAMES, labels)
    assert_close(found, ctc.ctc_loss(logits(), TARGETS, FRAMES, labels, reduction="none") / 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_batched_backward_is_one_after_the_other(loss, dtype):
    x = logits(dtype=dtype).requires_grad_()
    found = loss(x)
    rows = torch.eye(found.numel(), dtype=found.dtype).reshape(-1, *found.shape) * 0.5
    (gradients,) = torch.autograd.grad(found, x, rows, is_grads_batched=True)
    torch.testing.assert_close(gradients, 0.5 * jacobian(loss, x))


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.float16, 1e-2)])
def test_forward_mode_is_the_gradient_times_the_direction(loss, dtype, tolerance, requires_grad):
    x, direction = logits(dtype=dtype).requires_grad_(requires_grad), logits(dtype=dtype, seed=1)
    expected = (jacobian(loss, x).double() * direction.double()).sum((1, 2, 3))
    _, tangent = torch.func.jvp(loss, (x,), (direction,))
    torch.testing.assert_close(tangent.detach().double().reshape(-1), expected, rtol=tolerance, atol=tolerance)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(loss(forward_ad.make_dual(x, direction))).tangent
    torch.testing.assert_close(tangent.detach().double().reshape(-1), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("outer", [torch.func.jacrev, torch.func.jacfwd])
@pytest.mark.parametrize("inner", [torch.func.jacrev, torch.func.jacfwd])
def test_no_second_derivative_is_silently_zero(outer, inner):
    with pytest.raises(RuntimeError, match=SECOND):
        outer(inner(lambda x: ctc.ctc_loss(x, TARGETS, FRAMES, LABELS)))(logits())


def test_a_second_derivative_among_others_is_refused():
    x = logits().requires_grad_()
    (gradient,) = torch.autograd.grad(ctc.ctc_loss(x, TARGETS, FRAMES, LABELS), x, create_graph=True)
    with pytest.raises(RuntimeError, match=SECOND):
        (gradient.sum() + (x * x).sum()).backward()


def test_the_gradient_is_the_callers_own(loss):
    x = logits().requires_grad_()
    found = loss(x).sum()
    (first,) = torch.autograd.grad(found, x, retain_graph=True)
    kept = first.clone()
    first.zero_()
    (second,) = torch.autograd.grad(found, x, retain_graph=True)
    assert torch.equal(second, kept)
    second.neg_()
    assert torch.equal(torch.autograd.grad(found, x)[0], kept)


def test_hooks_may_change_the_gradient_in_place(loss):
    x = logits().requires_grad_()
    x.register_hook(lambda gradient: gradient.mul_(3))
    loss(x).sum().backward()
    assert_close(x.grad, 3 * jacobian(loss, logits()).sum(0))


def test_meta_and_fake_tensors_have_shapes_and_types(loss):
    expected = loss(logits())
    for x in (logits().to("meta"), logits().to("meta").requires_grad_()):
        found = loss(x)
        assert (found.shape, found.dtype, found.device.type) == (expected.shape, torch.float64, "meta")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x = mode.from_tensor(logits(dtype=torch.bfloat16)).requires_grad_()
        found = loss(x)
        (gradient,) = torch.autograd.grad(found.sum(), x)
    assert (found.shape, found.dtype) == (expected.shape, torch.float32)
    assert (gradient.shape, gradient.dtype) == ((9, 2, 5), torch.bfloat16)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit.trace:DeprecationWarning")
def test_what_was_traced_computes_what_its_inputs_hold(loss):
    other = logits(seed=1)
    assert_close(torch.jit.trace(loss, logits())(other), loss(other))
    assert_close(make_fx(loss)(logits())(other), loss(other))
    gradient = make_fx(torch.func.grad(lambda x: loss(x).sum()))(logits())
    assert_close(gradient(other), jacobian(loss, other).sum(0))


def test_the_operator_maps_without_a_gradient():
    operator = loss_module._loss_operator.operator
    many = torch.stack([logits(seed=seed) for seed in range(3)])

    def call(x, scale):
        return operator(x, TARGETS, FRAMES, LABELS, 3, 0, "none", False, 0.0, 0.0, None, True, scale)

    scale = torch.tensor([[1.0, 2.0], [0.5, 1.0], [3.0, 0.0]], dtype=torch.float64)
    losses, gradients = torch.func.vmap(call, out_dims=(0, 0))(many, scale)
    for found, one, by in zip(zip(losses, gradients, strict=True), many, scale, strict=True):
        for left, right in zip(found, call(one, by), strict=True):
            assert_close(left, right)


def test_in_place_on_shared_memory_is_refused():
    for shared in (logits()[:, :1].expand(9, 2, 5), torch.randn(20).as_strided((9, 2, 5), (1, 1, 1))):
        with pytest.raises(
            ValueError, match=r"in_place: expected logits whose elements have memory of their own, found"
        ):
            ctc.ctc_loss(shared, TARGETS, FRAMES, LABELS, in_place=True)
    every_second = torch.randn(9, 4, 10, dtype=torch.float64)[:, ::2, ::2]
    expected = ctc.ctc_loss(every_second, TARGETS, FRAMES, LABELS)
    assert ctc.ctc_loss(every_second, TARGETS, FRAMES, LABELS, in_place=True) == expected


def test_in_place_a_second_backward_is_refused():
    x = logits().requires_grad_() * 1
    loss = ctc.ctc_loss(x, TARGETS, FRAMES, LABELS, in_place=True)
    torch.autograd.grad(loss, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="a second backward needs the logits, which in_place=True has overwritten"):
        torch.autograd.grad(loss, x)


def test_a_pool_serves_without_the_compiled_node_too(monkeypatch):
    monkeypatch.setattr(ctc.loss.memory, "SMALLEST_POOLED_BYTES", 1 << 10)
    batch = random_batch(40, 9, 28, 2)
    module = ctc.CTCLoss()
    x = batch[0].requires_grad_()
    for factor in (1, 3):
        (gradient,) = torch.autograd.grad(factor * module(x, *batch[1:]), x)
        torch.testing.assert_close(gradient, factor * jacobian(lambda x: ctc.ctc_loss(x, *batch[1:]), x)[0])
