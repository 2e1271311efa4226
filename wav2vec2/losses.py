"""The losses of a batch that is on the device, as both trainings and the benchmark compute them.

Shapes: B utterances, Q masked frames, G codebooks, V entries of each, K sums that are logged.
"""

import torch
from torch import Tensor, nn

import ctc
from common.devices.precision import autocast
from common.runs.seeds import mixed
from wav2vec2.contrastive.model import PretrainingLoss
from wav2vec2.corpus.batches import FinetuningBatch, PretrainingBatch
from wav2vec2.network.config import ModelConfig
from wav2vec2.network.model import Logits, Masked
from wav2vec2.run_config import FinetuneConfig, PretrainConfig

SUMS = ("loss", "contrastive", "diversity", "penalty", "accuracy", "code_perplexity", "probability_perplexity")


def pretraining_loss(
    cfg: PretrainConfig,
    network: nn.Module,
    batch: PretrainingBatch,
    *,
    update: int,
    seed: int,
    noise_QGV: Tensor | None = None,
) -> PretrainingLoss:
    """The loss of a batch on the device: which of the quantised features belongs to a masked frame?

    `seed` is the same in all processes; without `noise_QGV` the quantiser draws its own, in training.
    """
    with autocast(batch.audio_BN.device, cfg.precision):
        found: PretrainingLoss = network(
            batch.audio_BN, batch.samples_B, batch.targets,
            objective=cfg.objective, temperature=cfg.temperature.at(update), channel_mask_BD=batch.channel_mask_BD,
            seed=seed, noise_QGV=noise_QGV,
        )  # fmt: skip
    return found


def gumbel_noise(cfg: ModelConfig, batch: PretrainingBatch) -> Tensor:
    """noise_QGV, a function of each sub-batch's seed: the same whatever it goes through the network with."""
    device, shape = batch.audio_BN.device, (cfg.codebooks, cfg.codebook_size)
    noise = []
    for part, seed in zip(batch.targets, batch.seeds, strict=True):
        generator = torch.Generator(device).manual_seed(mixed(seed, 2))
        uniform_QGV = torch.empty(part.positions_BM.numel(), *shape, device=device)
        noise.append(-uniform_QGV.exponential_(generator=generator).log())
    return torch.cat(noise)


def pretraining_sums(found: PretrainingLoss) -> Tensor:
    """[K], in the order of SUMS."""
    perplexities = (found.code_perplexity * found.frames, found.probability_perplexity * found.frames)
    parts = (found.total.detach(), found.contrastive, found.diversity, found.penalty, found.correct, *perplexities)
    return torch.stack([part.float() for part in parts])


def ctc_logits(
    cfg: FinetuneConfig, network: nn.Module, batch: FinetuningBatch, *, seed: int = 0, freeze_encoder: bool = False
) -> Logits:
    """The loss of a batch on the device; `seed` is the same in all processes."""
    masked = Masked(batch.mask_BS, batch.channel_mask_BD)
    with autocast(batch.audio_BN.device, cfg.precision):
        output: Logits = network(
            batch.audio_BN, batch.samples_B, masked=masked, seed=seed, freeze_encoder=freeze_encoder
        )
    return output


def ctc_losses(cfg: FinetuneConfig, output: Logits, batch: FinetuningBatch) -> Tensor:
    """[B]: CTC's loss; 0 where the labels of an utterance do not fit its frames."""
    assert output.frames_B is not None
    return ctc.ctc_loss(
        output.logits_BSV,
        batch.targets_BU,
        output.frames_B,
        batch.target_lengths_B,
        blank=cfg.model.blank,
        reduction="none",
        zero_infinity=True,
        batch_first=True,
    )
