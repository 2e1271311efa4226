"""Forced alignment: the best path that spells a given transcript (Viterbi over the lattice of Graves et al. 2006).

B utterances, S frames, V labels, U labels of a transcript (padded to the longest).
"""

import ctypes
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ctc import _cuda_decode, _cuda_library, _library, _native
from ctc.inputs import host_lengths, integer_list, integer_tensor, on_host, score_tensor
from ctc.reference import split_stars


class Alignment(NamedTuple):
    """One transcript on the frames of its utterance. The three lists have one entry per label of the transcript."""

    start_frames: list[int]
    """First frame of the label."""
    end_frames: list[int]
    """One past the last frame of the label; what lies between two labels is blank."""
    scores: list[float]
    """Mean over the frames of the label of its log-probability."""
    log_prob: float
    """Log-probability of the whole path, blanks included."""


class WordSpan(NamedTuple):
    """One word on the frames of its utterance."""

    labels: list[int]
    start_frame: int
    end_frame: int
    """One past the last frame."""


class Spans(NamedTuple):
    """What a Viterbi kernel returns, on the CPU: frames as int64, log-probabilities summed over frames as float64."""

    start_BU: Tensor
    end_BU: Tensor
    log_prob_BU: Tensor
    log_prob_B: Tensor


def align(
    log_probs_BSV: Tensor | np.ndarray,
    targets: Tensor | Sequence[Sequence[int]],
    frames_B: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int] | None = None,
    *,
    blank: int = 0,
    star: int | None = None,
) -> list[Alignment]:
    """Where every label of every transcript lies on the best path that spells the transcript.

    `log_probs_BSV`: log-probabilities or logits, never modified. `targets`: [B, U] or [sum of lengths] with
    `target_lengths`, as for the loss, or one list of labels per utterance without. `frames_B`: how many of the S
    frames belong to each utterance. Scores are summed in double precision. Between equally good paths the one
    that moves on earlier is taken.

    `star`: a number that is no class. Where it stands in a transcript, any number of frames may hold anything, each at
    the log-probability of its best class (the loss, which sums, counts all classes together); its span is all
    that lies between its neighbours.

    Raises ValueError that names the item for labels out of range, for a transcript that does not fit into
    its frames (it needs one frame per label and one more between two equal ones) and for one that has no
    path of finite log-probability.
    """
    log_probs_BSV = score_tensor(log_probs_BSV, blank, name="align: log_probs_BSV")
    batch, frames, vocabulary = log_probs_BSV.shape
    frames_B = torch.from_numpy(host_lengths(frames_B, batch, frames, name="align: frames_B"))
    if star is not None and 0 <= star < vocabulary:
        raise ValueError(f"align: star: expected a number that is no class in [0, {vocabulary}), found {star}")
    transcripts = read_transcripts(targets, target_lengths, batch, vocabulary, blank, name="align: targets", star=star)
    for item, (labels, available) in enumerate(zip(transcripts, frames_B.tolist(), strict=True)):
        needed = frames_needed([label for label in labels if label != star])
        if needed > available:
            raise ValueError(
                f"align: targets: item {item}: {len(labels)} labels need at least {needed} frames, found {available}"
            )
    if star is not None:
        return [
            _align_around_stars(item, log_probs_BSV[item, :frames], labels, star, blank)
            for item, (labels, frames) in enumerate(zip(transcripts, frames_B.tolist(), strict=True))
        ]
    lengths_B = torch.tensor([len(labels) for labels in transcripts], dtype=torch.int64)
    width = max(map(len, transcripts), default=0)
    padded = [[*labels, *[blank] * (width - len(labels))] for labels in transcripts]
    targets_BU = torch.tensor(padded, dtype=torch.int32).reshape(batch, width)
    return _alignments(_viterbi(log_probs_BSV, targets_BU, frames_B, lengths_B, blank), lengths_B.tolist())


def word_spans(labels: Sequence[int], alignment: Alignment, *, boundary: int) -> list[WordSpan]:
    """Where the words of a transcript lie: `labels` between `boundary` labels, with the `alignment` of all of them.

    A word ends with its last label, and starts with the boundary before it, where there is one: without a pause
    between them, as nearly always, a boundary has no sound of its own and is heard in the start of the next word. The
    peak of a word's first label comes when much of its sound is over.
    """
    words = []
    for is_boundary, places in itertools.groupby(range(len(labels)), lambda i: labels[i] == boundary):
        if is_boundary:
            continue
        run = list(places)
        first, last = run[0], run[-1]
        start = alignment.start_frames[max(first - 1, 0)]
        words.append(WordSpan([labels[i] for i in run], start, alignment.end_frames[last]))
    return words


def _align_around_stars(item: int, log_probs_SV: Tensor, targets: list[int], star: int, blank: int) -> Alignment:
    labels, is_star = split_stars(targets, star)
    spans, _ = viterbi_with_gaps(log_probs_SV, labels, is_star, blank, gap_log_prob=0.0)
    (found,) = _alignments(spans, [len(labels)], first_item=item)
    best_S = log_probs_SV.detach().max(1).values.double() - log_probs_SV.detach().double().logsumexp(1)
    starts, ends, scores = [], [], []
    i = end = 0
    for target in targets:
        if target == star:
            start, end = end, found.start_frames[i] if i < len(labels) else len(log_probs_SV)
            score = best_S[start:end].mean().item() if start < end else 0.0
        else:
            start, end, score = found.start_frames[i], found.end_frames[i], found.scores[i]
            i += 1
        starts.append(start)
        ends.append(end)
        scores.append(score)
    return Alignment(starts, ends, scores, found.log_prob)


def viterbi_with_gaps(
    log_probs_SV: Tensor, labels: list[int], is_gap: Sequence[bool], blank: int, *, gap_log_prob: float, window: int = 0
) -> tuple[Spans, bool]:
    """One utterance where something that is not in the transcript may lie before some labels, or at the end: `is_gap`.

    A frame of it costs `gap_log_prob` and its best class. With a window (in labels; 0: none) also whether the path
    came near its edge.
    """
    frames_B, lengths_B = torch.tensor([len(log_probs_SV)]), torch.tensor([len(labels)])
    targets_BU = torch.tensor([labels], dtype=torch.int32).reshape(1, len(labels))
    flags_U = torch.tensor(is_gap, dtype=torch.uint8)
    library = _native.load()
    if library is None:
        _library.warn_slow("ctc.align")
        gaps = (flags_U.bool(), gap_log_prob)
        spans = viterbi_torch(log_probs_SV[None], targets_BU.long(), frames_B, lengths_B, blank, gaps=gaps)
        return spans, False
    options = _native.AlignOptions(
        blank=blank, threads=1, window=window, is_gap=flags_U.data_ptr(), gap_log_prob=gap_log_prob
    )
    spans, is_clipped_B = viterbi_native(library, log_probs_SV[None], targets_BU, frames_B, lengths_B, options)
    return spans, bool(is_clipped_B)


def _viterbi(log_probs_BSV: Tensor, targets_BU: Tensor, frames_B: Tensor, lengths_B: Tensor, blank: int) -> Spans:
    if _cuda_library.serves(log_probs_BSV):
        found = _cuda_decode.viterbi(log_probs_BSV, targets_BU, frames_B, lengths_B, blank)
        return Spans(*(tensor.cpu() for tensor in found))
    library = _native.load()
    if library is None or not log_probs_BSV.is_cpu:
        _library.warn_slow("ctc.align", _cuda_library.why_missing(log_probs_BSV.device))
        return viterbi_torch(log_probs_BSV, targets_BU.long(), frames_B, lengths_B, blank)
    options = _native.AlignOptions(blank=blank, threads=torch.get_num_threads())
    spans, _ = viterbi_native(library, log_probs_BSV, targets_BU, frames_B, lengths_B, options)
    return spans


def viterbi_native(
    library: ctypes.CDLL,
    log_probs_BSV: Tensor,
    targets_BU: Tensor,
    frames_B: Tensor,
    lengths_B: Tensor,
    options: _native.AlignOptions,
) -> tuple[Spans, Tensor]:
    """The spans, and [B] whether the best path came near the edge of the window. Targets are int32, lengths int64."""
    scores_BSV = on_host(log_probs_BSV)
    batch, width = targets_BU.shape
    start_BU, end_BU = torch.zeros(2, batch, width, dtype=torch.int64)
    log_prob_BU, log_prob_B = torch.zeros(batch, width).double(), torch.zeros(batch).double()
    is_clipped_B = torch.zeros(batch, dtype=torch.int32)
    most_frames, longest = (max(values.tolist(), default=0) for values in (frames_B, lengths_B))
    workspace = torch.empty(library.ctc_align_workspace(most_frames, longest, options), dtype=torch.uint8)
    inputs = (_native.scores(scores_BSV), frames_B, targets_BU, width, lengths_B, options)
    outputs = (start_BU, end_BU, log_prob_BU, log_prob_B, is_clipped_B)
    _native.call(library.ctc_align, *inputs, *outputs, workspace, workspace.numel())
    return Spans(start_BU, end_BU, log_prob_BU, log_prob_B), is_clipped_B.bool()


def _alignments(spans: Spans, target_lengths: list[int], *, first_item: int = 0) -> list[Alignment]:
    alignments = []
    for item, length in enumerate(target_lengths):
        log_prob = spans.log_prob_B[item].item()
        if not math.isfinite(log_prob):
            named = f"item {first_item + item}"
            raise ValueError(f"align: log_probs_BSV: {named}: the best path has log-probability {log_prob}")
        start_U, end_U = spans.start_BU[item, :length], spans.end_BU[item, :length]
        scores = (spans.log_prob_BU[item, :length] / (end_U - start_U)).tolist()
        alignments.append(Alignment(start_U.tolist(), end_U.tolist(), scores, log_prob))
    return alignments


def read_transcripts(
    targets: Tensor | Sequence[Sequence[int]],
    target_lengths: Tensor | Sequence[int] | None,
    batch: int,
    vocabulary: int,
    blank: int,
    *,
    name: str,
    star: int | None = None,
) -> list[list[int]]:
    """One list of labels per utterance; ValueError names the item and label that are not in the vocabulary."""
    if isinstance(targets, Tensor):
        rows = _tensor_rows(targets, target_lengths, batch, name=name)
    else:
        rows = [integer_list(row, name=f"{name}: item {item}") for item, row in enumerate(targets)]
    if len(rows) != batch:
        raise ValueError(f"{name}: expected {batch} transcripts, one per utterance, found {len(rows)}")
    for item, row in enumerate(rows):
        for label in row:
            if (not 0 <= label < vocabulary and label != star) or label == blank:
                expected = f"labels in [0, {vocabulary}) other than the blank {blank}"
                raise ValueError(f"{name}: item {item}: expected {expected}, found {label}")
    return rows


def _tensor_rows(
    targets: Tensor, target_lengths: Tensor | Sequence[int] | None, batch: int, *, name: str
) -> list[list[int]]:
    targets = integer_tensor(targets, name=name)
    if target_lengths is None:
        raise ValueError(f"{name}: expected target_lengths with a tensor of shape {tuple(targets.shape)}")
    if targets.dim() not in (1, 2):
        raise ValueError(
            f"{name}: expected [utterance, label] or all labels in a row, found shape {tuple(targets.shape)}"
        )
    lengths_name = name.replace("targets", "target_lengths")
    lengths = host_lengths(target_lengths, batch, targets.shape[-1], name=lengths_name).tolist()
    if targets.dim() == 2:
        return [row[:length] for row, length in zip(targets.tolist(), lengths, strict=True)]
    if len(targets) != sum(lengths):
        raise ValueError(f"{name}: expected {sum(lengths)} labels in all, as target_lengths say, found {len(targets)}")
    return [row.tolist() for row in targets.split(lengths)]


def frames_needed(labels: Sequence[int]) -> int:
    """The fewest frames on which `labels` can be spelled: equal neighbours need a blank between them."""
    return len(labels) + sum(left == right for left, right in itertools.pairwise(labels))


def viterbi_torch(
    log_probs_BSV: Tensor,
    targets_BU: Tensor,
    frames_B: Tensor,
    lengths_B: Tensor,
    blank: int,
    *,
    gaps: tuple[Tensor, float] | None = None,
) -> Spans:
    """The reference, and what serves without a compiler: one step per frame for the whole batch.

    State 2 i is the blank before label i, state 2 i + 1 label i: a path never goes back, so that the frames of
    a label are where its state is. `gaps`: before which labels (and at the end) [U + 1] something else may be
    heard, at how much below a frame's best label.
    """
    batch, frames, _ = log_probs_BSV.shape
    width = targets_BU.shape[1]
    device = log_probs_BSV.device
    targets_BU, frames_B, lengths_B = targets_BU.to(device), frames_B.to(device), lengths_B.to(device)
    log_probs_BSV = log_probs_BSV.detach().double().log_softmax(-1)
    label_BSU = log_probs_BSV.gather(2, targets_BU[:, None].expand(batch, frames, width))
    emission_BSX = log_probs_BSV[:, :, blank, None].repeat(1, 1, 2 * width + 1)
    emission_BSX[:, :, 1::2] = label_BSU
    if gaps is not None:
        is_gap_U, gap_log_prob = gaps
        gap_BS1 = log_probs_BSV.max(2, keepdim=True).values + gap_log_prob
        blank_BSU = emission_BSX[:, :, ::2]
        emission_BSX[:, :, ::2] = torch.where(is_gap_U.to(device), torch.maximum(blank_BSU, gap_BS1), blank_BSU)

    may_skip_BX = torch.zeros(batch, 2 * width + 1, dtype=torch.bool, device=device)
    may_skip_BX[:, 3::2] = targets_BU[:, 1:] != targets_BU[:, :-1]
    minus_infinity = torch.tensor(-torch.inf, dtype=torch.float64, device=device)
    score_BX = torch.full((batch, 2 * width + 1), -torch.inf, dtype=torch.float64, device=device)
    score_BX[:, 0] = 0.0  # stands before the first frame: that one may be a blank, or enter label 0 by a step
    steps_SBX = torch.zeros(frames, batch, 2 * width + 1, dtype=torch.uint8, device=device)
    for frame in range(frames):
        stepped_BX = torch.nn.functional.pad(score_BX, (1, 0), value=-torch.inf)[:, :-1]
        skipped_BX = torch.nn.functional.pad(score_BX, (2, 0), value=-torch.inf)[:, :-2]
        skipped_BX = torch.where(may_skip_BX, skipped_BX, minus_infinity)
        best_BX, step_BX = torch.stack([score_BX, stepped_BX, skipped_BX]).max(0)
        inside_B1 = (frame < frames_B)[:, None]
        score_BX = torch.where(inside_B1, best_BX + emission_BSX[:, frame], score_BX)
        steps_SBX[frame] = torch.where(inside_B1, step_BX, 0)

    last_B1 = 2 * lengths_B[:, None]
    end_score_B1 = score_BX.gather(1, last_B1)
    label_score_B1 = score_BX.gather(1, (last_B1 - 1).clamp(min=0))
    ends_in_label_B1 = (lengths_B[:, None] > 0) & (label_score_B1 > end_score_B1)
    state_B1 = torch.where(ends_in_label_B1, last_B1 - 1, last_B1)
    log_prob_B = score_BX.gather(1, state_B1)[:, 0]

    states_BS = torch.zeros(batch, frames, dtype=torch.int64, device=device)
    for frame in reversed(range(frames)):
        states_BS[:, frame] = state_B1[:, 0]
        state_B1 = state_B1 - steps_SBX[frame].gather(1, state_B1).long()
    time_S = torch.arange(frames, device=device)
    is_inside_BS = time_S < frames_B[:, None]
    path_log_prob_BS = emission_BSX.gather(2, states_BS[..., None])[..., 0].where(is_inside_BS, 0.0)
    total_BS = torch.nn.functional.pad(path_log_prob_BS.cumsum(1), (1, 0))
    states_BS = torch.where(is_inside_BS, states_BS, 2 * width + 1)
    wanted_BU = (2 * torch.arange(width, device=device) + 1).expand(batch, width).contiguous()
    start_BU = torch.searchsorted(states_BS, wanted_BU)
    end_BU = torch.searchsorted(states_BS, wanted_BU, right=True)
    log_prob_BU = total_BS.gather(1, end_BU) - total_BS.gather(1, start_BU)
    return Spans(start_BU.cpu(), end_BU.cpu(), log_prob_BU.cpu(), log_prob_B.cpu())
