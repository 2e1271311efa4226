"""Which places of a padded batch are an utterance's own, and which are padding."""

import torch
from torch import Tensor


def inside(lengths_B: Tensor, longest: int) -> Tensor:
    """[B, longest] bool: true for the first lengths_B places of each utterance."""
    return torch.arange(longest, device=lengths_B.device) < lengths_B[:, None]
