"""Folders of Hugging Face's `transformers`: config.json, weights, and what is said of audio and labels beside them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from common import checkpoint
from common.checkpoint import CheckpointError
from common.config import ConfigError
from wav2vec2 import naming
from wav2vec2.config import ModelConfig

# Fields of ModelConfig that config.json has under another name, with the same meaning.
FIELDS = {
    "conv_bias": "conv_bias",
    "layers": "num_hidden_layers",
    "dim": "hidden_size",
    "ffn_dim": "intermediate_size",
    "heads": "num_attention_heads",
    "pre_norm": "do_stable_layer_norm",
    "pos_kernel": "num_conv_pos_embeddings",
    "pos_groups": "num_conv_pos_embedding_groups",
    "codebooks": "num_codevector_groups",
    "codebook_size": "num_codevectors_per_group",
    "code_dim": "codevector_dim",
    "final_dim": "proj_codevector_dim",
    "blank": "pad_token_id",
}
# What transformers takes for a key that config.json leaves out.
DEFAULTS = {theirs: getattr(ModelConfig, ours) for ours, theirs in FIELDS.items()} | {
    "codevector_dim": 256,
    "conv_dim": [512] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "feat_extract_norm": "group",
}


def read_config(folder: Path) -> ModelConfig:
    """The architecture that the files in `folder` describe. Raises CheckpointError."""
    described = _read_json(folder / "config.json")
    if described.get("model_type") != "wav2vec2":
        raise CheckpointError(f"{folder}: config.json says model_type {described.get('model_type')!r}, not 'wav2vec2'")
    for key, expected in (("hidden_act", "gelu"), ("feat_extract_activation", "gelu"), ("add_adapter", False)):
        if described.get(key, expected) != expected:
            raise CheckpointError(f"{folder}: config.json has {key} = {described[key]!r}; only {expected!r} is known")
    if described.get("adapter_attn_dim") is not None:
        raise CheckpointError(f"{folder}: config.json has adapter_attn_dim; adapters in the layers are not known")
    described = DEFAULTS | described
    processing = folder / "preprocessor_config.json"
    says = _read_json(processing) if processing.is_file() else {}
    try:
        channels, kernels, strides = (described[f"conv_{name}"] for name in ("dim", "kernel", "stride"))
        return ModelConfig(
            conv_layers=tuple(zip(channels, kernels, strides, strict=True)),
            extractor_norm=described["feat_extract_norm"],
            normalize_audio=says.get("do_normalize", described["feat_extract_norm"] == "layer"),
            **{ours: described[theirs] for ours, theirs in FIELDS.items()},
        )
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{folder}: config.json describes no model that is known: {error}") from None


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights in `folder` under Fairseq's names, in float32. Raises CheckpointError."""
    safe, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    if safe.is_file():
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return naming.huggingface_to_fairseq(load_file(safe))
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{safe}: damaged or not a safetensors file: {error}") from None
    if not pickled.is_file():
        raise CheckpointError(f"{folder}: expected model.safetensors or pytorch_model.bin in it")
    return naming.huggingface_to_fairseq(checkpoint.load(pickled))


def read_labels(folder: Path, n_labels: int) -> tuple[str, ...]:
    """The labels that vocab.json numbers; without such a file, made-up ones. Raises CheckpointError."""
    if not (folder / "vocab.json").is_file():
        return naming.unknown_labels(n_labels)
    numbers = _read_json(folder / "vocab.json")
    by_index = {index: label for label, index in numbers.items() if isinstance(index, int)}
    if sorted(by_index) != list(range(n_labels)):
        raise CheckpointError(
            f"{folder}: vocab.json numbers {len(numbers)} labels; expected 0 to {n_labels - 1}, each once"
        )
    return tuple(by_index[index] for index in range(n_labels))


def export(folder: Path, weights: Mapping[str, Tensor], config: ModelConfig) -> None:
    """Writes our `weights` as a folder that `transformers` loads. Raises ConfigError if it has no such model."""
    from safetensors.torch import save_file

    if config.shortening is not None:
        raise ConfigError("transformers has no Hourglass Transformer: this model cannot be exported to it")
    folder.mkdir(parents=True, exist_ok=True)
    theirs = naming.fairseq_to_huggingface(naming.to_fairseq(weights, config))
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in theirs.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", described(config, _architecture(theirs)))
    processing = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1, "sampling_rate": 16000}
    processing |= {"do_normalize": config.normalize_audio, "padding_value": 0.0, "padding_side": "right"}
    # transformers' group norm runs over padding: its own models of this kind are used without an attention mask.
    processing |= {"return_attention_mask": config.extractor_norm == "layer"}
    _write_json(folder / "preprocessor_config.json", processing)
    if config.labels:
        _write_json(folder / "vocab.json", {label: index for index, label in enumerate(config.labels)})


def _architecture(weights: Mapping[str, Tensor]) -> str:
    if "lm_head.weight" in weights:
        return "Wav2Vec2ForCTC"
    return "Wav2Vec2ForPreTraining" if "quantizer.codevectors" in weights else "Wav2Vec2Model"


def described(config: ModelConfig, architecture: str) -> dict[str, Any]:
    """What config.json says of a model of the class `architecture` (and what Wav2Vec2Config takes)."""
    channels, kernels, strides = zip(*config.conv_layers, strict=True)
    return {
        "architectures": [architecture],
        "model_type": "wav2vec2",
        "conv_dim": channels,
        "conv_kernel": kernels,
        "conv_stride": strides,
        "num_feat_extract_layers": len(channels),
        "feat_extract_norm": config.extractor_norm,
        **{theirs: getattr(config, ours) for ours, theirs in FIELDS.items()},
        "codevector_dim": config.width_of_codes,
        "vocab_size": len(config.labels) or 32,
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent}: expected a file {path.name} in it") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected an object, found {type(value).__name__}")
    return value


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
