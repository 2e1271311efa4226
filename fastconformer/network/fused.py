"""A trained model, prepared for inference: fewer operations, the same result up to rounding.

Batch normalisation goes into the depthwise convolution before it, halves of the feed-forward modules, the scale of
the attention and that of the input into the weights before them; projected positions are kept.
"""

import copy
import sys

import torch
from torch import Tensor, nn

from common.config import ConfigError
from common.convolution import native
from common.convolution.linear import Linear, pack_linear
from common.devices.precision import NO_INT8, InferencePrecision, cast_for_inference
from fastconformer.network.encoder import ConformerBlock, FastConformer
from fastconformer.network.model import Model


@torch.no_grad()
def fuse(model: Model) -> Model:
    """A copy of `model` in evaluation mode that cannot be trained. `model` stays as it is."""
    fused = copy.deepcopy(model).eval().requires_grad_(False)
    project = fused.encoder.subsampling.project
    _scale(project, fused.encoder.input_scale)
    fused.encoder.input_scale = 1.0
    for block in fused.encoder.blocks:
        assert isinstance(block, ConformerBlock)
        for feed_forward in (block.feed_forward_in, block.feed_forward_out):
            _scale(feed_forward.leave, block.share)
        block.share = 1.0
        attention = block.attention
        width = attention.qkv.in_features
        for tensor in (attention.qkv.weight[:width], attention.content_bias_HD, attention.position_bias_HD):
            tensor.mul_(attention.scale)
        if attention.qkv.bias is not None:
            attention.qkv.bias[:width].mul_(attention.scale)
        attention.scale = 1.0
        attention.keeps_positions = True
        convolution = block.convolution
        if isinstance(convolution.norm, nn.BatchNorm1d):
            convolution.depthwise = _with_norm(convolution.depthwise, convolution.norm)
            convolution.norm = nn.Identity()
    return fused


def cast(encoder: FastConformer, precision: InferencePrecision) -> FastConformer:
    """`encoder` itself, cast once for inference; of bf16 and fp16 what is inside of the modules of the blocks alone.

    The frames that modules are added to, their layer normalisation and what subsamples stay in float32: rounding
    these to bf16 was a third of its error, and on a CPU float32 takes no longer there. Of int8, linear layers of the
    blocks multiply bytes, and all else is float32. Raises ConfigError for int8 that is not on a CPU, or has no library.
    """
    if precision == "int8":
        if not encoder.subsampling.project.weight.is_cpu or native.load() is None:
            raise ConfigError(NO_INT8)
        linear = {name: own for name, own in encoder.blocks.named_modules() if isinstance(own, Linear)}
        # Positions are projected once, and kept.
        kept = [name for name, own in linear.items() if not name.endswith("positions") and not own.pack("int8")]
        if kept:
            print(f"int8: in higher precision: {', '.join(kept)}", file=sys.stderr)
        precision = "fp32"
    if precision not in ("bf16", "fp16"):
        return cast_for_inference(encoder, precision)
    exact: list[nn.Module] = [encoder.subsampling]
    for block in encoder.blocks:
        assert isinstance(block, ConformerBlock)
        exact += [block.feed_forward_in.norm, block.attention_norm, block.convolution.norm_in]
        exact += [block.feed_forward_out.norm, block.norm]
    weights = [copy.deepcopy(module.state_dict()) for module in exact]
    cast_for_inference(encoder, precision)
    for module, own in zip(exact, weights, strict=True):
        module.float().load_state_dict(own)
    pack_linear(encoder.subsampling)
    return encoder


def _scale(layer: nn.Linear, factor: float) -> None:
    layer.weight.mul_(factor)
    if layer.bias is not None:
        layer.bias.mul_(factor)


def _with_norm(conv: nn.Conv1d, norm: nn.BatchNorm1d) -> nn.Conv1d:
    assert norm.running_var is not None
    assert norm.running_mean is not None
    # In float64, and rounded once.
    factor_C = norm.weight.double() * (norm.running_var.double() + norm.eps).rsqrt()
    bias_C: Tensor = torch.zeros_like(factor_C) if conv.bias is None else conv.bias.double()
    bias_C = (bias_C - norm.running_mean.double()) * factor_C + norm.bias.double()
    weight = conv.weight.double() * factor_C[:, None, None]
    conv.weight = nn.Parameter(weight.to(conv.weight.dtype), requires_grad=False)
    conv.bias = nn.Parameter(bias_C.to(conv.weight.dtype), requires_grad=False)
    return conv
