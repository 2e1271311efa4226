"""Layers in training: values and gradients against torch's in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution import native, products
from common.convolution.linear import Linear
from common.convolution.training import layers as trained

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native library was never built")


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def agrees(found_of: Callable[..., Tensor], exact_of: Callable[..., Tensor], given: list[Tensor]) -> None:
    """Value and gradients to 1e-5 of the greatest of each."""
    doubles = [leaf.detach().double().requires_grad_(leaf.requires_grad) for leaf in given]
    found, exact = found_of(*given), exact_of(*doubles)
    weights = torch.randn_like(found)
    learned, exactly = ([leaf for leaf in side if leaf.requires_grad] for side in (given, doubles))
    gradients = torch.autograd.grad((found * weights).sum(), learned)
    wanted = torch.autograd.grad((exact * weights.double()).sum(), exactly)
    for ours, theirs in zip((found, *gradients), (exact, *wanted), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-5 * float(theirs.detach().abs().max()))


@pytest.mark.parametrize("activation", ["identity", "gelu"])
def test_a_linear_layer(activation):
    after = F.gelu if activation == "gelu" else nn.Identity()
    agrees(
        lambda *given: trained.linear(*given, activation),
        lambda *given: after(F.linear(*given)),
        leaves((2, 75, 40), (70, 40), (70,)),
    )


def test_only_what_is_asked_for_gets_a_gradient():
    x_RI, weight_OI, bias_O = leaves((50, 40), (70, 40), (70,))
    weight_OI.requires_grad_(False)
    trained.linear(x_RI, weight_OI, bias_O, "gelu").sum().backward()
    assert weight_OI.grad is None
    assert x_RI.grad is not None


def test_a_layer_learns_by_it_where_products_are_slow(monkeypatch):
    torch.manual_seed(0)
    layer, x_BTI = Linear(64, 96), torch.randn(4, 200, 64)
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    with products.left_to_torch():
        expected = layer(x_BTI, "gelu")
    found = layer(x_BTI, "gelu")
    assert type(found.grad_fn.next_functions[0][0]).__name__.startswith("_Linear")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
