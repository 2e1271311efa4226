"""What PyTorch's own test suite asks of `torch.nn.functional.ctc_loss` on a CPU, asked of ours in our own words.

Not the same: torch raises RuntimeError where we raise ValueError or TypeError; an utterance whose frames cannot carry
its labels has gradient 0 with us (torch: NaN unless zero_infinity); an empty batch is a loss of 0 (torch: an error).
"""

import math

import pytest
import torch
import torch.nn.functional as F

import ctc


def log_probs(T, B, V, *, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(T, B, V, generator=generator, dtype=torch.float64).log_softmax(2).to(dtype).requires_grad_()


def both(x, *arguments, **options):
    """Losses and gradients of torch and of ours for log-probabilities; torch's is projected as its log_softmax does."""
    found = []
    for function in (F.ctc_loss, ctc.ctc_loss):
        y = x.detach().requires_grad_()
        loss = function(y.log_softmax(2), *arguments, **options)
        found.append((loss.detach(), torch.autograd.grad(loss.sum(), y)[0]))
    return found


def assert_same(*arguments, **options):
    (loss, gradient), (our_loss, our_gradient) = both(*arguments, **options)
    torch.testing.assert_close(our_loss, loss)
    torch.testing.assert_close(our_gradient, gradient)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("blank", [0, 7, 19])
def test_fifty_frames_thirty_labels_are_torchs(reduction, blank):
    targets = torch.randint(0, 19, (16, 30), generator=torch.Generator().manual_seed(1))
    targets += targets >= blank
    frames, labels = torch.full((16,), 50), torch.randint(1, 31, (16,), generator=torch.Generator().manual_seed(2))
    x = log_probs(50, 16, 20)
    assert_same(x, targets, frames, labels, blank=blank, reduction=reduction, zero_infinity=True)
    if reduction != "none":
        expected = F.ctc_loss(x, targets, frames, labels, blank, reduction, True)
        torch.testing.assert_close(ctc.ctc_loss(x, targets, frames, labels, blank, reduction, True), expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("is_flat", [False, True])
def test_targets_and_lengths_are_taken_in_every_form(dtype, is_list, is_flat):
    targets, frames, labels = torch.tensor([[1, 2, 2, 5], [3, 1, 0, 0]]), [20, 18], [4, 2]
    expected = F.ctc_loss(log_probs(20, 2, 9), targets, frames, labels)
    if is_flat:
        targets = torch.tensor([1, 2, 2, 5, 3, 1])
    lengths = (frames, labels) if is_list else (torch.tensor(frames, dtype=dtype), torch.tensor(labels, dtype=dtype))
    for cast in (dtype, torch.float32, torch.float64):
        torch.testing.assert_close(ctc.ctc_loss(log_probs(20, 2, 9), targets.to(cast), *lengths), expected)


def test_every_argument_is_taken_by_torchs_name():
    named = {
        "log_probs": log_probs(20, 2, 9),
        "targets": torch.tensor([[1, 2], [3, 1]]),
        "input_lengths": (20, 18),
        "target_lengths": (2, 2),
        "blank": 0,
        "reduction": "sum",
        "zero_infinity": True,
    }
    torch.testing.assert_close(ctc.ctc_loss(**named), F.ctc_loss(**named))
    given = dict(list(named.items())[:4])
    torch.testing.assert_close(ctc.CTCLoss()(**given), torch.nn.CTCLoss()(**given))


@pytest.mark.parametrize(("length", "vary", "zero"), [(150, False, False), (150, True, False), (50, True, True)])
def test_gradients_pass_gradcheck_with_lengths_that_vary_and_are_zero(length, vary, zero):
    generator = torch.Generator().manual_seed(0)
    few = torch.randn(10, generator=generator, dtype=torch.float64, requires_grad=True)
    place = torch.randint(0, 10, (length, 16, 101), generator=generator)
    factor = torch.randn(length, 16, 101, generator=generator, dtype=torch.float64)
    labels = torch.randint(0 if zero else 1, 16, (16,), generator=generator) if vary else torch.full((16,), 15)
    targets = torch.randint(1, 101, (int(labels.sum()),), generator=generator)
    frames = torch.randint(length - 10, length + 1, (16,), generator=generator) if vary else torch.full((16,), length)

    def loss(few):
        return ctc.ctc_loss((few[place] * factor).log_softmax(2), targets, frames, labels)

    assert torch.autograd.gradcheck(loss, few)


def test_a_target_longer_than_the_others_changes_nothing():
    x = log_probs(16, 4, 20)
    targets = torch.randint(1, 20, (4, 16), generator=torch.Generator().manual_seed(0))
    assert_same(x, targets, [16] * 4, [4, 3, 4, 2])
    assert_same(x, torch.cat([row[:n] for row, n in zip(targets, (4, 3, 4, 2), strict=True)]), [16] * 4, [4, 3, 4, 2])


@pytest.mark.parametrize("labels", [32, 33, 256, 257])
def test_as_many_labels_as_kernels_have_lanes_are_exact(labels):
    targets = torch.randint(1, 20, (1, labels), generator=torch.Generator().manual_seed(0))
    assert_same(log_probs(2 * labels, 1, 20), targets, [2 * labels], [labels])


def test_an_utterance_without_labels_is_all_blank():
    x = log_probs(6, 3, 5)
    none = torch.zeros(3, 0, dtype=torch.int64)
    assert_same(x, none, [6, 4, 1], [0, 0, 0], reduction="none")
    found = ctc.ctc_loss(x, none, [6, 4, 1], [0, 0, 0], reduction="none")
    torch.testing.assert_close(found, -torch.stack([x[:n, i, 0].sum() for i, n in enumerate((6, 4, 1))]))
    assert_same(x, torch.tensor([1, 2, 1]), [6, 4, 1], [2, 0, 1], reduction="sum")


def test_zero_infinity_takes_what_is_impossible_out_of_loss_and_gradient():
    targets = torch.tensor([[1, 1, 1], [1, 2, 3]])
    x = log_probs(4, 2, 5)
    (loss, gradient), (our_loss, our_gradient) = both(x, targets, [4, 4], [3, 3], reduction="sum", zero_infinity=True)
    torch.testing.assert_close(our_loss, loss)
    torch.testing.assert_close(our_gradient, gradient)
    assert not our_gradient[:, 0].any()
    assert ctc.ctc_loss(x, targets, [4, 4], [3, 3], reduction="sum") == math.inf


def test_one_utterance_without_a_batch_is_a_batch_of_one():
    x, targets = log_probs(50, 1, 20), torch.randint(1, 20, (1, 30), generator=torch.Generator().manual_seed(0))
    for reduction in ("none", "mean", "sum"):
        for frames, labels in ((torch.tensor(50), torch.tensor(30)), ((50,), (30,)), (torch.tensor([50]), [30])):
            found = ctc.ctc_loss(x.squeeze(1), targets.squeeze(0), frames, labels, reduction=reduction)
            expected = F.ctc_loss(x.squeeze(1), targets.squeeze(0), (50,), (30,), reduction=reduction)
            assert found.shape == expected.shape
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("targets", "frames", "labels", "error"),
    [
        (torch.ones(2, 3, dtype=torch.int64), torch.tensor([5.0, 5.0]), torch.tensor([3, 3]), TypeError),
        (torch.ones(2, 3, dtype=torch.int64), torch.tensor([5, 5]), torch.tensor([3.0, 3.0]), TypeError),
        (torch.ones(2, 3, dtype=torch.int64), torch.tensor([True, True]), torch.tensor([3, 3]), TypeError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 6], [3, 3], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, -1], [3, 3], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 5], [3, 4], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 5], [3, -1], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 5, 5], [3, 3], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 5], [3], ValueError),
        (torch.ones(7, dtype=torch.int64), [5, 5], [3, 3], ValueError),
        (torch.ones(5, dtype=torch.int64), [5, 5], [3, 3], ValueError),
    ],
)
def test_what_torch_refuses_is_refused(targets, frames, labels, error):
    with pytest.raises(RuntimeError):
        F.ctc_loss(log_probs(5, 2, 4), targets, frames, labels)
    with pytest.raises(error):
        ctc.ctc_loss(log_probs(5, 2, 4), targets, frames, labels)


@pytest.mark.parametrize("is_native", [True, False])
def test_concatenated_targets_longer_than_their_lengths_are_named(is_native, monkeypatch):
    if not is_native:
        monkeypatch.setattr(ctc.loss._compiled_loss, "function", lambda: None)
        monkeypatch.setattr(ctc.loss._loss_operator._loss_library, "is_available", lambda: False)
        monkeypatch.setattr(ctc.loss._loss_operator, "warn_slow", lambda what, missing: None)
    message = "targets: expected 5 concatenated labels, as target_lengths add up to, found 6"
    with pytest.raises(ValueError, match=message):
        ctc.ctc_loss(log_probs(9, 2, 4), torch.tensor([1, 2, 3, 1, 2, 3]), [9, 9], [3, 2])
    with pytest.raises(ValueError, match="targets: expected 2 concatenated labels, as .* found 3"):
        ctc.ctc_loss(log_probs(9, 1, 4)[:, 0], torch.tensor([1, 2, 3]), [9], [2])


@pytest.mark.parametrize("value", [-1e10, -1e15, -1e20, -1e30, -3e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_emission_as_improbable_as_a_float_can_say_costs_what_it_costs_torch(value, dtype):
    x = log_probs(5, 2, 4, dtype=dtype).detach()
    x[:, :, 2] = value
    targets = torch.tensor([[1, 2], [1, 3]])
    losses = ctc.ctc_loss(x.requires_grad_(), targets, [5, 5], [2, 2], reduction="none")
    expected = F.ctc_loss(x.log_softmax(2), targets, [5, 5], [2, 2], reduction="none")
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=0)
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient.sum(2), torch.zeros(5, 2, dtype=dtype), rtol=0, atol=1e-6)


def test_a_module_is_the_function():
    x, targets = log_probs(12, 2, 6), torch.tensor([[1, 2, 3], [4, 4, 5]])
    for reduction in ("none", "mean", "sum"):
        expected = torch.nn.CTCLoss(blank=0, reduction=reduction)(x, targets, (12, 10), (3, 3))
        torch.testing.assert_close(ctc.CTCLoss(0, reduction)(x, targets, (12, 10), (3, 3)), expected)
