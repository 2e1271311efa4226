"""From lists of recordings to batches: audio, and what is hidden or to be written, all made in the loader's workers.

A batch is a pure function of its plan: which utterances, in which sub-batch of which epoch. Crops, masks and
distractors come of (seed, epoch, number of the sub-batch), so they do not depend on processes, workers or on how many
sub-batches go through the network at once.

Shapes: B utterances, N samples, U target labels, S frames, D width of the Transformer.
"""

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from common.data.batching import Batches, BatchingError, bucketed_batches
from common.data.loading import (
    SEGMENT_TOLERANCE_SECONDS,
    Failure,
    LoadingError,
    SpeechDataset,
    SpeechItem,
    batch_loader,
    stand_in,
    together,
)
from common.data.manifest import Utterance, Utterances
from common.runs.seeds import mixed
from ctc.alignment.align import frames_needed
from wav2vec2.contrastive.masking import MaskedTargets, draw_channel_mask, draw_targets, draw_time_mask, joined
from wav2vec2.corpus.letters import Letters
from wav2vec2.network.extractor import n_frames
from wav2vec2.run_config import FEWEST_FRAMES, SAMPLE_RATE, FinetuneConfig, PretrainConfig, TrainingConfig


class SubBatch(NamedTuple):
    """A sub-batch: its number in the epoch, and its utterances."""

    number: int
    indices: list[int]


class Plan(NamedTuple):
    """The sub-batches that one process puts through the network at once."""

    epoch: int
    parts: list[SubBatch]


class PretrainingBatch(NamedTuple):
    """Utterances cropped to the shortest of their sub-batch; those of shorter sub-batches are padded with zeros."""

    audio_BN: Tensor
    samples_B: Tensor | None
    """None: N each."""
    targets: list[MaskedTargets]
    """The targets of each sub-batch."""
    channel_mask_BD: Tensor | None
    seeds: list[int]
    """The seed of each sub-batch."""
    ids: list[str]
    failures: list[Failure]
    seconds: float
    """Seconds of audio, without padding."""
    counts: bool
    """False for a stand-in: of what was asked for nothing could be read, and other processes wait for a step."""

    @property
    def n_targets(self) -> int:
        """Masked frames, that the loss is a sum over."""
        return sum(part.positions_BM.numel() for part in self.targets) if self.counts else 0


class FinetuningBatch(NamedTuple):
    """Utterances padded with zeros to the longest, their labels, and what is hidden of them in training."""

    audio_BN: Tensor
    samples_B: Tensor
    targets_BU: Tensor
    target_lengths_B: Tensor
    mask_BS: Tensor | None
    channel_mask_BD: Tensor | None
    indices: list[int]
    ids: list[str]
    failures: list[Failure]
    seconds: float
    counts: bool

    @property
    def n_targets(self) -> int:
        """Utterances, that the loss is a sum over."""
        return len(self.ids) if self.counts else 0


Batch = PretrainingBatch | FinetuningBatch


class Unusable(NamedTuple):
    """In place of a batch: nothing of what was asked for can be used, and nothing else can or is to stand in."""

    failures: list[Failure]


class PlannedDataset(Dataset[Any], ABC):
    """Whole batches by their plans. An utterance that cannot be used is left out of its batch and told in it."""

    def __init__(self, utterances: Sequence[Utterance], cfg: TrainingConfig, letters: Letters | None = None):
        self.utterances, self.cfg = utterances, cfg
        self.seed, self.on_error = cfg.seed, cfg.data.on_error
        samples_N = np.rint(Utterances.of(utterances).seconds * SAMPLE_RATE).astype(np.int64)
        self.sizes = np.minimum(samples_N, self.longest())
        self.blocks = Utterances.of(utterances).blocks(cfg.data.order)
        encode = letters.encode if letters is not None else None
        self.recordings = SpeechDataset(utterances, encode=encode, sample_rate=SAMPLE_RATE, seed=cfg.seed)
        self.skipped: dict[int, str] = {}

    def longest(self) -> int:
        """Samples that an utterance is cropped to, if it is longer."""
        return sys.maxsize

    def __len__(self) -> int:
        """How many utterances there are."""
        return len(self.utterances)

    def __getitem__(self, plan: Plan) -> Any:
        """The batch of `plan`, or Unusable: an error that is raised in a worker arrives with its traceback."""
        results = [[self.item(index) for index in part.indices] for part in plan.parts]
        failures = [result for part in results for result in part if isinstance(result, Failure)]
        found = [
            (mixed(self.cfg.seed, plan.epoch, part.number), [item for item in items if isinstance(item, SpeechItem)])
            for part, items in zip(plan.parts, results, strict=True)
        ]
        found = [(seed, items) for seed, items in found if items]
        if found:
            return self.assemble(found, failures)
        if self.on_error == "stop":
            return Unusable(failures)
        try:
            batch = stand_in(self, lambda items: self.assemble([(0, items)], failures), failures)
        except LoadingError as error:
            return Unusable([Failure(failures[0].index, str(error), stops=True)])
        return batch._replace(counts=False)

    def __getitems__(self, plans: Sequence[Plan]) -> list[Any]:
        """The batches of some plans: what lies in a store is asked for at once."""
        return together(self, plans, [index for plan in plans for part in plan.parts for index in part.indices])

    @abstractmethod
    def assemble(self, parts: list[tuple[int, list[SpeechItem]]], failures: list[Failure]) -> Any:
        """The batch of the utterances of sub-batches, each with its seed."""

    def item(self, index: int, epoch: int = 0) -> SpeechItem | Failure:
        """The utterance at `index`, the same in every epoch, or why it cannot be used."""
        item = self.recordings.item(index, epoch)
        if isinstance(item, Failure):
            return item
        utterance = self.utterances[index]
        seconds = len(item.samples) / SAMPLE_RATE
        if abs(seconds - utterance.seconds) > SEGMENT_TOLERANCE_SECONDS:
            return Failure(
                index,
                f"utterance {utterance.id}: {utterance.audio} has {seconds:.2f} s, its list says "
                f"{utterance.seconds:.2f} s; make the list anew",
            )
        frames = n_frames(len(item.samples), self.cfg.model.conv_layers)
        if frames < (needed := self.frames_needed(item)):
            labels = f"{len(item.target)} labels need" if item.target else "the model needs"
            return Failure(
                index, f"utterance {utterance.id}: {labels} {needed} frames, and {utterance.audio} has {frames}"
            )
        return item

    @abstractmethod
    def frames_needed(self, item: SpeechItem) -> int:
        """The fewest with which it can be used."""


class PretrainingSet(PlannedDataset):
    """Crops of recordings with what is hidden of them."""

    cfg: PretrainConfig

    def longest(self) -> int:
        """Samples that an utterance is cropped to, if it is longer."""
        return self.cfg.data.max_samples or self.cfg.data.max_tokens

    def frames_needed(self, item: SpeechItem) -> int:
        """Enough that some are hidden and some are not."""
        return FEWEST_FRAMES

    def assemble(self, parts: list[tuple[int, list[SpeechItem]]], failures: list[Failure]) -> PretrainingBatch:
        """The batch of the utterances of sub-batches, each with its seed."""
        cfg, model = self.cfg, self.cfg.model
        lengths = [min(self.longest(), *(len(item.samples) for item in items)) for _, items in parts]
        audio_BN = torch.zeros(sum(len(items) for _, items in parts), max(lengths))
        rows, targets, channels = iter(audio_BN.numpy()), [], []
        for length, (seed, items) in zip(lengths, parts, strict=True):
            random = np.random.default_rng(seed)
            for item in items:
                start = int(random.integers(len(item.samples) - length + 1))
                next(rows)[:length] = item.samples[start : start + length]
            frames = [n_frames(length, model.conv_layers)] * len(items)
            targets.append(draw_targets(frames, cfg.mask, distractors=cfg.objective.distractors, seed=seed))
            channels.append(draw_channel_mask(len(items), model.dim, cfg.mask, seed=mixed(seed, 1)))
        samples = [length for length, (_, items) in zip(lengths, parts, strict=True) for _ in items]
        return PretrainingBatch(
            audio_BN=audio_BN,
            samples_B=torch.tensor(samples) if min(lengths) < max(lengths) else None,
            targets=targets,
            channel_mask_BD=joined(channels),
            seeds=[seed for seed, _ in parts],
            ids=[item.id for _, items in parts for item in items],
            failures=failures,
            seconds=sum(samples) / SAMPLE_RATE,
            counts=True,
        )


class FinetuningSet(PlannedDataset):
    """Recordings with their labels and, in training, with what is hidden of them."""

    cfg: FinetuneConfig

    def __init__(self, utterances: Sequence[Utterance], cfg: FinetuneConfig, letters: Letters, *, training: bool):
        super().__init__(utterances, cfg, letters)
        self.training = training

    def frames_needed(self, item: SpeechItem) -> int:
        """In training those of its labels; a validation counts every utterance that has a frame."""
        return max(1, frames_needed(item.target)) if self.training else 1

    def assemble(self, parts: list[tuple[int, list[SpeechItem]]], failures: list[Failure]) -> FinetuningBatch:
        """The batch of the utterances of sub-batches, each with its seed."""
        items = [item for _, items in parts for item in items]
        samples = [len(item.samples) for item in items]
        hidden = [self._hidden(seed, items) for seed, items in parts] if self.training else []
        return FinetuningBatch(
            audio_BN=pad_sequence([torch.from_numpy(item.samples) for item in items], batch_first=True),
            samples_B=torch.tensor(samples),
            targets_BU=pad_sequence([torch.tensor(item.target).long() for item in items], batch_first=True),
            target_lengths_B=torch.tensor([len(item.target) for item in items]),
            mask_BS=joined(mask_BS for mask_BS, _ in hidden),
            channel_mask_BD=joined(mask_BD for _, mask_BD in hidden),
            indices=[item.index for item in items],
            ids=[item.id for item in items],
            failures=failures,
            seconds=sum(samples) / SAMPLE_RATE,
            counts=True,
        )

    def _hidden(self, seed: int, items: list[SpeechItem]) -> tuple[Tensor | None, Tensor | None]:
        mask, model = self.cfg.mask, self.cfg.model
        frames = [n_frames(len(item.samples), model.conv_layers) for item in items]
        mask_BS = draw_time_mask(frames, mask, seed=seed) if mask.time_prob else None
        return mask_BS, draw_channel_mask(len(items), model.dim, mask, seed=mixed(seed, 1))


def loader(dataset: PlannedDataset, plans: Iterable[Plan], *, workers: int = 0) -> Iterable[Any]:
    """The batches of `plans` in their order, made by `workers` processes ahead of time (0: here, when asked)."""
    return batch_loader(dataset, ([plan] for plan in plans), _the_only_one, workers=workers, each_ahead=2)


def training_plans(
    sizes: Sequence[int],
    cfg: TrainingConfig,
    *,
    epoch: int,
    ranks: int = 1,
    rank: int = 0,
    blocks: np.ndarray | None = None,
) -> Sequence[Plan]:
    """What process `rank` of `ranks` learns from in `epoch`; each cfg.update_freq plans are one update.

    The sub-batches of an update are drawn first and dealt out after: they do not depend on the processes, only their
    number does. Those of similar length go through the network together. `blocks`: where utterances lie, as
    `bucketed_batches` takes it. Raises BatchingError.
    """
    budget = {"batch_size": cfg.data.batch_size} if cfg.data.batch_size else {"max_seconds": cfg.data.max_tokens}
    batches = bucketed_batches(
        sizes, **budget, seed=cfg.seed, epoch=epoch, buckets=cfg.data.buckets, blocks=blocks,  # type: ignore[arg-type]
    )  # fmt: skip
    per_update = ranks * cfg.concat_batches * cfg.update_freq
    if len(batches) < per_update:
        size = f"{cfg.data.batch_size} utterances" if cfg.data.batch_size else f"up to {cfg.data.max_tokens} samples"
        raise BatchingError(
            f"{len(sizes)} utterances make {len(batches)} sub-batches of {size}, and an update needs {per_update}; "
            f"lower data.{'batch_size' if cfg.data.batch_size else 'max_tokens'}, concat_batches or update_freq"
        )
    return _Plans(batches, np.asarray(sizes), cfg, epoch=epoch, ranks=ranks, rank=rank)


class _Plans(Sequence[Plan]):
    """Plans of an epoch, each made when it is asked for."""

    def __init__(self, batches: Batches, sizes: np.ndarray, cfg: TrainingConfig, *, epoch: int, ranks: int, rank: int):
        self.batches, self.sizes, self.epoch, self.rank = batches, sizes, epoch, rank
        self.turns, self.at_once = cfg.update_freq, cfg.concat_batches
        self.per_turn = ranks * cfg.concat_batches
        self.all = range(len(batches) // (self.per_turn * self.turns) * self.turns)

    def __len__(self) -> int:
        return len(self.all)

    @overload
    def __getitem__(self, index: int) -> Plan: ...
    @overload
    def __getitem__(self, index: slice) -> "_Plans": ...
    def __getitem__(self, index: "int | slice") -> "Plan | _Plans":
        if isinstance(index, slice):
            some = copy.copy(self)
            some.all = self.all[index]
            return some
        update, turn = divmod(self.all[index], self.turns)
        first = update * self.turns * self.per_turn
        batches = {number: self.batches[number] for number in range(first, first + self.turns * self.per_turn)}
        numbers = sorted(batches, key=lambda number: -self.sizes[batches[number]].max())
        start = turn * self.per_turn + self.rank * self.at_once
        return Plan(self.epoch, [SubBatch(number, batches[number]) for number in numbers[start:][: self.at_once]])


def validation_plans(sizes: Sequence[int], max_tokens: int, *, ranks: int = 1, rank: int = 0) -> list[Plan]:
    """The share of process `rank` in all utterances, a sub-batch at a time, the same in every validation."""
    batches = bucketed_batches(sizes, max_seconds=max_tokens, seed=0, epoch=0, shuffle=False)
    return [Plan(0, [SubBatch(number, batch)]) for number, batch in enumerate(batches)][rank::ranks]


def on_device(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors on `device`; from pinned memory without waiting for the copy."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, tuple):
        return type(batch)(*(on_device(value, device) for value in batch))
    return [on_device(value, device) for value in batch] if isinstance(batch, list) else batch


def _the_only_one(batches: list[Any]) -> Any:
    (batch,) = batches
    return batch
