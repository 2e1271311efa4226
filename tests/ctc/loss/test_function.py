"""One suite for every implementation and device: the loss and its gradient are those of float64, traps included.
The emulated kernels of a GPU go through it too (test_cuda_emulation.py)."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

import ctc
from ctc.bindings._loss_library import LossOptions, TargetLabels, run
from ctc.loss import reference
from tests.ctc.enumeration import brute_force_loss
from tests.ctc.losses import assert_exact, ours, random_batch, relative_error, truth

# Values


@pytest.mark.parametrize("blank", [0, 1, 2])
@pytest.mark.parametrize("labels", [[], [0], [1], [0, 0], [0, 1], [1, 0, 1], [1, 1, 0]])
@pytest.mark.parametrize("frames", [1, 2, 4, 5])
def test_loss_and_gradient_are_those_of_all_alignments_enumerated(frames, labels, blank, device):
    labels = [k + (k >= blank) for k in labels]
    logits = torch.randn(frames, 3, generator=torch.Generator().manual_seed(frames)).double().requires_grad_()
    expected = brute_force_loss(logits, labels, blank)
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
    arguments = TargetLabels(targets, frames, labels, 40)
    fast, slow = torch.empty_like(logits), torch.empty_like(logits)
    losses = run(logits, arguments, LossOptions(reduction="none"), fast)
    torch.testing.assert_close(losses, run(logits, arguments, LossOptions(reduction="none", extended_range=True), slow))
    assert relative_error(fast, slow.double()) < 1e-6


def test_every_instruction_set_gives_the_same():
    logits, targets, frames, labels = random_batch(150, 40, 28, 2)
    gradient = torch.empty_like(logits)
    run(logits, TargetLabels(targets, frames, labels, 40), LossOptions(instruction_set="generic"), gradient)
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
