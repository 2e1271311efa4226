"""Calls the CUDA side of the native library by ctypes, on the current stream, with workspace from torch's allocator.

Nothing here waits for the device, so that a loss may be captured in a CUDA graph. Shapes: T frames, B utterances,
V classes.
"""

import ctypes
import functools
from collections.abc import Callable

import torch
from torch import Tensor

from ctc import native as native_code
from ctc._library import LIBRARY, load_cpu
from ctc._loss_library import SUCCESS, TYPES, CTCProblem, LossOptions, TargetLabels, problem_of, refused, wrong_option
from ctc.native import kernels

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


@functools.cache
def library() -> ctypes.CDLL | None:
    """The native library, whose functions for CUDA are declared, or None where it was never built."""
    found = load_cpu()
    return None if found is None else declare(kernels.use(LIBRARY, found))


def declare(found: ctypes.CDLL) -> ctypes.CDLL:
    """Says which arguments the functions of ctc.h and ctc_decode.h take."""
    return native_code.declare(found, FUNCTIONS)


def serves(tensor: Tensor) -> bool:
    """Whether the kernels compute with tensors of this device: of a GPU that they are compiled for."""
    return tensor.is_cuda and why_missing(tensor.device) is None


def why_missing(device: torch.device) -> str | None:
    """Why there are no kernels for a device; None where there are, and for a CPU, which has its own."""
    if device.type != "cuda":
        return None if device.type == "cpu" else f"there are none for {device.type}"
    major, minor = torch.cuda.get_device_capability(device)
    return kernels.why_missing(LIBRARY, 10 * major + minor)


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
    found = native()
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
        native().ctc_scale_gradient_cuda,
        gradient_TBV.device,
        problem,
        gradient_TBV.data_ptr(),
        by.data_ptr(),
        by_stride,
    )


def native() -> ctypes.CDLL:
    """The library; RuntimeError where it was never built."""
    found = library()
    if found is None:
        raise RuntimeError(f"{LIBRARY.cpu} is missing: run `{LIBRARY.command}`")
    return found


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def launch(function: Callable[..., int], device: torch.device, *arguments: object) -> None:
    """Calls `function` on `device` with its current stream behind `arguments`."""
    with native_code.current_stream(device) as stream:
        status = function(*arguments, stream)
    if status != SUCCESS:
        raise RuntimeError(f"{getattr(function, '__name__', 'CTC on CUDA')} answered with status {status}")
