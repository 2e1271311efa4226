"""The loss in autograd, compiled code and autocast, on every device; and that its results are the same bits again."""

import pytest
import torch

import ctc
from ctc.loss import function as loss_module
from tests.ctc.losses import assert_exact, ours, random_batch, relative_error, truth

# Autograd


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_gradcheck_passes_on_logits(reduction, device):
    logits, targets, frames, labels = random_batch(6, 3, 5, 2)
    x = logits.double().to(device).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: ctc.ctc_loss(x, targets.to(device), frames, labels, 0, reduction), x)


def test_log_probabilities_give_the_same_loss_and_gradient(device):
    logits, *rest = random_batch(40, 9, 12, 2)
    by_logits = ours(logits, *rest, device)
    x = logits.to(device).requires_grad_()
    losses = ctc.ctc_loss(x.log_softmax(2), *(a.to(device) for a in rest), reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    torch.testing.assert_close(losses.detach().cpu(), by_logits[0])
    torch.testing.assert_close(gradient.cpu(), by_logits[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.0, 3.0], [65536.0, 0.5]])
def test_what_comes_back_scales_each_utterance(weights, device):
    logits, *rest = random_batch(40, 9, 12, 2)
    x = logits.to(device).requires_grad_()
    losses = ctc.ctc_loss(x, *(a.to(device) for a in rest), reduction="none")
    weights_B = torch.tensor(weights, device=device)
    (gradient,) = torch.autograd.grad(losses, x, weights_B)
    expected = truth(logits, *rest)[1] * torch.tensor(weights, dtype=torch.float64)[:, None]
    assert relative_error(gradient.cpu(), expected) < 1e-6


def test_a_later_backward_leaves_the_gradient_of_an_earlier_one_alone(device):
    logits, *rest = random_batch(40, 9, 12, 2)
    x = logits.to(device).requires_grad_()
    loss = ctc.ctc_loss(x, *(a.to(device) for a in rest))
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    kept = first.clone()
    (last,) = torch.autograd.grad(loss, x, torch.tensor(3.0, device=device))
    assert torch.equal(first, kept)
    torch.testing.assert_close(last, 3 * kept, rtol=1e-6, atol=0)


def test_without_a_gradient_the_loss_is_bitwise_the_same(device):
    logits, *rest = random_batch(40, 9, 12, 2)
    with_gradient = ours(logits, *rest, device)[0]
    assert torch.equal(
        ctc.ctc_loss(logits.to(device), *(a.to(device) for a in rest), reduction="none").cpu(), with_gradient
    )
    with torch.no_grad():
        losses = ctc.ctc_loss(logits.to(device).requires_grad_(), *(a.to(device) for a in rest), reduction="none")
    assert not losses.requires_grad


def test_in_place_the_gradient_takes_the_place_of_the_logits(device):
    logits, *rest = random_batch(40, 9, 12, 2)
    expected = ours(logits, *rest, device)[1]
    leaf = logits.to(device).requires_grad_()
    x = leaf * 1
    loss = ctc.ctc_loss(x, *(a.to(device) for a in rest), reduction="sum", in_place=True)
    version = x._version
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert version > 0
    assert torch.equal(gradient.cpu(), expected)
    assert torch.equal(x.detach().cpu(), expected)


def test_in_place_the_fallback_still_sees_the_logits(device):
    batch = random_batch(100, 30, 28, 2, scale=100)
    assert_exact(batch, device)
    expected = ours(*batch, device)[1]
    x = batch[0].to(device).requires_grad_() * 1
    loss = ctc.ctc_loss(x, *(a.to(device) for a in batch[1:]), reduction="sum", in_place=True)
    assert torch.equal(torch.autograd.grad(loss, x)[0].cpu(), expected)


def test_compiled_code_gives_the_same(device):
    logits, *rest = (a.to(device) for a in random_batch(20, 5, 12, 2))
    compiled = torch.compile(lambda x: 2 * ctc.ctc_loss(x, *rest), fullgraph=True, backend="aot_eager")
    x = logits.clone().requires_grad_()
    loss = compiled(x)
    torch.testing.assert_close(loss, 2 * ctc.ctc_loss(logits, *rest))
    (gradient,) = torch.autograd.grad(loss, x)
    y = logits.clone().requires_grad_()
    torch.testing.assert_close(gradient, torch.autograd.grad(2 * ctc.ctc_loss(y, *rest), y)[0])


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_the_operator_passes_opcheck(reduction, device):
    logits, targets, frames, labels = (a.to(device) for a in random_batch(6, 3, 5, 2))
    for x in (logits, logits.double().requires_grad_()):
        arguments = (x, targets, frames, labels, 3, 0, reduction, True, 0.1, 0.2, None, x.requires_grad, None)
        torch.library.opcheck(loss_module._loss_operator.operator, arguments)


def test_autocast_and_deterministic_algorithms_do_no_harm(device):
    logits, *rest = (a.to(device) for a in random_batch(20, 5, 12, 2))
    torch.use_deterministic_algorithms(True)
    try:
        with torch.autocast(device, dtype=torch.bfloat16):
            x = (logits @ torch.eye(12, device=device)).requires_grad_()
            loss = ctc.ctc_loss(x, *rest)
            loss.backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert x.dtype == torch.bfloat16
    assert loss.dtype == torch.float32


# Determinism


def test_batch_index_padding_and_threads_change_no_bit(device):
    logits, targets, _, _ = random_batch(90, 30, 28, 8)
    frames, labels = torch.randint(60, 91, (8,)), torch.randint(0, 31, (8,))
    losses, gradient = ours(logits, targets, frames, labels, device)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        again = ours(logits, targets, frames, labels, device)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(again[0], losses)
    assert torch.equal(again[1], gradient)
    order = torch.randperm(8)
    shuffled = ours(logits[:, order], targets[order], frames[order], labels[order], device)
    assert torch.equal(shuffled[0], losses[order])
    assert torch.equal(shuffled[1], gradient[:, order])
    for n in range(8):
        own = logits[: frames[n], n : n + 1]
        alone = ours(own, targets[n : n + 1, : labels[n]], frames[n : n + 1], labels[n : n + 1], device)
        assert torch.equal(alone[0][0], losses[n])
        assert torch.equal(alone[1][:, 0], gradient[: frames[n], n])


def test_a_hundred_runs_give_the_same_bits(device):
    batch = random_batch(30, 9, 28, 2)
    first = ours(*batch, device)[1]
    assert all(torch.equal(ours(*batch, device)[1], first) for _ in range(100))
