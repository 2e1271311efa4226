"""Losses of transducers by their definition, in float64: what the others have to give.

Sources: Graves, Sequence Transduction with Recurrent Neural Networks, 2012 (RNN-T); Xu et al., Efficient Sequence
Transduction by Jointly Predicting Tokens and Durations, ICML 2023 (TDT); Yu et al., FastEmit, ICASSP 2021.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def rnnt_losses(
    logits_BTUV: Tensor,
    targets_BU: Tensor,
    frames_B: Tensor | Sequence[int],
    target_lengths_B: Tensor | Sequence[int],
    *,
    blank: int = -1,
    fastemit: float = 0.0,
) -> Tensor:
    """RNN-T loss of every utterance, float64, differentiable; inf where there are no frames.

    With `fastemit` the loss is (1 + fastemit) times that without, and the gradient that reaches a label's
    probability is too, but not that of blank.
    """
    return _each(
        logits_BTUV, targets_BU, frames_B, target_lengths_B, durations=None, blank=blank, sigma=0.0, fastemit=fastemit
    )


def tdt_losses(
    logits_BTUW: Tensor,
    targets_BU: Tensor,
    frames_B: Tensor | Sequence[int],
    target_lengths_B: Tensor | Sequence[int],
    durations: Sequence[int],
    *,
    blank: int = -1,
    sigma: float = 0.0,
) -> Tensor:
    """TDT loss of every utterance, float64, differentiable; inf where no path of durations ends at its last frame.

    Label logits and duration logits are normalised apart; `sigma` is taken off every log-probability of the former.
    `blank` counts among the labels: -1 is the last of them.
    """
    return _each(
        logits_BTUW, targets_BU, frames_B, target_lengths_B, durations=durations, blank=blank, sigma=sigma, fastemit=0.0
    )


def _each(
    logits_BTUW: Tensor,
    targets_BU: Tensor,
    frames_B: Tensor | Sequence[int],
    target_lengths_B: Tensor | Sequence[int],
    *,
    durations: Sequence[int] | None,
    blank: int,
    sigma: float,
    fastemit: float,
) -> Tensor:
    n_tokens = logits_BTUW.shape[3] - len(durations or ())
    losses = []
    for b, (n_frames, n_labels) in enumerate(zip(map(int, frames_B), map(int, target_lengths_B), strict=True)):
        logits_TUW = logits_BTUW[b, :n_frames, : n_labels + 1].double()
        tokens_TUV = logits_TUW[..., :n_tokens].log_softmax(-1) - sigma
        blank_TU = tokens_TUV[..., blank % n_tokens]
        index_TU1 = targets_BU[b, :n_labels].long().expand(n_frames, -1)[..., None]
        label_TU = tokens_TUV[:, :n_labels].gather(2, index_TU1)[..., 0]
        label_TU = label_TU + fastemit * (label_TU - label_TU.detach())
        if durations is None:
            arcs = [(1, blank_TU, None), (0, None, label_TU)]
        else:
            durations_TUD = logits_TUW[..., n_tokens:].log_softmax(-1)
            arcs = [
                (d, blank_TU + durations_TUD[..., i] if d else None, label_TU + durations_TUD[:, :n_labels, i])
                for i, d in enumerate(durations)
            ]
        loss = _loss(arcs, n_frames, n_labels)
        losses.append(loss + fastemit * loss.detach() if fastemit else loss)
    return torch.stack(losses) if losses else logits_BTUW.new_zeros(0, dtype=torch.float64)


def _loss(arcs: list[tuple[int, Tensor | None, Tensor | None]], n_frames: int, n_labels: int) -> Tensor:
    """Minus the log of the probability of all paths from (0, 0) to (n_frames, n_labels).

    An arc (d, blank_TU, label_TU) leads from (t, u) to (t + d, u) by blank, and to (t + d, u + 1) by the label.
    The last arc of a path is a blank: labels cannot be emitted at frame n_frames.
    """
    alpha: dict[tuple[int, int], Tensor] = {(0, 0): torch.zeros((), dtype=torch.float64)}
    for t in range(n_frames + 1):
        for u in range(n_labels + 1):
            ways = []
            for d, blank_TU, label_TU in arcs:
                if blank_TU is not None and (t - d, u) in alpha and t >= d > 0:
                    ways.append(alpha[t - d, u] + blank_TU[t - d, u])
                if label_TU is not None and t < n_frames and (t - d, u - 1) in alpha:
                    ways.append(alpha[t - d, u - 1] + label_TU[t - d, u - 1])
            ways = [way for way in ways if way > -math.inf]  # their gradient would be NaN
            if ways:
                alpha[t, u] = torch.stack(ways).logsumexp(0)
    end = alpha.get((n_frames, n_labels))
    return -end if end is not None and n_frames else torch.tensor(math.inf, dtype=torch.float64)
