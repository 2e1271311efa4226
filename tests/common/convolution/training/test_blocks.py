"""Convolutions that train with fewer multiplications: values and gradients against float64."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution import native, products
from common.convolution.training import blocks

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native library was never built")
# Utterances, channels in and out, taps, frames, frames of a block.
CASES = [(2, 64, 70, 9, 50, 24), (3, 40, 33, 5, 17, 16), (1, 64, 64, 25, 103, 48), (2, 70, 64, 11, 28, 24)]
SHORT = (1, 64, 64, 11, 3, 24)


@pytest.fixture(autouse=True)
def one_slow_thread(monkeypatch):
    """As a training in one thread of a processor where MKL is slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    yield
    torch.set_num_threads(before)


def layer(channels: int, filters: int, taps: int) -> nn.Conv1d:
    torch.manual_seed(0)
    return nn.Conv1d(channels, filters, taps, padding=taps // 2, bias=False)


def by_blocks(convolution: nn.Conv1d, x_NIT: Tensor, block: int) -> Tensor:
    return blocks._Blocks.apply(x_NIT, convolution.weight, convolution.padding[0], block)


@pytest.mark.parametrize("has_many_rows", [False, True])
@pytest.mark.parametrize("case", [*CASES, SHORT])
def test_values_and_gradients_are_those_of_the_sum_as_it_is_defined(case, has_many_rows, monkeypatch):
    if has_many_rows:
        monkeypatch.setattr(blocks, "CACHED_BYTES", 1)
        monkeypatch.setattr(blocks, "KEPT_BYTES", 1)  # so that the input at the points is made anew
        monkeypatch.setattr(blocks, "CHUNK_BYTES", 1)  # so that points are worked on in several parts
    utterances, channels, filters, taps, frames, block = case
    convolution = layer(channels, filters, taps)
    x_NIT = torch.randn(utterances, channels, frames, requires_grad=True)
    found_NOS = by_blocks(convolution, x_NIT, block)
    exact_leaves = x_NIT.detach().double().requires_grad_(), convolution.weight.detach().double().requires_grad_()
    exact_NOS = F.conv1d(*exact_leaves, padding=taps // 2)
    weights_NOS = torch.randn_like(found_NOS)
    gradients = torch.autograd.grad((found_NOS * weights_NOS).sum(), (x_NIT, convolution.weight))
    wanted = torch.autograd.grad((exact_NOS * weights_NOS.double()).sum(), exact_leaves)
    for ours, exact in zip((found_NOS, *gradients), (exact_NOS, *wanted), strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=0, atol=3e-6 * float(exact.detach().abs().max()))


def test_an_utterance_is_the_same_alone_and_in_a_batch_with_what_stands_beyond_it():
    convolution, x_NIT = layer(64, 64, 9), torch.randn(3, 64, 61)
    x_NIT[1, :, 40:] = 0
    together = by_blocks(convolution, x_NIT, 24)
    torch.testing.assert_close(by_blocks(convolution, x_NIT[1:2], 24)[0], together[1], rtol=0, atol=1e-6)
    alone = by_blocks(convolution, x_NIT[1:2, :, :40], 24)[0]
    torch.testing.assert_close(alone, together[1, :, :40], rtol=0, atol=2e-6)


@pytest.mark.parametrize(("needs_x", "needs_weight"), [(True, False), (False, True)])
def test_only_what_is_asked_for_gets_a_gradient(needs_x, needs_weight):
    convolution, x_NIT = layer(64, 64, 9), torch.randn(2, 64, 61, requires_grad=needs_x)
    convolution.weight.requires_grad_(needs_weight)
    by_blocks(convolution, x_NIT, 24).sum().backward()
    assert (x_NIT.grad is not None, convolution.weight.grad is not None) == (needs_x, needs_weight)


def test_wide_layers_train_so_and_others_as_they_did(monkeypatch):
    wide, x_NIT = layer(128, 128, 11), torch.randn(8, 128, 105)
    assert type(blocks.convolved(wide, x_NIT).grad_fn).__name__.startswith("_Blocks")
    torch.testing.assert_close(blocks.convolved(wide, x_NIT), wide(x_NIT), rtol=0, atol=1e-5)
    others = layer(8, 8, 11), layer(128, 128, 3), nn.Conv1d(128, 128, 11, stride=2, padding=5, bias=False)
    others += (nn.Conv1d(128, 128, 11, padding=5, bias=False, padding_mode="circular"),)
    others += nn.Conv1d(128, 128, 11, padding=5), nn.Conv1d(128, 128, 11, padding=9, dilation=2, bias=False)
    for other in others:
        x = torch.randn(8, other.in_channels, 105)
        assert torch.equal(blocks.convolved(other, x), other(x))
    with products.left_to_torch():
        assert torch.equal(blocks.convolved(wide, x_NIT), wide(x_NIT))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(blocks.convolved(wide, x_NIT), wide(x_NIT))
    torch.set_num_threads(2)
    assert torch.equal(blocks.convolved(wide, x_NIT), wide(x_NIT))


@pytest.mark.parametrize(("frames", "dilation"), [(61, 2), (60, 3), (1, 2)])
def test_dilated_frames_are_utterances_of_their_own(frames, dilation, monkeypatch):
    monkeypatch.setattr(blocks, "fastest", lambda *_: 24)
    torch.manual_seed(0)
    convolution = nn.Conv1d(64, 70, 9, padding=4 * dilation, dilation=dilation, bias=False)
    x_NIT = torch.randn(2, 64, frames, requires_grad=True)
    found_NOS, exact_NOS = blocks.convolved(convolution, x_NIT), convolution(x_NIT)
    assert "Convolution" not in type(found_NOS.grad_fn).__name__
    torch.testing.assert_close(found_NOS, exact_NOS, rtol=0, atol=1e-5)
    weights_NOS, leaves = torch.randn_like(found_NOS), (x_NIT, convolution.weight)
    wanted = torch.autograd.grad((exact_NOS * weights_NOS).sum(), leaves)
    for ours, exact in zip(torch.autograd.grad((found_NOS * weights_NOS).sum(), leaves), wanted, strict=True):
        torch.testing.assert_close(ours, exact, rtol=0, atol=1e-5 * float(exact.abs().max()))


@pytest.mark.parametrize("outputs", [1, 7, 105, 418, 2000])
def test_some_block_or_the_direct_sum_is_chosen_for_any_length(outputs):
    chosen = blocks.fastest(2, outputs, 256, 256, 11)
    assert chosen is None or chosen >= 15
    assert blocks.fastest(2, outputs, 256, 256, 71) in (None, 142)
    assert blocks.fastest(2, outputs, 256, 256, 129) is None  # of which no block is short enough
