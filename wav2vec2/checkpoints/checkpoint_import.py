"""Reading checkpoints: ours, Fairseq's and DeepLearningExamples' as they are, and Hugging Face folders.

Fairseq pickles its options as objects of classes that may not be there. Their names are allowed by list, and every one
is bound to a stand-in that keeps what it is given and does nothing: no code of a checkpoint ever runs. Anything that
is not on the list is refused.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from common.config import build
from common.published import hub
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError, own_description
from common.text.language import Language
from wav2vec2.checkpoints import huggingface, naming
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS, parse_dictionary, read_dictionary
from wav2vec2.network.config import ConvLayer, ModelConfig

FORMAT = "wav2vec2"  # what our checkpoints say they are
STRIDES = (5, 2, 2, 2, 2, 2, 2)  # of the published extractors: strides leave no trace in the weights
HEAD_WIDTH = 64  # of all published models

# Classes that Fairseq's options consist of, and numbers as numpy pickles them.
ALLOWED = re.compile(
    r"(argparse\.Namespace|typing\.Any|pathlib\.\w*Path"
    r"|builtins\.(dict|list|tuple|set|int|float|str|bool|getattr)|numpy(\._?core)?\.(dtype|multiarray\.scalar)"
    r"|numpy\.dtypes\.\w+|(omegaconf|fairseq|enum)(\.\w+)+)"
)
# Those that are in nearly every checkpoint: each name found later means reading the file once more.
USUAL = (
    *("argparse.Namespace", "typing.Any", "builtins.dict", "builtins.list", "builtins.int"),
    *("omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig", "omegaconf.nodes.AnyNode"),
    *("omegaconf.base.ContainerMetadata", "omegaconf.base.Metadata", "numpy.core.multiarray.scalar", "numpy.dtype"),
)
# Bounds on a description and on names in a pickle, so that none can take memory or time without bound.
LONGEST_CONV_LAYERS, MOST_CONV_LAYERS = 1000, 100
MOST_NAMES = 100
# Options whose other values change what a model computes, in a way that is not built here.
EXPECTED = {
    "quantizer_depth": 1,
    "quantize_input": False,
    "target_glu": False,
    "rotary_embeddings": False,
    "use_spectrogram_features": False,
}


class Imported(NamedTuple):
    """Weights under our names, the architecture they fit, and the part of the model that they are for."""

    weights: dict[str, Tensor]
    config: ModelConfig
    kind: Literal["pretraining", "ctc", "backbone"]
    language: Language = "auto"
    """Language of the texts that it was fine-tuned on."""
    assumed: tuple[str, ...] = ()
    """What the checkpoint does not say, in lines for the user."""


def read(
    path: Path, *, labels: tuple[str, ...] = (), ema: bool | None = None, target_lang: str = "", head: bool = True
) -> Imported:
    """What the file or the Hugging Face folder at `path`, or of the file at `path`, holds. Raises CheckpointError.

    `labels` names what a CTC head writes, by index, over what the checkpoint says. Where neither does, a dict.ltr.txt
    beside it is read; 32 labels are assumed to be LibriSpeech's, and others are called <0>, <1>, … `ema`: take the
    averaged weights; None takes them where there are any, which is in our checkpoints only. `target_lang`: the language
    of a Hugging Face folder with adapters. Without `head`, a CTC head and its labels are passed over.
    """
    path = hub.located(path, extra=[f"adapter.{target_lang}.*"] if target_lang else ())
    folder = huggingface.folder_of(path)
    state = {} if folder is not None else load_foreign(path)
    if ema and state.get("ema") is None:
        raise CheckpointError(f"{path}: has no averaged (EMA) weights; load it with ema=False")
    with checkpoint.usable(path):
        if folder is not None:
            return _read_folder(folder, labels, target_lang, head=head)
        if target_lang:
            raise CheckpointError(f"{path}: has no adapters to choose language {target_lang!r} from")
        if state.get("format") == FORMAT:
            imported = _read_own(state, path, labels, with_ema=ema is not False)
        else:
            imported = _read_fairseq(state, path, labels if head else (), head=head)
        return imported if head else _headless(imported)


def load_foreign(path: Path) -> dict[str, Any]:
    """As common.runs.checkpoint.load, for files with pickled options too, whose objects become stand-ins.

    A global of the pickle that ALLOWED does not name is refused; nothing in the file is executed. Raises
    CheckpointError.
    """
    allowed: list[tuple[Callable[..., Any], str]] = [(StandIn, name) for name in USUAL]
    allowed.append((empty_dict, "collections.defaultdict"))  # torch fills nothing but dictionaries
    while True:
        try:
            with torch.serialization.safe_globals(allowed):  # type: ignore[arg-type]
                return checkpoint.load(path)
        except CheckpointError as error:
            found = re.search(r"it wants to run ([\w.]+)", str(error))
            name = "" if found is None else found[1] if "." in found[1] else f"builtins.{found[1]}"
            if not ALLOWED.fullmatch(name) or (StandIn, name) in allowed or len(allowed) >= MOST_NAMES:
                raise
            allowed.append((StandIn, name))
        except (AttributeError, AssertionError, IndexError, RecursionError, TypeError) as error:
            raise CheckpointError(f"{path}: damaged or not a checkpoint: {error}") from None


class StandIn(dict[Any, Any]):
    """In place of an object whose class is not to be used: keeps arguments, state and items, and does nothing."""

    arguments: tuple[Any, ...] = ()

    def __new__(cls, *arguments: Any) -> "StandIn":
        """Keeps `arguments`."""
        self = super().__new__(cls)
        self.arguments = arguments
        return self

    def __init__(self, *arguments: Any):
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        """Keeps what the object's attributes were."""
        if isinstance(state, Mapping):
            self.update(state)


def empty_dict(*_: Any) -> dict[Any, Any]:
    """In place of collections.defaultdict and what it would call."""
    return {}


def plain(value: Any) -> Any:
    """Dictionaries, lists, strings and numbers in place of stand-ins for Namespaces, OmegaConf's nodes and enums."""
    if isinstance(value, StandIn):
        if "_content" in value:  # a DictConfig or ListConfig
            return plain(value["_content"])
        if "_val" in value:  # a node of OmegaConf with one value
            return plain(value["_val"])
        if not value and value.arguments:  # an enum: (value) or (class, name)
            return plain(value.arguments[-1])
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


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


def _headless(imported: Imported) -> Imported:
    """Without the CTC head, if there is one."""
    if imported.kind != "ctc":
        return imported
    weights = {name: weight for name, weight in imported.weights.items() if not name.startswith("head.")}
    architecture = replace(imported.config, labels=(), blank=0)
    return imported._replace(weights=weights, config=architecture, kind="backbone")


def _read_fairseq(state: Mapping[str, Any], path: Path, labels: tuple[str, ...], *, head: bool = True) -> Imported:
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
    architecture = _described(options_of(state), weights, path)
    if naming.CTC_HEAD + "weight" in weights:
        n_labels = len(weights[naming.CTC_HEAD + "weight"])
        named = labels or (_labels(state, path, n_labels) if head else naming.unknown_labels(n_labels))
        architecture = replace(architecture, labels=named)
    assumed = (
        []
        if "conv_feature_layers" in (options := options_of(state))
        else ["strides of the extractor: 5, 2, 2, 2, 2, 2, 2"]
    )
    assumed += [] if "encoder_attention_heads" in options else [f"{architecture.heads} attention heads"]
    assumed += [] if "normalize" in options else [f"normalize_audio = {architecture.normalize_audio}".lower()]
    told = (f"{path}: does not say so, and is assumed to have {'; '.join(assumed)}",) if assumed else ()
    return _imported(naming.from_fairseq(weights, architecture), architecture, path)._replace(assumed=told)


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
    hourglass = architecture.shortening
    stacks = (
        (architecture.layers, 0, 0) if hourglass is None else (hourglass.before, hourglass.shortened, hourglass.after)
    )
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


def _read_own(state: dict[str, Any], path: Path, labels: tuple[str, ...], *, with_ema: bool) -> Imported:
    with own_description(path):
        architecture = build(ModelConfig, state["config"]["model"], str(path))
        if architecture.labels:
            architecture = replace(architecture, labels=labels or architecture.labels)
        averaged = state.get("ema") if with_ema else None
        imported = _imported(state["weights"] if averaged is None else averaged, architecture, path)
        return imported._replace(language=state["config"].get("data", {}).get("language", "auto"))


def _read_folder(folder: Path, labels: tuple[str, ...], target_lang: str, *, head: bool) -> Imported:
    described = huggingface.read_config(folder)
    architecture = described.architecture
    if target_lang and not architecture.adapter_dim:
        raise CheckpointError(f"{folder}: has no adapters to choose language {target_lang!r} from")
    weights = huggingface.read_weights(folder, described.backbone, target_lang=target_lang)
    scores = weights.get(f"{naming.CTC_HEAD}weight")
    if scores is not None and head:
        tokens = huggingface.read_tokens(folder, len(scores), target_lang=target_lang)
        blank = architecture.blank if tokens.blank is None else tokens.blank
        architecture = replace(architecture, labels=labels or tokens.labels, blank=blank)
    elif scores is not None:
        weights = {name: weight for name, weight in weights.items() if not name.startswith(naming.CTC_HEAD)}
    if architecture.adapter_dim and not any(".adapter_layer." in name for name in weights):
        raise CheckpointError(f"{folder}: config.json has adapter_attn_dim, and the weights have no adapters")
    # A model that is never masked has no embedding for it there.
    weights.setdefault("mask_emb", torch.zeros(len(weights["post_extract_proj.weight"])))
    imported = _imported(naming.from_fairseq(weights, architecture), architecture, folder)
    return imported._replace(assumed=described.assumed)


def _imported(weights: dict[str, Tensor], architecture: ModelConfig, path: Path) -> Imported:
    if f"{naming.BACKBONE}mask_embedding" not in weights:
        raise CheckpointError(f"{path}: holds no weights of a wav2vec 2.0 model")
    if strange := [name for name in weights if not name.startswith((naming.BACKBONE, "head.", *naming.PRETRAINING))]:
        raise CheckpointError(f"{path}: has weights that no part of the model is for: {', '.join(strange[:3])[:200]}")
    has_codes = "quantizer.codes_GVE" in weights
    for name, shape in _sizes(architecture, has_codes=has_codes):
        found = tuple(weights[name].shape) if name in weights else "missing"
        if found != shape:
            raise CheckpointError(f"{path}: does not fit its description: {name} is {found}, expected {shape}")
    if "head.weight" in weights:
        # Some checkpoints keep what only pre-training needs.
        weights = {name: weight for name, weight in weights.items() if not name.startswith(naming.PRETRAINING)}
        return Imported(weights, architecture, "ctc")
    return Imported(weights, architecture, "pretraining" if has_codes else "backbone")


def _sizes(cfg: ModelConfig, *, has_codes: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Weights whose sizes bound what a model of `cfg` allocates: a description alone could ask for anything."""
    widths = (1, *(channels for channels, _, _ in cfg.conv_layers))
    for i, (channels, kernel, _) in enumerate(cfg.conv_layers):
        yield f"{naming.BACKBONE}extractor.layers.{i}.weight", (channels, kernel, widths[i])
    yield f"{naming.BACKBONE}projection.weight", (cfg.dim, widths[-1])
    taps = (cfg.dim, cfg.dim // cfg.pos_groups, cfg.pos_kernel)
    positions = [f"layers.{i}.weight" for i in range(cfg.pos_layers)] or ["direction"]
    yield from ((f"{naming.BACKBONE}encoder.positions.{name}", taps) for name in positions)
    if cfg.relative_buckets:
        yield f"{naming.BACKBONE}encoder.relative.embedding", (cfg.relative_buckets, cfg.heads)
    for i in range(cfg.layers):
        yield f"{naming.BACKBONE}encoder.layers.{i}.fc1.weight", (cfg.ffn_dim, cfg.dim)
        if cfg.adapter_dim:
            yield f"{naming.BACKBONE}encoder.layers.{i}.adapter.down.weight", (cfg.adapter_dim, cfg.dim)
    if has_codes:
        yield "quantizer.codes_GVE", (cfg.codebooks, cfg.codebook_size, cfg.width_of_codes // cfg.codebooks)
        yield "project_codes.weight", (cfg.final_dim, cfg.width_of_codes)
