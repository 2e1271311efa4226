"""The tests of the loss once more, on the source of the CUDA kernels, which an emulator runs on the processor."""

import ctypes
import itertools
import shutil

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ctc
from ctc.alignment.align import Spans, viterbi_native
from ctc.bindings import _compiled_loss, _cuda_decode, _cuda_library, _loss_library, _native
from ctc.bindings._library import LIBRARY
from ctc.bindings._loss_library import LossOptions, TargetLabels, problem_of
from ctc.decoding.greedy import _unpack
from ctc.inputs import on_host
from ctc.native import kernels as native_kernels
from tests import emulation
from tests.ctc.decoding.test_greedy import random_scores
from tests.ctc.loss.test_function import (  # noqa: F401
    test_a_collapse_on_blank_is_exact,
    test_a_constant_added_to_a_frame_changes_nothing,
    test_a_number_that_is_none_stays_in_its_utterance,
    test_an_empty_batch_has_no_losses,
    test_an_impossible_class_nobody_uses_leaves_the_gradient_finite,
    test_an_impossible_transcript_costs_infinity_and_has_no_gradient,
    test_an_infinite_loss_has_a_gradient_of_zero_even_if_what_comes_back_is_not_finite,
    test_every_layout_gives_the_same,
    test_every_number_of_classes_is_exact,
    test_every_remainder_of_frames_is_exact,
    test_every_size_is_exact,
    test_float16_survives_the_scale_of_a_grad_scaler,
    test_half_types_are_as_good_as_float32_rounded,
    test_labels_fit_exactly_or_not_at_all,
    test_logits_of_every_scale_are_exact,
    test_logits_of_ten_thousand_either_way_are_exact,
    test_loss_and_gradient_are_those_of_all_alignments_enumerated,
    test_no_frames_cost_nothing_without_labels_and_infinity_with_them,
    test_numbers_that_are_negated_when_read_are_negated,
    test_one_class_is_always_blank,
    test_smoothing_and_entropy_are_those_of_their_definition,
    test_targets_may_be_concatenated_and_lengths_may_be_lists,
    test_the_gradient_of_a_confident_alignment_keeps_its_digits,
    test_the_largest_floats_do_no_harm,
    test_what_lies_behind_a_length_is_never_looked_at,
    test_zero_infinity_takes_only_the_impossible_utterances_out,
)
from tests.ctc.loss.test_loss_autograd import (  # noqa: F401
    test_a_later_backward_leaves_the_gradient_of_an_earlier_one_alone,
    test_batch_index_padding_and_threads_change_no_bit,
    test_compiled_code_gives_the_same,
    test_gradcheck_passes_on_logits,
    test_in_place_the_fallback_still_sees_the_logits,
    test_in_place_the_gradient_takes_the_place_of_the_logits,
    test_the_operator_passes_opcheck,
    test_what_comes_back_scales_each_utterance,
    test_without_a_gradient_the_loss_is_bitwise_the_same,
)
from tests.ctc.loss.test_loss_refusals import (  # noqa: F401
    test_a_label_that_is_no_class_is_named_with_its_utterance,
    test_a_target_length_that_does_not_fit_is_named_with_its_utterance,
    test_an_input_length_that_does_not_fit_is_named_with_its_utterance,
)
from tests.ctc.loss.test_star import (  # noqa: F401
    STAR,
    test_a_star_alone_takes_everything_and_teaches_nothing,
    test_concatenated_targets_and_compiled_losses_know_stars,
    test_equal_neighbours_need_a_frame_between_them_even_with_a_star,
    test_long_utterances_agree_with_the_plain_recursion,
    test_nan_anywhere_in_a_frame_is_nan_and_a_class_at_minus_infinity_is_not,
    test_no_frames_hold_a_star_and_no_label,
    test_padding_batch_and_threads_do_not_change_a_bit,
    test_the_gradient_is_that_of_differences,
    test_the_loss_is_that_of_all_ways_to_give_frames_away,
    test_what_a_transcript_leaves_out_costs_nothing_where_a_star_stands,
)
from tests.ctc.losses import ours, random_batch, relative_error
from tests.ctc.test_c_interface import INVALID_VALUE, CtcOptions, expected, ints, normal

pytestmark = pytest.mark.slow  # the fixture compiles for eight seconds


@pytest.fixture(scope="module")
def kernels() -> ctypes.CDLL:
    return emulation.kernels_of(LIBRARY)


@pytest.fixture(autouse=True)
def device(kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> str:
    """Tensors of the CPU, whose loss the emulated kernels compute."""
    emulation.emulate(monkeypatch, _cuda_library, kernels)
    monkeypatch.setattr(_cuda_library, "serves", lambda tensor: True)
    monkeypatch.setattr(_compiled_loss, "function", lambda: None)
    return "cpu"


@pytest.mark.parametrize("labels", [0, 15, 31, 32, 63, 64, 127, 128, 255, 256, 511, 512, 1025])
def test_every_shape_of_a_block_is_exact(labels):
    logits, *rest = random_batch(labels + labels // 8 + 7, labels, 40, 1)
    losses, gradient = ours(logits, *rest)
    expected_losses, expected = ours(logits.double(), *rest)
    torch.testing.assert_close(losses.double(), expected_losses, rtol=1e-6, atol=1e-6)
    assert relative_error(gradient, expected) <= 1e-6


def test_blocks_with_as_little_memory_as_turings_compute_the_same(monkeypatch):
    batches = [random_batch(labels + 20, labels, 40, 2) for labels in (9, 255, 300)]
    expected = [ours(*batch) for batch in batches]
    monkeypatch.setenv("CTC_EMULATED_SHARED_KB", "64")
    for batch, (losses, gradient) in zip(batches, expected, strict=True):
        found, found_gradient = ours(*batch)
        torch.testing.assert_close(found, losses, rtol=1e-6, atol=0)
        assert relative_error(found_gradient, gradient.double()) <= 1e-6


def test_concatenated_labels_that_are_left_over_make_all_losses_nan():
    logits, targets, frames, labels = random_batch(12, 3, 8, 2)
    for count, is_wrong in ((6, False), (7, True)):
        flat = torch.cat([targets.flatten(), torch.ones(1, dtype=torch.int64)])[:count]
        losses = _cuda_library.run(
            logits, TargetLabels(flat, frames, labels, count), LossOptions(reduction="none"), None
        )
        assert losses.isnan().all() == is_wrong


def test_the_extended_range_gives_what_the_fast_path_gives():
    logits, targets, frames, labels = random_batch(150, 40, 28, 2)
    arguments = TargetLabels(targets, frames, labels, 40)
    fast, slow = torch.empty_like(logits), torch.empty_like(logits)
    losses = _cuda_library.run(logits, arguments, LossOptions(reduction="none"), fast)
    slow_losses = _cuda_library.run(logits, arguments, LossOptions(reduction="none", extended_range=True), slow)
    torch.testing.assert_close(losses, slow_losses, rtol=1e-6, atol=0)
    assert 0 < relative_error(fast, slow.double()) < 1e-6


@pytest.mark.parametrize("classes", [28, 301, 7000])
@pytest.mark.parametrize("scale", [1, 100])
def test_in_place_the_gradient_is_the_same_for_every_size_of_row(classes, scale):
    logits, targets, frames, labels = random_batch(30, 9, classes, 2, scale=scale)
    arguments, gradient = TargetLabels(targets, frames, labels, 9), torch.empty_like(logits)
    losses = _cuda_library.run(logits, arguments, LossOptions(reduction="none"), gradient)
    assert torch.equal(_cuda_library.run(logits, arguments, LossOptions(reduction="none"), logits), losses)
    assert torch.equal(logits, gradient)


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
        logits, TargetLabels(held, frames, labels, held.shape[-1]), LossOptions(reduction="none"), gradient
    )
    untouched = [0, 2] if is_padded or wrong != "labels" else [0]
    assert losses[1].isnan()
    assert gradient[:, 1].isnan().all()
    assert torch.equal(losses[untouched], expected_losses[untouched])
    assert torch.equal(gradient[:, untouched], expected_gradient[:, untouched])


@pytest.mark.parametrize("labels", [0, 31, 63, 127, 255, 511, 1025, 2100])
def test_every_shape_of_a_block_knows_stars(labels):
    frames = min(labels + labels // 8 + 7, 2200)
    logits, targets, *lengths = random_batch(frames, max(labels, 1), 40, 1)
    targets[:, :: max(labels // 3, 1)] = STAR
    options = LossOptions(star=STAR, reduction="none")
    gradient, expected = torch.empty_like(logits), torch.empty_like(logits.double())
    arguments = TargetLabels(targets, *lengths, targets.shape[1])
    loss = _cuda_library.run(logits, arguments, options, gradient)
    expected_loss = _loss_library.run(logits.double(), arguments, options, expected)
    torch.testing.assert_close(loss.double(), expected_loss, rtol=1e-6, atol=2e-6)
    assert relative_error(gradient, expected) <= 1e-6


def test_a_star_that_is_a_class_is_refused_by_the_kernels(kernels):
    logits, targets, frames, labels = random_batch(12, 3, 8, 3)
    arguments, options = TargetLabels(targets, frames, labels, 3), LossOptions(star=7)
    with pytest.raises(ValueError, match=r"star: expected a number that is no class in \[0, 8\), found 7"):
        _cuda_library.run(logits, arguments, options, None)
    problem = problem_of(logits, arguments, options, None)
    assert kernels.ctc_loss_cuda(problem, *(None,) * 11) == INVALID_VALUE
    assert kernels.ctc_loss_cuda_workspace(problem, ctypes.c_size_t()) == INVALID_VALUE


# Scaling what backward returns


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("factors", [1.0, -2.5, [1.0, 0.0, 3.0], [2.0, torch.inf, torch.nan]], ids=str)
def test_a_gradient_is_scaled_in_place_and_what_is_0_stays_0(factors, dtype):
    gradient = torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    gradient[:, :, 2] = 0
    by = torch.tensor(factors, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    expected = (gradient.to(by.dtype) * (by if by.dim() == 0 else by[:, None])).to(dtype)
    expected[gradient == 0] = 0
    _cuda_library.scale(gradient, by)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=0, equal_nan=True)


# Decoding and alignment


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocabulary", [1, 2, 17, 33, 300])
def test_greedy_equals_that_of_the_processor(vocabulary, dtype):
    for frames in (23, 600):
        logits_BSV = random_scores(4, frames, vocabulary, dtype=dtype)
        frames_B = torch.tensor([frames, 0, 1, frames - 4])
        logits_BSV[1:3, 1:] = torch.nan
        blank = vocabulary // 2
        found = _unpack(_cuda_decode.greedy(logits_BSV, frames_B, blank))
        for one, other in zip(found, ctc.greedy(logits_BSV, frames_B, blank=blank), strict=True):
            assert one.labels == other.labels
            assert (one.start_frames, one.end_frames) == (other.start_frames, other.end_frames)
            assert one.confidence == pytest.approx(other.confidence, rel=1e-6)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_greedy_names_an_utterance_that_is_no_number(value):
    logits_BSV = random_scores(3, 12, 5)
    logits_BSV[1, 4] = value
    with pytest.raises(ValueError, match="item 1: 1 of its frames hold NaN"):
        _unpack(_cuda_decode.greedy(logits_BSV, torch.tensor([12, 12, 12]), 0))


@pytest.mark.parametrize("length", [-1, 13])
def test_greedy_names_a_length_that_does_not_fit(length):
    with pytest.raises(ValueError, match=f"item 1: expected at least 0 and at most 12, found {length}"):
        _unpack(_cuda_decode.greedy(random_scores(2, 12, 5), torch.tensor([12, length]), 0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("frames", "labels"), [(40, 13), (400, 300), (1600, 1400)])
def test_alignments_equal_those_of_the_processor(frames, labels, dtype):
    generator = torch.Generator().manual_seed(labels)
    # Scores on a coarse grid: ties are frequent, and are to be resolved alike.
    logits_BSV = torch.randint(-2, 3, (4, frames, 6), generator=generator).to(dtype)
    targets_BU = torch.arange(labels).expand(4, labels) % 5
    targets_BU = torch.where(torch.rand(4, labels, generator=generator) < 0.1, 2, targets_BU).int()
    frames_B, lengths_B = torch.tensor([frames, frames - 3, 1, frames]), torch.tensor([labels // 2, 7, 0, 1])
    found = Spans(*_cuda_decode.viterbi(logits_BSV, targets_BU, frames_B, lengths_B, 5))
    library = _native.load() or pytest.skip("no C++ compiler")
    scores_BSV, options = on_host(logits_BSV), _native.AlignOptions(blank=5)
    expected, _ = viterbi_native(library, scores_BSV, targets_BU.numpy(), frames_B, lengths_B, options)
    assert np.array_equal(found.start_BU, expected.start_BU)
    assert np.array_equal(found.end_BU, expected.end_BU)
    np.testing.assert_allclose(found.log_prob_B, expected.log_prob_B, rtol=1e-6, atol=0)
    np.testing.assert_allclose(found.log_prob_BU, expected.log_prob_BU, rtol=1e-6, atol=0)


def test_a_transcript_that_cannot_be_is_impossible():
    logits_BSV = random_scores(3, 4, 3)
    targets_BU = torch.tensor([[1, 1, 1], [1, 7, 1], [1, 2, 1]], dtype=torch.int32)
    lengths_B = torch.tensor([3, 3, 3])
    totals = _cuda_decode.viterbi(logits_BSV, targets_BU, torch.tensor([4, 4, 4]), lengths_B, 0)[3]
    assert totals.isfinite().tolist() == [False, False, True]


# The functions that warp-ctc has


def on_gpu(kernels: ctypes.CDLL, activations: np.ndarray, labels: list[list[int]], frames: list[int], blank: int = 0):
    """(status, costs, gradients) of activations [T, N, A]."""
    suffix = "_double" if activations.dtype == np.float64 else ""
    options = CtcOptions(loc=1, blank_label=blank)
    batch, alphabet = activations.shape[1:]
    sizes = (ints([len(example) for example in labels]), ints(frames), alphabet, batch)
    size = ctypes.c_size_t()
    assert getattr(kernels, f"get_workspace_size{suffix}")(*sizes, options, ctypes.byref(size)) == 0
    workspace = ctypes.create_string_buffer(size.value)
    costs, gradients = np.full(batch, np.nan, activations.dtype), np.full_like(activations, np.nan)
    flat = ints([label for example in labels for label in example])
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (activations, gradients, costs)]
    compute = getattr(kernels, f"compute_ctc_loss{suffix}")
    status = compute(pointers[0], pointers[1], flat, *sizes, pointers[2], workspace, options)
    return status, costs, gradients


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_program_for_warp_ctc_gets_its_costs_and_gradients(kernels, dtype):
    activations = normal(40, 8, 6, dtype=dtype)
    labels, frames = [[0, 1, 2, 1, 0], [0, 1, 1, 0]] * 4, [40, 30, 20, 10] * 2
    status, costs, gradients = on_gpu(kernels, activations, labels, frames, blank=5)
    expected_costs, expected_gradients = expected(activations, labels, frames, blank=5)
    assert status == 0
    np.testing.assert_allclose(costs, expected_costs, rtol=1e-6)
    np.testing.assert_allclose(gradients, expected_gradients, atol=1e-6)


def test_a_program_for_warp_ctc_gets_a_status_for_wrong_arguments(kernels):
    for label in (-1, 0, 6):
        assert on_gpu(kernels, normal(4, 1, 6), [[label]], [4])[0] == INVALID_VALUE
    size, one, on_gpu_0 = ctypes.c_size_t(), ints([1]), CtcOptions(loc=1)
    assert kernels.get_workspace_size(one, ints([-1]), 5, 1, on_gpu_0, ctypes.byref(size)) == INVALID_VALUE
    assert kernels.get_workspace_size(None, one, 5, 1, on_gpu_0, ctypes.byref(size)) == INVALID_VALUE
    assert kernels.get_warpctc_version() == 2


# Memory and random lattices


def test_random_lattices_pass_under_sanitizers(tmp_path):
    emulation.sanitize_lattices(LIBRARY, tmp_path, count=40)


# What the driver is asked for


class Allocations(TorchDispatchMode):
    """Counts tensors that are made without values."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket.__name__ in ("empty", "empty_strided", "empty_like", "new_empty", "zeros")
        return function(*args, **(kwargs or {}))


def test_a_loss_is_six_launches_and_three_allocations_and_waits_for_nothing():
    logits, *rest = random_batch(60, 12, 28, 3)
    emulation.counts_of(LIBRARY)
    arguments, gradient = TargetLabels(*rest, 12), torch.empty_like(logits)
    with Allocations() as allocations:
        loss = _cuda_library.run(logits, arguments, LossOptions(reduction="mean"), gradient)
    counts = emulation.counts_of(LIBRARY)
    assert (counts.launches, counts.copies, counts.waits) == (6, 0, 0)
    assert allocations.count <= 3
    _cuda_library.scale(gradient, torch.ones_like(loss))
    assert emulation.counts_of(LIBRARY).launches == 1


def test_greedy_decoding_and_alignment_are_two_launches_and_wait_for_nothing():
    logits_BSV, frames_B = random_scores(3, 12, 5), torch.tensor([12, 12, 9])
    emulation.counts_of(LIBRARY)
    with Allocations() as allocations:
        _cuda_decode.greedy(logits_BSV, frames_B, 0)
    counts = emulation.counts_of(LIBRARY)
    assert (counts.launches, counts.copies, counts.waits, allocations.count) == (2, 0, 0, 2)
    _cuda_decode.viterbi(logits_BSV, torch.ones(3, 2, dtype=torch.int32), frames_B, torch.tensor([2, 1, 0]), 0)
    counts = emulation.counts_of(LIBRARY)
    assert (counts.launches, counts.copies, counts.waits) == (2, 0, 0)


# Autograd on the device


def test_a_second_backward_with_another_factor_is_made_anew():
    batch = random_batch(40, 9, 28, 3)
    x = batch[0].requires_grad_()
    loss = ctc.ctc_loss(x, *batch[1:], reduction="sum")
    first, second = (torch.autograd.grad(loss, x, torch.tensor(by), retain_graph=True)[0] for by in (3.0, 5.0))
    _, expected = ours(*batch)
    torch.testing.assert_close(first, 3 * expected, rtol=0, atol=0)
    torch.testing.assert_close(second, 5 * expected, rtol=0, atol=0)


def test_a_second_backward_in_place_is_refused():
    logits, *rest = random_batch(40, 9, 28, 3)
    x = logits.requires_grad_() * 1
    loss = ctc.ctc_loss(x, *rest, reduction="sum", in_place=True)
    torch.autograd.grad(loss, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="a second backward needs the logits, which in_place=True has overwritten"):
        torch.autograd.grad(loss, x)


def test_a_kernel_that_cannot_be_loaded_is_made_anew_or_told(tmp_path, monkeypatch, capfd):
    for file in emulation.kernels_folder(LIBRARY).iterdir():
        if file.is_file():
            shutil.copyfile(file, tmp_path / file.name)
    (tmp_path / "sm_90").mkdir()
    names = native_kernels.names(LIBRARY, loaded := ctypes.CDLL(str(tmp_path / LIBRARY.cpu.name)))
    for name, damage in zip(names, itertools.cycle((b"", b"cut\n", b"cut")), strict=False):
        (tmp_path / native_kernels.file_of(name, 90)).write_bytes(damage)
    made = lambda _, name, *__: native_kernels.CompiledKernel(name.encode(), name.encode(), "")  # noqa: E731
    monkeypatch.setattr(native_kernels, "compiled", made)
    own = native_kernels.use(LIBRARY, loaded, folder=tmp_path, driver=tmp_path / "driver.so")
    emulation.emulate(monkeypatch, _cuda_library, own)
    logits, targets, frames, labels = random_batch(12, 3, 8, 2)
    arguments = TargetLabels(targets, frames, labels, 3)
    assert _cuda_library.run(logits, arguments, LossOptions(reduction="none"), None).isfinite().all()
    scaling = native_kernels.file_of("scale_kernel<float>", 90)
    (tmp_path / scaling).write_text("another\nanother")
    with pytest.raises(RuntimeError, match="answered with status"):
        _cuda_library.scale(logits, torch.ones(2) * 2)
    assert f"scale_kernel<float>: libcuda answers with 500 to {tmp_path / scaling}" in capfd.readouterr().err
