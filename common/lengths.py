"""Which places of a padded batch are an utterance's own, and how many utterances to take at once."""

import torch
from torch import Tensor


def inside(lengths_B: Tensor, longest: int) -> Tensor:
    """[B, longest] bool: true for the first lengths_B places of each utterance."""
    return torch.arange(longest, device=lengths_B.device) < lengths_B[:, None]


def utterances_per_block(values_B: Tensor, blocks: dict[str, int]) -> int:
    """How many rows of a tensor to take at once: all, where the kind of device has no block."""
    n_utterances = values_B.shape[0]
    block = blocks.get(values_B.device.type, values_B.numel())
    return max(1, block * n_utterances // max(1, values_B.numel()))
