"""Our names of the weights, Fairseq's (which are DeepLearningExamples' too), and Hugging Face's.

Fairseq's are the middle: Hugging Face's names are translated into them and out of them. Queries, keys and values are
one matrix here, the taps of the extractor's convolutions stand before the channels, and the layers around and inside
an hourglass are numbered through.
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

_OUTSIDE = {"quantizer.weight_proj": "quantizer.scores", "project_q": "project_codes", "final_proj": "project_context"}
_INSIDE = {
    "layer_norm": "norm",
    "post_extract_proj": "projection",
    "mask_emb": "mask_embedding",
    "encoder.pos_conv.0.bias": "encoder.positions.bias",
    "encoder.pos_conv.0.weight_g": "encoder.positions.norm",
    "encoder.pos_conv.0.weight_v": "encoder.positions.direction",
    "encoder.layer_norm": "encoder.norm",
    "encoder.downsample_layer.linear": "encoder.shortening.down",
    "encoder.upsample_layer.linear": "encoder.shortening.up",
}
_LAYER_PARTS = {
    "self_attn.out_proj": "attention.out",
    "self_attn_layer_norm": "attention_norm",
    "fc1": "fc1",
    "fc2": "fc2",
    "final_layer_norm": "final_norm",
}
_QKV = tuple(f"self_attn.{part}_proj" for part in "qkv")
_CONV = re.compile(r"feature_extractor\.conv_layers\.(\d+)\.(0|2|2\.1)\.(weight|bias)")
_LAYER = re.compile(r"encoder\.(layers|hourglass_layers|post_layers)\.(\d{1,4})\.(.+)\.(weight|bias)")
_STACKS = ("layers", "hourglass_layers", "post_layers")

_HF_MODULES = {
    "layer_norm": "wav2vec2.feature_projection.layer_norm",
    "post_extract_proj": "wav2vec2.feature_projection.projection",
    "mask_emb": "wav2vec2.masked_spec_embed",
    "encoder.pos_conv.0.bias": "wav2vec2.encoder.pos_conv_embed.conv.bias",
    "encoder.pos_conv.0.weight_g": "wav2vec2.encoder.pos_conv_embed.conv.parametrizations.weight.original0",
    "encoder.pos_conv.0.weight_v": "wav2vec2.encoder.pos_conv_embed.conv.parametrizations.weight.original1",
    "encoder.layer_norm": "wav2vec2.encoder.layer_norm",
    "quantizer.vars": "quantizer.codevectors",
    "quantizer.weight_proj": "quantizer.weight_proj",
    "project_q": "project_q",
    "final_proj": "project_hid",
    "w2v_encoder.proj": "lm_head",
}
_HF_LAYER_PARTS = {
    "self_attn.q_proj": "attention.q_proj",
    "self_attn.k_proj": "attention.k_proj",
    "self_attn.v_proj": "attention.v_proj",
    "self_attn.out_proj": "attention.out_proj",
    "self_attn_layer_norm": "layer_norm",
    "fc1": "feed_forward.intermediate_dense",
    "fc2": "feed_forward.output_dense",
    "final_layer_norm": "final_layer_norm",
}
# What models of the same kind have besides, WavLM, data2vec-audio and MMS: our names, Fairseq's, and Hugging Face's.
_KIN = (
    (
        "wav2vec2.encoder.relative.embedding",
        "encoder.layers.0.self_attn.relative_attention_bias.weight",
        "wav2vec2.encoder.layers.0.attention.rel_attn_embed.weight",
    ),
    (
        "wav2vec2.encoder.layers.{}.attention.gate.constant",
        "encoder.layers.{}.self_attn.grep_a",
        "wav2vec2.encoder.layers.{}.attention.gru_rel_pos_const",
    ),
    *(
        (f"wav2vec2.encoder.{ours}.{kind}", f"encoder.{theirs}.{kind}", f"wav2vec2.encoder.{hf}.{kind}")
        for ours, theirs, hf in (
            ("positions.layers.{}", "pos_conv.{}.0", "pos_conv_embed.layers.{}.conv"),
            (
                "layers.{}.attention.gate.linear",
                "layers.{}.self_attn.grep_linear",
                "layers.{}.attention.gru_rel_pos_linear",
            ),
            ("layers.{}.adapter.norm", "layers.{}.adapter_layer.norm", "layers.{}.adapter_layer.norm"),
            ("layers.{}.adapter.down", "layers.{}.adapter_layer.linear_1", "layers.{}.adapter_layer.linear_1"),
            ("layers.{}.adapter.up", "layers.{}.adapter_layer.linear_2", "layers.{}.adapter_layer.linear_2"),
        )
        for kind in ("weight", "bias")
    ),
)
_OURS, _FAIRSEQ, _HF = 0, 1, 2
_HF_CONV = re.compile(r"wav2vec2\.feature_extractor\.conv_layers\.(\d+)\.(conv|layer_norm)\.(weight|bias)")
_HF_LAYER = re.compile(r"wav2vec2\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)")


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
        if found := _LAYER.fullmatch(name):
            sizes[found[1]] = max(sizes[found[1]], int(found[2]) + 1)
    return sizes["layers"], sizes["hourglass_layers"], sizes["post_layers"]


def from_fairseq(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Our names for Fairseq's `weights` (see `without_prefixes`); what has none keeps its own."""
    before, shortened, _ = stack_sizes(weights)
    offsets = dict(zip(_STACKS, (0, before, before + shortened), strict=True))
    ours: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if kin := _of_kin(name, _FAIRSEQ, _OURS):
            ours[kin] = tensor
        elif found := _CONV.fullmatch(name):
            layer, part, kind = found.groups()
            is_taps = part == "0" and kind == "weight"
            key = f"{BACKBONE}extractor.layers.{layer}.{'' if part == '0' else 'norm.'}{kind}"
            ours[key] = tensor.transpose(1, 2).contiguous() if is_taps else tensor
        elif found := _LAYER.fullmatch(name):
            stack, layer, part, kind = found.groups()
            prefix = f"{BACKBONE}encoder.layers.{offsets[stack] + int(layer)}"
            if part in _QKV:
                together = [weights.get(f"encoder.{stack}.{layer}.{p}.{kind}") for p in _QKV]
                if part == _QKV[0] and all(t is not None for t in together):
                    ours[f"{prefix}.attention.qkv.{kind}"] = torch.cat([t for t in together if t is not None])
            else:
                ours[f"{prefix}.{_LAYER_PARTS.get(part, part)}.{kind}"] = tensor
        elif name == "quantizer.vars":
            ours["quantizer.codes_GVE"] = tensor.view(config.codebooks, config.codebook_size, -1)
        elif name.startswith(CTC_HEAD):
            ours[f"head.{name.removeprefix(CTC_HEAD)}"] = tensor
        else:
            ours[_renamed(name, _INSIDE, BACKBONE) or _renamed(name, _OUTSIDE) or name] = tensor
    return ours


def to_fairseq(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Fairseq's names for our `weights`, without the prefixes of fine-tuning. Not for an hourglass."""
    theirs: dict[str, Tensor] = {}
    parts = {ours: fairseq for fairseq, ours in _LAYER_PARTS.items()}
    inside, outside = ({ours: fairseq for fairseq, ours in table.items()} for table in (_INSIDE, _OUTSIDE))
    for name, tensor in weights.items():
        local = name.removeprefix(BACKBONE)
        if kin := _of_kin(name, _OURS, _FAIRSEQ):
            theirs[kin] = tensor
        elif found := re.fullmatch(r"extractor\.layers\.(\d+)\.(norm\.)?(weight|bias)", local):
            norm = "2" if config.extractor_norm == "group" else "2.1"
            is_taps = not found[2] and found[3] == "weight"
            key = f"feature_extractor.conv_layers.{found[1]}.{norm if found[2] else '0'}.{found[3]}"
            theirs[key] = tensor.transpose(1, 2).contiguous() if is_taps else tensor
        elif found := re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)\.(weight|bias)", local):
            prefix = f"encoder.layers.{found[1]}"
            if found[2] == "attention.qkv":
                for part, third in zip(_QKV, tensor.chunk(3), strict=True):
                    theirs[f"{prefix}.{part}.{found[3]}"] = third.contiguous()
            else:
                theirs[f"{prefix}.{parts[found[2]]}.{found[3]}"] = tensor
        elif local == "quantizer.codes_GVE":
            theirs["quantizer.vars"] = tensor.flatten(0, 1).unsqueeze(0)
        elif local.startswith("head."):
            theirs[CTC_HEAD + local.removeprefix("head.")] = tensor
        else:
            theirs[_renamed(local, inside) or _renamed(local, outside) or local] = tensor
    return theirs


def huggingface_to_fairseq(weights: Mapping[str, Tensor], backbone: str = BACKBONE) -> dict[str, Tensor]:
    """Fairseq's names for those of any of Hugging Face's classes; what has none keeps its own.

    `backbone` is the prefix of the network in classes that have more: "hubert." in HubertForCTC.
    """
    modules = {hf: fairseq for fairseq, hf in _HF_MODULES.items()}
    parts = {hf: fairseq for fairseq, hf in _HF_LAYER_PARTS.items()}
    is_bare = not any(name.startswith(backbone) for name in weights)
    has_every_norm = any("conv_layers.1.layer_norm" in name for name in weights)
    theirs = {}
    for name, tensor in weights.items():
        name = f"{BACKBONE}{name}" if is_bare else re.sub(f"^{re.escape(backbone)}", BACKBONE, name)
        name = name.replace(".conv.weight_g", ".conv.parametrizations.weight.original0")  # as before torch 2.0
        name = name.replace(".conv.weight_v", ".conv.parametrizations.weight.original1")
        if kin := _of_kin(name, _HF, _FAIRSEQ):
            theirs[kin] = tensor.float()
            continue
        if found := _HF_CONV.fullmatch(name):
            part = "0" if found[2] == "conv" else "2.1" if has_every_norm else "2"
            name = f"feature_extractor.conv_layers.{found[1]}.{part}.{found[3]}"
        elif (found := _HF_LAYER.fullmatch(name)) and found[2] in parts:
            name = f"encoder.layers.{found[1]}.{parts[found[2]]}.{found[3]}"
        theirs[_renamed(name, modules) or name] = tensor.float()
    return theirs


def fairseq_to_huggingface(weights: Mapping[str, Tensor], backbone: str = BACKBONE) -> dict[str, Tensor]:
    """The names of Hugging Face's classes for pre-training and CTC for Fairseq's without prefixes."""
    theirs = {}
    for name, tensor in weights.items():
        if kin := _of_kin(name, _FAIRSEQ, _HF):
            name = kin
        elif found := _CONV.fullmatch(name):
            part = "conv" if found[2] == "0" else "layer_norm"
            name = f"{BACKBONE}feature_extractor.conv_layers.{found[1]}.{part}.{found[3]}"
        elif found := _LAYER.fullmatch(name):
            name = f"{BACKBONE}encoder.layers.{found[2]}.{_HF_LAYER_PARTS[found[3]]}.{found[4]}"
        else:
            name = _renamed(name, _HF_MODULES) or name
        theirs[re.sub(f"^{re.escape(BACKBONE)}", backbone, name)] = tensor
    return theirs


def _of_kin(name: str, before: int, after: int) -> str | None:
    """`name` as one of _KIN's others; None if it is none of them."""
    number = re.search(r"\.(\d{1,4})\.", name)
    template = name if number is None else f"{name[: number.start(1)]}{{}}{name[number.end(1) :]}"
    for names in _KIN:
        if names[before] == name:
            return names[after]
        if names[before] == template and number is not None:
            return names[after].replace("{}", number[1])
    return None


def _renamed(name: str, table: Mapping[str, str], prefix: str = "") -> str | None:
    """`name`, a parameter or that of a module in `table`, by its new name; None if it is neither."""
    module, _, parameter = name.rpartition(".")
    if name in table:
        return prefix + table[name]
    return f"{prefix}{table[module]}.{parameter}" if module in table else None
