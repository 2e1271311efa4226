"""Layers of random shapes are what they are in float64, whatever the plan; the C++ tests pass under sanitizers."""

import random

import pytest
import torch
from torch.nn import functional as F

from common.convolution import library, native
from common.convolution.operator import FusedConvolution, Lengths, prepare
from ctc.native import find_compiler
from tests import sanitized

NOISE = {"fp32": 2e-5, "bf16": 0.06, "int8": 0.3}  # of the root of the sum of squares of an output's products


@pytest.mark.skipif(native.load() is None, reason="the native library was never built")
@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("seed", range(16))
def test_layers_of_random_shapes(kind, seed):
    draw, sizes = random.Random(seed), [1, 3, 8, 16, 29, 31, 32, 33, 64, 65, 100]
    torch.manual_seed(seed)
    taps, channels, filters = draw.choice([1, 1, 2, 3, 4, 5, 8, 11, 17, 30]), draw.choice(sizes), draw.choice(sizes)
    stride, dilation = draw.choice([1, 1, 1, 2, 3]), draw.choice([1, 1, 2, 5])
    before, after = (draw.choice([0, taps // 2 * dilation, draw.randrange(40)]) for _ in range(2))
    frames, slope = (taps - 1) * dilation + 1 + draw.randrange(200), draw.choice([1.0, 0.1])
    weight_OIK, bias_O = torch.randn(filters, channels, taps), torch.randn(filters)
    layer = FusedConvolution(
        weight_OIK, bias_O, stride=stride, dilation=dilation, before=before, after=after, frames=draw.choice([10, 300])
    )
    prepare(layer, kind)
    x_BTI, outputs = torch.randn(2, frames, channels), layer.outputs(frames)
    frames_B = torch.tensor([outputs, draw.randrange(outputs + 1)])
    mask_BS1 = (torch.arange(outputs) < frames_B[:, None])[..., None].float()
    found_BSO = layer(x_BTI, Lengths(frames_B, mask_BS1), input_slope=slope)

    def direct(x_BTI: torch.Tensor, weight_OIK: torch.Tensor) -> torch.Tensor:
        padded_BIT = F.pad(x_BTI.mT.double(), (before, after))
        return F.conv1d(padded_BIT, weight_OIK.double(), None, stride, 0, dilation).mT

    heard_BTI = F.leaky_relu(x_BTI, slope)
    expected_BSO = (direct(heard_BTI, weight_OIK) + bias_O) * mask_BS1
    size_BSO = (direct(heard_BTI.square(), weight_OIK.square()) + 1).sqrt()
    assert ((found_BSO - expected_BSO).abs() / size_BSO).max() < NOISE[kind]


@pytest.mark.timeout(600)
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_the_c_tests_pass_under_sanitizers():
    sanitized.run_programs("common.convolution", library.LIBRARY, count=100)
