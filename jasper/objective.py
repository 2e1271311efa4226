"""What training minimises: from a batch of audio to its loss, in micro-batches.

Shapes: B utterances, N samples, F mel bands, T feature frames, S output frames, V labels and the blank.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ctc
from common.augmentation import cutout, spec_augment
from common.devices.precision import autocast
from common.features import LogMel
from common.recognition.training import MicroBatch
from jasper.config import Config


class Loss(NamedTuple):
    """The part of a step's loss that a micro-batch has, and what the network said."""

    value: Tensor
    log_probs_BSV: Tensor
    frames_B: Tensor


def ctc_objective(
    network: nn.Module, log_mel: LogMel, part: MicroBatch, cfg: Config, *, batch_size: int, seed: int, blank: int
) -> Loss:
    """CTC loss summed over the micro-batch and divided by the size of the whole batch, as published.

    Features are computed and augmented on the device of `log_mel`; `seed` determines the augmentation.
    """
    device = log_mel.window.device
    batch, weights_B = part.batch.to(device), part.weights_B.to(device, non_blocking=True)
    audio_BN = batch.audio_BN
    if cfg.data.pad_to_max:
        longest = round(cfg.data.max_seconds * cfg.features.sample_rate)
        audio_BN = F.pad(audio_BN, (0, max(0, longest - audio_BN.shape[1])))
    with torch.no_grad():
        features_BFT, frames_B = log_mel(audio_BN, batch.samples_B)
        features_BFT = cutout(features_BFT, frames_B, cfg.cutout, seed=seed)
        features_BFT = spec_augment(features_BFT, frames_B, cfg.spec_augment, seed=seed)
    with autocast(device, cfg.precision):
        log_probs_BSV, frames_B = network(features_BFT, frames_B)
    losses_B = ctc.ctc_loss(
        log_probs_BSV,
        batch.targets_BU,
        frames_B,
        batch.target_lengths_B,
        blank=blank,
        reduction="none",
        zero_infinity=True,  # of targets that do not fit: their weight is 0, but not even 0 times infinity is
        batch_first=True,
    )
    return Loss((losses_B * weights_B).sum() / batch_size, log_probs_BSV.detach(), frames_B)
