"""Fewer frames for the middle layers (Hourglass Transformer, Nawrot et al. 2021, arXiv:2110.13711).

Shapes: B utterances, S frames, U frames after shortening, D width of the model.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.linear import Linear


class Short(NamedTuple):
    """Shortened frames x_BUD, and mask_BU of those that at least one frame went into (None: all)."""

    x_BUD: Tensor
    mask_BU: Tensor | None


class Shortening(nn.Module):
    """`factor` frames become one and one becomes `factor`: by mean and repetition, or by linear layers."""

    def __init__(self, dim: int, factor: int, resample: Literal["naive", "linear"]):
        super().__init__()
        self.factor = factor
        self.down = Linear(dim * factor, dim) if resample == "linear" else None
        self.up = Linear(dim, dim * factor) if resample == "linear" else None

    def shorten(self, x_BSD: Tensor, mask_BS: Tensor | None) -> Short:
        """x_BSD, which must be 0 where no frame is, so that an utterance's last frame is the same in every batch.

        What lacks for the last frame counts as zeros, also when no utterance is padded.
        """
        n_utterances, n_frames, width = x_BSD.shape
        lacking = -n_frames % self.factor
        x_BUJ = F.pad(x_BSD, (0, 0, 0, lacking)).view(n_utterances, -1, self.factor * width)
        # A shortened frame begins with its first frame, so it is empty where that one is.
        mask_BU = None if mask_BS is None else mask_BS[:, :: self.factor]
        if self.down is not None:
            return Short(self.down(x_BUJ), mask_BU)
        return Short(x_BUJ.view(n_utterances, -1, self.factor, width).mean(2), mask_BU)

    def restore(self, x_BUD: Tensor, n_frames: int) -> Tensor:
        """x_BUD -> [B, n_frames, D]."""
        if self.up is not None:
            return self.up(x_BUD).view(len(x_BUD), -1, x_BUD.shape[2])[:, :n_frames]
        return torch.repeat_interleave(x_BUD, self.factor, dim=1)[:, :n_frames]
