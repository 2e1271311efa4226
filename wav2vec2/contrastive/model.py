"""Self-supervised pre-training: tell the quantised features of masked frames from those of others.

Several sub-batches may go through the network at once. Masks, distractors and the quantiser's statistics are each
sub-batch's own, so that the loss is the sum of what the sub-batches give one by one, and its constants need not change
with the size of a batch.

Shapes: B utterances, N samples, S frames, D width of the Transformer, C channels of the extractor, M masked frames of
each utterance of a sub-batch, Q masked frames in all, G codebooks, V entries of each, J width of the codes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.linear import Linear
from common.training.layers.dropout import dropout
from wav2vec2.contrastive.masking import MaskedTargets, joined
from wav2vec2.contrastive.objective import ObjectiveConfig, contrast
from wav2vec2.contrastive.quantizer import GumbelQuantizer, perplexity
from wav2vec2.network.config import LearningConfig, ModelConfig
from wav2vec2.network.model import Context, Masked, Wav2Vec2


class PretrainingLoss(NamedTuple):
    """Sums over the masked frames of a batch; divide by `frames`, of all processes, for the mean."""

    total: Tensor
    """What to minimise: the other three, weighted. Only it carries a gradient."""
    contrastive: Tensor
    diversity: Tensor
    """Part of the codebooks that is not used, times the frames."""
    penalty: Tensor
    """Mean square of the features, times the frames."""
    frames: int
    """Masked frames."""
    correct: Tensor
    """Those whose target was found."""
    code_perplexity: Tensor
    """Entries that are some frame's likeliest, before noise, as published: mean over sub-batches, by their frames."""
    probability_perplexity: Tensor
    """The same of the probabilities before one is chosen."""


class Wav2Vec2ForPretraining(nn.Module):
    """The network, the quantiser of its targets, and the projections in which both are compared."""

    def __init__(self, config: ModelConfig, learning: LearningConfig | None = None):
        super().__init__()
        self.wav2vec2 = Wav2Vec2(config, learning)
        self.quantizer = GumbelQuantizer(config)
        self.project_codes = Linear(config.width_of_codes, config.final_dim)
        self.project_context = Linear(config.dim, config.final_dim)

    def forward(
        self,
        audio_BN: Tensor,
        samples_B: Tensor | None,
        targets: Sequence[MaskedTargets],
        *,
        objective: ObjectiveConfig,
        temperature: float,
        channel_mask_BD: Tensor | None = None,
        seed: int = 0,
        noise_QGV: Tensor | None = None,
    ) -> PretrainingLoss:
        """The loss of audio_BN, whose rows are those of the sub-batches of `targets`, one after the other.

        `temperature` is the quantiser's, `seed` determines LayerDrop (give it the same in every process) and
        `noise_QGV` replaces the quantiser's own noise. Other arguments as for Wav2Vec2.forward.
        """
        mask_BS = joined([part.mask_BS for part in targets])
        context = self.wav2vec2(audio_BN, samples_B, masked=Masked(mask_BS, channel_mask_BD), seed=seed)
        hidden_Q = torch.cat(_masked_frames(targets, context.x_BSD.shape[1]))
        context_QC = self.project_context(context.x_BSD.flatten(0, 1)[hidden_Q])
        features_QC = context.features_BSC.flatten(0, 1)[hidden_Q]
        features_QC = dropout(features_QC, self.wav2vec2.learning.feature_dropout, self.training)
        quantized = self.quantizer(features_QC, temperature=temperature, noise_QGV=noise_QGV)
        targets_QC = self.project_codes(quantized.x_QJ)
        sizes, rows = ([size(part.positions_BM) for part in targets] for size in (Tensor.numel, len))
        parts = zip(
            targets,
            *(t.split(sizes) for t in (context_QC, targets_QC, quantized.codes_QG, quantized.probabilities_QGV)),
            _mean_squares(context, rows),
            strict=True,
        )
        losses = [self._loss(*part, temperature=objective.logit_temperature) for part in parts]
        sums = _Part(*(torch.stack(values).sum(0) for values in zip(*losses, strict=True)))
        n_frames = sum(sizes)
        total = sums.contrastive + objective.diversity * sums.diversity + objective.penalty * sums.penalty
        return PretrainingLoss(
            total=total,
            contrastive=sums.contrastive.detach(),
            diversity=sums.diversity.detach(),
            penalty=sums.penalty.detach(),
            frames=n_frames,
            correct=sums.correct,
            code_perplexity=sums.codes / n_frames,
            probability_perplexity=sums.probabilities.detach() / n_frames,
        )

    def _loss(
        self,
        part: MaskedTargets,
        context_QC: Tensor,
        targets_QC: Tensor,
        codes_QG: Tensor,
        probabilities_QGV: Tensor,
        mean_square: Tensor,
        *,
        temperature: float,
    ) -> "_Part":
        shape, n_frames = part.positions_BM.shape, part.positions_BM.numel()
        context_BMC, targets_BMC, codes_BMG = (t.unflatten(0, shape) for t in (context_QC, targets_QC, codes_QG))
        found = contrast(context_BMC, targets_BMC, codes_BMG, part.distractors_BMK, temperature=temperature)
        n_entries = probabilities_QGV[0].numel()
        likely = perplexity(probabilities_QGV.mean(0))
        likeliest_QG = probabilities_QGV.argmax(2)
        used = perplexity(F.one_hot(likeliest_QG, probabilities_QGV.shape[2]).float().mean(0))
        diversity = (n_entries - likely) / n_entries * n_frames
        return _Part(found.loss, diversity, mean_square * n_frames, found.correct, used * n_frames, likely * n_frames)


class _Part(NamedTuple):
    """Sums over the masked frames of one sub-batch."""

    contrastive: Tensor
    diversity: Tensor
    penalty: Tensor
    correct: Tensor
    codes: Tensor
    probabilities: Tensor


def _mean_squares(context: Context, rows: Sequence[int]) -> list[Tensor]:
    """Mean square of the features of each sub-batch."""
    n_frames = context.features_BSC.shape[1]
    frames_B = torch.full_like(context.squares_B, n_frames) if context.frames_B is None else context.frames_B
    pairs = zip(context.squares_B.split(rows), frames_B.split(rows), strict=True)
    return [squares_b.sum() / frames_b.sum() for squares_b, frames_b in pairs]


def _masked_frames(targets: Sequence[MaskedTargets], n_frames: int) -> list[Tensor]:
    """Where the masked frames of each sub-batch are in all frames of all utterances, one after the other."""
    indices, first_row = [], 0
    for part in targets:
        rows_B = torch.arange(first_row, first_row + len(part.positions_BM), device=part.positions_BM.device)
        indices.append((rows_B[:, None] * n_frames + part.positions_BM).flatten())
        first_row += len(rows_B)
    return indices
