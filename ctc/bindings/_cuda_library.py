"""Calls the CUDA side of the native library by ctypes, on the current stream, with workspace from torch's allocator.

Nothing here waits for the device, so that a loss may be captured in a CUDA graph. Shapes: T frames, B utterances,
V classes.
"""

import ctypes
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ctc import native as native_code
from ctc.bindings._library import LIBRARY, load_cpu
from ctc.bindings._loss_library import (
    SUCCESS,
    TYPES,
    CTCProblem,
    LossOptions,
    TargetLabels,
    check,
    problem_of,
    refused,
    wrong_option,
)
from ctc.native.kernels import DeviceFunctions

WORKSPACE_ALIGNMENT = 256
FUNCTIONS = {
    "ctc_loss_cuda": "pppppppppppp>i",
    "ctc_loss_cuda_workspace": "pp>i",
    "ctc_scale_gradient_cuda": "pppnp",
    "ctc_greedy_cuda_workspace": "nn>z",
    "ctc_greedy_cuda": "pipippp",
    "ctc_align_cuda_workspace": "nnn>z",
    "ctc_align_cuda": "pippnpipppppp",
}

DEVICE = DeviceFunctions(LIBRARY, load_cpu, FUNCTIONS)
serves, why_missing = DEVICE.serve, DEVICE.why_missing


def run(
    logits_TBV: Tensor,
    labels: TargetLabels,
    options: LossOptions,
    gradient_TBV: Tensor | None,
    scale_B: Tensor | None = None,
) -> Tensor:
    """The reduced loss, or the losses [B]; fills `gradient_TBV`, scaled by `scale_B`, unless it is None.

    Everything is on the logits' device, the classes of logits and gradient are adjacent. An utterance whose lengths or
    labels do not fit has loss and gradient NaN: to raise an error would be to wait for the device.
    """
    found = DEVICE.loaded()
    problem = problem_of(logits_TBV, labels, options, gradient_TBV)
    bytes_needed = ctypes.c_size_t()
    if found.ctc_loss_cuda_workspace(problem, bytes_needed) != SUCCESS:
        raise ValueError(wrong_option(problem) or f"ctc_loss: the CUDA library cannot compute {refused(problem)}")
    device = logits_TBV.device
    wide = torch.float64 if logits_TBV.dtype == torch.float64 else torch.float32
    workspace = torch.empty(bytes_needed.value + WORKSPACE_ALIGNMENT, dtype=torch.uint8, device=device)
    losses_B = torch.empty(problem.batch, dtype=wide, device=device)
    reduced = torch.empty((), dtype=wide, device=device) if problem.reduction else None
    aligned = workspace[-workspace.data_ptr() % WORKSPACE_ALIGNMENT :]
    inputs = (problem, logits_TBV, gradient_TBV, *labels.arrays, scale_B)
    launch(found.ctc_loss_cuda, device, *inputs, losses_B, reduced, aligned, None)
    return losses_B if reduced is None else reduced


def scale(gradient_TBV: Tensor, by: Tensor) -> None:
    """Multiplies a gradient with a number or one for each utterance, in place; elements that are 0 stay 0.

    On the device nothing but `by` is read where it is a 1.
    """
    frames, batch, classes = gradient_TBV.shape
    wide = torch.float64 if gradient_TBV.dtype == torch.float64 else torch.float32
    by = by.to(wide)  # nothing to do: a loss has this type
    frame_stride, batch_stride, _ = gradient_TBV.stride()
    strides = {"gradient_frame_stride": frame_stride, "gradient_batch_stride": batch_stride}
    problem = CTCProblem(frames=frames, batch=batch, classes=classes, type=TYPES[gradient_TBV.dtype], **strides)
    by_stride = by.stride(0) if by.dim() else 0
    launch(DEVICE.loaded().ctc_scale_gradient_cuda, gradient_TBV.device, problem, gradient_TBV, by, by_stride)


def check_on_host(
    logits_TBV: Tensor,
    options: LossOptions,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
) -> None:
    """ValueError for the first utterance whose lengths or labels do not fit, where all of them are on the host.

    What is on the device is looked at there alone, and makes NaN.
    """
    given = (targets, *(torch.as_tensor(lengths) for lengths in (input_lengths, target_lengths)))
    is_special = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if is_special or logits_TBV.shape[1] == 0 or any(tensor.is_cuda for tensor in given):
        return
    check(logits_TBV, TargetLabels(targets, given[1].reshape(-1), given[2].reshape(-1), targets.shape[-1]), options)


def launch(function: Callable[..., int], device: torch.device, *arguments: object) -> None:
    """Calls `function` on `device` with its current stream behind `arguments`."""
    with native_code.current_stream(device) as stream:
        native_code.check(function(*arguments, stream), function)
