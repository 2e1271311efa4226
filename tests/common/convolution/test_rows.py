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
