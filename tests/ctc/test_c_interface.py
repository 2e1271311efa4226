"""The C interface as programs written for warp-ctc call it, and the example as a user builds it."""

import ctypes
import math
import shutil
import subprocess
from ctypes import POINTER, c_double, c_float, c_int, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ctc.bindings._library import LIBRARY, load_cpu

PACKAGE = LIBRARY.package
INVALID_VALUE, EXECUTION_FAILED = 2, 3


class Location(ctypes.Union):
    _fields_ = (("num_threads", ctypes.c_uint), ("stream", c_void_p))


class CtcOptions(ctypes.Structure):
    _anonymous_ = ("where",)
    _fields_ = (("loc", c_int), ("where", Location), ("blank_label", c_int))


def ints(values) -> ctypes.Array:
    return (c_int * max(len(values), 1))(*values)


def compute(activations: np.ndarray, labels, frames, *, blank: int = 0, threads: int = 1, with_gradient: bool = True):
    """Costs and gradients of activations [T, N, A] through the interface; labels as a list for each example."""
    library = load_cpu()
    double = activations.dtype == np.float64
    real = c_double if double else c_float
    suffix = "_double" if double else ""
    options = CtcOptions(loc=0, num_threads=threads, blank_label=blank)
    batch, alphabet = activations.shape[1:]
    lengths, frames = ints([len(example) for example in labels]), ints(frames)
    size = c_size_t()
    measure = getattr(library, f"get_workspace_size{suffix}")
    assert measure(lengths, frames, alphabet, batch, options, ctypes.byref(size)) == 0
    workspace = ctypes.create_string_buffer(size.value)
    costs = np.full(batch, np.nan, activations.dtype)
    gradients = np.full_like(activations, np.nan)
    pointer = lambda array: array.ctypes.data_as(POINTER(real))  # noqa: E731
    flat = ints([label for example in labels for label in example])
    status = getattr(library, f"compute_ctc_loss{suffix}")(
        pointer(activations), pointer(gradients) if with_gradient else None,
        flat, lengths, frames, alphabet, batch, pointer(costs), workspace, options,
    )  # fmt: skip
    assert status == 0
    return costs, gradients


def expected(activations: np.ndarray, labels, frames, blank: int = 0):
    x = torch.from_numpy(activations).double().requires_grad_()
    losses = F.ctc_loss(
        x.log_softmax(2), torch.tensor([k for e in labels for k in e]), frames, [len(e) for e in labels],
        blank=blank, reduction="none",
    )  # fmt: skip
    return losses.detach().numpy(), torch.autograd.grad(losses.sum(), x)[0].numpy()


def normal(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_the_version_is_2():
    assert load_cpu().get_warpctc_version() == 2


def test_every_status_has_words():
    describe = load_cpu().ctcGetStatusString
    describe.restype = ctypes.c_char_p
    words = ["no error", "memory copy or set failed", "invalid value", "execution failed", "unknown error"]
    assert [describe(status).decode() for status in range(5)] == words


def test_two_frames_and_two_labels_have_one_path():
    activations = np.array([[[0.1, 0.6, 0.1, 0.1, 0.1]], [[0.1, 0.1, 0.6, 0.1, 0.1]]], np.float32)
    p = np.exp(activations) / np.exp(activations).sum(2, keepdims=True)
    costs, _ = compute(activations, [[1, 2]], [2], with_gradient=False)
    assert math.exp(-costs[0]) == pytest.approx(p[0, 0, 1] * p[1, 0, 2], abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_a_last_blank_and_repeated_labels_are_exact_with_every_number_of_threads(dtype, threads):
    activations = normal(40, 8, 6, dtype=dtype)
    labels = [[0, 1, 2, 1, 0], [0, 1, 1, 0]] * 4
    frames = [40, 30, 20, 10] * 2
    costs, gradients = compute(activations, labels, frames, blank=5, threads=threads)
    expected_costs, expected_gradients = expected(activations, labels, frames, blank=5)
    np.testing.assert_allclose(costs, expected_costs, rtol=1e-6)
    np.testing.assert_allclose(gradients, expected_gradients, atol=1e-6)


@pytest.mark.parametrize(("alphabet", "frames", "count", "batch"), [(20, 50, 15, 1), (5, 10, 5, 65)])
def test_gradients_are_central_differences(alphabet, frames, count, batch):
    activations = normal(frames, batch, alphabet, dtype=np.float64)
    labels = [[(i // 2 + n) % (alphabet - 1) + 1 for i in range(count)] for n in range(batch)]
    _, gradients = compute(activations, labels, [frames] * batch)
    direction = np.random.default_rng(1).standard_normal(activations.shape)
    ahead, behind = (compute(activations + step * direction, labels, [frames] * batch)[0] for step in (1e-5, -1e-5))
    np.testing.assert_allclose((ahead - behind) / 2e-5, (gradients * direction).sum((0, 2)), rtol=1e-6, atol=1e-7)


def test_an_impossible_label_costs_infinity_and_leaves_no_nan():
    activations = normal(50, 1, 15)
    activations[:, :, 2] = -1e30
    costs, gradients = compute(activations, [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]], [50])
    assert costs[0] == math.inf
    assert not gradients.any()


def test_more_labels_than_frames_cost_infinity_and_padded_frames_have_gradient_0():
    costs, gradients = compute(normal(6, 3, 5), [[1, 1, 1, 1], [1, 2], []], [6, 4, 6])
    assert costs[0] == math.inf
    assert not gradients[:, 0].any()
    assert np.isfinite(costs[1:]).all()
    assert not gradients[4:, 1].any()


def test_logits_of_minus_ten_thousand_are_not_clamped():
    activations = normal(20, 1, 8)
    activations[10, 0] = 0
    activations[10, 0, [0, 1, 2, 3]] = -1e4
    labels = [[1, 2, 3] * 3]
    costs, gradients = compute(activations, labels, [20])
    expected_costs, expected_gradients = expected(activations, labels, [20])
    np.testing.assert_allclose(costs, expected_costs, rtol=1e-6)
    np.testing.assert_allclose(gradients, expected_gradients, atol=1e-6)


def test_wrong_arguments_give_a_status():
    library = load_cpu()
    options = CtcOptions(loc=0, num_threads=1, blank_label=0)
    size = c_size_t()
    one = ints([1])
    assert library.get_workspace_size(None, one, 5, 1, options, ctypes.byref(size)) == INVALID_VALUE
    assert library.get_workspace_size(one, one, 0, 1, options, ctypes.byref(size)) == INVALID_VALUE
    assert library.compute_ctc_loss(None, None, one, one, one, 5, 1, None, None, options) == INVALID_VALUE
    activations = (c_float * 5)()
    memory = ctypes.create_string_buffer(100_000)
    for label in (-1, 0, 5):
        arguments = (activations, None, ints([label]), one, one, 5, 1, (c_float * 1)(), memory, options)
        assert library.compute_ctc_loss(*arguments) == INVALID_VALUE


def test_the_example_compiles_and_agrees_with_its_own_arithmetic(tmp_path: Path):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    program = tmp_path / "loss"
    command = [compiler, "-Wall", "-Wextra", "-Werror", PACKAGE / "examples" / "loss.c", f"-I{PACKAGE / 'include'}"]
    command += [f"-L{LIBRARY.cpu.parent}", "-lctc", f"-Wl,-rpath,{LIBRARY.cpu.parent}", "-lm", "-o", program]
    subprocess.run(command, check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert "loss 2.462858, by hand 2.462858" in printed
