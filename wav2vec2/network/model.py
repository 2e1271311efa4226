"""wav2vec 2.0 (Baevski et al. 2020, arXiv:2006.11477) and its kin: audio to representations, and to CTC logits.

Shapes: B utterances, N samples, S frames, C channels of the extractor, D width of the Transformer, V labels.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.config import ConfigError
from common.convolution.linear import Linear
from common.lengths import inside
from common.training.layers.dropout import dropout
from wav2vec2.network.config import LearningConfig, ModelConfig
from wav2vec2.network.extractor import FeatureExtractor
from wav2vec2.network.transformer import Encoder


class Masked(NamedTuple):
    """What is hidden from the Transformer: frames mask_BS, and channels mask_BD of all frames (None: none).

    mask_BS may end before S: what it does not reach is not hidden.
    """

    mask_BS: Tensor | None
    mask_BD: Tensor | None = None


class Context(NamedTuple):
    """The network's view of a batch; frames_B is None where every utterance has S frames."""

    x_BSD: Tensor
    """The Transformer's output."""
    frames_B: Tensor | None
    """How many of the S frames each utterance has; beyond them x_BSD is 0."""
    features_BSC: Tensor
    """The normalised features that it was made from, unmasked."""
    squares_B: Tensor
    """Sum over an utterance's frames of the mean square of their features before they were normalised, float32."""


class Wav2Vec2(nn.Module):
    """Extractor and Transformer; what one utterance gets does not depend on the others in its batch."""

    def __init__(self, config: ModelConfig, learning: LearningConfig | None = None):
        super().__init__()
        self.config, self.learning = config, learning or LearningConfig()
        channels = config.conv_layers[-1][0]
        self.extractor = FeatureExtractor(config)
        self.norm = nn.LayerNorm(channels, eps=config.norm_epsilon) if config.feature_norm else nn.Identity()
        self.projection = Linear(channels, config.dim)
        self.mask_embedding = nn.Parameter(torch.empty(config.dim).uniform_())
        self.encoder = Encoder(config, self.learning)
        if not self.learning.extractor_gradient:
            self.extractor.requires_grad_(False)

    def forward(
        self,
        audio_BN: Tensor,
        samples_B: Tensor | None = None,
        *,
        masked: Masked | None = None,
        seed: int = 0,
        layers: int | None = None,
    ) -> Context:
        """Context of audio_BN, float32 at 16 kHz, with samples_B valid samples each (None: N).

        `seed` determines LayerDrop; give it the same in every process. `layers`: see Encoder.forward. Raises
        ValueError where N is too short for a frame.
        """
        n_samples, shortest = audio_BN.shape[1], self.config.shortest_audio
        if n_samples < shortest:
            raise ValueError(f"audio of {n_samples} samples; the model needs {shortest} for its first frame")
        raw_BSC, frames_B = self._extracted(audio_BN, samples_B)
        features_BSC = self.norm(raw_BSC)
        x_BSD = dropout(self.projection(features_BSC), self.learning.input_dropout, self.training)
        if masked is not None:
            x_BSD = self._mask(x_BSD, masked)
        x_BSD = self.encoder(x_BSD, frames_B, seed=seed, layers=layers)
        return Context(x_BSD, frames_B, features_BSC, squares(raw_BSC, frames_B))

    def _extracted(self, audio_BN: Tensor, samples_B: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self.config.normalize_audio:
            audio_BN = normalized(audio_BN, samples_B, self.config.audio_epsilon)
        elif samples_B is not None:
            audio_BN = without_padding(audio_BN, samples_B)
        whole_B = torch.full((len(audio_BN),), audio_BN.shape[1], device=audio_BN.device)
        factor = self.learning.extractor_gradient
        with torch.set_grad_enabled(torch.is_grad_enabled() and factor > 0):
            raw_BSC, frames_B = self.extractor(audio_BN, whole_B if samples_B is None else samples_B)
        if raw_BSC.requires_grad and factor != 1:
            raw_BSC.register_hook(lambda gradient: gradient * factor)
        return raw_BSC, None if samples_B is None else frames_B

    def _mask(self, x_BSD: Tensor, masked: Masked) -> Tensor:
        if masked.mask_BS is not None:
            mask_BS = F.pad(masked.mask_BS, (0, x_BSD.shape[1] - masked.mask_BS.shape[1]))
            x_BSD = torch.where(mask_BS.unsqueeze(2), self.mask_embedding.to(x_BSD.dtype), x_BSD)
        if masked.mask_BD is not None:
            x_BSD = x_BSD.masked_fill(masked.mask_BD.unsqueeze(1), 0.0)
        return x_BSD


class Logits(NamedTuple):
    """Scores of the labels, logits_BSV, and frames_B, how many frames each utterance has (None: S)."""

    logits_BSV: Tensor
    frames_B: Tensor | None


class Wav2Vec2ForCTC(nn.Module):
    """The network and a linear layer that scores labels, of which one is the blank."""

    def __init__(self, config: ModelConfig, learning: LearningConfig | None = None):
        super().__init__()
        if not config.labels:
            raise ConfigError("model.labels is empty: name the symbols that the CTC head writes")
        self.wav2vec2 = Wav2Vec2(config, learning)
        self.head = Linear(config.dim, len(config.labels))
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self,
        audio_BN: Tensor,
        samples_B: Tensor | None = None,
        *,
        masked: Masked | None = None,
        seed: int = 0,
        freeze_encoder: bool = False,
    ) -> Logits:
        """As Wav2Vec2.forward, then the head. With `freeze_encoder` only the head gets gradients."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not freeze_encoder):
            context = self.wav2vec2(audio_BN, samples_B, masked=masked, seed=seed)
        x_BSD = dropout(context.x_BSD, self.wav2vec2.learning.final_dropout, self.training)
        return Logits(self.head(x_BSD), context.frames_B)


def normalized(audio_BN: Tensor, samples_B: Tensor | None, epsilon: float) -> Tensor:
    """Every utterance with mean 0 and variance 1 over its own samples, 0 beyond; `epsilon` adds to the variance."""
    if samples_B is None:
        return F.layer_norm(audio_BN, audio_BN.shape[1:], eps=epsilon)
    count_B1 = samples_B.clamp(min=1)[:, None]
    mean_B1 = without_padding(audio_BN, samples_B).sum(1, keepdim=True) / count_B1
    centred_BN = without_padding(audio_BN - mean_B1, samples_B)
    variance_B1 = centred_BN.square().sum(1, keepdim=True) / count_B1
    return centred_BN * (variance_B1 + epsilon).rsqrt()


def without_padding(audio_BN: Tensor, samples_B: Tensor) -> Tensor:
    """audio_BN, 0 beyond each utterance's samples: NaN there would reach the gradients, as 0 times NaN."""
    return torch.where(inside(samples_B, audio_BN.shape[1]), audio_BN, 0.0)


def squares(x_BSC: Tensor, frames_B: Tensor | None) -> Tensor:
    """[B], float32: mean square over channels, summed over the frames that are no padding."""
    square_BS = x_BSC.float().square().mean(2)
    if frames_B is not None:
        square_BS = torch.where(inside(frames_B, x_BSC.shape[1]), square_BS, 0.0)
    return square_BS.sum(1)
