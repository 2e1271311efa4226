"""Chunks of recordings as tensors, and batches of them through a network.

Shapes: B chunks, N samples, S frames, X whatever a network gives for a frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from common.ahead import in_threads
from common.devices.host_copy import HostCopy
from common.recognition.cutting import chunks
from common.recognition.cutting.chunks import WINDOW, AudioChunk
from common.recognition.sources.recordings import Recording
from common.threads import cores, torch_threads

CPU_SAMPLES = 2**19
"""Samples that go through a network together on a CPU: half a minute, of 16 kHz."""

Given = TypeVar("Given")
Made = TypeVar("Made")


def in_batches(
    recordings: Iterable[Recording],
    split: Callable[[int], list[AudioChunk]],
    run: Callable[[list[np.ndarray]], Tensor],
    *,
    batch_size: int,
    device: torch.device | None = None,
) -> Iterator[tuple[Recording, Iterable[Tensor]]]:
    """As `chunks.in_batches`, on the CPU, for a `run` that makes [B, S, X] of the samples of B pieces.

    From a device results are copied while it computes those of the next batch. On a CPU, which is the default, as many
    batches as there are cores (`torch.get_num_threads`) are computed side by side, one thread each, because small
    operations shared by two threads are hardly faster than by one; and pieces of a `LongSound` go one by one, others
    together up to CPU_SAMPLES: long ones at once are slower there, and take as many times the memory.
    """
    on_cpu = device is None or device.type == "cpu"
    return chunks.in_batches(
        recordings,
        split,
        lambda samples: _rows(HostCopy(run(samples))) if samples else iter(()),
        batch_size=batch_size,
        long_batch_size=1 if on_cpu else batch_size,
        most_samples=CPU_SAMPLES if on_cpu else None,
        threads=cores() if on_cpu else 1,
        sharing=torch_threads,
    )


def side_by_side(work: Callable[[Given], Made], items: Sequence[Given]) -> Iterator[Made]:
    """As `map`: `work` of as many items at a time as there are cores, each on its share of them."""
    all_cores = cores()
    most = min(all_cores, len(items), WINDOW)

    def shared(item: Given) -> Made:
        with torch_threads(all_cores // most):
            return work(item)

    yield from map(work, items) if most < 2 else in_threads(items, shared, threads=most)


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
