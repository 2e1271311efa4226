"""The contrastive loss as published: gather every distractor's vector, then compare by cosine similarity."""

import torch
from torch import Tensor
from torch.nn import functional as F


def published_logits(
    context_BMC: Tensor, targets_BMC: Tensor, distractors_BMK: Tensor, *, temperature: float
) -> Tensor:
    """[B, M, 1 + K]: similarities with the target and the distractors; -inf where one of these equals the target."""
    rows_B11 = torch.arange(len(targets_BMC), device=targets_BMC.device)[:, None, None]
    wrong_BMKC = targets_BMC[rows_B11, distractors_BMK]
    candidates_NBMC = torch.cat([targets_BMC.unsqueeze(2), wrong_BMKC], dim=2).permute(2, 0, 1, 3)
    is_same_KBM = (candidates_NBMC[1:] == targets_BMC).all(-1)
    logits_NBM = F.cosine_similarity(context_BMC, candidates_NBMC, dim=-1) / temperature
    logits_NBM = torch.cat([logits_NBM[:1], logits_NBM[1:].masked_fill(is_same_KBM, -torch.inf)])
    return logits_NBM.permute(1, 2, 0)


def published_loss(context_BMC: Tensor, targets_BMC: Tensor, distractors_BMK: Tensor, *, temperature: float) -> Tensor:
    """InfoNCE, summed over frames."""
    logits_BMN = published_logits(context_BMC, targets_BMC, distractors_BMK, temperature=temperature)
    first_Q = torch.zeros(logits_BMN[..., 0].numel(), dtype=torch.long, device=logits_BMN.device)
    return F.cross_entropy(logits_BMN.flatten(0, 1), first_Q, reduction="sum")
