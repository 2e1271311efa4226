"""Chunks of recordings as tensors; batches of them through a network.

Shapes: B chunks, N samples, S frames, X whatever a network gives for a frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from common.host_copy import HostCopy
from common.recognition import chunks
from common.recognition.chunks import Piece
from common.recognition.recordings import Recording


def in_batches(
    recordings: Iterable[Recording],
    split: Callable[[int], list[Piece]],
    run: Callable[[list[np.ndarray]], Tensor],
    *,
    batch_size: int,
    device: torch.device | None = None,
) -> Iterator[tuple[Recording, Iterable[Tensor]]]:
    """As `chunks.in_batches`, on the CPU, for a `run` that makes [B, S, X] of the samples of B pieces.

    From a device results are copied while it computes those of the next batch. On a CPU, which is the default, pieces
    of a `LongSound` go one by one: several at once are no faster there, and take as many times the memory.
    """
    at_once = batch_size if device is not None and device.type != "cpu" else 1
    return chunks.in_batches(
        recordings,
        split,
        lambda samples: _rows(HostCopy(run(samples))),
        batch_size=batch_size,
        long_batch_size=at_once,
    )


def _rows(copy: HostCopy) -> Iterator[Tensor]:
    """The rows, for which whoever asks for the first of them waits."""
    yield from copy.tensor()


def padded(samples: Sequence[np.ndarray], device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """audio_BN with zeros after the shorter ones, and how many samples each has.

    For a `device` with memory of its own they are pinned, so that the host need not wait until they are copied there.
    """
    audio_BN, samples_B = map(torch.from_numpy, chunks.padded(samples))
    if device is None or device.type in ("cpu", "mps"):
        return audio_BN, samples_B
    return audio_BN.pin_memory(), samples_B.pin_memory()
