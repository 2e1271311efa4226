"""From utterances to padded batches of samples, in worker processes.

What an item is depends on the data set's settings, the index and the epoch alone: not on workers, order or ranks.

Legend of shapes: B utterances, N samples, U target symbols.
"""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from pickle import UnpicklingError
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch.multiprocessing.reductions import reduce_tensor
from torch.utils.data import DataLoader, Dataset

from common.ahead import one_ahead
from common.audio import waveform
from common.audio.headers import UnreachableError
from common.audio.silence import ALONE, Keep, SilenceConfig, kept, silence, silence_level, trim_silence, with_silences
from common.data.lists.index import RecordError
from common.data.manifest import Utterance
from common.data.variation.joining import JoinConfig, drawn, groups, one_after_the_other
from common.data.variation.perturbation import PerturbationConfig, perturbed, recordings
from common.data.variation.speed import SpeedConfig, Version, draw_version
from common.files import stores
from common.interruption import leave_group

SEGMENT_TOLERANCE_SECONDS = 0.1  # manifests round durations
Made = TypeVar("Made")
SMALL_BYTES = 1 << 14  # of a tensor that is not worth shared memory


class LoadingError(ValueError):
    """An utterance cannot be loaded; the message names it and its file."""


@dataclass(frozen=True, slots=True)
class SpeechItem:
    """One utterance, or several joined: float32 samples [N] and the encoded text [U]."""

    index: int
    """The utterance's; of several joined that of the first."""
    id: str
    samples: np.ndarray
    target: list[int]
    epoch: int = 0
    utterances: int = 1
    heard: tuple[int, ...] = ()
    """Indices of the utterances in it, in their order; none in silence."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An utterance that cannot be used, and why, in one line that names it."""

    index: int
    message: str
    stops: bool | None = None
    """Whether it ends the run; None: where `on_error` of its data set is "stop"."""


class AudioBatch(NamedTuple):
    """Utterances padded with zeros to the longest, in the order they were asked for.

    With `on_error="skip"` those that could not be loaded are missing (B may be 0); `failures` says why.
    """

    audio_BN: torch.Tensor  # float32
    samples_B: torch.Tensor  # int64
    targets_BU: torch.Tensor  # int64; padding is 0
    target_lengths_B: torch.Tensor  # int64
    indices: list[int]
    ids: list[str]
    utterances: list[int]
    """How many each row is: more than one where they are joined."""
    failures: list[Failure]
    heard: Sequence[tuple[int, ...]] = ()
    """Indices of the utterances in each row; none in silence."""

    def to(self, device: torch.device | str) -> "AudioBatch":
        """The batch with its tensors on `device`; from pinned memory without waiting for the copy."""
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in self._fields[:4]}
        return self._replace(**moved)


class SpeechDataset(Dataset[SpeechItem | Failure]):
    """Utterances as samples at one rate and encoded texts."""

    def __init__(
        self,
        utterances: Sequence[Utterance],
        *,
        encode: Callable[[str], list[int]] | None = None,
        sample_rate: int = 16000,
        trim: bool = False,
        keep: Keep | None = None,
        speed: SpeedConfig | None = None,
        perturbation: PerturbationConfig | None = None,
        silence: SilenceConfig | None = None,
        join: JoinConfig | None = None,
        seed: int = 0,
        on_error: Literal["stop", "skip"] = "stop",
    ):
        """`encode` turns a text into indices (None: no targets); `trim` cuts silence of -60 dB off both ends; `keep`
        says what is kept of all, silences that are put in among it.

        `on_error` says what `loader` does with an utterance that cannot be read or encoded: raise, or leave it out
        and note it in `skipped`, a message by index.
        """
        self.utterances = utterances
        self.encode = encode
        self.sample_rate = sample_rate
        self.trim = trim
        self.keep = keep
        self.speed = speed or SpeedConfig()
        self.perturbation = perturbation or PerturbationConfig()
        self.silence = silence or SilenceConfig()
        self.join = join or JoinConfig()
        self.seed = seed
        self.on_error = on_error
        self.skipped: dict[int, str] = {}
        for name in ("noise", "impulses"):
            try:  # else each utterance that meets it would count as one that cannot be read
                recordings(getattr(self.perturbation, name))
            except waveform.AudioError as error:
                raise LoadingError(f"perturbation.{name}: {error}") from None
        if self.speed.mode == "offline" and not any(utterance.speeds for utterance in utterances):
            raise LoadingError(
                "speed mode offline, but no utterance of the manifest has a copy at another speed; "
                "prepare them (SPEEDS='0.9 1.1' scripts/data/librispeech.sh) or choose another mode"
            )

    def __len__(self) -> int:
        """How many utterances there are."""
        return len(self.utterances)

    def __getitem__(self, place: int | tuple[int, int]) -> SpeechItem | Failure:
        """`item` of an (epoch, index), or of an index in epoch 0."""
        epoch, index = place if isinstance(place, tuple) else (0, place)
        return self.item(index, epoch)

    def __getitems__(self, places: Sequence[int | tuple[int, int]]) -> list[SpeechItem | Failure]:
        """The items of a batch: what lies in a store is asked for at once."""
        return together(self, places)

    def item(self, index: int, epoch: int) -> SpeechItem | Failure:
        """The utterance at `index` as it is heard in `epoch`, or why it cannot be had."""
        return made_of(self.utterances, index, lambda utterance: self._item(index, utterance, epoch))

    def _item(self, index: int, utterance: Utterance, epoch: int) -> SpeechItem:
        version = draw_version(utterance, self.speed, seed=self.seed, epoch=epoch, index=index)
        samples, first = self._samples(utterance, version)
        samples = perturbed(
            samples, self.perturbation, sample_rate=self.sample_rate, seed=self.seed, epoch=epoch, index=index
        )
        target = self.encode(utterance.text) if self.encode else []
        rate = self.sample_rate / (version.recorded_speed * version.change)
        ends = [round(end * rate - first / version.change) for end in utterance.word_ends]
        heard: tuple[int, ...] = (index,)
        if random := drawn(self.silence.probability, seed=self.seed, epoch=epoch, indices=[index], kind=3):
            if random.random() < ALONE:
                samples, target, heard = silence(len(samples), silence_level(random), random), [], ()
            else:
                samples = with_silences(samples, ends, self.silence, random, sample_rate=self.sample_rate)
        return SpeechItem(index, utterance.id, samples, target, epoch, heard=heard)

    def collate(self, results: Sequence[SpeechItem | Failure]) -> AudioBatch:
        """A batch of items of one epoch, some of them joined, as `join` says, with others of their language."""
        items = [result for result in results if isinstance(result, SpeechItem)]
        failures = [result for result in results if isinstance(result, Failure)]
        epoch = items[0].epoch if items else 0
        known: dict[str, Any] = {"seed": self.seed, "epoch": epoch, "indices": [item.index for item in items]}
        joins = len(items) > 1 and epoch >= self.join.single_epochs
        if random := drawn(self.join.probability if joins else 0.0, **known, kind=2):
            by_language: dict[str | None, list[SpeechItem]] = {}
            for item in items:
                language = dict(self.utterances[item.index].wanted).get("source_lang")
                by_language.setdefault(language, []).append(item)
            items = []
            for own in by_language.values():
                seconds = [len(item.samples) / self.sample_rate for item in own]
                items += [self._joined([own[i] for i in group], random) for group in groups(seconds, self.join, random)]
            items.sort(key=lambda row: -len(row.samples))
        return collate([*map(self._without_pauses, items), *failures])

    def _without_pauses(self, item: SpeechItem) -> SpeechItem:
        if self.keep is None:
            return item
        return replace(item, samples=kept(item.samples, self.keep([item.samples])))

    def _joined(self, parts: Sequence[SpeechItem], random: np.random.Generator) -> SpeechItem:
        return SpeechItem(
            parts[0].index,
            "+".join(part.id for part in parts),
            one_after_the_other([part.samples for part in parts], self.join, random, sample_rate=self.sample_rate),
            self._joined_target(parts),
            parts[0].epoch,
            len(parts),
            tuple(index for part in parts for index in part.heard),
        )

    def _joined_target(self, parts: Sequence[SpeechItem]) -> list[int]:
        """Labels of the texts with spaces between them, or without where a space is no label, as in Chinese."""
        text = " ".join(filter(None, (self.utterances[part.index].text for part in parts if part.target)))
        try:
            return self.encode(text) if self.encode else []
        except ValueError:  # each text by itself has been encoded
            return [label for part in parts for label in part.target]

    def _samples(self, utterance: Utterance, version: Version) -> tuple[np.ndarray, int]:
        """The samples, and how many were cut off before them, counted at the speed of the recording."""
        samples, first = self._read(utterance, version), 0
        if self.trim:
            samples, first = trim_silence(samples)
        return waveform.change_speed(samples, version.change), first

    def _read(self, utterance: Utterance, version: Version) -> np.ndarray:
        """The recording; of it only the utterance's piece, where the manifest gives one by its offset."""
        piece = utterance.piece(version.recorded_speed)
        samples = waveform.read(version.audio, sample_rate=self.sample_rate, **piece).samples
        found = len(samples) / self.sample_rate
        if piece and found < piece["seconds"] - SEGMENT_TOLERANCE_SECONDS:
            raise waveform.AudioError(
                f"{version.audio}: ends {found:.2f} s after offset {piece['offset_seconds']:.2f} s; "
                f"the manifest says {piece['seconds']:.2f} s"
            )
        return samples


def made_of(utterances: Sequence[Utterance], index: int, make: Callable[[Utterance], Made | Failure]) -> Made | Failure:
    """What `make` makes of the utterance at `index`, or why it cannot be had: an outage of a store ends the run."""
    try:
        utterance = utterances[index]
    except RecordError as error:
        return Failure(index, str(error))
    try:
        return make(utterance)
    except ValueError as error:
        is_outage = isinstance(error, UnreachableError)
        return Failure(index, f"utterance {utterance.id}: {error}", stops=True if is_outage else None)


def together(dataset: Any, places: Sequence[Any], indices: Iterable[int] | None = None) -> list[Any]:
    """What a data set has at `places`; what their utterances have in a store is asked for at once before.

    `indices`: those utterances, by default where the places say, counted again from 0 where they are beyond the last.
    """
    if getattr(dataset.utterances, "in_store", False):
        if indices is None:
            numbers = (place[1] if isinstance(place, tuple) else place for place in places)
            indices = [number % len(dataset.utterances) for number in numbers]
        audio = [made_of(dataset.utterances, index, lambda utterance: utterance.audio) for index in indices]
        stores.fetch(part for part in audio if isinstance(part, stores.Stored))
    return [dataset[place] for place in places]


def collate(results: Sequence[SpeechItem | Failure]) -> AudioBatch:
    """Pads items into a batch."""
    items = [result for result in results if isinstance(result, SpeechItem)]
    samples = [len(item.samples) for item in items]
    lengths = [len(item.target) for item in items]
    audio_BN = torch.zeros(len(items), max(samples, default=0))
    targets_BU = torch.zeros(len(items), max(lengths, default=0), dtype=torch.int64)
    for audio_N, target_U, item in zip(audio_BN.numpy(), targets_BU.numpy(), items, strict=True):
        audio_N[: len(item.samples)] = item.samples
        target_U[: len(item.target)] = item.target
    return AudioBatch(
        audio_BN=audio_BN,
        samples_B=torch.tensor(samples, dtype=torch.int64),
        targets_BU=targets_BU,
        target_lengths_B=torch.tensor(lengths, dtype=torch.int64),
        indices=[item.index for item in items],
        ids=[item.id for item in items],
        utterances=[item.utterances for item in items],
        failures=[result for result in results if isinstance(result, Failure)],
        heard=[item.heard for item in items],
    )


def stand_in(dataset: Any, collate: Callable[[Any], Any], failures: Sequence[Failure]) -> Any:
    """A batch of one item in place of one of which nothing can be used: other processes wait for this one's step.

    Raises LoadingError if nothing else can be used either.
    """
    for index in range(len(dataset)):
        if not isinstance(item := dataset.item(index, 0), Failure):
            return collate([item])
    raise LoadingError(f"not one utterance can be used: {failures[0].message}")


class BatchLoader(DataLoader[Any]):
    """A DataLoader that handles failures in this process: raised in a worker they would arrive with its traceback.

    Its data set has `on_error` and notes in `skipped` what is left out; its batches have `failures`.
    """

    dataset: Any

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """The batches; LoadingError at the first failure that ends the run, or if a worker was killed."""
        waits = not self.num_workers and getattr(self.dataset.utterances, "in_store", False)
        for batch in (one_ahead if waits else undisturbed)(super().__iter__()):
            for failure in batch.failures:
                if failure.stops or (failure.stops is None and self.dataset.on_error == "stop"):
                    raise LoadingError(failure.message)
                self.dataset.skipped.setdefault(failure.index, failure.message)  # which may be told already
            yield batch


def begin_worker(worker: int) -> None:
    """What a worker does first: small tensors then cross with their message. Shared memory has each ask for a
    connection of its own, with four messages to and fro, which take longer than a small model's layer."""
    leave_group(worker)
    ForkingPickler.register(torch.Tensor, _crossing)


def _crossing(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.nbytes <= SMALL_BYTES and tensor.dtype in (torch.int64, torch.float32) and not tensor.requires_grad:
        return torch.from_numpy, (tensor.numpy(),)
    return cast("tuple[Any, ...]", reduce_tensor(tensor))


def pins_memory() -> bool:
    """Whether batches are to lie in pinned memory, from which they are copied to a device without being waited for."""
    device = torch.accelerator.current_accelerator(check_available=True)
    return device is not None and device.type != "mps"  # which has the memory of the host


def undisturbed(batches: Iterator[Any]) -> Iterator[Any]:
    """The batches of a DataLoader; the death of a worker is a LoadingError when its batch is asked for.

    torch would raise from a signal handler, in the middle of whatever this process does. What dies while it hands a
    batch over is noticed as a connection that ends.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (RuntimeError, OSError, EOFError, UnpicklingError):
            workers = {worker.sentinel: worker for worker in getattr(batches, "_workers", ())}
            ended = []
            for worker in (workers[sentinel] for sentinel in wait(list(workers), timeout=1)):
                worker.join(1)  # its files are closed a moment before it has ended
                ended.append(f"process {worker.pid}, exit code {worker.exitcode}")
            if not ended:
                raise
            raise LoadingError(
                f"a data worker ended ({'; '.join(ended)}): out of memory? Take fewer --data.workers, or none"
            ) from None
        yield batch


def loader(dataset: SpeechDataset, batches: Iterable[list[Any]], *, workers: int = 0) -> Iterable[AudioBatch]:
    """`batch_loader` of utterances."""
    return batch_loader(dataset, batches, dataset.collate, workers=workers)


def batch_loader(
    dataset: Any, batches: Iterable[list[Any]], collate: Callable[[Any], Any], *, workers: int = 0, each_ahead: int = 4
) -> BatchLoader:
    """Loads the batches of indices, or of (epoch, index), in their order, `workers` processes ahead of time.

    No workers: in this process, when asked. The batches may be those of many epochs, which keeps the workers. `dataset`
    has, besides items, `seed`, `on_error` and `skipped`; `collate` makes a batch with `failures` of items. Each worker
    makes `each_ahead` batches before they are wanted.

    Memory is pinned where `pins_memory`. With workers, a batch crosses in shared memory: in a container give it
    several GB (--ipc=host or --shm-size).
    """
    ahead: dict[str, Any] = {"prefetch_factor": each_ahead} if workers else {}
    return BatchLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        worker_init_fn=begin_worker,
        collate_fn=collate,
        pin_memory=pins_memory(),
        generator=torch.Generator().manual_seed(dataset.seed),  # without one, iterating draws from the global one
        **ahead,
    )
