"""Chunks of recordings as tensors; batches of them through a network; what it gives decoded.

Shapes: B chunks, N samples, S frames, X whatever a network gives for a frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from common.ahead import in_threads
from common.devices.host_copy import HostCopy
from common.devices.precision import InferencePrecision
from common.recognition import decoding
from common.recognition.cutting import chunks
from common.recognition.cutting.chunks import WINDOW, AudioChunk, Batch, several_at_once
from common.recognition.decoding import CTCDecoder
from common.recognition.output.transcripts import Transcript
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

    def rows(samples: list[np.ndarray]) -> Iterator[Tensor]:
        return _rows(HostCopy(run(samples))) if samples else iter(())

    return chunks.in_batches(
        recordings,
        split,
        rows,
        batch_size=batch_size,
        long_batch_size=1 if on_cpu else batch_size,
        most_samples=CPU_SAMPLES if on_cpu else None,
        through=_side_by_side(rows) if on_cpu else None,
    )


def _side_by_side(
    run: Callable[[list[np.ndarray]], Iterable[Tensor]],
) -> Callable[[Iterable[Batch]], Iterator[tuple[Batch, Iterable[Tensor]]]]:
    """What gives the results of batches in their order, and shares the cores between those of a window."""

    def through(batches: Iterable[Batch]) -> Iterator[tuple[Batch, Iterable[Tensor]]]:
        all_cores = cores()

        def shared(batch: Batch) -> Iterable[Tensor]:
            with torch_threads(all_cores // min(all_cores, batch.of_window, WINDOW)):
                return run(batch.samples)

        yield from several_at_once(batches, run, most=all_cores, shared=shared)

    return through


def transcripts(
    found: Iterable[tuple[Recording, Iterable[Tensor]]],
    decoder: CTCDecoder,
    *,
    seconds_per_frame: float,
    precision: InferencePrecision,
    keep_log_probs: bool = False,
) -> Iterator[Transcript]:
    """As `decoding.transcripts`, by as many threads as torch has; log-probabilities that are kept are a tensor."""
    for transcript in decoding.transcripts(
        found,
        decoder,
        seconds_per_frame=seconds_per_frame,
        precision=precision,
        threads=cores(),
        keep_log_probs=keep_log_probs,
    ):
        kept_SV = transcript.log_probs_SV
        yield transcript if kept_SV is None else transcript._replace(log_probs_SV=torch.as_tensor(kept_SV))


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
