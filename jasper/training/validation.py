"""Error rates of a model on a data set: what training does between epochs, and evaluation once."""

import torch
from torch import nn

import ctc
from common.data.loading import SpeechDataset
from common.devices.distributed import World
from common.devices.precision import Precision, autocast
from common.features import LogMel
from common.recognition.scoring import Evaluation, ScoredUtterance, batches, check_numbers, scored
from common.text.vocabulary import Vocabulary


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
    mine: list[ScoredUtterance] = []
    for batch in batches(dataset, world, batch_size=batch_size, workers=workers):
        features_BFT, frames_B = log_mel(batch.audio_BN.to(world.device), batch.samples_B.to(world.device))
        with autocast(world.device, precision):
            log_probs_BSV, frames_B = model(features_BFT, frames_B)
        check_numbers(log_probs_BSV.isnan(), batch.ids, precision)
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
        mine += map(ScoredUtterance, batch.indices, [vocabulary.decode(d.labels) for d in decoded], losses_B.tolist())
    return scored(dataset.utterances, mine, world)
