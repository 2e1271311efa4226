"""Linear layers on arrays."""

import math

import numpy as np
import pytest

from common.convolution import library
from common.convolution.rows import Rows


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize(("kind", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.1), ("int8", 0.3)])
def test_rows_are_multiplied_and_have_the_bits_that_they_have_alone(kind, tolerance, is_native, monkeypatch):
    if not is_native:
        monkeypatch.setattr(library, "load", lambda: None)
    draw = np.random.default_rng(0)
    weight_OI, bias_O, x_RI = (draw.standard_normal(shape).astype(np.float32) for shape in ((48, 33), 48, (5, 33)))
    layer = Rows(weight_OI, bias_O, kind, threads=1)
    expected_RO = x_RI @ weight_OI.T + bias_O
    gelu_RO = expected_RO * (0.5 + 0.5 * np.vectorize(math.erf)(expected_RO / math.sqrt(2)))
    for activation, expected in (
        ("identity", expected_RO), ("leaky_relu", np.maximum(expected_RO, 0)), ("gelu", gelu_RO)
    ):  # fmt: skip
        found_RO = layer(x_RI, activation)
        np.testing.assert_allclose(found_RO, expected, rtol=0, atol=tolerance)
        assert all((layer(x_RI[i : i + 1], activation) == found_RO[i]).all() for i in range(5))
    assert layer(x_RI[:0]).shape == (0, 48)


@pytest.mark.skipif(library.load() is None, reason="the native library was never built")
@pytest.mark.parametrize("deviation", [0.0, 0.5, 1.0, 2.0])
def test_scales_of_weights_and_inputs_cost_bytes_no_precision(deviation):
    draw = np.random.default_rng(0)
    weight_OI, x_RI = (draw.standard_normal(shape).astype(np.float32) for shape in ((96, 128), (40, 128)))
    gain_I = (10 ** (deviation * draw.standard_normal(128))).astype(np.float32)
    layer = Rows(weight_OI * gain_I, None, "int8", threads=1)
    assert layer.weights == "int8"
    exact_RO = x_RI.astype(np.float64) @ weight_OI.T
    assert np.abs(layer(x_RI / gain_I) - exact_RO).max() <= 0.04 * np.abs(exact_RO).max()


@pytest.mark.skipif(library.load() is None, reason="the native library was never built")
def test_weights_that_bytes_would_harm_are_kept_as_floats():
    draw = np.random.default_rng(0)
    weight_OI, x_RI = (draw.standard_normal(shape).astype(np.float32) for shape in ((96, 128), (40, 128)))
    weight_OI[3, 7] = 1e4  # one filter hears one channel
    layer = Rows(weight_OI, np.ones(96, np.float32), "int8", threads=1)
    assert layer.weights == "float32"
    np.testing.assert_allclose(layer(x_RI), x_RI @ weight_OI.T + 1, rtol=1e-5, atol=1e-4)
