import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from common.convolution import linear, native, products
from common.convolution.linear import Linear, pack_linear, unpack_linear
from common.devices.precision import cast_for_inference

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native library was never built")


@pytest.fixture(autouse=True)
def slow_products(monkeypatch):
    """As on a processor where MKL is slow."""
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    monkeypatch.setattr(linear, "SMALLEST", 0)


def layer(features: int = 40, out: int = 70, *, bias: bool = True) -> Linear:
    torch.manual_seed(0)
    return Linear(features, out, bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["identity", "gelu", "silu"])
@pytest.mark.parametrize("shape", [(40,), (1, 40), (2, 13, 40), (3, 0, 40), (1, 700, 40)])
def test_packed_gives_what_the_sum_as_it_is_defined_gives(shape, activation, bias):
    module, x_XI = layer(bias=bias).requires_grad_(False), 3 * torch.randn(shape)
    exact = F.linear(x_XI.double(), module.weight.double(), module.bias.double() if bias else None)
    exact = exact if activation == "identity" else getattr(F, activation)(exact)
    torch.testing.assert_close(module(x_XI, activation).double(), exact, rtol=0, atol=5e-6)
    assert pack_linear(module) == 1
    torch.testing.assert_close(module(x_XI, activation).double(), exact, rtol=0, atol=5e-6)


def test_a_row_is_the_same_alone_and_among_others():
    module, x_BTI = layer().requires_grad_(False), torch.randn(4, 300, 40)
    pack_linear(module)
    together = module(x_BTI, "gelu")
    torch.testing.assert_close(module(x_BTI[2, 7]), module(x_BTI)[2, 7], rtol=0, atol=1e-6)
    torch.testing.assert_close(module(x_BTI[3:], "gelu"), together[3:], rtol=0, atol=1e-6)


def test_silu_is_exact_to_both_ends():
    module, x_BI = layer(8, 8, bias=False).requires_grad_(False), torch.linspace(-200, 200, 8000).view(-1, 8)
    module.weight.copy_(torch.eye(8))
    pack_linear(module)
    torch.testing.assert_close(module(x_BI, "silu"), F.silu(x_BI), rtol=1e-6, atol=1e-30)


def test_bytes_are_close_and_a_row_has_the_same_bits_among_any_others():
    module, x_BTI = layer().requires_grad_(False), torch.randn(4, 300, 40)
    x_BTI[1] *= 1000  # what is loud rounds away nothing of others
    exact = module(x_BTI)
    assert module.pack("int8")
    assert module.packed.weights == "int8"
    found = module(x_BTI)
    assert (found - exact).square().mean((1, 2)).sqrt().div(exact.square().mean((1, 2)).sqrt()).max() < 0.01
    assert torch.equal(module(x_BTI[2, 7:8]), found[2, 7:8])
    assert torch.equal(module(x_BTI[3:]), found[3:])


def test_weights_that_bytes_would_harm_stay_in_float32():
    module = layer().requires_grad_(False)
    module.weight[0, 0], module.weight[1, 1] = 1e4, 3e5
    exact = module(torch.ones(1, 40))
    assert not module.pack("int8")
    torch.testing.assert_close(module(torch.ones(1, 40)), exact)


@pytest.mark.parametrize("before", [None, "float32", "bfloat16", "int8"])
@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "int8"])
def test_packed_weights_are_packed_anew_where_nothing_has_rounded_them(before, wanted):
    module, alone, x_BI = layer().requires_grad_(False), layer().requires_grad_(False), torch.randn(7, 40)
    alone.pack(wanted)
    if before:
        module.pack(before)
    if before in ("bfloat16", "int8") and before != wanted:
        found = module(x_BI)
        with pytest.raises(
            ValueError, match=f"^weights to pack as {wanted}: they are packed as {before}, which rounded"
        ):
            module.pack(wanted)
        assert torch.equal(module(x_BI), found)
    else:
        assert module.pack(wanted)
        assert torch.equal(module(x_BI), alone(x_BI))


@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_other_types_are_refused_by_name(dtype, wanted):
    module = layer().requires_grad_(False).to(dtype)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(
        ValueError, match=f"^weights to pack as {wanted}: expected float32 on the CPU, found {name} on cpu$"
    ):
        module.pack(wanted)
    with pytest.raises(ValueError, match="expected float32 on the CPU, found float32 on meta"):
        layer().to("meta").pack(wanted)


def test_packed_weights_are_saved_loaded_copied_and_cast_as_if_they_were_not():
    module = nn.Sequential(layer().requires_grad_(False))
    before = copy.deepcopy(module.state_dict())
    assert pack_linear(module) == 1
    assert module[0].weight.numel() == 0
    assert all(torch.equal(module.state_dict()[name], before[name]) for name in before)
    x_BI = torch.randn(5, 40)
    assert torch.equal(copy.deepcopy(module)(x_BI), module(x_BI))
    module.load_state_dict({name: 2 * value for name, value in before.items()})
    assert torch.equal(module[0].weight, 2 * before["0.weight"])
    pack_linear(module)
    unpack_linear(module)
    assert torch.equal(module[0].weight, 2 * before["0.weight"])
    pack_linear(module)
    assert torch.equal(module.double()[0].weight, 2 * before["0.weight"].double())


def test_a_packed_layer_can_be_traced_and_run_under_autocast():
    module, x_BI = layer().requires_grad_(False).eval(), torch.randn(5, 40)
    expected = module(x_BI)
    pack_linear(module)
    traced = torch.jit.trace(module, (x_BI,))
    torch.testing.assert_close(traced(x_BI), expected, rtol=0, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert module(x_BI).dtype == torch.bfloat16


def test_inference_packs_in_float32_alone_and_where_products_are_slow(monkeypatch):
    assert cast_for_inference(nn.Sequential(layer()), "fp32")[0].packed is not None
    assert cast_for_inference(nn.Sequential(layer()), "bf16")[0].packed is None
    monkeypatch.setattr(products, "has_fast_products", lambda: True)
    assert cast_for_inference(nn.Sequential(layer()), "fp32")[0].packed is None
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    monkeypatch.setattr(native, "load", lambda: None)
    assert cast_for_inference(nn.Sequential(layer()), "fp32")[0].packed is None
