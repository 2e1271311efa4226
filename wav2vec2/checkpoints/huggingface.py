"""Folders of Hugging Face's `transformers`: config.json, weights, and what is said of audio and labels beside them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from common.config import ConfigError, build
from common.published import model_folder
from common.published.model_folder import of_file, read_json, read_safetensors
from common.runs.checkpoint import CheckpointError, load
from common.text.dictionary import WORD_END
from common.text.vocabulary import is_special
from wav2vec2.checkpoints import naming
from wav2vec2.checkpoints.imported import DescribedWeights, checked
from wav2vec2.network.config import ModelConfig


class Described(NamedTuple):
    """What the files of a folder say of a model, and what had to be assumed."""

    architecture: ModelConfig
    backbone: str
    assumed: tuple[str, ...] = ()


def read(folder: Path, labels: tuple[str, ...], target_lang: str, *, head: bool) -> DescribedWeights:
    """The model in `folder`; `labels`, `target_lang`, `head` as for `reading.read`. Raises CheckpointError."""
    described = read_config(folder)
    architecture = described.architecture
    if target_lang and not architecture.adapter_dim:
        raise CheckpointError(f"{folder}: has no adapters to choose language {target_lang!r} from")
    weights = read_weights(folder, described, target_lang=target_lang)
    scores = weights.get("head.weight")
    if scores is not None and head:
        tokens = read_tokens(folder, len(scores), target_lang=target_lang)
        blank = architecture.blank if tokens.blank is None else tokens.blank
        architecture = replace(architecture, labels=labels or tokens.labels, blank=blank)
    elif scores is not None:
        weights = {name: weight for name, weight in weights.items() if not name.startswith("head.")}
    if architecture.adapter_dim and not any(".adapter." in name for name in weights):
        raise CheckpointError(f"{folder}: config.json has adapter_attn_dim, and the weights have no adapters")
    # A model that is never masked has no embedding for it there.
    weights.setdefault(
        f"{naming.BACKBONE}mask_embedding", torch.zeros(len(weights[f"{naming.BACKBONE}projection.weight"]))
    )
    imported = checked(weights, architecture, folder)
    return imported._replace(assumed=described.assumed)


# Model types of transformers whose networks are built here, and the prefix of their weights.
BACKBONES = {"wav2vec2": "wav2vec2.", "hubert": "hubert.", "data2vec-audio": "data2vec_audio.", "wavlm": "wavlm."}
# Fields of ModelConfig that config.json has under another name, with the same meaning.
FIELDS = {
    "conv_bias": "conv_bias",
    "layers": "num_hidden_layers",
    "dim": "hidden_size",
    "ffn_dim": "intermediate_size",
    "heads": "num_attention_heads",
    "conv_activation": "feat_extract_activation",
    "pre_norm": "do_stable_layer_norm",
    "activation": "hidden_act",
    "norm_epsilon": "layer_norm_eps",
    "pos_kernel": "num_conv_pos_embeddings",
    "pos_groups": "num_conv_pos_embedding_groups",
    "blank": "pad_token_id",
}
CODES = {
    "codebooks": "num_codevector_groups",
    "codebook_size": "num_codevectors_per_group",
    "code_dim": "codevector_dim",
    "final_dim": "proj_codevector_dim",
}
OF_TYPE = {
    "wav2vec2": CODES | {"adapter_dim": "adapter_attn_dim"},
    "hubert": {"feature_norm": "feat_proj_layer_norm", "adapter_dim": "adapter_attn_dim"},
    "data2vec-audio": {"pos_kernel": "conv_pos_kernel_size", "pos_layers": "num_conv_pos_embeddings"},
    "wavlm": {"relative_buckets": "num_buckets", "relative_distance": "max_bucket_distance"},
}
# What transformers takes for a key that config.json leaves out.
DEFAULTS = {theirs: getattr(ModelConfig, ours) for ours, theirs in (FIELDS | CODES).items()} | {
    "codevector_dim": 256,
    "conv_dim": [512] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "feat_extract_norm": "group",
    "feat_proj_layer_norm": True,
    "adapter_attn_dim": 0,
    "num_buckets": 320,
    "max_bucket_distance": 800,
}
DATA2VEC_DEFAULTS = {"conv_pos_kernel_size": 19, "num_conv_pos_embeddings": 5, "feat_extract_norm": "layer"}
# Keys whose other values change what a model computes, in a way that is not built here.
EXPECTED = {"add_adapter": False, "conv_pos_batch_norm": False}
SAMPLE_RATE = 16000
AUDIO_EPSILON = 1e-7  # that transformers adds to the variance of the audio


def read_config(folder: Path) -> Described:
    """The architecture that the files in `folder` describe. Raises CheckpointError."""
    described = read_json(folder / "config.json")
    kind = described.get("model_type")
    if kind not in BACKBONES:
        known = ", ".join(BACKBONES)
        raise CheckpointError(f"{folder}: config.json says model_type {kind!r}; known are {known}")
    for key, expected in EXPECTED.items():
        if described.get(key, expected) != expected:
            raise CheckpointError(f"{folder}: config.json has {key} = {described[key]!r}; only {expected!r} is known")
    given = {key: value for key, value in described.items() if value is not None}
    described = DEFAULTS | (DATA2VEC_DEFAULTS if kind == "data2vec-audio" else {}) | given
    if kind == "data2vec-audio":
        described |= {"feat_extract_norm": "layer", "do_stable_layer_norm": False}
    source = f"{folder}: config.json describes no model that is known"
    settings = {ours: described[theirs] for ours, theirs in (FIELDS | OF_TYPE[kind]).items()}
    settings |= {key: naming.ACTIVATIONS.get(settings[key], settings[key]) for key in ("activation", "conv_activation")}
    if not settings["pre_norm"]:  # where transformers builds no adapters
        settings["adapter_dim"] = 0
    normalizes, assumed = _is_normalized(folder, default=described["feat_extract_norm"] == "layer")
    settings |= {"extractor_norm": described["feat_extract_norm"], "audio_epsilon": AUDIO_EPSILON}
    try:
        layers = zip(*(described[f"conv_{name}"] for name in ("dim", "kernel", "stride")), strict=True)
        architecture = build(
            ModelConfig, settings | {"conv_layers": list(layers), "normalize_audio": normalizes}, source
        )
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: {error}") from None
    return Described(architecture, BACKBONES[kind], assumed)


def _is_normalized(folder: Path, *, default: bool) -> tuple[bool, tuple[str, ...]]:
    """Whether the audio is to be: `default`, and a line about it, where nothing is said. Raises CheckpointError."""
    says = of_file(folder / "processor_config.json").get("feature_extractor")  # since transformers 5
    if not isinstance(says, dict):
        path = folder / "preprocessor_config.json"
        if not path.is_file():
            how = "normalised" if default else "not normalised"
            return default, (f"{folder}: no preprocessor_config.json; audio is assumed to be {how}, as in such models",)
        says = read_json(path)
    if says.get("sampling_rate") not in (None, SAMPLE_RATE):
        raise CheckpointError(f"{folder}: takes audio at {says['sampling_rate']!r} Hz; only {SAMPLE_RATE} is known")
    return bool(says.get("do_normalize", True)), ()  # as transformers takes it


def read_weights(folder: Path, described: Described, *, target_lang: str = "") -> dict[str, Tensor]:
    """The weights in `folder` under our names, in float32. Raises CheckpointError.

    `target_lang`: the language whose adapter and head take the place of those in the weights.
    """
    weights = model_folder.read_weights(folder)
    if target_lang:
        weights |= _adapter(folder, target_lang)
    return naming.from_huggingface(weights, described.architecture, described.backbone)


def _adapter(folder: Path, language: str) -> dict[str, Tensor]:
    for name, read in ((f"adapter.{language}.safetensors", read_safetensors), (f"adapter.{language}.bin", load)):
        if language == Path(language).name and (folder / name).is_file():
            return read(folder / name)
    known = sorted(path.name.split(".")[1] for path in folder.glob("adapter.*.*"))
    raise CheckpointError(
        f"{folder}: no adapter.{language}.safetensors in it; it has adapters for {', '.join(known) or 'no language'}"
    )


class Tokens(NamedTuple):
    """What a head writes: labels by index, and the index of the blank (None: not said)."""

    labels: tuple[str, ...]
    blank: int | None


def language_in(folder: Path) -> str:
    """The language of a nested vocabulary that the tokenizer takes where none is named; "" for plain ones."""
    if not any(isinstance(value, dict) for value in of_file(folder / "vocab.json").values()):
        return ""
    return str(of_file(folder / "tokenizer_config.json").get("target_lang") or "eng")


def read_tokens(folder: Path, n_labels: int, *, target_lang: str = "") -> Tokens:
    """The labels that vocab.json and added_tokens.json number; without them, made-up ones. Raises CheckpointError.

    Numbers without a label get one that is never written. Tokenizers may number special labels that the head does
    not write. Of a nested vocabulary, that of `target_lang`.
    """
    vocabulary = of_file(folder / "vocab.json") or _of_tokenizer(folder)
    if not vocabulary:
        return Tokens(naming.unknown_labels(n_labels), None)
    if language := target_lang or language_in(folder):
        if not isinstance(vocabulary.get(language), dict):
            known = sorted(name for name, value in vocabulary.items() if isinstance(value, dict))
            raise CheckpointError(
                f"{folder}: vocab.json has no language {language!r}; it has {', '.join(known[:20]) or 'no languages'}"
            )
        vocabulary = vocabulary[language]
    numbers = vocabulary | of_file(folder / "added_tokens.json")
    by_index = {index: label for label, index in numbers.items() if type(index) is int}
    if beyond := [label for index, label in by_index.items() if not 0 <= index < n_labels and not is_special(label)]:
        raise CheckpointError(
            f"{folder}: vocab.json numbers {beyond[0]!r} {numbers[beyond[0]]}; the head writes 0 to {n_labels - 1}"
        )
    says = of_file(folder / "special_tokens_map.json") | of_file(folder / "tokenizer_config.json")
    word_end, pad = (
        _content(says.get(name, usual)) for name, usual in (("word_delimiter_token", WORD_END), ("pad_token", "<pad>"))
    )
    blank = numbers.get(pad) if pad is not None else None

    def written(index: int) -> str:
        label = by_index.get(index)
        if label is None:
            return f"<{index}>"
        if label == word_end and label != " ":
            return WORD_END
        lower = label.lower() if says.get("do_lower_case") and not is_special(label) else label
        return lower if len(lower) == len(label) else label

    labels = tuple(map(written, range(n_labels)))
    return Tokens(labels, blank if isinstance(blank, int) and 0 <= blank < n_labels else None)


def _of_tokenizer(folder: Path) -> dict[str, Any]:
    """The numbers of labels in the one file that fast tokenizers consist of; none where there is no such file."""
    model = of_file(folder / "tokenizer.json").get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    return vocabulary if isinstance(vocabulary, dict) else {}


def _content(token: Any) -> Any:
    """The text of a token, which may be an AddedToken: {"content": "|", "lstrip": false, …}."""
    return token.get("content") if isinstance(token, dict) else token


def export(folder: Path, weights: Mapping[str, Tensor], config: ModelConfig) -> None:
    """Writes our `weights` as a folder that `transformers` loads. Raises ConfigError if it has no such model."""
    from safetensors.torch import save_file

    if config.shortening is not None:
        raise ConfigError("transformers has no Hourglass Transformer: this model cannot be exported to it")
    kind = model_type(config)
    folder.mkdir(parents=True, exist_ok=True)
    theirs = naming.to_huggingface(weights, config, BACKBONES[kind])
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in theirs.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    labels = exported_labels(config)
    _write_json(folder / "config.json", described(config, _architecture(theirs, kind)))
    processing = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1}
    processing |= {"sampling_rate": SAMPLE_RATE}
    processing |= {"do_normalize": config.normalize_audio, "padding_value": 0.0, "padding_side": "right"}
    # transformers' group norm runs over padding: its own models of this kind are used without an attention mask.
    processing |= {"return_attention_mask": config.extractor_norm == "layer"}
    _write_json(folder / "preprocessor_config.json", processing)
    if labels:
        _write_json(folder / "vocab.json", {label: index for index, label in enumerate(labels)})
        _write_json(folder / "tokenizer_config.json", _tokenizer(config, labels))


def model_type(config: ModelConfig) -> str:
    """That of transformers for a model of `config`."""
    if config.relative_buckets:
        return "wavlm"
    return "data2vec-audio" if config.pos_layers else "wav2vec2" if config.feature_norm else "hubert"


def exported_labels(config: ModelConfig) -> tuple[str, ...]:
    """The labels as transformers calls them: its blank is <pad>, and Fairseq's <s>, so the two change their names."""
    if config.labels and config.labels[config.blank] == "<s>" and "<pad>" in config.labels:
        swapped = {"<s>": "<pad>", "<pad>": "<s>"}
        return tuple(swapped.get(label, label) for label in config.labels)
    return config.labels


def _tokenizer(config: ModelConfig, labels: tuple[str, ...]) -> dict[str, Any]:
    """What transformers decodes with: it takes its pad token for the blank."""
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "word_delimiter_token": WORD_END}
    known = {name: token if token in labels else None for name, token in tokens.items()}
    blank = {"pad_token": labels[config.blank], "do_lower_case": False}
    return {"tokenizer_class": "Wav2Vec2CTCTokenizer"} | known | blank


def _architecture(weights: Mapping[str, Tensor], kind: str = "wav2vec2") -> str:
    name = {"wav2vec2": "Wav2Vec2", "hubert": "Hubert", "data2vec-audio": "Data2VecAudio", "wavlm": "WavLM"}[kind]
    if "lm_head.weight" in weights:
        return f"{name}ForCTC"
    return f"{name}ForPreTraining" if "quantizer.codevectors" in weights else f"{name}Model"


def described(config: ModelConfig, architecture: str) -> dict[str, Any]:
    """What config.json says of a model of the class `architecture` (and what its configuration class takes)."""
    channels, kernels, strides = zip(*config.conv_layers, strict=True)
    kind = model_type(config)
    return {
        "architectures": [architecture],
        "model_type": kind,
        "conv_dim": channels,
        "conv_kernel": kernels,
        "conv_stride": strides,
        "num_feat_extract_layers": len(channels),
        "feat_extract_norm": config.extractor_norm,
        **{theirs: getattr(config, ours) for ours, theirs in (FIELDS | OF_TYPE[kind]).items()},
        **({"codevector_dim": config.width_of_codes} if kind == "wav2vec2" else {}),
        **({"adapter_attn_dim": config.adapter_dim or None} if "adapter_dim" in OF_TYPE[kind] else {}),
        "vocab_size": len(config.labels) or 32,
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
