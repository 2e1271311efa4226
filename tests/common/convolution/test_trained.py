import pytest
import torch
from torch.nn import functional as F

from common.convolution import native, products, trained
from common.convolution.trained import can_be_trained, convolve_trained

pytestmark = pytest.mark.skipif(native.load() is None, reason="needs the native library")


@pytest.mark.parametrize("has_fast_products", [True, False])
@pytest.mark.parametrize(
    ("batch", "frames", "channels", "filters", "taps", "stride", "dilation"),
    [
        (8, 112, 128, 96, 9, 1, 1), (2, 5, 64, 64, 11, 1, 1), (1, 1, 64, 64, 3, 1, 1), (3, 130, 64, 160, 1, 1, 1),
        (4, 300, 128, 128, 25, 1, 1), (2, 90, 64, 64, 29, 1, 2), (2, 91, 64, 128, 11, 2, 1),
    ],
)  # fmt: skip
def test_values_and_gradients_are_those_of_the_direct_sum(
    batch, frames, channels, filters, taps, stride, dilation, has_fast_products, monkeypatch
):
    monkeypatch.setattr(products, "has_fast_products", lambda: has_fast_products)
    trained._block.cache_clear()
    torch.manual_seed(0)
    x_BTI = torch.randn(batch, frames, channels, requires_grad=True)
    weight_OIK = torch.randn(filters, channels, taps, requires_grad=True)
    padding = taps // 2 * dilation
    exact_BTO = F.conv1d(x_BTI.double().mT, weight_OIK.double(), None, stride, padding, dilation).mT
    found_BTO = convolve_trained(x_BTI, weight_OIK, stride, dilation)
    assert found_BTO.is_contiguous()
    gradient_BTO = torch.randn_like(found_BTO)
    exact = torch.autograd.grad(exact_BTO, (x_BTI, weight_OIK), gradient_BTO.double())
    found = torch.autograd.grad(found_BTO, (x_BTI, weight_OIK), gradient_BTO)
    for ours, wanted in zip((found_BTO, *found), (exact_BTO, *exact), strict=True):
        torch.testing.assert_close(
            ours.double(), wanted.double(), rtol=0, atol=2e-6 * float(wanted.detach().abs().max())
        )
    trained._block.cache_clear()


def test_both_ways_to_the_gradient_of_weights_are_tried_by_these_tests():
    assert trained._block(9, 128, 96, 8, 1) == 0
    assert trained._block(25, 128, 128, 4, 512) > 0


def test_what_gains_nothing_by_it_is_left_to_torch():
    x_BCT, weight_OIK = torch.randn(2, 192, 9), torch.randn(192, 192, 3, requires_grad=True)
    assert can_be_trained(x_BCT, weight_OIK)
    assert not can_be_trained(x_BCT.double(), weight_OIK)
    assert not can_be_trained(x_BCT[:, :32], weight_OIK[:, :32])
    assert not can_be_trained(x_BCT, weight_OIK.detach())
    assert not can_be_trained(x_BCT, weight_OIK[:, :, :2])
    with torch.no_grad():
        assert not can_be_trained(x_BCT, weight_OIK)
    with torch.autocast("cpu"):
        assert not can_be_trained(x_BCT, weight_OIK)
