"""Calls the CUDA side of the native losses through ctypes, on the current stream, with memory from torch's allocator.

Nothing here waits for the device, so that a loss may be captured in a CUDA graph. Shapes: B utterances, T frames,
U positions, W outputs of the joint, F frames of a tile.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ctc import native
from ctc.native.kernels import DeviceFunctions
from fastconformer.transducer._library import LIBRARY, load_cpu, size_of
from fastconformer.transducer.loss._loss_library import (
    TransducerLossOptions,
    TransducerTargets,
    problem_of,
    set_strides,
)

MOST_DURATIONS = 256
"""`TRANSDUCER_MOST_DURATIONS` of transducer_loss.h."""
MOST_CELLS = 2**31 - 1
ARGUMENTS = {
    "transducer_lattices_bytes_cuda": "pp",
    "transducer_loss_cuda": "p" * 8,
    "transducer_begin_cuda": "p" * 6,
    "transducer_read_frames_cuda": "ppnnppp",
    "transducer_walk_cuda": "pppp",
    "transducer_gradient_cuda": "pppnnpppp",
    "transducer_decode_begin_cuda": "ppp",
    "transducer_decode_steps_cuda": "ppnp",
    "transducer_scorer_for_device": "ppnp",
    "transducer_beam_workspace_cuda": "pppp",
    "transducer_beam_begin_cuda": "pppp",
    "transducer_beam_steps_cuda": "pppnp",
}


DEVICE = DeviceFunctions(LIBRARY, load_cpu, ARGUMENTS)
serves, why_missing = DEVICE.serve, DEVICE.why_missing


def can_compute(shape: Sequence[int], options: TransducerLossOptions) -> bool:
    """Whether a batch [B, T, U] of such options is not too large for the kernels."""
    batch, frames, positions = shape
    return batch * frames * positions <= MOST_CELLS and len(options.durations) <= MOST_DURATIONS


def losses(
    logits_BTUW: Tensor, labels: TransducerTargets, options: TransducerLossOptions, *, wants_gradient: bool = True
) -> tuple[Tensor, Tensor]:
    """The losses, float64 [B], and the lattices that `gradient` reads. On the device, outputs of a cell adjacent.

    An utterance whose lengths or labels do not fit has loss and gradient NaN: to raise an error would be to wait.
    """
    lattices = Lattices(logits_BTUW.dtype, logits_BTUW.shape, labels, options, wants_gradient=wants_gradient)
    set_strides(lattices.problem, "logits", logits_BTUW)
    losses_B = lattices.empty_losses()
    lattices.launch("transducer_loss_cuda", logits_BTUW, *labels, losses_B, lattices.memory)
    return losses_B, lattices.memory


def gradient(
    logits_BTUW: Tensor,
    labels: TransducerTargets,
    options: TransducerLossOptions,
    scale_B: Tensor,
    lattices: Tensor,
    out_BTUW: Tensor,
) -> None:
    """Fills `out_BTUW`, which may be the logits, with the gradient of the sum of losses times `scale_B` (float64)."""
    Lattices(logits_BTUW.dtype, logits_BTUW.shape, labels, options, memory=lattices).write_gradient(
        0, logits_BTUW, scale_B, out_BTUW
    )


class Lattices:
    """The lattices of a batch whose logits may be made in tiles of frames: read all, walk, then ask for gradients."""

    def __init__(
        self,
        dtype: torch.dtype,
        shape: Sequence[int],
        labels: TransducerTargets,
        options: TransducerLossOptions,
        *,
        wants_gradient: bool = True,
        memory: Tensor | None = None,
    ) -> None:
        """`shape`: [B, T, U, W]. `memory` is what others left in theirs, to go on with gradients."""
        self._labels = labels
        self.problem, self._durations = problem_of(dtype, shape, options)
        self.problem.targets_stride, self.problem.loss_only = labels.targets_BL.shape[1], not wants_gradient
        if memory is None:
            count = size_of(DEVICE.loaded().transducer_lattices_bytes_cuda, self.problem)
            memory = torch.zeros(count, dtype=torch.uint8, device=labels.frames_B.device)
        self.memory = memory

    def begin(self) -> None:
        """Looks at the lengths and the labels."""
        self.launch("transducer_begin_cuda", *self._labels, self.memory)

    def read(self, first: int, logits_BFUW: Tensor) -> None:
        """Reads the logits of frames from number `first` on, outputs of a cell adjacent."""
        set_strides(self.problem, "logits", logits_BFUW)
        arguments = (logits_BFUW, first, logits_BFUW.shape[1], self._labels.targets_BL, self.memory)
        self.launch("transducer_read_frames_cuda", *arguments)

    def walk(self) -> Tensor:
        """The losses, float64 [B]."""
        losses_B = self.empty_losses()
        self.launch("transducer_walk_cuda", losses_B, self.memory)
        return losses_B

    def write_gradient(self, first: int, logits_BFUW: Tensor, scale_B: Tensor, out_BFUW: Tensor) -> None:
        """Fills `out_BFUW`, which may be the logits, with the gradient of frames from number `first` on."""
        set_strides(self.problem, "logits", logits_BFUW)
        set_strides(self.problem, "gradient", out_BFUW)
        arguments = (logits_BFUW, out_BFUW, first, logits_BFUW.shape[1], self._labels.targets_BL, scale_B, self.memory)
        self.launch("transducer_gradient_cuda", *arguments)

    def empty_losses(self) -> Tensor:
        """Where a call puts them."""
        return torch.empty(self.problem.batch, dtype=torch.float64, device=self.memory.device)

    def launch(self, name: str, *arguments: object) -> None:
        """Calls a function of the library on the device of the lattices, with its current stream."""
        with native.current_stream(self.memory.device) as stream:
            getattr(DEVICE.loaded(), name)(self.problem, *arguments, stream)
