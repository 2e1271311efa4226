"""Folders of Hugging Face's `transformers`: config.json, weights, and what is said of audio and labels beside them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from common import model_folder
from common.checkpoint import CheckpointError
from common.config import ConfigError, build
from common.model_folder import of_file, read_json
from common.text.dictionary import WORD_END
from common.text.vocabulary import is_special
from wav2vec2.checkpoints import naming
from wav2vec2.network.config import ModelConfig

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
# Keys whose other values change what a model computes, in a way that is not built here.
EXPECTED = {
    "hidden_act": "gelu",
    "feat_extract_activation": "gelu",
    "layer_norm_eps": 1e-5,
    "add_adapter": False,
    "adapter_attn_dim": None,
}
SAMPLE_RATE = 16000


def read_config(folder: Path) -> ModelConfig:
    """The architecture that the files in `folder` describe. Raises CheckpointError."""
    described = read_json(folder / "config.json")
    if described.get("model_type") != "wav2vec2":
        raise CheckpointError(f"{folder}: config.json says model_type {described.get('model_type')!r}, not 'wav2vec2'")
    for key, expected in EXPECTED.items():
        if described.get(key, expected) != expected:
            raise CheckpointError(f"{folder}: config.json has {key} = {described[key]!r}; only {expected!r} is known")
    described = DEFAULTS | {key: value for key, value in described.items() if value is not None}
    source = f"{folder}: config.json describes no model that is known"
    settings = {ours: described[theirs] for ours, theirs in FIELDS.items()}
    settings |= {"extractor_norm": described["feat_extract_norm"]}
    settings |= {"normalize_audio": _is_normalized(folder, default=described["feat_extract_norm"] == "layer")}
    try:
        layers = zip(*(described[f"conv_{name}"] for name in ("dim", "kernel", "stride")), strict=True)
        return build(ModelConfig, settings | {"conv_layers": list(layers)}, source)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: {error}") from None


def _is_normalized(folder: Path, *, default: bool) -> bool:
    """Whether the audio is to be: `default` where nothing is said of audio. Raises CheckpointError."""
    says = of_file(folder / "processor_config.json").get("feature_extractor")  # since transformers 5
    if not isinstance(says, dict):
        path = folder / "preprocessor_config.json"
        if not path.is_file():
            return default
        says = read_json(path)
    if says.get("sampling_rate", SAMPLE_RATE) != SAMPLE_RATE:
        raise CheckpointError(f"{folder}: takes audio at {says['sampling_rate']!r} Hz; only {SAMPLE_RATE} is known")
    return says.get("do_normalize", True)  # as transformers takes it


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights in `folder` under Fairseq's names, in float32. Raises CheckpointError."""
    return naming.huggingface_to_fairseq(model_folder.read_weights(folder))


def read_labels(folder: Path, n_labels: int) -> tuple[str, ...]:
    """The labels that vocab.json and added_tokens.json number; without them, made-up ones. Raises CheckpointError.

    Tokenizers may number special labels that the head does not write.
    """
    if not (folder / "vocab.json").is_file():
        return naming.unknown_labels(n_labels)
    numbers = read_json(folder / "vocab.json") | of_file(folder / "added_tokens.json")
    by_index = {index: label for label, index in numbers.items() if isinstance(index, int)}
    by_index = {index: label for index, label in by_index.items() if index < n_labels or not is_special(label)}
    if sorted(by_index) != list(range(n_labels)):
        raise CheckpointError(
            f"{folder}: vocab.json numbers {len(numbers)} labels; expected 0 to {n_labels - 1}, each once"
        )
    word_end = of_file(folder / "tokenizer_config.json").get("word_delimiter_token", WORD_END)
    labels = (by_index[index] for index in range(n_labels))
    return tuple(WORD_END if label == word_end and label != " " else label for label in labels)


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
    processing = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1}
    processing |= {"sampling_rate": SAMPLE_RATE}
    processing |= {"do_normalize": config.normalize_audio, "padding_value": 0.0, "padding_side": "right"}
    # transformers' group norm runs over padding: its own models of this kind are used without an attention mask.
    processing |= {"return_attention_mask": config.extractor_norm == "layer"}
    _write_json(folder / "preprocessor_config.json", processing)
    if config.labels:
        _write_json(folder / "vocab.json", {label: index for index, label in enumerate(config.labels)})
        _write_json(folder / "tokenizer_config.json", _tokenizer(config))


def _tokenizer(config: ModelConfig) -> dict[str, Any]:
    """What transformers decodes with: it takes its pad token for the blank, which Fairseq calls <s>."""
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "word_delimiter_token": WORD_END}
    known = {name: token if token in config.labels else None for name, token in tokens.items()}
    blank = {"pad_token": config.labels[config.blank], "do_lower_case": False}
    return {"tokenizer_class": "Wav2Vec2CTCTokenizer"} | known | blank


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


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
