"""Names of the weights: ours, Fairseq's (DeepLearningExamples' too) and Hugging Face's, in one table.

Queries, keys and values are one matrix here, the taps of the extractor's convolutions stand before the channels, and
the layers around and inside an hourglass are numbered through.
"""

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from wav2vec2.network.config import ModelConfig

BACKBONE = "wav2vec2."
ACTIVATIONS = {"gelu_python": "gelu", "swish": "silu"} | dict.fromkeys(
    ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh"), "gelu_pytorch_tanh"
)
"""Other names of transformers and Fairseq for some of our activations."""
PRETRAINING = ("quantizer.", "project_codes.", "project_context.")  # modules that only pre-training needs
CTC_BACKBONE, CTC_HEAD = "w2v_encoder.w2v_model.", "w2v_encoder.proj."

_OURS, _FAIRSEQ, _HF = 0, 1, 2
# Parameters, or modules with all of theirs, under the three names; {} is a number. In a layer of the Transformer:
_OF_LAYER = (
    ("attention.q", "self_attn.q_proj", "attention.q_proj"),
    ("attention.k", "self_attn.k_proj", "attention.k_proj"),
    ("attention.v", "self_attn.v_proj", "attention.v_proj"),
    ("attention.out", "self_attn.out_proj", "attention.out_proj"),
    ("attention_norm", "self_attn_layer_norm", "layer_norm"),
    ("fc1", "fc1", "feed_forward.intermediate_dense"),
    ("fc2", "fc2", "feed_forward.output_dense"),
    ("final_norm", "final_layer_norm", "final_layer_norm"),
    ("attention.gate.constant", "self_attn.grep_a", "attention.gru_rel_pos_const"),  # WavLM's
    ("attention.gate.linear", "self_attn.grep_linear", "attention.gru_rel_pos_linear"),
    ("adapter.norm", "adapter_layer.norm", "adapter_layer.norm"),  # of MMS
    ("adapter.down", "adapter_layer.linear_1", "adapter_layer.linear_1"),
    ("adapter.up", "adapter_layer.linear_2", "adapter_layer.linear_2"),
)
_INSIDE = (
    ("extractor.layers.{}", "feature_extractor.conv_layers.{}.0", "feature_extractor.conv_layers.{}.conv"),
    ("norm", "layer_norm", "feature_projection.layer_norm"),
    ("projection", "post_extract_proj", "feature_projection.projection"),
    ("mask_embedding", "mask_emb", "masked_spec_embed"),
    ("encoder.positions.bias", "encoder.pos_conv.0.bias", "encoder.pos_conv_embed.conv.bias"),
    (
        "encoder.positions.norm",
        "encoder.pos_conv.0.weight_g",
        "encoder.pos_conv_embed.conv.parametrizations.weight.original0",
    ),
    (
        "encoder.positions.direction",
        "encoder.pos_conv.0.weight_v",
        "encoder.pos_conv_embed.conv.parametrizations.weight.original1",
    ),
    ("encoder.positions.layers.{}", "encoder.pos_conv.{}.0", "encoder.pos_conv_embed.layers.{}.conv"),  # data2vec
    (
        "encoder.relative.embedding",
        "encoder.layers.0.self_attn.relative_attention_bias.weight",
        "encoder.layers.0.attention.rel_attn_embed.weight",
    ),
    ("encoder.norm", "encoder.layer_norm", "encoder.layer_norm"),
    ("encoder.shortening.down", "encoder.downsample_layer.linear", "encoder.downsample_layer.linear"),
    ("encoder.shortening.up", "encoder.upsample_layer.linear", "encoder.upsample_layer.linear"),
    *((f"encoder.layers.{{}}.{a}", f"encoder.layers.{{}}.{b}", f"encoder.layers.{{}}.{c}") for a, b, c in _OF_LAYER),
)
_OUTSIDE = (
    ("quantizer.codes_GVE", "quantizer.vars", "quantizer.codevectors"),
    ("quantizer.scores", "quantizer.weight_proj", "quantizer.weight_proj"),
    ("project_codes", "project_q", "project_q"),
    ("project_context", "final_proj", "project_hid"),
    ("head", CTC_HEAD.removesuffix("."), "lm_head"),
)
# Fairseq has the normalisation of a layer of the extractor in one of two places, by its kind.
_NORM, _HF_NORM = "extractor.layers.{}.norm", "feature_extractor.conv_layers.{}.layer_norm"
_FAIRSEQ_NORMS = {"group": "feature_extractor.conv_layers.{}.2", "layer": "feature_extractor.conv_layers.{}.2.1"}

_TAPS = re.compile(rf"{re.escape(BACKBONE)}extractor\.layers\.\d+\.weight")
_QKV = re.compile(rf"({re.escape(BACKBONE)}encoder\.layers\.\d+\.attention\.)qkv\.(weight|bias)")
_STACK = re.compile(r"encoder\.(layers|hourglass_layers|post_layers)\.(\d{1,4})\.")
_STACKS = ("layers", "hourglass_layers", "post_layers")


def unknown_labels(n_labels: int) -> tuple[str, ...]:
    """Names for labels of which only the number is known."""
    return tuple(f"<{index}>" for index in range(n_labels))


def without_prefixes(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Fairseq's weights, in float32, without what fine-tuning and data-parallel training put before their names."""
    return {n.removeprefix("module.").removeprefix(CTC_BACKBONE): tensor.float() for n, tensor in weights.items()}


def stack_sizes(names: Iterable[str]) -> tuple[int, int, int]:
    """Layers in Fairseq's three stacks: ordinary ones (or before an hourglass), inside it, after it."""
    sizes = dict.fromkeys(_STACKS, 0)
    for name in names:
        if found := _STACK.match(name):
            sizes[found[1]] = max(sizes[found[1]], int(found[2]) + 1)
    return sizes["layers"], sizes["hourglass_layers"], sizes["post_layers"]


def from_fairseq(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Our names for Fairseq's `weights` (see `without_prefixes`); what has none keeps its own."""
    before, shortened, _ = stack_sizes(weights)
    offsets = dict(zip(_STACKS, (0, before, before + shortened), strict=True))

    def numbered_through(found: re.Match[str]) -> str:
        return f"encoder.layers.{offsets[found[1]] + int(found[2])}."

    return _to_ours({_STACK.sub(numbered_through, name): w for name, w in weights.items()}, _FAIRSEQ, config)


def to_fairseq(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Fairseq's names for our `weights`, without the prefixes of fine-tuning. Not for an hourglass."""
    return _from_ours(weights, _FAIRSEQ, config)


def from_huggingface(weights: Mapping[str, Tensor], config: ModelConfig, backbone: str = BACKBONE) -> dict[str, Tensor]:
    """Our names for those of any of Hugging Face's classes, in float32; what has none keeps its own.

    `backbone` is the prefix of the network in classes that have more: "hubert." in HubertForCTC.
    """
    is_bare = not any(name.startswith(backbone) for name in weights)
    named = {}
    for name, tensor in weights.items():
        name = f"{BACKBONE}{name}" if is_bare else re.sub(f"^{re.escape(backbone)}", BACKBONE, name)
        for old, new in (("weight_g", "original0"), ("weight_v", "original1")):  # as before torch 2.0
            name = name.replace(f".conv.{old}", f".conv.parametrizations.weight.{new}")
        named[name] = tensor.float()
    return _to_ours(named, _HF, config)


def to_huggingface(weights: Mapping[str, Tensor], config: ModelConfig, backbone: str = BACKBONE) -> dict[str, Tensor]:
    """The names of Hugging Face's classes for pre-training and CTC for our `weights`. Not for an hourglass."""
    theirs = _from_ours(weights, _HF, config)
    return {re.sub(f"^{re.escape(BACKBONE)}", backbone, name): tensor for name, tensor in theirs.items()}


def _to_ours(weights: Mapping[str, Tensor], source: int, config: ModelConfig) -> dict[str, Tensor]:
    """From one of the other names, with weights as they are here."""
    table, ours = _table(source, _OURS, config), dict[str, Tensor]()
    for name, tensor in weights.items():
        name = _renamed(name, table)
        if _TAPS.fullmatch(name):
            tensor = tensor.transpose(1, 2).contiguous()
        elif name == "quantizer.codes_GVE":
            tensor = tensor.view(config.codebooks, config.codebook_size, -1)
        ours[name] = tensor
    for first in [name for name in ours if ".attention.q." in name]:
        three = [first.replace(".attention.q.", f".attention.{part}.") for part in "qkv"]
        if all(name in ours for name in three):
            ours[first.replace(".q.", ".qkv.")] = torch.cat([ours.pop(name) for name in three])
    return ours


def _from_ours(weights: Mapping[str, Tensor], target: int, config: ModelConfig) -> dict[str, Tensor]:
    table, theirs = _table(_OURS, target, config), dict[str, Tensor]()
    for name, tensor in weights.items():
        if found := _QKV.fullmatch(name):
            for part, third in zip("qkv", tensor.chunk(3), strict=True):
                theirs[_renamed(f"{found[1]}{part}.{found[2]}", table)] = third.contiguous()
            continue
        if _TAPS.fullmatch(name):
            tensor = tensor.transpose(1, 2).contiguous()
        elif name == "quantizer.codes_GVE":
            tensor = tensor.flatten(0, 1).unsqueeze(0)
        theirs[_renamed(name, table)] = tensor
    return theirs


def _table(source: int, target: int, config: ModelConfig) -> dict[str, str]:
    """Names of one kind by those of another. The network has its prefix here and in Hugging Face's classes."""
    norms = ((_NORM, fairseq, _HF_NORM) for kind, fairseq in _FAIRSEQ_NORMS.items() if kind == config.extractor_norm)
    inside = (tuple(map("".join, zip((BACKBONE, "", BACKBONE), row, strict=True))) for row in (*_INSIDE, *norms))
    return {row[source]: row[target] for row in (*inside, *_OUTSIDE)}


def _renamed(name: str, table: Mapping[str, str]) -> str:
    """`name`, a parameter or that of a module in `table`, by its new name; itself if it is neither."""
    number = re.search(r"\.(\d{1,4})\.", name)
    template = name if number is None else f"{name[: number.start(1)]}{{}}{name[number.end(1) :]}"
    for whole in (name, template):
        module, _, parameter = whole.rpartition(".")
        if new := table.get(whole) or (module in table and f"{table[module]}.{parameter}"):
            return new.replace("{}", number[1]) if number is not None else new
    return name
