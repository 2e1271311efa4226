"""The loss of an attention decoder: cross-entropy of every token given those before it, smoothed as NeMo does.

Shapes: B utterances, L tokens of prompt, text and end, V classes.
"""

import torch
from torch import Tensor

from common.lengths import inside


def smoothed_cross_entropy(
    logits_BLV: Tensor, tokens_BL: Tensor, lengths_B: Tensor, prompt_lengths_B: Tensor | None, smoothing: float = 0.0
) -> Tensor:
    """The mean over the tokens of a batch; logits_BLV are what follows tokens_BL without the last of each.

    A share of `smoothing` goes to the classes other than the target, equally (torch's `label_smoothing` shares with the
    target, too). Tokens of the prompt do not count, of which there are `prompt_lengths_B`; without them all but the
    first do.
    """
    total, count = smoothed_total(logits_BLV, tokens_BL, lengths_B, prompt_lengths_B, smoothing)
    return total / (count + 1e-6)


def smoothed_total(
    logits_BLV: Tensor, tokens_BL: Tensor, lengths_B: Tensor, prompt_lengths_B: Tensor | None, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """As `smoothed_cross_entropy`, but the sum over the tokens, and how many count."""
    log_probs_BLV = logits_BLV.float().log_softmax(-1)
    classes = log_probs_BLV.shape[-1]
    share = classes * smoothing / (classes - 1)
    target_BL = tokens_BL[:, 1:]
    own_BL = log_probs_BLV.gather(-1, target_BL[..., None])[..., 0]
    each_BL = (1 - share) * own_BL + share * log_probs_BLV.mean(-1) if smoothing else own_BL
    counts_BL = inside(lengths_B - 1, target_BL.shape[1])
    if prompt_lengths_B is not None:
        counts_BL = counts_BL & ~inside(prompt_lengths_B - 1, target_BL.shape[1])
    return -torch.where(counts_BL, each_BL, 0.0).sum(), counts_BL.sum()
