"""Writing Fairseq's format: a .pt with options as plain values and weights under its names, and dict.ltr.txt beside it.

Shapes: V labels, D width of the network.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from common.config import ConfigError
from common.runs import checkpoint
from common.text.dictionary import WORD_END, write_symbols
from wav2vec2.checkpoints import naming
from wav2vec2.corpus.letters import SPECIAL_LABELS
from wav2vec2.network.config import ModelConfig

ACTIVATIONS = {name: name for name in ("gelu", "relu", "tanh", "linear")} | {
    "gelu_pytorch_tanh": "gelu_accurate",
    "silu": "swish",
}
"""Fairseq's names for those of our activations that it has."""
NEVER = -1e4  # the bias of a special label that the head does not write


def export(path: Path, weights: Mapping[str, Tensor], config: ModelConfig) -> None:
    """Writes our `weights` as a checkpoint of Fairseq. Raises ConfigError where it has no such model."""
    foreign = {
        "an hourglass": config.hourglass, "gated relative positions": config.relative_buckets,
        "adapters": config.adapter_dim, "stacked positions": config.pos_layers,
        "an extractor without norm": not config.feature_norm,
        f"activation {config.activation!r}": config.activation not in ACTIVATIONS,
        f"extractor with {config.conv_activation!r}": config.conv_activation != "gelu",
        f"norm_epsilon = {config.norm_epsilon:g}": config.norm_epsilon != ModelConfig.norm_epsilon,
    }  # fmt: skip
    if found := [name for name, is_there in foreign.items() if is_there]:
        raise ConfigError(
            f"Fairseq's wav2vec 2.0 has no {found[0].removeprefix('an ')}: this model cannot be exported to it"
        )
    theirs = naming.to_fairseq(weights, config)
    options = _options(config)
    if not config.labels:
        cfg = {"model": {"_name": "wav2vec2", **options}, "task": _task("audio_pretraining", config)}
        checkpoint.save(path, {"args": None, "cfg": cfg, "model": theirs})
        return
    symbols, rows = _ordered(config)
    head = {
        kind: _rows(theirs[f"{naming.CTC_HEAD}{kind}"], rows, 0.0 if kind == "weight" else NEVER)
        for kind in ("weight", "bias")
    }
    prefixed = {f"{naming.CTC_BACKBONE}{k}": v for k, v in theirs.items() if not k.startswith(naming.CTC_HEAD)}
    inner = {"model": {"_name": "wav2vec2", **options}, "task": _task("audio_pretraining", config)}
    model = {"_name": "wav2vec_ctc", "normalize": config.normalize_audio, "w2v_args": inner}
    cfg = {"model": model, "task": _task("audio_finetuning", config) | {"labels": "ltr"}}
    named = prefixed | {f"{naming.CTC_HEAD}{kind}": tensor for kind, tensor in head.items()}
    checkpoint.save(path, {"args": None, "cfg": cfg, "model": named})
    counts = {symbol: len(symbols) - i for i, symbol in enumerate(symbols)}
    write_symbols(path.with_name("dict.ltr.txt"), counts)


def _ordered(config: ModelConfig) -> tuple[list[str], list[int | None]]:
    """The symbols of the dictionary, and for each of Fairseq's labels the index that it has here.

    Its special labels come first, the first of them as blank.
    """
    by_label = {label: index for index, label in enumerate(config.labels) if index != config.blank}
    special = [config.blank, *(by_label.get(label) for label in SPECIAL_LABELS[1:])]
    if special[1] is None:  # transformers calls the blank <pad>, and the other one <s>
        special[1] = by_label.get("<s>")
    taken = {index for index in special if index is not None}
    others = [(index, label) for index, label in enumerate(config.labels) if index not in taken]
    symbols = [WORD_END if label == " " else label for _, label in others]
    if len(set(symbols)) < len(symbols) or any(len(symbol.split()) != 1 for symbol in symbols):
        raise ConfigError(f"labels {config.labels}: a dictionary of Fairseq cannot list them")
    return symbols, [*special, *(index for index, _ in others)]


def _rows(head: Tensor, rows: list[int | None], absent: float) -> Tensor:
    filler = torch.full_like(head[0], absent)
    return torch.stack([filler if row is None else head[row] for row in rows])


def _task(name: str, config: ModelConfig) -> dict[str, Any]:
    return {"_name": name, "normalize": config.normalize_audio, "sample_rate": 16000}


def _options(config: ModelConfig) -> dict[str, Any]:
    layers = [tuple(layer) for layer in config.conv_layers]
    return {
        "extractor_mode": "layer_norm" if config.extractor_norm == "layer" else "default",
        "conv_feature_layers": str(layers),
        "conv_bias": config.conv_bias,
        "encoder_layers": config.layers,
        "encoder_embed_dim": config.dim,
        "encoder_ffn_embed_dim": config.ffn_dim,
        "encoder_attention_heads": config.heads,
        "layer_norm_first": config.pre_norm,
        "conv_pos": config.pos_kernel,
        "conv_pos_groups": config.pos_groups,
        "latent_groups": config.codebooks,
        "latent_vars": config.codebook_size,
        "latent_dim": config.code_dim,
        "final_dim": config.final_dim,
        "quantize_targets": True,
        "activation_fn": ACTIVATIONS[config.activation],
    }
