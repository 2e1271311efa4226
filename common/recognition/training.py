"""What a training step of a recogniser does around its network: Jasper's and the transducers'."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from common.data.loading import AudioBatch, Failure, Item, SpeechDataset, collate
from common.ema import Ema
from common.training_state import Progress, TrainingError


class MicroBatch(NamedTuple):
    """Some utterances of a batch, and how much the loss of each counts."""

    batch: AudioBatch
    weights_B: Tensor


def micro_batches(batch: AudioBatch, weights_B: Tensor, parts: int) -> list[MicroBatch]:
    """`batch` in `parts` pieces of rows; where there are fewer rows, the last one stands in, with a weight of 0.

    Each process then has as many, which is what normalisation over all of them waits for.
    """
    rows = [r for r in torch.arange(len(batch.indices)).tensor_split(parts) if len(r)]
    pieces = [MicroBatch(_rows(batch, int(r[0]), int(r[-1]) + 1), weights_B[r[0] : r[-1] + 1]) for r in rows]
    last = len(batch.indices) - 1
    stand_in = MicroBatch(_rows(batch, last, last + 1), torch.zeros(1))
    return pieces + [stand_in] * (parts - len(pieces))


def _rows(batch: AudioBatch, first: int, end: int) -> AudioBatch:
    rows = {name: getattr(batch, name)[first:end] for name in batch._fields if name != "failures"}
    return AudioBatch(**rows, failures=[])


def weights_of(
    batch: AudioBatch,
    unfit: Mapping[int, str],
    *,
    on_error: Literal["stop", "skip"],
    skipped: MutableMapping[int, str],
) -> Tensor:
    """weights_B of the utterances of `batch`: 1, or 0 for the rows that are `unfit`, with why, which go to `skipped`.

    Those end the run with TrainingError, unless `on_error` is "skip".
    """
    weights_B = torch.ones(len(batch.indices))
    for row, message in unfit.items():
        if on_error == "stop":
            raise TrainingError(f"{message}; leave it out, or set --data.on_error skip")
        skipped[batch.indices[row]] = message
        weights_B[row] = 0.0
    return weights_B


def stand_in(dataset: SpeechDataset, epoch: int, failures: Sequence[Failure]) -> AudioBatch:
    """An utterance in place of a batch of which none can be read: other processes wait for this one's step."""
    for index in range(len(dataset)):
        if isinstance(item := dataset.item(index, epoch), Item):
            return collate([item])
    raise TrainingError(f"not one utterance can be read: {failures[0].message}")


def begin_step(networks: Sequence[nn.Module], optimizer: torch.optim.Optimizer, *, rate: float, seed: int) -> None:
    """Seeds dropout, and sets `networks` to training and the learning rate to `rate`."""
    torch.manual_seed(seed)
    for network in networks:
        network.train()
    for group in optimizer.param_groups:
        group["lr"] = rate


def finish_step(
    optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, ema: Ema | None, progress: Progress
) -> None:
    """Changes the weights by their gradients, which are gone then, and lets the moving average follow."""
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if ema is not None:
        ema.update(progress.step if progress.warm_average else None)
