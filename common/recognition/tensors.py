"""Chunks of recordings as tensors; batches of them through a network; what it gives decoded.

Shapes: B chunks, N samples, S frames, X whatever a network gives for a frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from common.host_copy import HostCopy
from common.precision import Precision
from common.recognition import chunks, decoding
from common.recognition.chunks import Piece
from common.recognition.decoding import Decoder
from common.recognition.recordings import Recording
from common.recognition.transcripts import Transcript


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


def transcripts(
    found: Iterable[tuple[Recording, Iterable[Tensor]]],
    decoder: Decoder,
    *,
    seconds_per_frame: float,
    precision: Precision,
    keep_log_probs: bool = False,
) -> Iterator[Transcript]:
    """As `decoding.transcripts`, by as many threads as torch has; log-probabilities that are kept are a tensor."""
    for transcript in decoding.transcripts(
        found,
        decoder,
        seconds_per_frame=seconds_per_frame,
        precision=precision,
        threads=torch.get_num_threads(),
        keep_log_probs=keep_log_probs,
    ):
        kept_SV = transcript.log_probs_SV
        yield transcript if kept_SV is None else transcript._replace(log_probs_SV=torch.as_tensor(kept_SV))


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
