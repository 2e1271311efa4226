"""The tests of the loss once more, on the source of the CUDA kernels, which an emulator runs on the processor."""

import ctypes

import pytest
import torch

from ctc import _cuda_library
from ctc import loss as loss_module
from ctc._loss_library import Labels, Options
from tests.ctc import emulation
from tests.ctc.test_loss import (  # noqa: F401
    ours,
    random_batch,
    relative_error,
    test_a_collapse_on_blank_is_exact,
    test_a_constant_added_to_a_frame_changes_nothing,
    test_a_number_that_is_none_stays_in_its_utterance,
    test_an_empty_batch_has_no_losses,
    test_an_impossible_class_nobody_uses_leaves_the_gradient_finite,
    test_an_impossible_transcript_costs_infinity_and_has_no_gradient,
    test_an_infinite_loss_has_a_gradient_of_zero_even_if_what_comes_back_is_not_finite,
    test_batch_index_padding_and_threads_change_no_bit,
    test_every_layout_gives_the_same,
    test_every_number_of_classes_is_exact,
    test_every_remainder_of_frames_is_exact,
    test_every_size_is_exact,
    test_gradcheck_passes_on_logits,
    test_half_types_are_as_good_as_float32_rounded,
    test_in_place_the_fallback_still_sees_the_logits,
    test_in_place_the_gradient_takes_the_place_of_the_logits,
    test_labels_fit_exactly_or_not_at_all,
    test_logits_of_every_scale_are_exact,
    test_logits_of_ten_thousand_either_way_are_exact,
    test_loss_and_gradient_are_those_of_all_alignments_enumerated,
    test_no_frames_cost_nothing_without_labels_and_infinity_with_them,
    test_one_class_is_always_blank,
    test_smoothing_and_entropy_are_those_of_their_definition,
    test_targets_may_be_concatenated_and_lengths_may_be_lists,
    test_the_gradient_of_a_confident_alignment_keeps_its_digits,
    test_the_largest_floats_do_no_harm,
    test_what_comes_back_scales_each_utterance,
    test_what_lies_behind_a_length_is_never_looked_at,
    test_without_a_gradient_the_loss_is_bitwise_the_same,
    test_zero_infinity_takes_only_the_impossible_utterances_out,
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    target = tmp_path_factory.mktemp("emulated") / "libctc_cuda_emulated.so"
    return ctypes.CDLL(str(emulation.compile_emulated("cuda_emulated", target, "-shared")))


@pytest.fixture(autouse=True)
def device(kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> str:
    """Tensors of the CPU, whose loss the emulated kernels compute."""
    emulation.emulate(monkeypatch, kernels)
    monkeypatch.setattr(loss_module._loss_library, "run", _cuda_library.run)
    return "cpu"


@pytest.mark.parametrize("labels", [0, 15, 31, 32, 63, 64, 127, 128, 255, 256, 511, 512, 1025])
def test_every_shape_of_a_block_is_exact(labels):
    logits, *rest = random_batch(labels + labels // 8 + 7, labels, 40, 1)
    losses, gradient = ours(logits, *rest)
    expected_losses, expected = ours(logits.double(), *rest)
    torch.testing.assert_close(losses.double(), expected_losses, rtol=1e-6, atol=1e-6)
    assert relative_error(gradient, expected) <= 1e-6


def test_the_extended_range_gives_what_the_fast_path_gives():
    logits, targets, frames, labels = random_batch(150, 40, 28, 2)
    arguments = Labels(targets, frames, labels, 40)
    fast, slow = torch.empty_like(logits), torch.empty_like(logits)
    losses = _cuda_library.run(logits, arguments, Options(reduction="none"), fast)
    slow_losses = _cuda_library.run(logits, arguments, Options(reduction="none", extended_range=True), slow)
    torch.testing.assert_close(losses, slow_losses, rtol=1e-6, atol=0)
    assert 0 < relative_error(fast, slow.double()) < 1e-6


def test_the_shape_of_the_block_changes_no_bit():
    logits, targets, frames, labels = random_batch(80, 30, 28, 2)
    expected = ours(logits, targets, frames, labels)
    for width in (100, 200, 400, 1000, 2000):
        wide_targets = torch.nn.functional.pad(targets, (0, width))
        padded = torch.nn.functional.pad(logits, (0, 0, 0, 0, 0, width))
        losses, gradient = ours(padded, wide_targets, frames, labels)
        assert torch.equal(losses, expected[0])
        assert torch.equal(gradient[:80], expected[1])
        assert not gradient[80:].any()


@pytest.mark.parametrize(
    "wrong", ["label", "blank as a label", "negative label", "frames", "labels", "negative frames"]
)
@pytest.mark.parametrize("is_padded", [True, False])
def test_what_does_not_fit_makes_nan_and_nothing_else(wrong, is_padded):
    logits, targets, frames, labels = random_batch(12, 3, 8, 3)
    expected_losses, expected_gradient = ours(logits, targets, frames, labels)
    if "label" in wrong and wrong != "labels":
        targets[1, 1] = {"label": 8, "blank as a label": 0, "negative label": -1}[wrong]
    else:
        (labels if wrong == "labels" else frames)[1] = {"frames": 13, "labels": 10, "negative frames": -1}[wrong]
    gradient = torch.zeros_like(logits)
    held = targets if is_padded else targets.flatten()
    losses = _cuda_library.run(
        logits, Labels(held, frames, labels, held.shape[-1]), Options(reduction="none"), gradient
    )
    untouched = [0, 2] if is_padded or wrong != "labels" else [0]
    assert losses[1].isnan()
    assert gradient[:, 1].isnan().all()
    assert torch.equal(losses[untouched], expected_losses[untouched])
    assert torch.equal(gradient[:, untouched], expected_gradient[:, untouched])
