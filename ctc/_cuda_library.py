"""Calls the CUDA side of the native library by ctypes, on the current stream, with workspace from torch's allocator.

Nothing here waits for the device, so that a loss may be captured in a CUDA graph. Shapes: T frames, B utterances,
V classes.
"""

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from ctc import native as native_code
from ctc._library import LIBRARY, load_cpu
from ctc._loss_library import SUCCESS, TYPES, CTCProblem, LossOptions, TargetLabels, problem_of, refused, wrong_option
from ctc.native.kernels import DeviceFunctions

WORKSPACE_ALIGNMENT = 256
FUNCTIONS = {
    "ctc_loss_cuda": "pppppppppppp",
    "ctc_loss_cuda_workspace": "pp",
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
    launch(
        found.ctc_loss_cuda,
        device,
        problem,
        logits_TBV.data_ptr(),
        _address(gradient_TBV),
        labels.targets.data_ptr(),
        labels.input_lengths.data_ptr(),
        labels.target_lengths.data_ptr(),
        _address(scale_B),
        losses_B.data_ptr(),
        _address(reduced),
        workspace.data_ptr() + -workspace.data_ptr() % WORKSPACE_ALIGNMENT,
        None,
    )
    return losses_B if reduced is None else reduced


def scale(gradient_TBV: Tensor, by: Tensor) -> None:
    """Multiplies a gradient with a number or one for each utterance, in place; elements that are 0 stay 0.

    On the device nothing but `by` is read where it is a 1.
    """
    frames, batch, classes = gradient_TBV.shape
    wide = torch.float64 if gradient_TBV.dtype == torch.float64 else torch.float32
    by = by.to(wide)  # nothing to do: a loss has this type
    frame_stride, batch_stride, _ = gradient_TBV.stride()
    problem = CTCProblem(
        frames=frames,
        batch=batch,
        classes=classes,
        gradient_frame_stride=frame_stride,
        gradient_batch_stride=batch_stride,
        type=TYPES[gradient_TBV.dtype],
    )
    by_stride = by.stride(0) if by.dim() else 0
    launch(
        DEVICE.loaded().ctc_scale_gradient_cuda,
        gradient_TBV.device,
        problem,
        gradient_TBV.data_ptr(),
        by.data_ptr(),
        by_stride,
    )


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def launch(function: Callable[..., int], device: torch.device, *arguments: object) -> None:
    """Calls `function` on `device` with its current stream behind `arguments`."""
    with native_code.current_stream(device) as stream:
        status = function(*arguments, stream)
    if status != SUCCESS:
        raise RuntimeError(f"{getattr(function, '__name__', 'CTC on CUDA')} answered with status {status}")
