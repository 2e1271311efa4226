"""One suite for every implementation and device: the loss and its gradient are those of float64, traps included."""

import copy
import itertools
import math
import os
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import ctc
from ctc import loss as loss_module
from ctc import memory, reference
from ctc._library import warn_slow
from ctc._loss_library import Labels, Options, is_available, run
from ctc.memory import GradientPool

DEVICES = [
    "cpu",
    "cpu, without the compiled node",
    pytest.param(
        "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
    ),
]


@pytest.fixture
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SMALLEST_POOLED_BYTES", 1 << 20)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    device, _, without = request.param.partition(", ")
    if without:
        monkeypatch.setattr(loss_module._compiled_loss, "function", lambda: None)
    return device


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module._compiled_loss, "function", lambda: None)
    monkeypatch.setattr(loss_module._loss_library, "is_available", lambda: False)
    monkeypatch.setattr(loss_module._loss_operator, "warn_slow", lambda what, missing: None)


def random_batch(
    T: int, L: int, V: int, B: int, *, scale: float = 1.0, blank: int = 0, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(T, B, V, generator=generator)
    targets = torch.randint(0, max(V - 1, 1), (B, L), generator=generator)
    targets += targets >= blank
    return logits, targets, torch.full((B,), T), torch.full((B,), L)


def truth(logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor, blank: int = 0) -> tuple[Tensor, Tensor]:
    """Losses and the gradient of their sum, by torch in float64."""
    x = logits.detach().cpu().double().requires_grad_()
    losses = reference.torch_losses(x, targets, frames, labels, blank)
    finite = torch.where(losses.isfinite(), losses, 0.0)
    return losses.detach(), torch.autograd.grad(finite.sum(), x)[0]


def ours(
    logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor, device: str = "cpu", **options
) -> tuple[Tensor, Tensor]:
    x = logits.detach().to(device).requires_grad_()
    losses = ctc.ctc_loss(x, targets.to(device), frames.to(device), labels.to(device), reduction="none", **options)
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    return losses.detach().cpu(), gradient.cpu()


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm().clamp(min=1e-30))


def assert_exact(batch: tuple[Tensor, Tensor, Tensor, Tensor], device: str = "cpu", **options) -> None:
    losses, gradient = ours(*batch, device, **options)
    expected_losses, expected_gradient = truth(*batch, **options)
    torch.testing.assert_close(losses.double(), expected_losses, rtol=1e-6, atol=1e-6)
    assert relative_error(gradient, expected_gradient) <= 1e-6


# Values


@pytest.mark.parametrize("blank", [0, 1, 2])
@pytest.mark.parametrize("labels", [[], [0], [1], [0, 0], [0, 1], [1, 0, 1], [1, 1, 0]])
@pytest.mark.parametrize("frames", [1, 2, 4, 5])
def test_loss_and_gradient_are_those_of_all_alignments_enumerated(frames, labels, blank, device):
    labels = [k + (k >= blank) for k in labels]
    logits = torch.randn(frames, 3, generator=torch.Generator().manual_seed(frames)).double().requires_grad_()
    expected = reference.brute_force_loss(logits, labels, blank)
    targets = torch.tensor([labels], dtype=torch.int64)
    losses, gradient = ours(
        logits[:, None], targets, torch.tensor([frames]), torch.tensor([len(labels)]), device, blank=blank
    )
    assert losses[0] == pytest.approx(expected.item(), rel=1e-12)
    expected_gradient = torch.autograd.grad(expected, logits)[0] if expected.isfinite() else torch.zeros_like(logits)
    torch.testing.assert_close(gradient[:, 0], expected_gradient, rtol=1e-9, atol=1e-12)


SIZES = [
    (150, 40, 28, 3),
    (60, 20, 5000, 2),
    (100, 40, 29, 2),
    (120, 30, 32, 2),
    (3, 1, 2, 2),
    (40, 17, 257, 2),
    (30, 9, 100_000, 1),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size_is_exact(size, device):
    assert_exact(random_batch(*size), device)


@pytest.mark.parametrize("labels", [0, 15, 16, 17, 31, 32, 33, 63, 64, 255, 256, 639, 640, 1023, 1024, 1025])
def test_every_number_of_labels_is_exact(labels, device):
    assert_exact(random_batch(labels + labels // 8 + 7, labels, 40, 1), device)


@pytest.mark.parametrize("classes", [2, 31, 32, 33, 63, 64, 65, 255, 257])
def test_every_number_of_classes_is_exact(classes, device):
    assert_exact(random_batch(25, 5, classes, 2), device)


@pytest.mark.parametrize("frames", range(1, 10))
def test_every_remainder_of_frames_is_exact(frames, device):
    assert_exact(random_batch(frames, 1, 7, 2), device)


@pytest.mark.slow
def test_five_thousand_labels_and_twenty_thousand_frames_are_exact(device):
    assert_exact(random_batch(5700, 5000, 100, 1), device)
    assert_exact(random_batch(20_000, 100, 29, 1), device)


@pytest.mark.parametrize("scale", [0.0, 0.01, 4, 30, 1000])
def test_logits_of_every_scale_are_exact(scale, device):
    assert_exact(random_batch(120, 30, 28, 2, scale=scale), device)


@pytest.mark.parametrize("offset", [-1e6, -1e4, 1e4])
def test_a_constant_added_to_a_frame_changes_nothing(offset, device):
    logits, *rest = random_batch(60, 12, 28, 2)
    assert_exact((logits + offset * torch.rand(60, 1, 1).round(), *rest), device)


@pytest.mark.parametrize("lead", [10, 20, 100, 1e4])
def test_a_collapse_on_blank_is_exact(lead, device):
    logits, *rest = random_batch(200, 40, 29, 2)
    logits[:, :, 0] += lead
    assert_exact((logits, *rest), device)


def test_logits_of_ten_thousand_either_way_are_exact(device):
    logits, *rest = random_batch(100, 20, 28, 2)
    assert_exact((1e4 * logits.sign(), *rest), device)


@pytest.mark.parametrize("margin", [8, 15, 40])
def test_the_gradient_of_a_confident_alignment_keeps_its_digits(margin, device):
    logits, targets, frames, labels = random_batch(90, 30, 28, 2)
    targets = torch.stack([torch.randperm(27)[torch.arange(30) % 27] + 1 for _ in range(2)])
    aligned = F.one_hot(torch.stack([targets, torch.zeros_like(targets), torch.zeros_like(targets)], 2).flatten(1), 28)
    logits += margin * aligned.transpose(0, 1)
    losses, gradient = ours(logits, targets, frames, labels, device)
    assert (losses >= 0).all()
    assert relative_error(gradient, truth(logits, targets, frames, labels)[1]) < 1e-5


def test_the_extended_range_gives_what_the_fast_path_gives():
    logits, targets, frames, labels = random_batch(150, 40, 28, 2)
    arguments = Labels(targets, frames, labels, 40)
    fast, slow = torch.empty_like(logits), torch.empty_like(logits)
    losses = run(logits, arguments, Options(reduction="none"), fast)
    torch.testing.assert_close(losses, run(logits, arguments, Options(reduction="none", extended_range=True), slow))
    assert relative_error(fast, slow.double()) < 1e-6


def test_every_instruction_set_gives_the_same():
    logits, targets, frames, labels = random_batch(150, 40, 28, 2)
    gradient = torch.empty_like(logits)
    run(logits, Labels(targets, frames, labels, 40), Options(instruction_set="generic"), gradient)
    expected = torch.autograd.grad(ctc.ctc_loss(logits.requires_grad_(), targets, frames, labels), logits)[0]
    assert relative_error(gradient, expected.double()) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("classes", [28, 301])
def test_half_types_are_as_good_as_float32_rounded(dtype, classes, device):
    logits, *rest = random_batch(50, 12, classes, 2)
    logits = logits.to(dtype)
    losses, gradient = ours(logits, *rest, device)
    expected_losses, expected_gradient = truth(logits, *rest)
    assert losses.dtype == torch.float32
    assert gradient.dtype == dtype
    torch.testing.assert_close(losses.double(), expected_losses, rtol=1e-6, atol=0)
    assert relative_error(gradient, expected_gradient) <= 2 * relative_error(
        expected_gradient.to(dtype), expected_gradient
    )


def test_float16_survives_the_scale_of_a_grad_scaler(device):
    logits, *rest = random_batch(50, 12, 28, 2)
    logits[:, :, 0] += 14
    x = logits.half().to(device).requires_grad_()
    scaled = 65536 * ctc.ctc_loss(x, *(a.to(device) for a in rest), reduction="sum") / 1024
    (gradient,) = torch.autograd.grad(scaled, x)
    assert relative_error(gradient.cpu(), 64 * truth(logits.half(), *rest)[1]) < 1e-3


@pytest.mark.parametrize("classes", [28, 301])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("smoothing", "weight"), [(0.1, 0.0), (0.0, 0.3), (0.2, 0.1)])
def test_smoothing_and_entropy_are_those_of_their_definition(smoothing, weight, dtype, classes, device):
    logits, targets, _, labels = random_batch(40, 9, classes, 3)
    frames = torch.tensor([40, 30, 3])
    options = {"label_smoothing": smoothing, "entropy_weight": weight}
    losses, gradient = ours(logits.to(dtype), targets, frames, labels, device, **options)
    x = logits.double().requires_grad_()
    expected = (1 - smoothing) * reference.torch_losses(x, targets, frames, labels, 0)[:2]
    expected = expected + reference.regularisation(x, frames, smoothing, weight)[:2]
    torch.testing.assert_close(losses[:2].double(), expected.detach(), rtol=1e-6, atol=0)
    assert losses[2] == math.inf
    assert relative_error(gradient, torch.autograd.grad(expected.sum(), x)[0]) <= 1e-6


# Shapes, lengths and layouts


def test_one_class_is_always_blank(device):
    losses, gradient = ours(
        torch.randn(4, 2, 1),
        torch.zeros(2, 0, dtype=torch.int64),
        torch.tensor([4, 0]),
        torch.zeros(2, dtype=torch.int64),
        device,
    )
    assert losses.tolist() == [0, 0]
    assert not gradient.any()


def test_an_empty_batch_has_no_losses(device):
    losses, gradient = ours(
        torch.randn(5, 0, 3), torch.zeros(0, 2, dtype=torch.int64), *(torch.zeros(0, dtype=torch.int64),) * 2, device
    )
    assert losses.shape == (0,)
    assert gradient.shape == (5, 0, 3)
    for reduction in ("sum", "mean"):
        arguments = (torch.zeros(0, 2, dtype=torch.int64), [], [])
        assert ctc.ctc_loss(torch.randn(5, 0, 3, device=device), *arguments, reduction=reduction).item() == 0


def test_no_frames_cost_nothing_without_labels_and_infinity_with_them(device):
    losses, gradient = ours(
        torch.randn(3, 2, 4), torch.tensor([[1], [1]]), torch.tensor([0, 0]), torch.tensor([0, 1]), device
    )
    assert losses.tolist() == [0, math.inf]
    assert not gradient.any()


@pytest.mark.parametrize("labels", [[1, 1, 1], [1, 2, 1], [3, 2, 1]], ids=str)
def test_labels_fit_exactly_or_not_at_all(labels, device):
    needed = len(labels) + sum(a == b for a, b in itertools.pairwise(labels))
    targets, count = torch.tensor([labels]), torch.tensor([len(labels)])
    assert_exact((torch.randn(needed, 1, 4), targets, torch.tensor([needed]), count), device)
    losses, gradient = ours(torch.randn(needed - 1, 1, 4), targets, torch.tensor([needed - 1]), count, device)
    assert losses.item() == math.inf
    assert not gradient.any()


def test_what_lies_behind_a_length_is_never_looked_at(device):
    logits, targets, frames, labels = random_batch(30, 8, 12, 3)
    frames, labels = torch.tensor([30, 17, 20]), torch.tensor([8, 3, 0])
    expected = ours(logits, targets, frames, labels, device)
    for n in range(3):
        logits[frames[n] :, n] = [math.nan, math.inf, -math.inf][n]
        targets[n, labels[n] :] = 999 if n % 2 else -1
    wide_targets = F.pad(targets, (0, 5), value=-7)
    losses, gradient = ours(logits, wide_targets, frames, labels, device)
    assert torch.equal(losses, expected[0])
    assert torch.equal(gradient, expected[1])
    assert not gradient[17:, 1].any()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_targets_may_be_concatenated_and_lengths_may_be_lists(dtype, device):
    logits, targets, _, _ = random_batch(30, 8, 12, 3)
    frames, labels = [30, 17, 20], [8, 3, 0]
    expected = ctc.ctc_loss(logits.to(device), targets.to(device), frames, labels).cpu()
    flat = torch.cat([targets[n, :count] for n, count in enumerate(labels)]).to(dtype)
    assert torch.equal(ctc.ctc_loss(logits.to(device), flat.to(device), tuple(frames), labels).cpu(), expected)
    lengths = torch.tensor(frames, dtype=torch.int32), torch.tensor(labels, dtype=torch.int64)
    assert torch.equal(ctc.ctc_loss(logits.to(device), flat.to(device), *lengths).cpu(), expected)


def test_one_utterance_may_come_without_a_batch(device):
    logits, targets, _, _ = random_batch(30, 8, 12, 1)
    expected = ctc.ctc_loss(logits.to(device), targets.to(device), [30], [8]).cpu()
    assert torch.equal(ctc.ctc_loss(logits[:, 0].to(device), targets[0].to(device), [30], [8]).cpu(), expected)
    assert ctc.ctc_loss(logits[:, 0], targets[0], torch.tensor(30), torch.tensor(8), reduction="none").shape == ()


def test_every_layout_gives_the_same(device):
    logits, targets, frames, labels = random_batch(20, 5, 12, 3)
    logits = logits.to(device)
    expected = ours(logits, targets, frames, labels, device)
    wide = torch.empty(20, 3, 31, device=device)
    wide[:, :, 3:15] = logits
    by_class = logits.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    for layout in (wide[:, :, 3:15], by_class, logits.transpose(0, 1).contiguous().transpose(0, 1)):
        x = layout.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(ctc.ctc_loss(x, targets.to(device), frames, labels, reduction="sum"), x)
        assert torch.equal(gradient.cpu(), expected[1])
    x = logits.transpose(0, 1).contiguous().requires_grad_()
    loss = ctc.ctc_loss(x, targets.to(device), frames, labels, reduction="sum", batch_first=True)
    assert torch.equal(torch.autograd.grad(loss, x)[0].transpose(0, 1).cpu(), expected[1])
    repeated = logits[:, :1].expand(20, 3, 12).detach().requires_grad_()
    assert ctc.ctc_loss(repeated, targets.to(device), frames, labels, reduction="none")[0].item() == expected[0][0]


# Numbers that are not finite


def test_numbers_that_are_negated_when_read_are_negated(device):
    logits, *rest = random_batch(20, 4, 12, 2)
    negated = torch._neg_view(-logits.to(device))
    assert negated.is_neg()
    rest = [a.to(device) for a in rest]
    assert ctc.ctc_loss(negated, *rest) == ctc.ctc_loss(logits.to(device), *rest)


def test_an_impossible_class_nobody_uses_leaves_the_gradient_finite(device):
    logits, targets, frames, labels = random_batch(20, 5, 12, 2)
    targets[targets == 7] = 6
    logits[:, :, 7] = -math.inf
    assert_exact((logits, targets, frames, labels), device)


@pytest.mark.parametrize("what", ["blank", "label", "frame"])
def test_an_impossible_transcript_costs_infinity_and_has_no_gradient(what, device):
    logits, targets, frames, labels = random_batch(5, 3, 8, 2)
    targets[0] = torch.tensor([1, 1, 2])
    where = {"blank": (slice(None), 0, 0), "label": (slice(None), 0, 2), "frame": (2, 0)}[what]
    logits[where] = -math.inf
    losses, gradient = ours(logits, targets, frames, labels, device)
    assert losses[0] == math.inf
    assert losses[1].isfinite()
    assert not gradient[:, 0].any()


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("used", [True, False])
def test_a_number_that_is_none_stays_in_its_utterance(value, used, device):
    logits, targets, frames, labels = random_batch(12, 3, 8, 3)
    targets[1] = torch.tensor([1, 2, 3])
    expected = ours(logits, targets, frames, labels, device)
    logits[4, 1, 2 if used else 7] = value
    losses, gradient = ours(logits, targets, frames, labels, device)
    assert losses[1].isnan()
    assert gradient[:, 1].isnan().all()
    assert torch.equal(losses[::2], expected[0][::2])
    assert torch.equal(gradient[:, ::2], expected[1][:, ::2])


def test_the_largest_floats_do_no_harm(device):
    logits, targets, frames, labels = random_batch(6, 2, 8, 1)
    logits[3] = torch.where(logits[3] > 0, 3e38, -3e38)
    losses, gradient = ours(logits, targets, frames, labels, device)
    assert not losses.isnan().any()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_zero_infinity_takes_only_the_impossible_utterances_out(reduction, device):
    logits, targets, _, labels = random_batch(12, 6, 8, 3)
    frames = torch.tensor([12, 3, 12])
    x, y = (logits.detach().clone().to(device).requires_grad_() for _ in range(2))
    loss = ctc.ctc_loss(x, targets.to(device), frames, labels, 0, reduction, True)
    expected = F.ctc_loss(y.log_softmax(2), targets.to(device), frames, labels, 0, reduction, True)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    weights = torch.arange(1.0, loss.numel() + 1, device=device).reshape(loss.shape)
    gradients = torch.autograd.grad((loss * weights).sum(), x)[0], torch.autograd.grad((expected * weights).sum(), y)[0]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
    assert not gradients[0][:, 1].any()


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_an_infinite_loss_has_a_gradient_of_zero_even_if_what_comes_back_is_not_finite(reduction, device):
    logits, targets, frames, labels = random_batch(4, 4, 8, 2)
    targets[0] = 1
    x = logits.to(device).requires_grad_()
    losses = ctc.ctc_loss(x, targets.to(device), frames, labels, reduction="none")
    (gradient,) = torch.autograd.grad(losses.exp().log().sum(), x)
    assert not gradient[:, 0].any()
    assert gradient[:, 1].isfinite().all()


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_backward_twice_gives_the_same_twice(dtype, device):
    logits, *rest = random_batch(40, 9, 12, 2)
    x = logits.to(device, dtype).requires_grad_()
    loss = 3 * ctc.ctc_loss(x, *(a.to(device) for a in rest))
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_a_later_backward_leaves_the_gradient_of_an_earlier_one_alone(device):
    logits, *rest = random_batch(40, 9, 12, 2)
    x = logits.to(device).requires_grad_()
    loss = ctc.ctc_loss(x, *(a.to(device) for a in rest))
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    kept = first.clone()
    (last,) = torch.autograd.grad(loss, x, torch.tensor(3.0, device=device))
    assert torch.equal(first, kept)
    torch.testing.assert_close(last, 3 * kept, rtol=1e-6, atol=0)


def test_a_second_derivative_is_refused(device):
    logits, *rest = random_batch(40, 9, 12, 2)
    x = logits.to(device).requires_grad_()
    (gradient,) = torch.autograd.grad(ctc.ctc_loss(x, *(a.to(device) for a in rest)), x, create_graph=True)
    with pytest.raises(RuntimeError, match="ctc_loss has a first derivative only"):
        gradient.sum().backward()


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


# Memory


@pytest.mark.usefixtures("small_pools")
def test_a_pool_lends_only_memory_that_nobody_uses_any_more():
    pool = GradientPool()
    like = torch.empty(3, 400, 300).transpose(0, 1)
    first = pool.empty_like(like)
    assert first.stride() == like.stride()
    second = pool.empty_like(like)
    assert first.data_ptr() != second.data_ptr()
    address, view = first.data_ptr(), first[5]
    del first
    assert pool.empty_like(like).data_ptr() != address
    del view
    third = [pool.empty_like(like) for _ in range(2)]
    assert address in [tensor.data_ptr() for tensor in third]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes that are forked")
@pytest.mark.usefixtures("small_pools")
def test_memory_of_a_pool_is_not_shared_with_a_forked_process():
    lent = GradientPool().empty_like(torch.empty(40, 100, 300))
    lent[0, 0, 0] = 1.0
    if (child := os.fork()) == 0:
        lent[0, 0, 0] = 2.0
        os._exit(0)
    os.waitpid(child, 0)
    assert lent[0, 0, 0] == 1.0


@pytest.mark.usefixtures("small_pools")
def test_a_pool_gives_the_strides_that_torch_would_give():
    like = torch.empty(40, 100, 300)
    for layout in (like, like.transpose(0, 1), like[:, ::2], like[:1].expand(40, 100, 300), like.permute(1, 0, 2)):
        assert GradientPool().empty_like(layout).stride() == torch.empty_like(layout).stride()


def test_a_module_with_a_pool_can_be_copied_and_pickled():
    module = ctc.CTCLoss(blank=3)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert twin.blank == 3
        assert twin.pool is not module.pool


@pytest.mark.usefixtures("small_pools")
def test_the_module_gives_what_the_function_gives_and_reuses_its_gradient():
    logits, *rest = random_batch(100, 9, 2000, 2)
    module = ctc.CTCLoss(zero_infinity=True)
    addresses = set()
    for _ in range(3):
        x = logits.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(module(x, *rest), x)
        addresses.add(gradient.data_ptr())
        expected = ctc.ctc_loss(x, *rest, zero_infinity=True)
        assert torch.equal(gradient, torch.autograd.grad(expected, x)[0])
        del gradient
    assert len(addresses) == 1


# Without the library


@pytest.mark.usefixtures("without_library")
def test_plain_torch_gives_the_same_losses_and_gradients():
    logits, targets, _, _ = random_batch(30, 8, 12, 4)
    frames, labels = torch.tensor([30, 17, 3, 0]), torch.tensor([8, 3, 8, 0])
    logits[20:, 1] = math.nan
    losses, gradient = ours(logits, targets, frames, labels)
    expected_losses, expected_gradient = truth(logits, targets, frames, labels)
    assert ctc.ctc_loss(logits, targets, frames, labels, label_smoothing=0.1, zero_infinity=True).isfinite()
    torch.testing.assert_close(losses.double(), expected_losses, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-3, atol=1e-4)


def test_plain_torch_says_once_that_it_is_slower(monkeypatch):
    monkeypatch.setattr(loss_module._compiled_loss, "function", lambda: None)
    monkeypatch.setattr(loss_module._loss_library, "is_available", lambda: False)
    loss_module._loss_operator.warn_slow.cache_clear()
    logits, *rest = random_batch(6, 3, 5, 2)
    with pytest.warns(ctc.SlowPathWarning, match=r"ctc_loss runs in plain torch.*python -m ctc.build"):
        ctc.ctc_loss(logits, *rest)
    assert is_available()


def test_stars_on_a_gpu_say_that_they_have_no_kernel():
    warn_slow.cache_clear()
    with pytest.warns(
        ctc.SlowPathWarning, match=r"stars on a GPU runs in plain torch, which is slower: it has no kernel"
    ):
        warn_slow("ctc_loss with stars on a GPU", None)


# Errors


def test_an_unknown_reduction_is_named():
    logits, *rest = random_batch(6, 3, 5, 2)
    with pytest.raises(ValueError, match="reduction: expected 'none', 'mean' or 'sum', found 'max'"):
        ctc.ctc_loss(logits, *rest, reduction="max")


@pytest.mark.parametrize("label", [-1, 5, 0])
def test_a_label_that_is_no_class_is_named_with_its_utterance(label):
    logits, targets, frames, labels = random_batch(6, 3, 5, 2)
    targets[1, 2] = label
    message = rf"utterance 1: label 2: expected a class in \[0, 5\) other than blank, 0; found {label}"
    with pytest.raises(ValueError, match=message):
        ctc.ctc_loss(logits, targets, frames, labels)


@pytest.mark.parametrize("length", [-1, 7])
def test_an_input_length_that_does_not_fit_is_named_with_its_utterance(length):
    logits, targets, frames, labels = random_batch(6, 3, 5, 2)
    frames[1] = length
    message = f"utterance 1: input length: expected at least 0 and at most 6 frames, found {length}"
    with pytest.raises(ValueError, match=message):
        ctc.ctc_loss(logits, targets, frames, labels)


@pytest.mark.parametrize("as_given", [torch.tensor, list])
def test_a_length_beyond_the_type_of_the_labels_does_not_wrap_around_to_one_that_fits(as_given):
    logits, targets, _, labels = random_batch(6, 3, 5, 2)
    frames = as_given([6, 2**32 + 5])
    for dtype, found in ((torch.int32, 2**31 - 1), (torch.int64, 2**32 + 5)):
        with pytest.raises(ValueError, match=f"utterance 1: input length: .* at most 6 frames, found {found}"):
            ctc.ctc_loss(logits, targets.to(dtype), frames, labels)


@pytest.mark.parametrize("length", [-1, 4])
def test_a_target_length_that_does_not_fit_is_named_with_its_utterance(length):
    logits, targets, frames, labels = random_batch(6, 3, 5, 2)
    labels[1] = length
    for these, held in ((targets, 3), (targets.flatten(), 3)):
        message = f"utterance 1: target length: expected at least 0 and at most {held} labels, found {length}"
        with pytest.raises(ValueError, match=message):
            ctc.ctc_loss(logits, these, frames, labels)


@pytest.mark.usefixtures("without_library")
@pytest.mark.parametrize("is_padded", [True, False])
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("label", 5, r"utterance 1: label 2: expected a class in \[0, 5\) other than blank, 0; found 5"),
        ("label", 0, r"utterance 1: label 2: expected a class in \[0, 5\) other than blank, 0; found 0"),
        ("label", -2, r"utterance 1: label 2: expected a class in \[0, 5\) other than blank, 0; found -2"),
        ("frames", 7, "utterance 1: input length: expected at least 0 and at most 6 frames, found 7"),
        ("labels", -1, "utterance 1: target length: expected at least 0 and at most 3 labels, found -1"),
        ("star", 4, r"star: expected a number that is no class in \[0, 5\), found 4"),
    ],
)
def test_plain_torch_names_what_does_not_fit(place, value, message, is_padded):
    logits, targets, frames, labels = random_batch(6, 3, 5, 2)
    star = value if place == "star" else -1
    targets[0, 1] = star
    if place != "star":
        {"label": targets[1, 2:], "frames": frames[1:], "labels": labels[1:]}[place].fill_(value)
    with pytest.raises(ValueError, match=message):
        ctc.ctc_loss(logits, targets if is_padded else targets.flatten(), frames, labels, star=star)


def test_the_compiled_loss_wants_all_of_its_arguments():
    compiled = loss_module._compiled_loss.function()
    if compiled is None:
        pytest.skip("the binding is not built")
    with pytest.raises(TypeError, match="loss: expected 12 arguments, found 1"):
        compiled(None)


@pytest.mark.parametrize("blank", [-1, 5])
def test_a_blank_that_is_no_class_is_named(blank):
    logits, *rest = random_batch(6, 3, 5, 2)
    with pytest.raises(ValueError, match=rf"blank: expected a class in \[0, 5\), found {blank}"):
        ctc.ctc_loss(logits, *rest, blank=blank)


def test_a_smoothing_out_of_range_is_named():
    logits, *rest = random_batch(6, 3, 5, 2)
    with pytest.raises(ValueError, match="label_smoothing: expected at least 0 and less than 1, found 1.5"):
        ctc.ctc_loss(logits, *rest, label_smoothing=1.5)
    with pytest.raises(ValueError, match="entropy_weight: expected a finite number, found nan"):
        ctc.ctc_loss(logits, *rest, entropy_weight=math.nan)


def test_wrong_types_and_shapes_are_named():
    logits, targets, frames, labels = random_batch(6, 3, 5, 2)
    with pytest.raises(ValueError, match=r"logits: expected 3 dimensions, or 2 for one utterance; found shape \[6\]"):
        ctc.ctc_loss(logits[:, 0, 0], targets, frames, labels)
    with pytest.raises(ValueError, match=r"logits: expected at least one class, found shape \[6, 2, 0\]"):
        ctc.ctc_loss(logits[:, :, :0], targets, frames, labels)
    with pytest.raises(TypeError, match="logits: expected float32, float64, float16 or bfloat16, found torch.int32"):
        ctc.ctc_loss(logits.int(), targets, frames, labels)
    with pytest.raises(TypeError, match="targets: expected numbers of classes, found torch.complex64"):
        ctc.ctc_loss(logits, targets.to(torch.complex64), frames, labels)
    with pytest.raises(ValueError, match=r"targets: expected \[2, labels\] or all labels .* found shape \[1, 3\]"):
        ctc.ctc_loss(logits, targets[:1], frames, labels)
    for fractions in (frames.float(), [5.5, 6.0]):
        with pytest.raises(TypeError, match="input_lengths: expected integers, found torch.float32"):
            ctc.ctc_loss(logits, targets, fractions, labels)
    with pytest.raises(ValueError, match=r"target_lengths: expected one for each of 2 utterances, found shape \[1\]"):
        ctc.ctc_loss(logits, targets, frames, labels[:1])
