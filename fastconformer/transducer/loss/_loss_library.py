"""Calls the native losses through ctypes: the structure of `include/transducer_loss.h`, its arguments and statuses.

Shapes: B utterances, T frames, U positions (labels of the longest utterance + 1), W outputs of the joint: V labels and
the blank, then D durations.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import Structure, c_double, c_int32, c_int64
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ctc import native
from fastconformer.transducer._library import ACTIVATIONS, INSTRUCTION_SETS, load_cpu, refused, size_of

TYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 3}


class TransducerProblem(Structure):
    """`transducerProblem` of transducer_loss.h, field by field."""

    _fields_ = native.fields(
        "n batch frames positions classes blank logits_batch_stride logits_frame_stride logits_position_stride "
        "gradient_batch_stride gradient_frame_stride gradient_position_stride targets_stride duration_count; "
        "p durations; i type threads instruction_set loss_only; d sigma fastemit skip_below"
    )


class JointInputs(Structure):
    """`transducerJoint` of transducer_loss.h, field by field."""

    _fields_ = native.fields(
        "p encoded predicted; n encoded_batch_stride encoded_frame_stride predicted_batch_stride "
        "predicted_position_stride; p weights bias; n width; i activation"
    )


ARGUMENTS = {
    "transducer_lattices_bytes": "pp",
    "transducer_loss": "p" * 8 + ">i",
    "transducer_workspace_bytes": "pp",
    "transducer_gradient": "p" * 9,
    "transducer_lattice_bytes": "pnnp",
    "transducer_read_cells": "ppnnpnnp",
    "transducer_walk": "pnnpppp",
    "transducer_joint_workspace_bytes": "ppp",
    "transducer_joint_losses": "p" * 10,
    "transducer_cell_gradients": "pppnpnndpp",
}


@functools.cache
def functions() -> ctypes.CDLL | None:
    """The CPU library with the losses declared, or None where it was never built."""
    library = load_cpu()
    return None if library is None else native.declare(library, ARGUMENTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransducerLossOptions:
    """What a call computes, beside its tensors."""

    blank: int
    """The class of the blank; not counted from the end."""
    durations: tuple[int, ...] = ()
    """Durations of a TDT head, in frames; none for RNN-T."""
    sigma: float = 0.0
    fastemit: float = 0.0
    skip_below: float = 1e-9
    instruction_set: Literal["automatic", "generic", "avx2", "avx512"] = "automatic"
    """Which build of the kernel, for tests."""


class TransducerTargets(NamedTuple):
    """Targets [B, L] and lengths [B]: int64, contiguous, on one device."""

    targets_BL: Tensor
    frames_B: Tensor
    labels_B: Tensor


GIVEN = (
    "Tensor targets_BL, Tensor frames_B, Tensor labels_B, "
    "SymInt blank, SymInt[] durations, float sigma, float fastemit, float skip_below"
)
"""Targets and options as operators of torch take them: `given` says them, `taken` makes them again."""


def given(labels: TransducerTargets, options: TransducerLossOptions) -> tuple[Any, ...]:
    """Arguments by the names of `GIVEN`."""
    numbers = (options.sigma, options.fastemit, options.skip_below)
    return *labels, options.blank, list(options.durations), *numbers


def taken(arguments: Sequence[Any]) -> tuple[TransducerTargets, TransducerLossOptions, Sequence[Any]]:
    """The targets and options that are the first arguments, and the others."""
    blank, durations, sigma, fastemit, skip_below = arguments[3:8]
    steps = {"durations": tuple(durations), "sigma": sigma, "fastemit": fastemit, "skip_below": skip_below}
    return TransducerTargets(*arguments[:3]), TransducerLossOptions(blank=blank, **steps), arguments[8:]


def losses(
    logits_BTUW: Tensor, labels: TransducerTargets, options: TransducerLossOptions, *, wants_gradient: bool = True
) -> tuple[Tensor, Tensor]:
    """The losses, float64 [B], and the lattices that `gradient` reads. On the CPU, outputs of a cell adjacent.

    Raises ValueError for lengths and labels that do not fit.
    """
    library = loaded()
    problem, _durations = problem_of(logits_BTUW.dtype, logits_BTUW.shape, options)
    set_strides(problem, "logits", logits_BTUW)
    problem.targets_stride, problem.loss_only = labels.targets_BL.shape[1], not wants_gradient
    if problem.targets_stride < problem.positions - 1:  # a count that fits the logits may be too large for the targets
        check(logits_BTUW.shape, labels, options)
    lattices = memory(library.transducer_lattices_bytes, problem)
    losses_B = torch.empty(problem.batch, dtype=torch.float64)
    if refused(library.transducer_loss, problem, logits_BTUW, *labels, losses_B, lattices) is not None:
        check(logits_BTUW.shape, labels, options)
    return losses_B, lattices


def gradient(
    logits_BTUW: Tensor,
    labels: TransducerTargets,
    options: TransducerLossOptions,
    scale_B: Tensor,
    lattices: Tensor,
    out_BTUW: Tensor,
) -> None:
    """Fills `out_BTUW`, which may be the logits, with the gradient of the sum of losses times `scale_B` (float64)."""
    problem, _durations = problem_of(logits_BTUW.dtype, logits_BTUW.shape, options)
    set_strides(problem, "logits", logits_BTUW)
    set_strides(problem, "gradient", out_BTUW)
    problem.targets_stride = labels.targets_BL.shape[1]
    library = loaded()
    workspace = memory(library.transducer_workspace_bytes, problem)
    library.transducer_gradient(problem, logits_BTUW, out_BTUW, *labels, scale_B, lattices, workspace)


def check(shape: Sequence[int], labels: TransducerTargets, options: TransducerLossOptions) -> None:
    """Raises ValueError where lengths or labels do not fit logits of `shape`. On the host."""
    _, frames, positions, outputs = shape
    classes, most = outputs - len(options.durations), min(positions - 1, labels.targets_BL.shape[1])
    for n, (found_frames, count) in enumerate(zip(labels.frames_B.tolist(), labels.labels_B.tolist(), strict=True)):
        if not 0 <= found_frames <= frames:
            raise ValueError(f"utterance {n}: frames: expected at least 0 and at most {frames}, found {found_frames}")
        if not 0 <= count <= most:
            raise ValueError(f"utterance {n}: target length: expected at least 0 and at most {most}, found {count}")
        for i, label in enumerate(labels.targets_BL[n, :count].tolist()):
            if not 0 <= label < classes or label == options.blank:
                expected = f"a class in [0, {classes}) other than blank, {options.blank}"
                raise ValueError(f"utterance {n}: label {i}: expected {expected}; found {label}")


class NativeLattice:
    """The lattice of one utterance whose logits are made in pieces: read all cells, walk, then ask for gradients."""

    def __init__(
        self,
        dtype: torch.dtype,
        outputs: int,
        labels_L: Tensor,
        frames: int,
        options: TransducerLossOptions,
        lattice: Tensor | None,
    ) -> None:
        """`lattice` is what another one left in its `memory`, to go on with gradients."""
        self._problem, self._durations = problem_of(dtype, (1, frames, len(labels_L) + 1, outputs), options)
        self._labels_L, self._frames = labels_L.contiguous(), frames
        sizes = (self._problem, frames, len(labels_L))
        self.memory = memory(loaded().transducer_lattice_bytes, *sizes) if lattice is None else lattice

    def read(self, first: int, logits_NW: Tensor) -> None:
        """Reads the logits of cells from number `first` on, rows adjacent."""
        lattice = (self._labels_L, self._frames, len(self._labels_L), self.memory)
        loaded().transducer_read_cells(self._problem, logits_NW, first, len(logits_NW), *lattice)

    def walk(self) -> tuple[float, Tensor]:
        """The loss, and the numbers of the cells that are not skipped."""
        kept = torch.empty(self._frames * (len(self._labels_L) + 1), dtype=torch.int64)
        loss, count = c_double(), c_int64()
        sizes = (self._problem, self._frames, len(self._labels_L))
        loaded().transducer_walk(*sizes, self.memory, loss, kept, count)
        return loss.value, kept[: count.value].clone()

    def gradients_(self, logits_NW: Tensor, cells_N: Tensor, scale: float) -> None:
        """The logits of some cells become `scale` times their gradients."""
        workspace = memory(loaded().transducer_workspace_bytes, self._problem)
        cells = (self._problem, logits_NW, cells_N, len(cells_N))
        lattice = (self._labels_L, self._frames, len(self._labels_L), scale, self.memory)
        loaded().transducer_cell_gradients(*cells, *lattice, workspace)


class JointLosses(NamedTuple):
    """Losses, lattices, and the numbers of cells that are not skipped, of a batch, one utterance behind the other."""

    losses_B: Tensor
    """float64."""
    lattices: Tensor
    cells: Tensor
    sizes_B2: Tensor
    """Bytes of each lattice, and how many cells it keeps."""


def joint_losses(
    encoded_BTJ: Tensor,
    predicted_BUJ: Tensor,
    weight_WJ: Tensor,
    bias_W: Tensor,
    labels: TransducerTargets,
    options: TransducerLossOptions,
    activation: str,
) -> JointLosses:
    """The losses of a joint in float32, which the library computes itself. Lengths and labels have to fit."""
    library = loaded()
    inputs = (x.resolve_neg() for x in (encoded_BTJ, predicted_BUJ, weight_WJ, bias_W))
    encoded_BTJ, predicted_BUJ, weight_WJ, bias_W = (x if x.stride(-1) == 1 else x.contiguous() for x in inputs)
    weight_WJ = weight_WJ.contiguous()
    shape = (*encoded_BTJ.shape[:2], predicted_BUJ.shape[1], len(weight_WJ))
    problem, _durations = problem_of(encoded_BTJ.dtype, shape, options)
    problem.targets_stride = labels.targets_BL.shape[1]
    joint = JointInputs(
        encoded_BTJ.data_ptr(), predicted_BUJ.data_ptr(), *encoded_BTJ.stride()[:2], *predicted_BUJ.stride()[:2],
        weight_WJ.data_ptr(), bias_W.data_ptr(), weight_WJ.shape[1], ACTIVATIONS[activation],
    )  # fmt: skip
    lengths = list(zip(labels.frames_B.tolist(), labels.labels_B.tolist(), strict=True))
    bytes_B = [size_of(library.transducer_lattice_bytes, problem, *own) for own in lengths]
    offsets = torch.tensor([0, *(T * (L + 1) for T, L in lengths)]).cumsum(0).tolist()
    lattices = torch.empty(sum(bytes_B), dtype=torch.uint8)
    kept = torch.empty(offsets[-1], dtype=torch.int64)
    losses_B, kept_B = torch.empty(len(lengths), dtype=torch.float64), torch.empty(len(lengths), dtype=torch.int64)
    workspace = torch.empty(size_of(library.transducer_joint_workspace_bytes, problem, joint), dtype=torch.uint8)
    outputs = (losses_B, lattices, kept, kept_B, workspace)
    library.transducer_joint_losses(problem, joint, *labels, *outputs)
    counts = kept_B.tolist()
    cells = torch.cat([kept[:0], *(kept[at : at + n] for at, n in zip(offsets, counts, strict=False))])
    sizes_B2 = torch.tensor([bytes_B, counts], dtype=torch.int64).T.contiguous()
    return JointLosses(losses_B, lattices, cells, sizes_B2)


def problem_of(
    dtype: torch.dtype, shape: Sequence[int], options: TransducerLossOptions
) -> tuple[TransducerProblem, object]:
    """`transducerProblem` for logits of `shape` [B, T, U, W], and what must live as long as it."""
    batch, frames, positions, outputs = shape
    durations = (c_int32 * len(options.durations))(*options.durations)
    problem = TransducerProblem(
        batch=batch,
        frames=frames,
        positions=positions,
        classes=outputs - len(options.durations),
        blank=options.blank,
        duration_count=len(options.durations),
        durations=ctypes.addressof(durations) if options.durations else None,
        type=TYPES[dtype],
        threads=torch.get_num_threads(),
        instruction_set=INSTRUCTION_SETS[options.instruction_set],
        sigma=options.sigma,
        fastemit=options.fastemit,
        skip_below=options.skip_below,
    )
    return problem, durations


def set_strides(problem: TransducerProblem, name: str, tensor_BTUW: Tensor) -> None:
    """Says how `tensor_BTUW`, the "logits" or the "gradient", lies in memory."""
    for axis, stride in zip(("batch", "frame", "position"), tensor_BTUW.stride()[:3], strict=True):
        setattr(problem, f"{name}_{axis}_stride", stride)


def loaded() -> ctypes.CDLL:
    library = functions()
    if library is None:
        raise RuntimeError("the CPU library is not built: run `python -m fastconformer.transducer.build`")
    return library


def memory(measure: Callable[..., int], *arguments: object) -> Tensor:
    """As much memory as a function of the library wants, all 0, aligned to 64 bytes, as all of torch's is."""
    return torch.zeros(size_of(measure, *arguments), dtype=torch.uint8)
