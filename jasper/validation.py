"""Error rates of a model on a data set: what training does between epochs, and evaluation once."""

from typing import NamedTuple

import torch
from torch import nn

import ctc
from common.data.batching import evaluation_batches
from common.data.loading import SpeechDataset, loader
from common.distributed import World
from common.features import LogMel
from common.metrics import ErrorCount, character_errors, word_errors
from common.precision import Precision, autocast
from common.text.vocabulary import Vocabulary


class Evaluation(NamedTuple):
    """Error counts over a whole data set, and every utterance: ids, references and hypotheses in its order."""

    words: ErrorCount
    characters: ErrorCount
    loss: float
    ids: list[str]
    references: list[str]
    hypotheses: list[str]


class EvaluationError(ValueError):
    """The network gives no probabilities; the message names the utterances."""


class _Result(NamedTuple):
    row: int
    loss: float
    hypothesis: list[int]


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    log_mel: LogMel,
    dataset: SpeechDataset,
    world: World,
    *,
    vocabulary: Vocabulary,
    batch_size: int = 16,
    workers: int = 0,
    precision: Precision = "fp32",
) -> Evaluation:
    """Greedy transcripts of all of `dataset`, computed by all processes of `world`, and their error counts.

    The loss is the mean over utterances of the CTC loss, 0 for one whose target does not fit its frames. Raises
    EvaluationError where the network gives NaN, as an overflow in fp16 does.
    """
    model.eval()
    log_mel.eval()
    seconds = [u.seconds for u in dataset.utterances]
    batches = evaluation_batches(seconds, batch_size=batch_size, ranks=world.size, rank=world.rank)
    mine: list[_Result] = []
    for batch in loader(dataset, batches, workers=workers):
        if not batch.indices:
            continue  # none of its utterances could be read, and dataset.on_error is "skip"
        features_BFT, frames_B = log_mel(batch.audio_BN.to(world.device), batch.samples_B.to(world.device))
        with autocast(world.device, precision):
            log_probs_BSV, frames_B = model(features_BFT, frames_B)
        if log_probs_BSV.isnan().any():
            ids = ", ".join(batch.ids)
            raise EvaluationError(f"the network gives NaN in {precision} for one of {ids}; take bf16 or fp32")
        losses_B = ctc.ctc_loss(
            log_probs_BSV,
            batch.targets_BU.to(world.device),
            frames_B,
            batch.target_lengths_B.to(world.device),
            blank=vocabulary.blank,
            reduction="none",
            zero_infinity=True,
            batch_first=True,
        )
        decoded = ctc.greedy(log_probs_BSV, frames_B, blank=vocabulary.blank)
        mine += map(_Result, batch.indices, losses_B.tolist(), [d.labels for d in decoded])
    results = sorted(result for part in world.gather(mine) for result in part)
    read = [dataset.utterances[result.row] for result in results]
    references = [u.text for u in read]
    hypotheses = [vocabulary.decode(result.hypothesis) for result in results]
    return Evaluation(
        words=word_errors(references, hypotheses),
        characters=character_errors(references, hypotheses),
        loss=sum(result.loss for result in results) / max(1, len(results)),
        ids=[u.id for u in read],
        references=references,
        hypotheses=hypotheses,
    )
