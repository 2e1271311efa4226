"""Calls the native loss through ctypes: the structure of `include/ctc.h`, its arguments, its errors as sentences.

Shapes: T frames, B utterances, V classes, L labels of the longest utterance.
"""

import ctypes
import functools
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ctc import native
from ctc.bindings._library import load_cpu

TYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 3}
REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}
INDEX64, ZERO_INFINITY, EXTENDED_RANGE, STARS = 1, 2, 4, 8
INSTRUCTION_SETS = {"automatic": 0, "generic": 1, "avx2": 2, "avx512": 3}
SUCCESS, INVALID_VALUE = 0, 2


class CTCProblem(ctypes.Structure):
    """`ctcProblem` of ctc.h, field by field."""

    _fields_ = native.fields(
        "n frames batch classes blank logits_frame_stride logits_batch_stride gradient_frame_stride "
        "gradient_batch_stride targets_stride targets_count longest_target; "
        "i type flags threads instruction_set reduction star; d label_smoothing entropy_weight"
    )


FUNCTIONS = {"ctc_loss": "ppppppppppp>i", "ctc_loss_workspace": "pp>i"}


@functools.cache
def _functions() -> ctypes.CDLL | None:
    library = load_cpu()
    return None if library is None else native.declare(library, FUNCTIONS)


def is_available() -> bool:
    """Whether the CPU library is built."""
    return _functions() is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class LossOptions:
    """What a call computes, beside its tensors."""

    blank: int = 0
    reduction: Literal["none", "mean", "sum"] = "mean"
    zero_infinity: bool = False
    label_smoothing: float = 0.0
    entropy_weight: float = 0.0
    star: int | None = None
    extended_range: bool = False
    """Take the slow path of the kernel for every utterance, for tests."""
    instruction_set: Literal["automatic", "generic", "avx2", "avx512"] = "automatic"
    """Which build of the CPU kernel, for tests."""


@dataclass(frozen=True, slots=True)
class TargetLabels:
    """Targets [B, L] or concatenated, and both lengths [B]: contiguous, on the CPU, all int32 or all int64."""

    targets: Tensor
    input_lengths: Tensor
    target_lengths: Tensor
    longest: int

    @property
    def arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        """As kernels take them."""
        return self.targets, self.input_lengths, self.target_lengths

    @property
    def is_padded(self) -> bool:
        """Whether `targets` is [B, L]."""
        return self.targets.dim() == 2

    def on_host(self) -> "TargetLabels":
        """The same on the CPU."""
        return TargetLabels(self.targets.cpu(), self.input_lengths.cpu(), self.target_lengths.cpu(), self.longest)


def run(
    logits_TBV: Tensor,
    labels: TargetLabels,
    options: LossOptions,
    gradient_TBV: Tensor | None,
    scale_B: Tensor | None = None,
) -> Tensor:
    """The reduced loss, or the losses [B]; fills `gradient_TBV`, scaled by `scale_B`, unless it is None.

    The classes of both are adjacent in memory. Raises ValueError for lengths and labels that do not fit.
    """
    library = _functions()
    if library is None:
        raise RuntimeError("the CPU library is not built: run `python -m ctc.build`")
    problem = problem_of(logits_TBV, labels, options, gradient_TBV)
    bytes_needed = ctypes.c_size_t()
    if library.ctc_loss_workspace(problem, bytes_needed) != SUCCESS:
        raise ValueError(wrong_option(problem) or f"ctc_loss: the native library cannot compute {refused(problem)}")
    wide = torch.float64 if logits_TBV.dtype == torch.float64 else torch.float32
    workspace = torch.empty(bytes_needed.value, dtype=torch.uint8)
    losses_B = torch.empty(problem.batch, dtype=wide)
    reduced = torch.empty((), dtype=wide) if problem.reduction else None
    invalid = ctypes.c_int64()
    inputs = (problem, logits_TBV, gradient_TBV, *labels.arrays, scale_B)
    status = library.ctc_loss(*inputs, losses_B, reduced, workspace, invalid)
    if status == INVALID_VALUE and invalid.value >= 0:
        raise ValueError(wrong_utterance(invalid.value, problem, labels))
    if status == INVALID_VALUE:
        raise ValueError(left_over(labels))
    native.check(status, library.ctc_loss)
    return losses_B if reduced is None else reduced


def problem_of(
    logits_TBV: Tensor, labels: TargetLabels, options: LossOptions, gradient_TBV: Tensor | None
) -> CTCProblem:
    """`ctcProblem` of a call."""
    frames, batch, classes = logits_TBV.shape
    flags = INDEX64 if labels.targets.dtype == torch.int64 else 0
    if options.zero_infinity:
        flags |= ZERO_INFINITY
    if options.extended_range:
        flags |= EXTENDED_RANGE
    if options.star is not None:
        flags |= STARS
    is_padded = labels.targets.dim() == 2
    like = logits_TBV if gradient_TBV is None else gradient_TBV
    return CTCProblem(
        frames,
        batch,
        classes,
        options.blank,
        logits_TBV.stride(0),
        logits_TBV.stride(1),
        like.stride(0),
        like.stride(1),
        labels.targets.shape[1] if is_padded else 0,
        labels.targets.numel(),
        labels.longest,
        TYPES[logits_TBV.dtype],
        flags,
        torch.get_num_threads(),
        INSTRUCTION_SETS[options.instruction_set],
        REDUCTIONS[options.reduction],
        0 if options.star is None else options.star,
        options.label_smoothing,
        options.entropy_weight,
    )


def check(logits_TBV: Tensor, labels: TargetLabels, options: LossOptions) -> None:
    """What `run` checks, for those who compute without it. Labels and lengths are on the host. Raises ValueError."""
    problem = problem_of(logits_TBV, labels, options, None)
    wrong = wrong_option(problem)
    if wrong is not None:
        raise ValueError(wrong)
    misfits = _misfits(problem, labels)
    if len(misfits):
        raise ValueError(wrong_utterance(int(misfits[0]), problem, labels))
    if not labels.is_padded and int(labels.target_lengths.sum()) != labels.targets.numel():
        raise ValueError(left_over(labels))


def _misfits(problem: CTCProblem, labels: TargetLabels) -> Tensor:
    """The utterances whose lengths do not fit; where all do, those whose labels do not."""
    targets, frames_B, counts_B = labels.targets, labels.input_lengths, labels.target_lengths
    held = targets.shape[1] if labels.is_padded else targets.numel() - (counts_B.cumsum(0) - counts_B)
    misfits = ((frames_B < 0) | (frames_B > problem.frames) | (counts_B < 0) | (counts_B > held)).nonzero()
    if len(misfits):
        return misfits
    is_wrong = (targets < 0) | (targets >= problem.classes)
    if problem.flags & STARS:
        is_wrong &= targets != problem.star
    is_wrong |= targets == problem.blank
    if labels.is_padded:
        return (is_wrong & (torch.arange(targets.shape[1]) < counts_B[:, None])).any(1).nonzero()
    utterance_of_label = torch.arange(problem.batch).repeat_interleave(counts_B)
    return utterance_of_label[is_wrong[: len(utterance_of_label)]]


def refused(problem: CTCProblem) -> str:
    """What a library may refuse although nothing is wrong with it."""
    sizes = f"{problem.frames} frames, {problem.batch} utterances, {problem.classes} classes"
    return f"{sizes}, flags {problem.flags}, instruction set {problem.instruction_set}"


def left_over(labels: TargetLabels) -> str:
    """What is wrong with concatenated targets that are more than their lengths."""
    expected = int(labels.target_lengths.sum())
    return (
        f"targets: expected {expected} concatenated labels, as target_lengths add up to, found {labels.targets.numel()}"
    )


def wrong_option(problem: CTCProblem) -> str | None:
    """What is wrong with the options of a problem, or None."""
    if not 0 <= problem.blank < problem.classes:
        return f"blank: expected a class in [0, {problem.classes}), found {problem.blank}"
    if problem.flags & STARS and 0 <= problem.star < problem.classes:
        return f"star: expected a number that is no class in [0, {problem.classes}), found {problem.star}"
    if not 0 <= problem.label_smoothing < 1:
        return f"label_smoothing: expected at least 0 and less than 1, found {problem.label_smoothing}"
    if not math.isfinite(problem.entropy_weight):
        return f"entropy_weight: expected a finite number, found {problem.entropy_weight}"
    return None


def wrong_utterance(utterance: int, problem: CTCProblem, labels: TargetLabels) -> str:
    """What is wrong with the lengths or labels of an utterance."""
    frames = int(labels.input_lengths[utterance])
    count = int(labels.target_lengths[utterance])
    where = f"utterance {utterance}:"
    if not 0 <= frames <= problem.frames:
        return f"{where} input length: expected at least 0 and at most {problem.frames} frames, found {frames}"
    start = 0 if labels.is_padded else int(labels.target_lengths[:utterance].sum())
    held = labels.targets.shape[1] if labels.is_padded else labels.targets.numel() - start
    if not 0 <= count <= held:
        return f"{where} target length: expected at least 0 and at most {held} labels, found {count}"
    own = (labels.targets[utterance] if labels.is_padded else labels.targets)[start : start + count].tolist()
    allowed = {problem.star} if problem.flags & STARS else set()
    wrong = (i for i, k in enumerate(own) if (k not in allowed and not 0 <= k < problem.classes) or k == problem.blank)
    position = next(wrong)
    expected = f"expected a class in [0, {problem.classes}) other than blank, {problem.blank}"
    return f"{where} label {position}: {expected}; found {own[position]}"
