"""Checkpoints of Fairseq and NVIDIA DeepLearningExamples as they are: their options and weights under our names."""

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from common.config import build
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from wav2vec2.checkpoints import naming
from wav2vec2.checkpoints.imported import DescribedWeights, checked
from wav2vec2.checkpoints.pickles import plain
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS, parse_dictionary, read_dictionary
from wav2vec2.network.config import ConvLayer, ModelConfig

STRIDES = (5, 2, 2, 2, 2, 2, 2)  # of the published extractors: strides leave no trace in the weights

HEAD_WIDTH = 64  # of all published models

# Options whose other values change what a model computes, in a way that is not built here.
EXPECTED = {
    "quantizer_depth": 1,
    "quantize_input": False,
    "target_glu": False,
    "rotary_embeddings": False,
    "use_spectrogram_features": False,
}

# Bounds on a description, so that none can take memory or time without bound.
LONGEST_CONV_LAYERS, MOST_CONV_LAYERS = 1000, 100


def options_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Fairseq's and DeepLearningExamples' options in one dictionary, those of the pre-trained model over others'."""
    options = _given(plain(state.get("args")))
    cfg = _given(plain(state.get("cfg")))
    for section in ("task", "model"):
        options |= _given(cfg.get(section))
    inner = options.pop("w2v_args", None)
    if isinstance(inner, dict):
        options |= options_of({"cfg": inner} if "model" in inner else {"args": inner})
    return options


def _given(options: Any) -> dict[str, Any]:
    """Those that have a value: neither None nor, as OmegaConf has it, a reference such as "${task.normalize}"."""
    options = options if isinstance(options, dict) else {}
    return {k: v for k, v in options.items() if v is not None and not str(v).startswith("${")}


def read(state: Mapping[str, Any], path: Path, labels: tuple[str, ...], *, head: bool = True) -> DescribedWeights:
    """What the loaded checkpoint `state` holds; `path` is for messages. `labels`, `head` as for `reading.read`."""
    if not isinstance(state.get("model"), dict):
        raise CheckpointError(
            f"{path}: not a wav2vec 2.0 checkpoint of this repository, Fairseq or DeepLearningExamples; "
            f"{checkpoint.contents(state)}"
        )
    weights = naming.without_prefixes({k: v for k, v in state["model"].items() if isinstance(v, Tensor)})
    needed = ("post_extract_proj.weight", "encoder.pos_conv.0.weight_v")
    if not any(naming.stack_sizes(weights)) or any(name not in weights for name in needed):
        raise CheckpointError(
            f"{path}: its weights are not those of a wav2vec 2.0 model: expected post_extract_proj.*, "
            f"encoder.pos_conv.0.* and encoder.layers.*, found {', '.join(list(weights)[:3]) or 'none'}"
        )
    options = options_of(state)
    architecture = _described(options, weights, path)
    if naming.CTC_HEAD + "weight" in weights:
        n_labels = len(weights[naming.CTC_HEAD + "weight"])
        named = labels or (_labels(state, path, n_labels) if head else naming.unknown_labels(n_labels))
        architecture = replace(architecture, labels=named)
    told_of = {
        "conv_feature_layers": "strides of the extractor: 5, 2, 2, 2, 2, 2, 2",
        "encoder_attention_heads": f"{architecture.heads} attention heads",
        "normalize": f"normalize_audio = {architecture.normalize_audio}".lower(),
    }
    assumed = [assumption for name, assumption in told_of.items() if name not in options]
    told = (f"{path}: does not say so, and is assumed to have {'; '.join(assumed)}",) if assumed else ()
    return checked(naming.from_fairseq(weights, architecture), architecture, path)._replace(assumed=told)


def _described(options: Mapping[str, Any], weights: Mapping[str, Tensor], path: Path) -> ModelConfig:
    """The architecture: sizes are those of the weights, and `options` say the rest."""
    for name, expected in EXPECTED.items():
        if options.get(name, expected) != expected:
            raise CheckpointError(f"{path}: has {name} = {options[name]!r}; only {expected!r} is known")
    before, shortened, after = naming.stack_sizes(weights)
    dim = len(weights["post_extract_proj.weight"])
    positions = weights["encoder.pos_conv.0.weight_v"].shape
    is_large = "feature_extractor.conv_layers.0.2.1.weight" in weights
    groups = options.get("latent_groups", ModelConfig.codebooks)
    activation = str(options.get("activation_fn", ModelConfig.activation))
    codes = weights.get("quantizer.vars")
    final = weights.get("final_proj.weight")
    final_dim = options.get("final_dim", ModelConfig.final_dim) if final is None else len(final)
    code_dim = 0 if codes is None else codes.shape[2] * groups
    settings = {
        "conv_layers": _conv_layers(options.get("conv_feature_layers"), weights),
        "conv_bias": "feature_extractor.conv_layers.0.0.bias" in weights,
        "extractor_norm": "layer" if is_large else "group",
        "normalize_audio": options.get("normalize", is_large),
        "layers": before + shortened + after,
        "dim": dim,
        "ffn_dim": next(len(weight) for name, weight in weights.items() if name.endswith(".fc1.weight")),
        "heads": options.get("encoder_attention_heads", dim // HEAD_WIDTH),
        "pre_norm": options.get("layer_norm_first", is_large),
        "activation": naming.ACTIVATIONS.get(activation, activation),
        "pos_kernel": positions[2],
        "pos_groups": dim // positions[1],
        "hourglass": options.get("hourglass_transformer") or "",
        "hourglass_resample": options.get("hourglass_resample", "naive"),
        "codebooks": groups,
        "codebook_size": ModelConfig.codebook_size if codes is None else codes.shape[1] // groups,
        "code_dim": 0 if code_dim == final_dim else code_dim,
        "final_dim": final_dim,
    }
    architecture = build(ModelConfig, settings, f"{path}: describes no model that is known")
    stacks, hourglass = (architecture.layers, 0, 0), architecture.shortening
    if hourglass is not None:
        stacks = hourglass.before, hourglass.shortened, hourglass.after
    if stacks != (before, shortened, after):
        raise CheckpointError(
            f"{path}: hourglass_transformer = {architecture.hourglass!r}, but {shortened} layers are in an hourglass, "
            f"{before} before it and {after} after it"
        )
    return architecture


def _conv_layers(text: str | None, weights: Mapping[str, Tensor]) -> tuple[ConvLayer, ...]:
    if text is not None:
        return parse_conv_layers(text)
    taps = [weights[f"feature_extractor.conv_layers.{i}.0.weight"] for i in range(len(STRIDES))]
    return tuple((len(w), w.shape[2], stride) for w, stride in zip(taps, STRIDES, strict=True))


def parse_conv_layers(text: str) -> tuple[ConvLayer, ...]:
    """Reads "[(512,10,5)]+[(512,3,2)]*4": lists, their sums and repetitions only. Raises ValueError."""
    wrong = ValueError(f"conv_feature_layers = {text[:80]!r}: expected lists of (channels, kernel, stride)")
    if len(text) > LONGEST_CONV_LAYERS:
        raise wrong

    def value(node: ast.expr) -> list[ConvLayer]:
        match node:
            case ast.BinOp(left, ast.Add(), right):
                return value(left) + value(right)
            case ast.BinOp(left, ast.Mult(), ast.Constant(int(times))):
                layers = value(left)
                if len(layers) * times <= MOST_CONV_LAYERS:
                    return layers * times
            case ast.List():
                return [ast.literal_eval(layer) for layer in node.elts]
        raise wrong

    try:
        layers = value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):  # the latter two by depth
        raise wrong from None
    if not all(isinstance(n, tuple) and len(n) == 3 and all(type(m) is int for m in n) for n in layers):
        raise wrong
    return tuple(layers)


def _labels(state: Mapping[str, Any], path: Path, n_labels: int) -> tuple[str, ...]:
    dictionary, beside = state.get("output_labels"), path.with_name("dict.ltr.txt")
    if isinstance(dictionary, str):
        labels = parse_dictionary(dictionary, f"{path}: output_labels")
    elif beside.is_file():
        labels = read_dictionary(beside)
    else:
        return LIBRISPEECH_LABELS if n_labels == len(LIBRISPEECH_LABELS) else naming.unknown_labels(n_labels)
    if len(labels) != n_labels:
        raise CheckpointError(f"{path}: writes {n_labels} labels, and its dictionary has {len(labels)}")
    return labels
