"""Error rates of a recogniser over a data set: what is around the network, in validation and in evaluation."""

import bisect
import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, NamedTuple

from torch import Tensor
from tyro.conf import Positional, arg

from common.data.batching import evaluation_batches
from common.data.loading import AudioBatch, SpeechDataset, loader
from common.data.manifest import Utterance, Utterances
from common.devices.distributed import World
from common.devices.precision import InferencePrecision
from common.files.atomic import write_text
from common.recognition.metrics import ErrorCount, character_errors, word_errors
from common.recognition.output import writing


@dataclass(frozen=True, kw_only=True)
class ScoringConfig:
    """What every command that evaluates asks for."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """Model."""
    manifests: Annotated[tuple[Path, ...], Positional, arg(metavar="MANIFEST")]
    """Manifests, file lists or corpus folders with transcripts."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    max_seconds: float = math.inf
    """Longest utterance, in seconds; longer ones are left out."""
    hypotheses: Path | None = None
    """File for one JSON object per utterance: id, reference, hypothesis."""
    ema: bool | None = None
    """Whether averaged weights are used; by default where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    batch_size: int = 16
    """Utterances per process recognised at once."""
    workers: int = 2
    """Loader processes per process; 0 loads in the process itself."""

    def __post_init__(self) -> None:
        if not self.manifests:
            raise ValueError("nothing to evaluate on; name manifests or corpus folders after the model")
        if self.batch_size < 1 or self.workers < 0:
            raise ValueError(f"batch_size = {self.batch_size}, workers = {self.workers}: expected above 0, at least 0")


class Evaluation(NamedTuple):
    """Error counts over a whole data set, and every utterance: ids, references, hypotheses, losses in its order."""

    words: ErrorCount
    characters: ErrorCount
    ids: Sequence[str]
    references: Sequence[str]
    hypotheses: Sequence[str]
    losses: Sequence[float] = ()
    """Empty where none were computed."""
    rows: Sequence[int] = ()
    """Place of each utterance in the data set, since two may have one name; empty: all, in order."""
    corpora: Mapping[str, ErrorCount] = MappingProxyType({})
    """Word errors of each corpus, where there are several."""
    flags: Sequence[tuple[str, ...]] = ()
    """What was noticed of each, as `Transcript.flags`."""

    @property
    def loss(self) -> float:
        """The mean over utterances; 0 without any."""
        return sum(self.losses) / max(1, len(self.losses))

    @property
    def rates(self) -> dict[str, float]:
        """What a validation logs."""
        loss = {"loss": self.loss} if self.losses else {}
        of_each = {f"wer_{name}": words.rate for name, words in self.corpora.items()}
        return loss | {"wer": self.words.rate, "cer": self.characters.rate} | of_each


class EvaluationError(ValueError):
    """The network gives no numbers; the message names the utterances."""


def batches(dataset: SpeechDataset, world: World, *, batch_size: int, workers: int) -> Iterator[AudioBatch]:
    """This process's share of `dataset`, by duration; without batches of which no utterance can be read."""
    plan = evaluation_batches(
        Utterances.of(dataset.utterances).seconds, batch_size=batch_size, ranks=world.size, rank=world.rank
    )
    for batch in loader(dataset, plan, workers=workers):
        if batch.indices:  # else all were left out, as dataset.on_error says
            yield batch


def check_numbers(is_nan: Tensor, ids: Sequence[str], precision: InferencePrecision) -> None:
    """Raises EvaluationError where any `is_nan` of what the network gives for `ids`, as an overflow in fp16 does."""
    if is_nan.any():
        raise EvaluationError(f"the network gives NaN in {precision} for one of {', '.join(ids)}; take bf16 or fp32")


class ScoredUtterance(NamedTuple):
    """What a process recognised of the utterance at `row` of a data set."""

    row: int
    hypothesis: str
    loss: float | None = None
    flags: tuple[str, ...] = ()


def scored(utterances: Sequence[Utterance], own: Sequence[ScoredUtterance], world: World) -> Evaluation:
    """The errors of the results of all processes, each of which has its `own`; by all of them together."""
    results = sorted(result for part in world.gather(own) for result in part)
    read = [utterances[result.row] for result in results]
    hypotheses = [result.hypothesis for result in results]
    losses = [result.loss for result in results if result.loss is not None]
    references = [utterance.text for utterance in read]
    words, characters = word_errors(references, hypotheses), character_errors(references, hypotheses)
    ids, rows = [utterance.id for utterance in read], [result.row for result in results]
    corpora = _of_each(getattr(utterances, "corpora", ()), rows, references, hypotheses)
    flags = [result.flags for result in results]
    return Evaluation(words, characters, ids, references, hypotheses, losses, rows, corpora, flags)


def _of_each(
    corpora: Sequence[tuple[str, int]], rows: Sequence[int], references: Sequence[str], hypotheses: Sequence[str]
) -> dict[str, ErrorCount]:
    """Word errors by corpus, which stand one after the other; nothing of a single one, or of equal names."""
    if len(dict(corpora)) < 2 or len(dict(corpora)) < len(corpora):
        return {}
    ends = list(itertools.accumulate((count for _, count in corpora), initial=0))
    places = [bisect.bisect_left(rows, end) for end in ends]
    pairs = zip((name for name, _ in corpora), itertools.pairwise(places), strict=True)
    return {name: word_errors(references[a:b], hypotheses[a:b]) for name, (a, b) in pairs if a < b}


def report(
    result: Evaluation, dataset: SpeechDataset, problems: Sequence[str], world: World, *, hypotheses: Path | None
) -> int:
    """Prints the error rates, and what no process could read besides `problems`; returns the exit status.

    `hypotheses`: a file for one JSON object per utterance: id, reference, hypothesis. Collective.
    """
    problems = [*problems, *(message for part in world.gather(dataset.skipped) for message in part.values())]
    if world.is_main:
        _print(result, problems)
        if hypotheses is not None:
            _write(result, hypotheses)
    return 1 if problems else 0


def _print(result: Evaluation, problems: Sequence[str]) -> None:
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"error: {len(problems)} utterances could not be read; the others follow", file=sys.stderr)
    print(f"utterances {len(result.ids)}")
    if result.losses:
        print(f"loss       {result.loss:.4f}")
    for name, errors in (("WER", result.words), ("CER", result.characters)):
        kinds = f"{errors.substitutions} substituted, {errors.deletions} deleted, {errors.insertions} inserted"
        print(f"{name}        {errors.rate:.2%} ({errors.errors} of {errors.length}: {kinds})")


def _write(result: Evaluation, path: Path) -> None:
    rows = zip(result.ids, result.references, result.hypotheses, strict=True)
    keys = ("id", "reference", "hypothesis")
    lines = [json.dumps(dict(zip(keys, row, strict=True)), ensure_ascii=False) + "\n" for row in rows]
    with writing.told(path):
        write_text(path, "".join(lines))
