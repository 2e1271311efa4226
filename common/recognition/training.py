"""What a training of a recogniser does around its network: Jasper's and the transducers'."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from common.data.loading import AudioBatch, SpeechDataset, collate, stand_in
from common.data.manifest import Utterance, Utterances
from common.devices.distributed import World
from common.text.language import Spelling
from common.training.state import TrainingError
from ctc.alignment.align import frames_needed as labels_need
from ctc.loss.reference import frames_needed

ROUNDED_SECONDS = 0.005  # by which a duration in a manifest may be less than that of the recording


class WeightedBatch(NamedTuple):
    """The utterances of a step, or of a part of it, and how much the loss of each counts."""

    audio: AudioBatch
    weights_B: Tensor

    @property
    def counted(self) -> int:
        """How many utterances count."""
        counts = zip(self.audio.utterances, self.weights_B.tolist(), strict=True)
        return sum(count for count, weight in counts if weight)

    def parts(self, count: int) -> list["WeightedBatch"]:
        """`count` pieces of rows; where there are fewer rows, the last one stands in, with a weight of 0.

        Each process then has as many, which is what normalisation over all of them waits for.
        """
        rows = [r for r in torch.arange(len(self.audio.indices)).tensor_split(count) if len(r)]
        pieces = [self._rows(int(r[0]), int(r[-1]) + 1) for r in rows]
        last = len(self.audio.indices) - 1
        spare = self._rows(last, last + 1)._replace(weights_B=torch.zeros(1))
        return pieces + [spare] * (count - len(pieces))

    def _rows(self, first: int, end: int) -> "WeightedBatch":
        names = (name for name in self.audio._fields if name != "failures")
        rows = {name: getattr(self.audio, name)[first:end] for name in names}
        return WeightedBatch(AudioBatch(**rows, failures=[]), self.weights_B[first:end])


def log_letters(spelling: Spelling, data: Any, log: Callable[[str], None], *, source: str = "") -> None:
    """Logs in which letters the texts that were read are written, and which of theirs are none of them.

    `data` has train, validation and on_error; `source` says where the letters come from. Raises
    LanguageError, unless utterances with other letters are skipped anyway.
    """
    log(f"texts in {spelling.described()}{', ' if source else ''}{source}")
    if spelling.normalizes or data.on_error == "stop":
        spelling.check(", ".join(dict.fromkeys((*data.train, *data.validation))))
    if spelling.unknown:
        log(spelling.told())


def log_prediction(log: Callable[[str], None], reference: str, hypothesis: str) -> None:
    """Logs of one utterance what was said and what the model writes."""
    log(f"reference:  {reference}")
    log(f"hypothesis: {hypothesis}")


def check_labels(
    dataset: Any, encode: Callable[[str], list[int]], frames: Callable[[Tensor], Tensor], sample_rate: int, world: World
) -> None:
    """Finds, before the first step, by their durations and texts, utterances of more labels than CTC can place.

    What `weighted` finds later depends on silence that is cut off, and on speeds. Each process looks at a share, as
    encoding takes longest; by all together. Raises TrainingError, or notes them in `dataset.skipped`, as its `on_error`
    says. Texts that cannot be read or encoded are told when they are loaded.
    """
    utterances, found = Utterances.of(dataset.utterances), {}
    own = range(world.rank, len(utterances), world.size)
    seconds = torch.tensor(utterances.seconds[own.start :: own.step])
    bytes_N = torch.from_numpy(utterances.text_bytes[own.start :: own.step].astype(np.int64))
    told_N, most_N = (frames(((seconds + more) * sample_rate).round().long()) for more in (0, ROUNDED_SECONDS))
    for place in (2 * bytes_N + 2 > most_N).nonzero().flatten().tolist():  # in others no labels are too many
        i, told, most = own[place], int(told_N[place]), int(most_N[place])
        with contextlib.suppress(ValueError):
            utterance = utterances[i]
            labels = encode(utterance.text)
            if (needed := max(1, labels_need(labels))) > most:
                found[i] = _do_not_fit(utterance.id, utterance, len(labels), told, needed)
    found = {i: message for share in world.gather(found) for i, message in share.items()}
    if found and dataset.on_error == "stop":
        others = f"; {len(found) - 1} others do not fit either" if len(found) > 1 else ""
        raise TrainingError(f"{found[min(found)]}; leave it out, or set --data.on_error skip{others}")
    dataset.skipped |= found


def _do_not_fit(id_: str, utterance: Utterance, labels: int, frames: int, needed: int) -> str:
    return (
        f"utterance {id_}: {labels} labels do not fit into the {frames} encoder frames of {utterance.audio}: "
        f"they need {needed}"
    )


def weighted(
    batches: Iterable[AudioBatch], dataset: SpeechDataset, frames: Callable[[Tensor], Tensor], *, has_transducer: bool
) -> Iterator[WeightedBatch]:
    """Each batch with weights_B of its rows: 1, or 0 for targets that do not fit their frames, and for one that stands
    in where nothing could be read. Where utterances are joined, rows per utterance instead of 1, so that the mean over
    rows of what is a sum over labels is that over utterances.

    `frames` says how many encoder frames the samples_B become. CTC needs one for each label and one between two equal
    ones; a transducer emits any number of labels at one frame. What does not fit ends the run with TrainingError, or
    goes to `dataset.skipped`, as `dataset.on_error` says.
    """
    for batch in batches:
        if not batch.indices:
            yield WeightedBatch(stand_in(dataset, collate, batch.failures), torch.zeros(1))
            continue
        frames_B, lengths_B = frames(batch.samples_B), batch.target_lengths_B
        needed_B = (
            torch.ones_like(frames_B) if has_transducer else frames_needed(batch.targets_BU, lengths_B).clamp(min=1)
        )
        weights_B = (needed_B <= frames_B).float() * (len(batch.indices) / sum(batch.utterances))
        for row in (weights_B == 0).nonzero().flatten().tolist():
            utterance = dataset.utterances[batch.indices[row]]
            numbers = (int(lengths_B[row]), int(frames_B[row]), int(needed_B[row]))
            message = _do_not_fit(batch.ids[row], utterance, *numbers)
            if dataset.on_error == "stop":
                raise TrainingError(f"{message}; leave it out, or set --data.on_error skip")
            dataset.skipped.setdefault(batch.indices[row], message)  # which may be told already
        yield WeightedBatch(batch, weights_B)
