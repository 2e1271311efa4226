"""What the tests of checkpoints share: files as Fairseq writes them, of small models."""

from pathlib import Path
from typing import Any

import torch

from tests.wav2vec2.small import audio_batch
from wav2vec2.checkpoints import naming
from wav2vec2.checkpoints.loading import load_model

PUBLISHED_LAYERS = "[(24,10,5)]+[(24,3,2)]*4+[(24,2,2)]+[(24,2,2)]"
OPTIONS = {"conv_feature_layers": PUBLISHED_LAYERS, "encoder_attention_heads": 4, "layer_norm_first": False}
OPTIONS |= {"normalize": False, "activation_fn": "gelu", "latent_groups": 2}


def fairseq_weights(model: torch.nn.Module, prefix: str = "") -> dict[str, torch.Tensor]:
    """The weights of a small model under Fairseq's names; those of an hourglass in its three stacks."""
    weights = {}
    backbone = model.wav2vec2
    for name, tensor in naming.to_fairseq(model.state_dict(), backbone.config).items():
        if backbone.config.shortening is not None and name.startswith("encoder.layers."):
            layer, rest = name.removeprefix("encoder.layers.").split(".", 1)
            stack, offset = (("layers", 0), ("hourglass_layers", 1), ("hourglass_layers", 1), ("post_layers", 3))[
                int(layer)
            ]
            name = f"encoder.{stack}.{int(layer) - offset}.{rest}"
        weights[name if name.startswith(naming.CTC_HEAD) else prefix + name] = tensor
    return weights


def save(path: Path, **state: Any) -> Path:
    torch.save(state, path)
    return path


def same_output(path: Path, model: torch.nn.Module, **options: Any) -> None:
    audio_BN, samples_B = audio_batch()
    found = load_model(path, **options).eval()
    with torch.inference_mode():
        if hasattr(model, "head"):
            assert torch.equal(found(audio_BN, samples_B).logits_BSV, model(audio_BN, samples_B).logits_BSV)
        found, model = (m.wav2vec2 if hasattr(m, "wav2vec2") else m for m in (found, model))
        assert torch.equal(found(audio_BN, samples_B).x_BSD, model(audio_BN, samples_B).x_BSD)
