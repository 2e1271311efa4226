"""Products of changing matrices by every instruction set of this processor, against float64."""

import pytest
import torch
from torch.nn import functional as F

from common.convolution import native, products
from common.convolution.training import layers as trained
from common.convolution.training import matmul
from common.convolution.training.matmul import gelu_backward, multiply

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native library was never built")
ALL = ["generic", "avx2", "avx512"]
FLOATS = ALL[: ALL.index(str(native.best_instructions() or "generic").removesuffix("_bf16").removesuffix("_vnni")) + 1]
# Rows, depth and columns: none that fills a vector, all that fill panels, several parts of the depth and of the rows.
SIZES = [(1, 1, 1), (5, 3, 7), (13, 16, 33), (24, 64, 64), (149, 768, 100), (500, 1100, 70), (300, 37, 64)]


@pytest.mark.parametrize("instructions", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_matrices_in_any_order_give_what_the_sum_as_it_is_defined_gives(size, instructions):
    rows, depth, columns = size
    torch.manual_seed(0)
    a_MD, b_OD, bias_O = torch.randn(rows, depth), torch.randn(columns, depth), torch.randn(columns)
    exact_MO = a_MD.double() @ b_OD.double().T
    for a in (a_MD, a_MD.T.contiguous().T):
        for b in (b_OD, b_OD.T.contiguous().T):
            found_MO = multiply(a, b, instructions=instructions)
            torch.testing.assert_close(found_MO.double(), exact_MO, rtol=0, atol=4e-6 * depth**0.5 + 1e-6)
            gelu_MO = torch.empty_like(found_MO)
            multiply(a, b, found_MO, bias_O=bias_O, gelu_MO=gelu_MO, adds=True, instructions=instructions)
            wanted_MO = 2 * exact_MO + bias_O
            torch.testing.assert_close(found_MO.double(), wanted_MO, rtol=0, atol=6e-6 * depth**0.5 + 2e-6)
            torch.testing.assert_close(gelu_MO.double(), F.gelu(wanted_MO), rtol=0, atol=6e-6 * depth**0.5 + 2e-6)


def test_several_threads_give_the_same_bits():
    torch.manual_seed(0)
    before = torch.get_num_threads()
    a_MD, b_OD = torch.randn(700, 600), torch.randn(90, 600)
    alone_MO = multiply(a_MD, b_OD)
    torch.set_num_threads(3)
    try:
        assert torch.equal(multiply(a_MD, b_OD), alone_MO)
    finally:
        torch.set_num_threads(before)


def test_a_row_is_the_same_alone_and_among_others():
    torch.manual_seed(0)
    a_MD, b_OD = torch.randn(700, 600), torch.randn(90, 600)
    together_MO = multiply(a_MD, b_OD)
    assert torch.equal(multiply(a_MD[300:301], b_OD)[0], together_MO[300])
    assert torch.equal(multiply(a_MD[:13], b_OD), together_MO[:13])


@pytest.mark.parametrize("instructions", FLOATS)
def test_the_gradient_of_gelu_is_that_of_float64(instructions):
    x, grad = torch.linspace(-12, 12, 10_007), torch.randn(10_007)
    exact = torch.ops.aten.gelu_backward(grad.double(), x.double())
    torch.testing.assert_close(gelu_backward(x, grad, instructions=instructions).double(), exact, rtol=0, atol=2e-6)
    assert gelu_backward(x, grad, out=grad, instructions=instructions) is grad
    torch.testing.assert_close(grad.double(), exact, rtol=0, atol=2e-6)


@pytest.mark.parametrize("instructions", FLOATS)
def test_gelu_and_its_gradient_far_from_zero(instructions):
    x = torch.tensor([8.0, 1e3, 1e9, 1e20, 1e30]).repeat(8)
    slopes = gelu_backward(torch.cat([x, -x]), torch.ones(80), instructions=instructions)
    torch.testing.assert_close(slopes, torch.cat([torch.ones(40), torch.zeros(40)]), rtol=0, atol=1e-6)
    y = trained.linear(torch.cat([x, -x])[:, None], torch.ones(1, 1), None, "gelu")[:, 0]
    torch.testing.assert_close(y, torch.cat([x, torch.zeros(40)]), rtol=1e-6, atol=1e-6)


def test_numbers_that_are_none_stay_so():
    assert gelu_backward(torch.tensor([float("nan"), 1.0]), torch.ones(2)).isnan().tolist() == [True, False]
    assert multiply(torch.tensor([[float("inf"), 0.0]]), torch.ones(3, 2)).tolist() == [[float("inf")] * 3]


def test_matrices_that_do_not_fit_are_told():
    with pytest.raises(ValueError, match="expected the same but for the rows"):
        multiply(torch.randn(3, 4), torch.randn(5, 6))
    with pytest.raises(ValueError, match="columns adjacent"):
        multiply(torch.randn(3, 4), torch.randn(5, 4), torch.empty(5, 3).T)


def test_nothing_to_sum_is_the_bias():
    bias_O = torch.randn(5)
    assert torch.equal(multiply(torch.empty(3, 0), torch.empty(5, 0), bias_O=bias_O), bias_O.expand(3, 5))
    assert multiply(torch.empty(0, 4), torch.empty(5, 4)).shape == (0, 5)


def test_it_is_taken_in_float32_on_a_cpu_where_mkl_is_slow(monkeypatch):
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    x = torch.randn(3, 4)
    assert matmul.is_fastest(x)
    assert not matmul.is_fastest(x, x.double())
    with products.left_to_torch():
        assert not matmul.is_fastest(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not matmul.is_fastest(x)
    monkeypatch.setattr(products, "has_fast_products", lambda: True)
    assert not matmul.is_fastest(x)
