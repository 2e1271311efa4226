"""Transducer losses in plain torch, for devices without a kernel and machines without a compiler.

The lattice is walked by anti-diagonals: cells (t, u) of one t + u depend on earlier ones alone, so that a step serves
all utterances and labels at once, and autograd does the rest. Shapes: B utterances, T frames, U positions, L labels,
W outputs, N = T + U anti-diagonals.
"""

import torch
from torch import Tensor

from fastconformer.transducer.loss._loss_library import TransducerLossOptions, TransducerTargets

IMPOSSIBLE = -1e30
"""Log-probability of what cannot be: minus infinity would make gradients NaN."""


def plain_losses(logits_BTUW: Tensor, labels: TransducerTargets, options: TransducerLossOptions) -> Tensor:
    """The losses, float64 [B], differentiable, of labels and options that are checked.

    Without durations it is RNN-T. An utterance without a path costs infinity, and its gradient is 0.
    """
    (targets_BL, frames_B, labels_B), durations, fastemit = labels, options.durations, options.fastemit
    frames, positions = logits_BTUW.shape[1:3]
    device = logits_BTUW.device
    frame_T1, position_U = torch.arange(frames, device=device)[:, None], torch.arange(positions, device=device)
    is_cell_BTU = (frame_T1 < frames_B[:, None, None]) & (position_U <= labels_B[:, None, None])
    sizes = [logits_BTUW.shape[3] - len(durations), len(durations)]
    largest_BTU = [part.detach().amax(3) for part in logits_BTUW.split(sizes, dim=3) if part.shape[3]]
    is_dead_BTU = torch.stack([largest == -torch.inf for largest in largest_BTU]).any(0)  # nothing is possible there
    is_bad_BTU = torch.stack([~(largest < torch.inf) for largest in largest_BTU]).any(0) & is_cell_BTU
    spoils_B = torch.where(is_bad_BTU.flatten(1).any(1), torch.nan, 1.0)
    # What is behind an utterance may be anything, NaN too, and has no gradient.
    logits_BTUW = torch.where((is_cell_BTU & ~is_dead_BTU)[..., None], logits_BTUW, 0.0)
    logits_BTUW = logits_BTUW.to(torch.promote_types(logits_BTUW.dtype, torch.float32)) * spoils_B[:, None, None, None]
    tokens_BTUV, lengths_BTUD = logits_BTUW.split(sizes, dim=3)
    sums_BTU = tokens_BTUV.logsumexp(3)

    def score(index_BTU1: Tensor, is_there_BTU: Tensor) -> Tensor:
        score_BTU = (tokens_BTUV.gather(3, index_BTU1)[..., 0] - sums_BTU).double() - options.sigma
        return score_BTU.masked_fill(~is_there_BTU | is_dead_BTU, IMPOSSIBLE).clamp(min=IMPOSSIBLE)

    has_label_BU = position_U < labels_B[:, None]
    label_BU = torch.zeros(has_label_BU.shape, dtype=torch.int64, device=device)
    width = min(positions, targets_BL.shape[1])
    label_BU[:, :width] = torch.where(has_label_BU[:, :width], targets_BL[:, :width], 0)
    label_BTU = score(label_BU[:, None, :, None].expand(-1, frames, -1, 1), is_cell_BTU & has_label_BU[:, None])
    blank_BTU = score(torch.full_like(is_cell_BTU, options.blank, dtype=torch.int64)[..., None], is_cell_BTU)
    if fastemit:
        label_BTU = label_BTU + fastemit * (label_BTU - label_BTU.detach())
    blanks, spoken = {1: blank_BTU}, {0: label_BTU}
    if durations:
        scores_DBTU = lengths_BTUD.log_softmax(3).double().clamp(min=IMPOSSIBLE).unbind(3)
        blanks = {d: blank_BTU + score for d, score in zip(durations, scores_DBTU, strict=True) if d > 0}
        spoken = {
            d: (label_BTU + score).masked_fill(frame_T1 + d >= frames_B[:, None, None], IMPOSSIBLE)
            for d, score in zip(durations, scores_DBTU, strict=True)
        }
    losses_B = walk(blanks, spoken, frames_B, labels_B) * spoils_B
    return losses_B + fastemit * losses_B.detach() if fastemit else losses_B


def walk(blanks: dict[int, Tensor], labels: dict[int, Tensor], frames_B: Tensor, labels_B: Tensor) -> Tensor:
    """Losses [B] of a lattice whose steps have log-probabilities [B, T, U], by their durations.

    Cells outside have `IMPOSSIBLE`, as labels have that would land behind the last frame.
    """
    blank_NBU = {d: _skewed(score_BTU) for d, score_BTU in blanks.items()}
    label_NBU = {d: _skewed(score_BTU) for d, score_BTU in labels.items()}
    some_BTU = next(iter(blanks.values()))
    batch, frames, positions = some_BTU.shape
    nothing_BU = some_BTU.new_full((batch, positions), IMPOSSIBLE)
    start_BU = nothing_BU.clone()
    start_BU[:, 0] = 0
    alphas = [start_BU]
    for n in range(1, frames + positions):
        ways = [alphas[n - d] + score[n - d] for d, score in blank_NBU.items() if n >= d]
        for d, score in label_NBU.items():
            if n > d and positions > 1:
                by_label_BU = alphas[n - d - 1] + score[n - d - 1]
                ways.append(torch.cat([nothing_BU[:, :1], by_label_BU[:, :-1]], dim=1))
        alphas.append(torch.stack(ways).logsumexp(0) if ways else nothing_BU)
    alpha_NBU = torch.stack(alphas)
    losses_B = -alpha_NBU[frames_B + labels_B, torch.arange(batch, device=frames_B.device), labels_B]
    is_possible_B = (losses_B < -IMPOSSIBLE / 2) & (frames_B > 0)
    return torch.where(is_possible_B, losses_B, torch.inf)


def _skewed(score_BTU: Tensor) -> Tensor:
    """[N, B, U]: entry (n, b, u) is that of frame n - u, `IMPOSSIBLE` where there is none."""
    batch, frames, positions = score_BTU.shape
    if frames == 0:
        return score_BTU.new_full((positions, batch, positions), IMPOSSIBLE)
    position_U = torch.arange(positions, device=score_BTU.device)
    frame_NU = torch.arange(frames + positions, device=score_BTU.device)[:, None] - position_U
    skewed_BNU = score_BTU.gather(1, frame_NU.clamp(0, frames - 1).expand(batch, -1, -1))
    return skewed_BNU.masked_fill((frame_NU < 0) | (frame_NU >= frames), IMPOSSIBLE).transpose(0, 1)
