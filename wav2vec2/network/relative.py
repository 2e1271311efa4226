"""WavLM's positions inside attention: a bias by distance, which each frame gates (Chen et al. 2022, arXiv:2110.13900).

Shapes: B utterances, S frames, H heads, E width of a head.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.linear import Linear
from wav2vec2.network.config import ModelConfig

GATES = 8  # numbers of a frame, in two sums of four, that its gates are made of


class RelativeBias(nn.Module):
    """What attention from one frame to another gains by their distance; all layers share it."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.buckets, self.farthest = config.relative_buckets, config.relative_distance
        self.embedding = nn.Parameter(0.02 * torch.randn(config.relative_buckets, config.heads))

    def forward(self, n_frames: int) -> Tensor:
        """[H, S, S]: from each frame to each."""
        place_S = torch.arange(n_frames, device=self.embedding.device)
        return self.embedding[self.bucket(place_S[None] - place_S[:, None])].permute(2, 0, 1)

    def bucket(self, distance: Tensor) -> Tensor:
        """Half of them for frames before; of each half, the first half for one distance each, the others for ever more.

        The larger ones are of logarithmically growing sizes (Raffel et al. 2020), up to `farthest` frames.
        """
        half, exact = self.buckets // 2, self.buckets // 4
        size = distance.abs()
        growth = torch.log(size.float().clamp(min=1) / exact) / (math.log(self.farthest / exact) or math.inf)
        beyond = (exact + growth * (half - exact)).clamp(max=half - 1).long()
        # A `farthest` of at most `exact` makes beyond shrink, below 0 in the end, where the published code fails.
        return (torch.where(size < exact, size, beyond) + half * (distance > 0)).clamp(min=0)


class Gate(nn.Module):
    """How much of the bias counts for a frame, as a gated recurrent unit would decide."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.constant = nn.Parameter(torch.ones(1, config.heads, 1, 1))
        self.linear = nn.Linear(config.dim // config.heads, GATES)

    def forward(self, x_BHSE: Tensor, bias_HSS: Tensor, allowed_B11S: Tensor | None) -> Tensor:
        """[B, H, S, S]: what is added to the scores of attention; -inf where nothing may be attended to."""
        a_BHS, b_BHS = self.linear(x_BHSE).unflatten(3, (2, GATES // 2)).sum(4).sigmoid().unbind(3)
        scale_BHS1 = (a_BHS * (b_BHS * self.constant.squeeze(3) - 1) + 2).unsqueeze(3)
        mask_BHSS = scale_BHS1 * bias_HSS
        if allowed_B11S is not None:
            mask_BHSS = mask_BHSS.masked_fill(~allowed_B11S, -math.inf)
        return mask_BHSS


class Adapter(nn.Module):
    """A small network after each layer that makes one language of many (Pratap et al. 2023, arXiv:2305.13516)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.norm = nn.LayerNorm(config.dim)
        self.down = Linear(config.dim, config.adapter_dim)
        self.up = Linear(config.adapter_dim, config.dim)

    def forward(self, x_BSD: Tensor) -> Tensor:
        """x_BSD with what the adapter adds."""
        added: Tensor = self.up(F.relu(self.down(self.norm(x_BSD))))
        return x_BSD + added
