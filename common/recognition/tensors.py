"""Chunks of recordings as tensors; batches of them through a network.

Shapes: B chunks, N samples, S frames, X whatever a network gives for a frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from common.recognition import chunks
from common.recognition.chunks import Piece
from common.recognition.recordings import Recording


def in_batches(
    recordings: Iterable[Recording],
    split: Callable[[np.ndarray], list[Piece]],
    run: Callable[[list[np.ndarray]], Tensor],
    *,
    batch_size: int,
) -> Iterator[tuple[Recording, Tensor | None]]:
    """As `chunks.in_batches`, on the CPU, for a `run` that makes [B, S, X] of the samples of B pieces."""
    return chunks.in_batches(
        recordings, split, lambda samples: run(samples).cpu(), join=torch.cat, batch_size=batch_size
    )


def padded(samples: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """audio_BN with zeros after the shorter ones, and how many samples each has."""
    audio_BN, samples_B = chunks.padded(samples)
    return torch.from_numpy(audio_BN), torch.from_numpy(samples_B)
