"""What the loss says where it has no kernel, and of arguments that do not fit."""

import math

import pytest
import torch

import ctc
from ctc.bindings._loss_library import is_available
from ctc.loss import function as loss_module
from tests.ctc.losses import ours, random_batch, truth


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module._compiled_loss, "function", lambda: None)
    monkeypatch.setattr(loss_module._loss_library, "is_available", lambda: False)
    monkeypatch.setattr(loss_module._loss_operator, "warn_slow", lambda what, missing: None)


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
