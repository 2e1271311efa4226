"""Features to entries of learned codebooks (Jang et al. 2017, arXiv:1611.01144; Baevski et al. 2020, section 2).

Shapes: Q frames, C channels, G codebooks, V entries of each, E width of an entry.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.config import check_positive, check_shares
from common.convolution.linear import Linear
from wav2vec2.network.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class TemperatureConfig:
    """Temperature of the quantiser's choices, which falls as training goes on."""

    start: float = 2.0
    """Temperature at the first update."""
    end: float = 0.5
    """Lowest temperature."""
    decay: float = 0.999995
    """Factor of the temperature per update."""

    def __post_init__(self) -> None:
        check_positive(self, "start", "end", "decay")
        check_shares(self, "decay")

    def at(self, update: int) -> float:
        """The temperature of update number `update`, from 0."""
        return max(self.end, self.start * self.decay**update)


class Quantized(NamedTuple):
    """Entries side by side, their numbers, and how likely each was (before noise), float32."""

    x_QJ: Tensor
    codes_QG: Tensor
    probabilities_QGV: Tensor


class GumbelQuantizer(nn.Module):
    """Chooses an entry of each codebook; the gradient is that of a soft choice."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.codebooks, self.entries = config.codebooks, config.codebook_size
        self.scores = Linear(config.conv_layers[-1][0], self.codebooks * self.entries)
        self.codes_GVE = nn.Parameter(
            torch.empty(self.codebooks, self.entries, config.width_of_codes // self.codebooks).uniform_()
        )
        nn.init.normal_(self.scores.weight)
        nn.init.zeros_(self.scores.bias)

    def forward(self, features_QC: Tensor, *, temperature: float, noise_QGV: Tensor | None = None) -> Quantized:
        """Entries for features_QC: the likeliest in evaluation; in training with noise, by default Gumbel's, first."""
        scores_QGV = self.scores(features_QC).float().unflatten(1, (self.codebooks, self.entries))
        probabilities_QGV = scores_QGV.softmax(2)
        if not self.training:
            codes_QG, books_G = scores_QGV.argmax(2), torch.arange(self.codebooks, device=scores_QGV.device)
            return Quantized(self.codes_GVE[books_G, codes_QG].flatten(1), codes_QG, probabilities_QGV)
        noise_QGV = gumbel_noise(scores_QGV) if noise_QGV is None else noise_QGV
        soft_QGV = ((scores_QGV + noise_QGV) / temperature).softmax(2)
        codes_QG = soft_QGV.argmax(2)
        hard_QGV = F.one_hot(codes_QG, self.entries).to(soft_QGV.dtype)
        choice_GQV = (hard_QGV + (soft_QGV - soft_QGV.detach())).transpose(0, 1)  # exactly 0 or 1
        x_GQE = torch.bmm(choice_GQV.to(self.codes_GVE.dtype), self.codes_GVE)
        return Quantized(x_GQE.transpose(0, 1).flatten(1), codes_QG, probabilities_QGV)


def gumbel_noise(like: Tensor) -> Tensor:
    """Standard Gumbel noise, drawn where `like` is."""
    return -torch.empty_like(like).exponential_().log()


def perplexity(usage_GV: Tensor) -> Tensor:
    """How many entries are as good as in use, over all codebooks: the sum of exp(entropy) of each row of usage_GV."""
    # At 0 the slope of the entropy is infinite, and what backward makes of it is NaN.
    logarithm_GV = usage_GV.clamp(min=torch.finfo(usage_GV.dtype).tiny).log()
    return (-usage_GV * logarithm_GV).sum(1).exp().sum()
