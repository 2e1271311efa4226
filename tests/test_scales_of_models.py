"""Networks whose inner channels have other scales, and so the same function, keep their precision once they are packed.

What feeds a channel is multiplied by 10^(s n), n normal, and what reads it is divided by that, as folded batch
normalisation leaves networks. Errors are those of the network in float64, beside those of torch's convolutions.
"""

import copy
import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from common.convolution import native, products
from common.devices.precision import cast_for_inference
from fastpitch.acoustic.config import TransformerConfig
from fastpitch.acoustic.transformer import Layer
from fastpitch.vocoders.networks.config import HifiganConfig, WaveglowConfig
from fastpitch.vocoders.networks.fused import FusedHifigan
from fastpitch.vocoders.networks.fused_waveglow import FusedWaveglow
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.waveglow import Waveglow
from jasper.config import BlockConfig, ModelConfig
from jasper.network.fused import fuse
from jasper.network.model import ConvNorm, Jasper
from tests.fastpitch.vocoders.small import loud, random_mel

pytestmark = [pytest.mark.slow, pytest.mark.skipif(native.load() is None, reason="the native library was never built")]
MOST = {"fp32": 4.0, "bf16": 1.5}  # times torch's own error
MOST_INT8 = 0.04  # of the greatest value
Gains = Callable[[int], Tensor]


class Family(NamedTuple):
    """A network, what makes it ready to be packed, and what it gives."""

    network: nn.Module
    fused: Callable[[nn.Module], nn.Module]
    output: Callable[[nn.Module, torch.dtype], Tensor]


def divide(convolution: nn.Module, gain_I: Tensor) -> None:
    weight_OIK = convolution.weight
    assert isinstance(weight_OIK, Tensor)
    weight_OIK.data /= gain_I[:, None, None] if weight_OIK.shape[1] == 1 else gain_I[None, :, None]


def multiply(parameters: Iterable[Tensor | None], gain_O: Tensor) -> None:
    for parameter in parameters:
        if parameter is not None:
            parameter.data *= gain_O.view(-1, *[1] * (parameter.ndim - 1))


def recogniser(gains: Gains, *, separable: bool) -> Family:
    def block(filters: int, kernel: int, repeat: int = 3) -> BlockConfig:
        return BlockConfig(filters=filters, kernel=kernel, repeat=repeat, residual="dense", separable=separable)

    stem = BlockConfig(filters=96, kernel=11, stride=2, separable=separable)
    blocks = stem, block(96, 11), block(96, 3), block(128, 17), BlockConfig(filters=128, kernel=1)
    network = Jasper(ModelConfig(blocks=blocks), n_mels=64).eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_var.uniform_(0.5, 2.0)
    for each in network.blocks:
        layers = [layer for layer in each.layers if isinstance(layer, ConvNorm)]
        for layer, following in itertools.pairwise(layers):
            gain_C = gains(layer.conv.out_channels)
            multiply(layer.norm.parameters(), gain_C)
            divide(following.depthwise or following.conv, gain_C)
    features_BFT, frames_B = torch.randn(2, 64, 300), torch.tensor([300, 170])
    return Family(network, fuse, lambda made, dtype: made(features_BFT.to(dtype), frames_B).log_probs_BSV)


def hifigan(gains: Gains) -> Family:
    network = loud(HifiganGenerator(HifiganConfig(channels=128), 80)).eval()
    for blocks in network.resblocks:
        for block in blocks:
            for first, second in zip(block.convs1, block.convs2, strict=True):
                gain_C = gains(first.out_channels)
                multiply(first.parameters(), gain_C)
                divide(second, gain_C)
    mel_BMT = random_mel(1, 80, 24)
    return Family(network, FusedHifigan, lambda made, dtype: made(mel_BMT.to(dtype)))


def waveglow(gains: Gains) -> Family:
    """What a coupling network adds up for its layers, and what it adds up for its end: gates allow nothing else."""
    network = loud(Waveglow(WaveglowConfig(flows=4, channels=64, layers=4), 16, 64)).eval()
    for coupling in network.WN:
        width = coupling.start.out_channels
        layers_C, end_C = gains(width), gains(width)
        multiply(coupling.start.parameters(), layers_C)
        for conv in coupling.in_layers:
            divide(conv, layers_C)
        for conv in coupling.res_skip_layers:
            multiply(conv.parameters(), torch.cat([layers_C, end_C])[-conv.out_channels :])
        divide(coupling.end, end_C)
    mel_BMT, z_BGP = random_mel(1, 16, 24), 0.7 * torch.randn(1, 8, 24 * 64 // 8)
    return Family(network, FusedWaveglow, lambda made, dtype: made.inverse(mel_BMT.to(dtype), z_BGP.to(dtype)))


class Layers(nn.Sequential):
    """FastPitch's, which pack their convolutions themselves."""

    def forward(self, x_BTC: Tensor) -> Tensor:
        inside_BT = torch.ones(x_BTC.shape[:2], dtype=torch.bool)
        for layer in self:
            x_BTC = layer(x_BTC, inside_BT, *[inside_BT[..., None].to(x_BTC.dtype)] * 2)
        return x_BTC


def fastpitch(gains: Gains) -> Family:
    network = Layers(*(Layer(192, TransformerConfig(filter_channels=768)) for _ in range(3))).eval()
    for layer in network:
        gain_C = gains(768)
        multiply(layer.widen.parameters(), gain_C)
        divide(layer.narrow, gain_C)
    x_BTC = torch.randn(1, 300, 192)
    return Family(network, lambda layers: layers, lambda made, dtype: made(x_BTC.to(dtype)))


FAMILIES: dict[str, Callable[[Gains], Family]] = {
    "jasper": lambda gains: recogniser(gains, separable=False),
    "quartznet": lambda gains: recogniser(gains, separable=True),
    "hifigan": hifigan,
    "waveglow": waveglow,
    "fastpitch": fastpitch,
}


@torch.no_grad()
@pytest.mark.parametrize("instructions", ["automatic", "avx2"])
@pytest.mark.parametrize("deviation", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_rescaled_networks_are_as_exact_as_torch_s(name, deviation, instructions, monkeypatch):
    if native.best_instructions() == "generic" and instructions != "automatic":
        pytest.skip("this processor lacks the instructions")
    torch.manual_seed(0)
    family = FAMILIES[name](lambda count: 10 ** (deviation * torch.randn(count)))

    def error(found: Tensor) -> float:
        return float((found - exact).abs().max() / exact.abs().max())

    exact = family.output(copy.deepcopy(family.network).double(), torch.float64)
    for kind in ("fp32", "bf16", "int8") if name != "fastpitch" else ("fp32",):
        dtype = torch.bfloat16 if kind == "bf16" else torch.float32
        packed = cast_for_inference(family.fused(copy.deepcopy(family.network)), kind, instructions)
        found = error(family.output(packed, torch.float32))
        with monkeypatch.context() as plain:
            plain.setattr(products, "runs_eagerly", lambda x: False)  # so that torch convolves
            torchs = error(family.output(copy.deepcopy(family.network).to(dtype), dtype))
        assert found <= (MOST_INT8 if kind == "int8" else MOST[kind] * torchs), kind
