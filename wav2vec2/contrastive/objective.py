"""What pre-training minimises (Baevski et al. 2020, equations 2 to 4).

Shapes: B utterances, M masked frames of each, C width in which they are compared, K distractors, G codebooks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from common.config import check_not_negative, check_positive


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """Parts of the loss of pre-training."""

    distractors: int = 100
    """Other masked frames of the utterance among which the right one is to be found."""
    logit_temperature: float = 0.1
    """Temperature, by which cosine similarities are divided."""
    diversity: float = 0.1
    """Weight of the loss for entries of the codebooks that are not used."""
    penalty: float = 10.0
    """Weight of the mean square of the features."""

    def __post_init__(self) -> None:
        check_positive(self, "distractors", "logit_temperature")
        check_not_negative(self, "diversity", "penalty")


class Contrast(NamedTuple):
    """The contrastive loss summed over frames, and in how many of them the right target came first."""

    loss: Tensor
    correct: Tensor


def contrast(
    context_BMC: Tensor, targets_BMC: Tensor, codes_BMG: Tensor, distractors_BMK: Tensor, *, temperature: float
) -> Contrast:
    """InfoNCE of telling each frame's target from those of its distractors; in float32."""
    logits_BMN = contrastive_logits(context_BMC, targets_BMC, codes_BMG, distractors_BMK, temperature=temperature)
    right_BM = logits_BMN[:, :, 0]
    loss = (logits_BMN.logsumexp(2) - right_BM).sum()
    # A network that gives all the same score is right nowhere.
    is_best_BM = (right_BM >= logits_BMN.amax(2)) & (right_BM > logits_BMN.amin(2))
    return Contrast(loss, is_best_BM.detach().sum())


def contrastive_logits(
    context_BMC: Tensor, targets_BMC: Tensor, codes_BMG: Tensor, distractors_BMK: Tensor, *, temperature: float
) -> Tensor:
    """[B, M, 1 + K]: cosine similarity over `temperature` of each frame's context with its target and its distractors.

    All pairs of masked frames of an utterance are compared by one matrix product, and those that are wanted are
    picked, instead of gathering K vectors for each. A distractor with the codes of the target is no distractor: -inf.
    """
    with torch.autocast(context_BMC.device.type, enabled=False):
        unit_BMC, targets_BMC = F.normalize(context_BMC.float(), dim=2), F.normalize(targets_BMC.float(), dim=2)
        similarity_BMM = torch.bmm(unit_BMC, targets_BMC.transpose(1, 2)) / temperature
    is_same_BMM = (codes_BMG.unsqueeze(2) == codes_BMG.unsqueeze(1)).all(3)
    right_BM1 = similarity_BMM.diagonal(dim1=1, dim2=2).unsqueeze(2)
    wrong_BMK = similarity_BMM.gather(2, distractors_BMK)
    wrong_BMK = wrong_BMK.masked_fill(is_same_BMM.gather(2, distractors_BMK), -torch.inf)
    return torch.cat([right_BM1, wrong_BMK], dim=2)
