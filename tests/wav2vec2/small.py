"""Small models with random weights, so lively that small differences show, and batches for them."""

import torch
from torch import Tensor, nn

from wav2vec2.contrastive.model import Wav2Vec2ForPretraining
from wav2vec2.network.config import LearningConfig, ModelConfig
from wav2vec2.network.model import Wav2Vec2ForCTC

CONV_LAYERS = ((24, 10, 5), *[(24, 3, 2)] * 4, *[(24, 2, 2)] * 2)
LABELS = ("<s>", "<pad>", "</s>", "<unk>", "|", *"ETAON")
QUIET = LearningConfig(
    dropout=0, attention_dropout=0, input_dropout=0, feature_dropout=0, layer_drop=0, extractor_gradient=1
)


def small_config(kind: str = "base", **changes: object) -> ModelConfig:
    """`kind`: base, large, or either with "hourglass" or "linear" in its name."""
    shape = {"conv_layers": CONV_LAYERS, "layers": 4, "dim": 32, "ffn_dim": 64, "heads": 4, "pos_kernel": 16}
    shape |= {"pos_groups": 4, "codebook_size": 12, "final_dim": 16, "labels": LABELS}
    if "large" in kind:
        shape |= {"conv_bias": True, "extractor_norm": "layer", "normalize_audio": True, "pre_norm": True}
    if "hourglass" in kind or "linear" in kind:
        shape |= {"hourglass": "[1,(2,4),1]", "hourglass_resample": "linear" if "linear" in kind else "naive"}
    return ModelConfig(**(shape | changes))


def lively(model: nn.Module, seed: int = 0) -> nn.Module:
    """`model` with weights as if it had been trained: no bias is 0 and no scale 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.normal_(std=0.2, generator=generator)
                parameter += 1.0 if "norm.weight" in name else 0.0
            else:
                parameter.normal_(std=parameter[0].numel() ** -0.5, generator=generator)
    return model


def ctc_model(kind: str = "base", learning: LearningConfig = QUIET, **changes: object) -> Wav2Vec2ForCTC:
    return lively(Wav2Vec2ForCTC(small_config(kind, **changes), learning)).eval()


def pretraining_model(
    kind: str = "base", learning: LearningConfig = QUIET, **changes: object
) -> Wav2Vec2ForPretraining:
    return lively(Wav2Vec2ForPretraining(small_config(kind, **changes), learning)).eval()


def audio_batch(lengths: tuple[int, ...] = (16000, 9137, 4000), *, padding: float = 0.0) -> tuple[Tensor, Tensor]:
    """Noise with an offset, `padding` in place of what is missing."""
    generator = torch.Generator().manual_seed(1)
    audio_BN = torch.full((len(lengths), max(lengths)), padding)
    for row, length in zip(audio_BN, lengths, strict=True):
        row[:length] = 0.02 + 0.1 * torch.randn(length, generator=generator)
    return audio_BN, torch.tensor(lengths)
