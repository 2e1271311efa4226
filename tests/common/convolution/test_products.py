import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from common.convolution import products
from common.convolution.linear import Linear


class Convolutions(TorchDispatchMode):
    """Collects the library that torch chooses for every convolution, and its dilation."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution.default:
            library = torch._C._select_conv_backend(*args)
            self.found.append((library.name, max(args[5])))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.usefixtures("one_thread")
def test_a_convolution_of_one_tap_and_its_gradients_are_those_of_torch(batch, monkeypatch):
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    torch.manual_seed(0)
    conv, x_BCT = nn.Conv1d(48, 96, 1), torch.randn(batch, 48, 800, requires_grad=True)
    leaves = (x_BCT, *conv.parameters())
    with Convolutions() as ours:
        found = products.pointwise(conv, x_BCT)
    with products.left_to_torch(), Convolutions() as left:
        expected = products.pointwise(conv, x_BCT)
    assert ours.found == [("Mkldnn", 2)]
    assert left.found == [("Slow2d", 1)]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    weights_BOT = torch.randn_like(found)
    wanted = torch.autograd.grad((expected * weights_BOT).sum(), leaves)
    for gradient, exact in zip(torch.autograd.grad((found * weights_BOT).sum(), leaves), wanted, strict=True):
        torch.testing.assert_close(gradient, exact, rtol=0, atol=1e-5 * float(exact.abs().max()))


@pytest.mark.parametrize(
    "conv", [nn.Conv1d(48, 8, 3, padding=1), nn.Conv1d(48, 8, 1, stride=2), nn.Conv1d(48, 48, 1, groups=48)]
)
def test_other_convolutions_are_left_as_they_are(conv, monkeypatch):
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    x_BCT = torch.randn(4, 48, 400)
    assert torch.equal(products.pointwise(conv, x_BCT), conv(x_BCT))


def test_a_traced_network_has_plain_products(monkeypatch):
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    traced = torch.jit.trace(Linear(64, 64), torch.randn(600, 64), check_trace=False)
    assert "aten::linear" in str(traced.graph)


@pytest.mark.parametrize(
    ("flags", "vendor", "fast"),
    [("avx2 avx512f", "GenuineIntel", True), ("avx2 avx512f", "AuthenticAMD", False), ("avx2", "AuthenticAMD", True)],
)
def test_products_are_slow_on_processors_of_others_that_have_avx512(flags, vendor, fast, monkeypatch):
    monkeypatch.setattr(products, "processor_flags", lambda: flags)
    monkeypatch.setattr(products, "processor_vendor", lambda: vendor)
    assert products.has_fast_products.__wrapped__() is fast
