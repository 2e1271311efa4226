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
from fastconformer.attention.training.objective import smoothed_total
from fastconformer.attention.training.targets import Texts
from fastconformer.config import Config
from fastconformer.network.model import Joint, Model
from fastconformer.transducer.loss.fused_loss import joint_loss


class Loss(NamedTuple):
    """The loss of a batch, and what it consists of, 0 for a head without a part in it.

    Means over its utterances; where there is an attention decoder, over their tokens and, of CTC, their labels.
    """

    value: Tensor
    transducer: Tensor
    ctc: Tensor
    attention: Tensor


class Share(NamedTuple):
    """How much of a batch a part of it is."""

    rows: float = 1.0
    """Share of its rows."""
    tokens: Tensor | float = 0.0
    """Tokens of all of it that an attention decoder learns; of several processes their mean."""
    labels: Tensor | float = 0.0
    """Labels of all of it that CTC learns beside an attention decoder, likewise."""


WHOLE = Share()


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
    texts: Texts | None = None,
    part: Share = WHOLE,
) -> Loss:
    """Losses of a batch, utterances counting by `weights_B`; `network` is `model`, or what runs it in parallel.

    `texts` are what an attention decoder learns of it. Of a `part` of a batch they are what it adds to those of all.

    Features are computed and augmented on the device of `log_mel`; `seed` determines the augmentation, and whether
    TDT counts durations.
    """
    device = log_mel.window.device
    batch, weights_B = batch.to(device), weights_B.to(device, non_blocking=True)
    with torch.no_grad():
        features_BFT, frames_B = log_mel(batch.audio_BN, batch.samples_B)
        features_BFT = spec_augment(features_BFT, frames_B, cfg.spec_augment, seed=seed, out=features_BFT)
    has_decoder = model.prediction is not None or model.attention is not None
    share = (cfg.loss.ctc_weight if has_decoder else 1.0) if model.ctc is not None else 0.0
    if has_decoder and model.ctc is not None and epoch < cfg.loss.ctc_epochs:
        share = 1.0
    nothing = features_BFT.new_zeros(())
    transducer, of_ctc, attention = nothing, nothing, nothing
    targets_BU, lengths_B, counting_B = batch.targets_BU, batch.target_lengths_B, weights_B
    if texts is not None:
        texts = texts.to(device)
        targets_BU, lengths_B = texts.labels_BU, texts.label_lengths_B
        counting_B = (texts.has_labels_B & (weights_B > 0)).float()
    with autocast(device, cfg.precision):
        encoded_BSC, frames_B = network(features_BFT, frames_B)
        if model.prediction is not None and model.joint is not None and share < 1:
            predicted_BUH = masked(model.prediction(batch.targets_BU), cfg.loss.mask_prediction, seed=seed)
            each_B = transducer_losses(model.joint, encoded_BSC, predicted_BUH, batch, frames_B, cfg, seed=seed)
            transducer = part.rows * _weighted(each_B, weights_B).mean()
        if model.attention is not None and texts is not None and share < 1:
            attention = attention_total(model, encoded_BSC, frames_B, texts, weights_B, cfg) / (part.tokens + 1e-6)
        if model.ctc is not None:
            each_B = ctc.ctc_loss(
                model.ctc(encoded_BSC).float(),
                targets_BU,
                frames_B,
                lengths_B,
                blank=cfg.model.pieces,
                reduction="none",
                zero_infinity=True,  # of a target that has more labels than frames, which a decoder can write
                batch_first=True,
            )
            each_B = _weighted(each_B, counting_B)
            of_ctc = part.rows * each_B.mean() if texts is None else each_B.sum() / (part.labels + 1e-6)
    value = (1 - share) * (transducer + attention) + share * of_ctc
    if has_decoder and share == 1:
        # A gradient of 0 at no cost: the optimiser and the exchange between processes expect one of every parameter.
        idle = [p for head in (model.prediction, model.joint, model.attention) if head is not None
                for name, p in head.named_parameters() if not name.startswith("project.")]  # fmt: skip
        value = value + 0.0 * sum(p.sum() for p in idle)
    return Loss(value, transducer.detach(), of_ctc.detach(), attention.detach())


def _weighted(each_B: Tensor, weights_B: Tensor) -> Tensor:
    return weights_B * torch.where(weights_B > 0, each_B, 0.0)


def attention_total(
    model: Model, encoded_BSC: Tensor, frames_B: Tensor, texts: Texts, weights_B: Tensor, cfg: Config
) -> Tensor:
    """The sum of the losses of all tokens, of recordings that count; those of one share its frames."""
    assert model.attention is not None
    logits_RLV = model.attention(encoded_BSC[texts.rows_R], frames_B[texts.rows_R], texts.tokens_RL[:, :-1])
    lengths_R = torch.where(weights_B[texts.rows_R] > 0, texts.lengths_R, 1)  # none of which is learned
    masked = None if cfg.loss.learns_prompt else texts.prompt_lengths_R
    return smoothed_total(logits_RLV, texts.tokens_RL, lengths_R, masked, cfg.loss.smoothing)[0]


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
