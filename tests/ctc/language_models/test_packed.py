"""Packed numbers are those that went in, by the library and by NumPy, in the memory that they are promised."""

import numpy as np
import pytest

from ctc.bindings import _native
from ctc.language_models.packed import WIDEST, Packed, pack, packed_bytes


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 15, 31, 32, 33, 56, WIDEST])
@pytest.mark.parametrize("count", [1, 2, 3, 64, 1000])
def test_numbers_come_back(width, count):
    draw = np.random.default_rng(width * count)
    values = draw.integers(0, 1 << width, count)
    values[draw.integers(count)] = (1 << width) - 1
    library = _native.load()
    for packed in [pack(values)] if library is None else [pack(values), pack(values, library)]:
        assert (packed.width, len(packed)) == (width, count)
        assert packed.bits.nbytes == packed_bytes(count, width)
        assert np.array_equal(packed, values)
        assert packed[count - 1] == values[-1]
        assert packed.between(count // 2, count).tolist() == values[count // 2 :].tolist()
    if library is not None:
        assert np.array_equal(pack(values).bits, pack(values, library).bits)
        assert library.ctc_packed_bytes(count, width) == packed_bytes(count, width)


def test_nothing_and_zeros_take_a_bit():
    assert (pack([]).width, len(pack([]))) == (1, 0)
    assert np.array_equal(pack([0, 0, 0]), [0, 0, 0])
    assert isinstance(pack(range(5)), Packed)


def test_what_does_not_fit_is_refused():
    library = _native.load()
    if library is None:
        pytest.skip("no C++ compiler")
    bits = np.zeros(100, np.uint8)
    for values, width in (([4], 2), ([-1], 8), ([1], 0), ([1], 58)):
        numbers = np.array(values, np.int64)
        with pytest.raises(RuntimeError, match="ctc_pack of the native library answered with status 1"):
            library.ctc_pack(numbers.ctypes.data, 1, width, bits.ctypes.data)
    assert library.ctc_packed_bytes(-1, 8) == library.ctc_packed_bytes(1, 0) == library.ctc_packed_bytes(1, 58) == 0
