"""What training minimises: from a batch of audio to the losses of its heads.

Shapes: B utterances, N samples, F mel bins, T feature frames, S encoder frames, C encoder width, U labels, H prediction
network, J joint, W pieces, blank, and one output per duration.
"""

import random
from typing import NamedTuple

import torch
from torch import Tensor, nn

import ctc
from common.augmentation import spec_augment
from common.data.loading import AudioBatch
from common.devices.precision import autocast
from common.features import LogMel
from fastconformer.config import Config
from fastconformer.network.model import Joint, Model
from fastconformer.transducer.fused_loss import joint_loss


class Loss(NamedTuple):
    """The loss of a batch, and the means over its utterances that it consists of, 0 for a head without a part in it."""

    value: Tensor
    transducer: Tensor
    ctc: Tensor


def objective(
    network: nn.Module,
    model: Model,
    log_mel: LogMel,
    batch: AudioBatch,
    weights_B: Tensor,
    cfg: Config,
    *,
    epoch: int,
    seed: int,
) -> Loss:
    """Losses of a batch, utterances counting by `weights_B`; `network` is `model`, or what runs it in parallel.

    Features are computed and augmented on the device of `log_mel`; `seed` determines the augmentation, and whether
    TDT counts durations.
    """
    device = log_mel.window.device
    batch, weights_B = batch.to(device), weights_B.to(device, non_blocking=True)
    with torch.no_grad():
        features_BFT, frames_B = log_mel(batch.audio_BN, batch.samples_B)
        features_BFT = spec_augment(features_BFT, frames_B, cfg.spec_augment, seed=seed, out=features_BFT)
    share = (cfg.loss.ctc_weight if model.prediction is not None else 1.0) if model.ctc is not None else 0.0
    if model.prediction is not None and model.ctc is not None and epoch < cfg.loss.ctc_epochs:
        share = 1.0
    with autocast(device, cfg.precision):
        encoded_BSC, frames_B = network(features_BFT, frames_B)
        losses = [features_BFT.new_zeros(len(weights_B)), features_BFT.new_zeros(len(weights_B))]
        if model.prediction is not None and model.joint is not None and share < 1:
            predicted_BUH = masked(model.prediction(batch.targets_BU), cfg.loss.mask_prediction, seed=seed)
            losses[0] = transducer_losses(model.joint, encoded_BSC, predicted_BUH, batch, frames_B, cfg, seed=seed)
        if model.ctc is not None:
            losses[1] = ctc.ctc_loss(
                model.ctc(encoded_BSC).float(),
                batch.targets_BU,
                frames_B,
                batch.target_lengths_B,
                blank=cfg.model.pieces,
                reduction="none",
                zero_infinity=True,  # of a target that has more labels than frames, which the transducer can emit
                batch_first=True,
            )
    transducer, of_ctc = ((weights_B * torch.where(weights_B > 0, each_B, 0.0)).mean() for each_B in losses)
    value = (1 - share) * transducer + share * of_ctc
    if model.prediction is not None and model.joint is not None and share == 1:
        # A gradient of 0 at no cost: the optimiser and the exchange between processes expect one of every parameter.
        value = value + 0.0 * sum(p.sum() for head in (model.prediction, model.joint) for p in head.parameters())
    return Loss(value, transducer.detach(), of_ctc.detach())


def masked(predicted_BUH: Tensor, probability: float, *, seed: int) -> Tensor:
    """What the prediction network says, but zero for some utterances (Xu et al., HAINAN, arXiv:2410.02597)."""
    if not probability:
        return predicted_BUH
    drawn_B = torch.rand(len(predicted_BUH), generator=torch.Generator().manual_seed(seed))
    return predicted_BUH * (drawn_B >= probability).to(predicted_BUH)[:, None, None]


def transducer_losses(
    joint: Joint,
    encoded_BSC: Tensor,
    predicted_BUH: Tensor,
    batch: AudioBatch,
    frames_B: Tensor,
    cfg: Config,
    *,
    seed: int,
) -> Tensor:
    """RNN-T or TDT loss of every utterance, fused with the joint."""
    loss, durations = cfg.loss, cfg.model.jumps
    weight_WJ: Tensor = joint.output.weight
    bias_W: Tensor = joint.output.bias
    if durations and random.Random(seed).random() < loss.omega:
        pieces = len(weight_WJ) - len(durations)
        durations, weight_WJ, bias_W = (), weight_WJ[:pieces], bias_W[:pieces]
    return joint_loss(
        joint.encoder(encoded_BSC),
        joint.prediction(predicted_BUH),
        weight_WJ,
        bias_W,
        batch.targets_BU,
        frames_B,
        batch.target_lengths_B,
        durations,
        sigma=loss.sigma if durations else 0.0,
        reduction="none",
        fastemit=loss.fastemit,
        activation=cfg.model.joint_activation,
        dropout=joint.dropout if joint.training else 0.0,
    )
