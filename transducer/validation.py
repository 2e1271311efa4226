"""Error rates of a recogniser on a data set: what training does between epochs, and evaluation once."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from common.data.batching import evaluation_batches
from common.data.loading import SpeechDataset, loader
from common.distributed import World
from common.metrics import ErrorCount, character_errors, word_errors
from transducer.recognizer import Head, Recognizer


class Evaluation(NamedTuple):
    """Error counts over a whole data set, and every utterance: ids, references and hypotheses in its order."""

    words: ErrorCount
    characters: ErrorCount
    ids: list[str]
    references: list[str]
    hypotheses: list[str]


class EvaluationError(ValueError):
    """The network gives no numbers; the message names the utterances."""


class _Result(NamedTuple):
    row: int
    texts: list[str]


def evaluate(
    asr: Recognizer,
    dataset: SpeechDataset,
    world: World,
    *,
    heads: Iterable[Head] = ("auto",),
    normalized: Callable[[str], str] = str,
    batch_size: int = 16,
    workers: int = 0,
    max_symbols: int = 10,
) -> list[Evaluation]:
    """Greedy transcripts of all of `dataset` by each of `heads`, by all processes of `world`, and their errors.

    Transcripts are `normalized` as the references of the data set are already. Raises EvaluationError where the network
    gives NaN, as an overflow in fp16 does.
    """
    heads = list(heads)
    seconds = [utterance.seconds for utterance in dataset.utterances]
    batches = evaluation_batches(seconds, batch_size=batch_size, ranks=world.size, rank=world.rank)
    mine: list[_Result] = []
    for batch in loader(dataset, batches, workers=workers):
        if not batch.indices:
            continue  # none of its utterances could be read, and dataset.on_error is "skip"
        encoded_BSC, frames_B = asr.encode(*asr.features(batch.audio_BN, batch.samples_B))
        inside_BS = torch.arange(encoded_BSC.shape[1], device=encoded_BSC.device) < frames_B[:, None]
        if (encoded_BSC.isnan().any(2) & inside_BS).any():
            ids = ", ".join(batch.ids)
            raise EvaluationError(f"the network gives NaN in {asr.precision} for one of {ids}; take bf16 or fp32")
        decoded = [asr.decode(encoded_BSC, frames_B, head=head, max_symbols=max_symbols) for head in heads]
        texts = [[normalized(hypothesis.text) for hypothesis in row] for row in zip(*decoded, strict=True)]
        mine += map(_Result, batch.indices, texts)
    results = sorted(result for part in world.gather(mine) for result in part)
    read = [dataset.utterances[result.row] for result in results]
    references = [utterance.text for utterance in read]
    return [
        Evaluation(
            words=word_errors(references, hypotheses),
            characters=character_errors(references, hypotheses),
            ids=[utterance.id for utterance in read],
            references=references,
            hypotheses=hypotheses,
        )
        for hypotheses in ([result.texts[i] for result in results] for i in range(len(heads)))
    ]
