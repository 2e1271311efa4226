"""What training minimises: from a batch of clips to its loss, in micro-batches, and the loss of all validation clips.

Every part of the loss is a mean over all frames, symbols or clips of a step, over its micro-batches and processes, so
that neither how a step is divided nor how it is padded changes what is learned.

Shapes: B clips, L symbols, T frames, N samples, M mel bins.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from common.data.batching import evaluation_batches
from common.data.manifest import Utterances
from common.devices.distributed import World
from common.devices.precision import autocast
from common.features import LogMel
from common.lengths import inside
from fastpitch.acoustic.aligner import binarisation_losses, entropies, forward_sum_losses
from fastpitch.acoustic.config import Config, LossConfig
from fastpitch.acoustic.harmonics import through_unvoiced
from fastpitch.acoustic.model import FastPitch, Prediction, SpeechTargets
from fastpitch.acoustic.training import data
from fastpitch.acoustic.training.data import ClipBatch, ClipDataset

# As the published logs call them.
NAMES = {
    "mel": "mel_loss",
    "duration": "duration_predictor_loss",
    "pitch": "pitch_loss",
    "energy": "energy_loss",
    "alignment": "attn_loss",
    "binarisation": "kl_loss",
    "duration_error": "dur_error",
    "alignment_entropy": "attn_entropy",
    "refiner": "refiner_loss",
}


class Parts(NamedTuple):
    """The parts of a loss, each without its weight.

    Two count for nothing: how far predicted durations are off, in frames, and how undecided the alignment is,
    in nats per frame.
    """

    mel: Tensor
    duration: Tensor
    pitch: Tensor
    energy: Tensor
    alignment: Tensor
    binarisation: Tensor
    duration_error: Tensor
    alignment_entropy: Tensor
    refiner: Tensor

    def divided(self, counts: "Counts") -> "Parts":
        """Means, of sums."""
        by = dict.fromkeys(("mel", "binarisation", "alignment_entropy", "refiner"), counts.frames) | {
            "alignment": counts.clips
        }
        return Parts(*(part / by.get(name, counts.symbols) for name, part in self._asdict().items()))


class Loss(NamedTuple):
    """The share that a micro-batch has in a step's loss, and what the network said."""

    value: Tensor
    parts: Parts
    prediction: Prediction
    targets: SpeechTargets


class Counts(NamedTuple):
    """What the parts of a step's loss are divided by."""

    frames: Tensor
    symbols: Tensor
    clips: Tensor


def counts_of(batch: ClipBatch) -> Tensor:
    """[3] float32, the `Counts` of a batch on the CPU; those of several processes may be added."""
    counted = [sum(batch.frames_B.tolist()), sum(batch.lengths_B.tolist()), len(batch.indices)]
    return torch.tensor(counted, dtype=torch.float32)


def micro_batches(batch: ClipBatch, parts: int) -> list[ClipBatch]:
    """`batch` in up to `parts` pieces of rows, none of them empty."""
    rows = [r.tolist() for r in torch.arange(len(batch.indices)).tensor_split(parts) if len(r)]
    return [batch.rows(r[0], r[-1] + 1) for r in rows]


def fastpitch_objective(
    network: nn.Module,
    log_mel: LogMel,
    batch: ClipBatch,
    cfg: Config,
    *,
    pitch_mean: Tensor,
    pitch_std: Tensor,
    counts: Counts,
    binarisation_weight: float,
) -> Loss:
    """The loss of `batch`; `pitch_mean` and `pitch_std` are the model's, one for each speaker.

    Features are computed on the device of `log_mel`.
    """
    device = log_mel.window.device
    batch = batch.to(device)
    targets = targets_of(batch, log_mel, cfg, pitch_mean, pitch_std)
    with autocast(device, cfg.precision):
        prediction: Prediction = network(batch.tokens_BL, batch.lengths_B, targets, batch.speaker_B)
    parts = parts_of(prediction, targets, batch.lengths_B, counts)
    value = weighted(parts, cfg.loss, binarisation_weight)
    return Loss(value, Parts(*(part.detach() for part in parts)), prediction, targets)


def weighted(parts: Parts, weights: LossConfig, binarisation_weight: float) -> Tensor:
    """The loss that its parts add up to."""
    return (
        parts.mel
        + weights.duration * parts.duration
        + weights.pitch * parts.pitch
        + weights.energy * parts.energy
        + weights.alignment * parts.alignment
        + binarisation_weight * parts.binarisation
        + weights.refiner * parts.refiner
    )


@torch.no_grad()
def targets_of(batch: ClipBatch, log_mel: LogMel, cfg: Config, pitch_mean: Tensor, pitch_std: Tensor) -> SpeechTargets:
    """Mel frames, normalised pitch and energy of the recordings of a batch, on the device of all of them."""
    mel_BMT = batch.mel_BMT if batch.mel_BMT.numel() else log_mel(batch.audio_BN, batch.samples_B).features_BFT
    mean_B1, std_B1 = pitch_mean[batch.speaker_B][:, None], pitch_std[batch.speaker_B][:, None]
    is_frame_BT = inside(batch.frames_B, mel_BMT.shape[2])
    hertz_BT = through_unvoiced(batch.pitch_BT) * is_frame_BT if cfg.model.harmonics else batch.pitch_BT
    pitch_BT = torch.where(hertz_BT > 0, (hertz_BT - mean_B1) / std_B1, 0.0)
    loudness_BMT = mel_BMT if cfg.data.energy == "log_mel" else mel_BMT.exp()
    energy_BT = torch.linalg.vector_norm(loudness_BMT, dim=1) * is_frame_BT
    return SpeechTargets(mel_BMT, batch.frames_B, pitch_BT, energy_BT, batch.durations_BL)


def parts_of(prediction: Prediction, targets: SpeechTargets, lengths_B: Tensor, counts: Counts) -> Parts:
    """The parts of the loss, in float32."""
    alignment = prediction.alignment
    is_symbol_BL = inside(lengths_B, prediction.log_durations_BL.shape[1])
    is_frame_BT = inside(targets.frames_B, targets.mel_BMT.shape[2])
    log_durations_BL, spoken_BL = prediction.log_durations_BL.float(), alignment.durations_BL.float()
    mel_error_BT = (prediction.mel_BTM.float() - targets.mel_BMT.mT).square().mean(2)
    energy_error_BL = torch.zeros_like(log_durations_BL)
    if prediction.energy_BL is not None and prediction.energy_target_BL is not None:
        energy_error_BL = (prediction.energy_BL.float() - prediction.energy_target_BL).square()
    refiner_error_BT = torch.zeros_like(mel_error_BT)
    if prediction.refiner_losses_BT is not None:
        refiner_error_BT = prediction.refiner_losses_BT
    return Parts(
        mel=(mel_error_BT * is_frame_BT).sum(),
        duration=((log_durations_BL - spoken_BL.log1p()).square() * is_symbol_BL).sum(),
        pitch=((prediction.pitch_BL.float() - prediction.pitch_target_BL).square() * is_symbol_BL).sum(),
        energy=(energy_error_BL * is_symbol_BL).sum(),
        alignment=forward_sum_losses(alignment, targets.frames_B, lengths_B).sum(),
        binarisation=(binarisation_losses(alignment) * is_frame_BT).sum(),
        duration_error=((log_durations_BL.detach().expm1() - spoken_BL).abs() * is_symbol_BL).sum(),
        alignment_entropy=(entropies(alignment) * is_frame_BT).sum(),
        refiner=(refiner_error_BT * is_frame_BT).sum(),
    ).divided(counts)


def named(losses: list[float], more: tuple[str, ...] = ()) -> dict[str, float]:
    """The loss, its parts in their order, by the names that logs have, and as many of `more` as there are numbers."""
    return dict(zip(("loss", *(NAMES[part] for part in Parts._fields), *more), losses, strict=False))


@torch.no_grad()
def evaluate(model: FastPitch, log_mel: LogMel, dataset: ClipDataset, world: World, cfg: Config) -> dict[str, float]:
    """The loss (without its binarisation) and its parts, of all clips together, conditioned as in training."""
    model.eval()
    log_mel.eval()
    seconds = Utterances.of(dataset.utterances).seconds
    batches = evaluation_batches(seconds, batch_size=cfg.batch_size, ranks=world.size, rank=world.rank)
    one = torch.ones((), device=world.device)
    sums, counts = torch.zeros(len(Parts._fields), device=world.device), torch.zeros(3, device=world.device)
    for batch in data.loader(dataset, batches, workers=cfg.data.workers):
        if not batch.indices:
            continue
        loss = fastpitch_objective(
            model, log_mel, batch, cfg,
            pitch_mean=model.pitch_mean, pitch_std=model.pitch_std, counts=Counts(one, one, one),
            binarisation_weight=0.0,
        )  # fmt: skip
        sums += torch.stack(loss.parts)
        counts += counts_of(batch).to(world.device)
    parts = Parts(*world.sum(sums).unbind()).divided(Counts(*world.sum(counts).clamp(min=1).unbind()))
    return named([float(value) for value in (weighted(parts, cfg.loss, 0.0), *parts)])
