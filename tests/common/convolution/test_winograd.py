import copy

import pytest
import torch
from torch.nn import functional as F

from common.convolution import products
from common.convolution.winograd import WinogradConvolution


@pytest.mark.parametrize("has_fast_products", [True, False])
@pytest.mark.parametrize("positions", [1, 2, 3, 4, 5, 8, 31, 130])
def test_it_computes_what_conv1d_does(positions, has_fast_products, monkeypatch):
    monkeypatch.setattr(products, "has_fast_products", lambda: has_fast_products)
    torch.manual_seed(positions)
    convolution = WinogradConvolution(24, 40, 3)
    x_BTI = torch.randn(3, positions, 24, requires_grad=True)
    expected = F.conv1d(x_BTI.double().mT, convolution.weight.double(), convolution.bias.double(), padding=1).mT
    found = convolution(x_BTI)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-6)
    weights_BTO = torch.randn_like(found)
    leaves = (x_BTI, convolution.weight, convolution.bias)
    gradients = torch.autograd.grad((found * weights_BTO).sum(), leaves)
    for gradient, exact in zip(gradients, torch.autograd.grad((expected * weights_BTO).sum(), leaves), strict=True):
        torch.testing.assert_close(gradient, exact, rtol=0, atol=1e-5 * float(exact.abs().max()))


@pytest.mark.parametrize("kernel", [1, 5])
def test_other_kernels_are_convolved_directly(kernel):
    convolution = WinogradConvolution(6, 8, kernel)
    x_BTI = torch.randn(2, 11, 6)
    expected = F.conv1d(x_BTI.mT, convolution.weight, convolution.bias, padding=kernel // 2).mT
    assert torch.equal(convolution(x_BTI), expected)


@torch.no_grad()
def test_weights_that_change_between_two_calls_count():
    convolution, x_BTI = WinogradConvolution(6, 8, 3), torch.randn(2, 11, 6)
    before = convolution(x_BTI)
    convolution.weight.mul_(2)
    convolution.bias.mul_(2)
    torch.testing.assert_close(convolution(x_BTI), 2 * before)
    other = copy.deepcopy(convolution)
    other.weight.mul_(2)
    other.bias.mul_(2)
    torch.testing.assert_close(other(x_BTI), 4 * before)


def test_gradients_reach_the_input_of_frozen_weights_used_in_inference_before():
    convolution = WinogradConvolution(6, 8, 3).requires_grad_(False)
    with torch.inference_mode():
        convolution(torch.randn(2, 11, 6))
    x_BTI = torch.randn(2, 11, 6, requires_grad=True)
    convolution(x_BTI).sum().backward()
    assert x_BTI.grad.abs().sum() > 0


def test_a_traced_network_convolves_directly():
    convolution, x_BTI = WinogradConvolution(6, 8, 3).eval().requires_grad_(False), torch.randn(2, 11, 6)
    traced = torch.jit.trace(convolution, x_BTI)
    longer_BTI = torch.randn(2, 30, 6)
    torch.testing.assert_close(traced(longer_BTI), convolution(longer_BTI))
    assert "unfold" not in str(traced.inlined_graph)


def test_weights_that_were_made_in_inference_mode_may_change():
    with torch.inference_mode():
        convolution = WinogradConvolution(64, 64, 3)
        x_BTI = torch.randn(1, 40, 64)
        before = convolution(x_BTI)
        convolution.weight.mul_(2)
        convolution.bias.mul_(2)
        torch.testing.assert_close(convolution(x_BTI), 2 * before)
