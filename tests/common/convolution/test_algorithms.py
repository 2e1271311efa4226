import pytest
import torch
from torch.nn import functional as F

from common.convolution.algorithms import LONGEST_BLOCK, overlap_save, toom_cook

CASES = [
    *((overlap_save(block, taps), taps) for block, taps in ((16, 11), (17, 5), (48, 29), (45, 25), (256, 128), (8, 8))),
    *((toom_cook((0, 1, -1, 2, -2), taps), taps) for taps in (2, 3, 5)),
    (toom_cook((0, 1, -1, 2, -2, 0.5, -0.5), 3), 3),
]


@pytest.mark.parametrize(("algorithm", "taps"), CASES)
def test_the_three_matrices_are_the_convolution(algorithm, taps):
    torch.manual_seed(0)
    x_N, w_K = torch.randn(algorithm.block).double(), torch.randn(taps).double()
    found_M = algorithm.output_MP @ ((algorithm.weight_PK @ w_K) * (algorithm.input_PN @ x_N))
    assert len(found_M) == algorithm.outputs == algorithm.block - taps + 1
    assert (found_M - F.conv1d(x_N[None], w_K[None, None])[0]).abs().max() < 1e-12


@pytest.mark.parametrize(("block", "taps"), [(16, 11), (17, 5), (48, 29), (45, 25)])
def test_halves_give_the_same_points_and_outputs(block, taps):
    torch.manual_seed(0)
    algorithm = overlap_save(block, taps)
    cosine_EE, sine_OE, output_MN, _ = algorithm.halves
    odd = len(sine_OE)
    x_N = torch.randn(block).double()
    mirrored_N = torch.cat([x_N[:1] * 0, x_N[1:].flip(0)])
    even_E, odd_E = (x_N + mirrored_N)[: block - odd], (x_N - mirrored_N)[: block - odd]
    if block % 2 == 0:
        even_E[-1], odd_E[-1] = x_N[block // 2], 0.0
    real_E, imaginary_O = cosine_EE @ even_E, sine_OE @ odd_E
    points_P = torch.cat([real_E, imaginary_O, real_E[1 : odd + 1] + imaginary_O])
    assert (points_P - algorithm.input_PN @ x_N).abs().max() < 1e-12
    first_E, second_O, both_O = points_P.split([block - odd, odd, odd])
    parts_E = first_E.clone()
    parts_E[1 : odd + 1] = both_O - second_O
    found_M = output_MN @ torch.cat([parts_E, both_O + first_E[1 : odd + 1]])
    assert (found_M - algorithm.output_MP @ points_P).abs().max() < 1e-12


def test_fewer_multiplications_than_taps():
    for algorithm, points, outputs in ((toom_cook((0, 1, -1, 2, -2), 3), 6, 4), (overlap_save(48, 25), 71, 24)):
        assert (algorithm.points, algorithm.outputs) == (points, outputs)


def test_blocks_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="a block of 10 frames for 11 taps: expected 11 to 256"):
        overlap_save(10, 11)
    with pytest.raises(ValueError, match="a block of 257 frames for 11 taps: expected 11 to 256"):
        overlap_save(LONGEST_BLOCK + 1, 11)
    with pytest.raises(ValueError, match=r"points \(0, 1, 1\) for 3 taps: expected at least 2, each another"):
        toom_cook((0, 1, 1), 3)


@pytest.mark.parametrize(("block", "taps"), [(16, 11), (17, 5)])
def test_the_spectrum_of_the_taps_makes_the_weights_of_the_three_products(block, taps):
    algorithm = overlap_save(block, taps)
    odd = len(algorithm.halves.sine_OE)
    real_EK, imaginary_OK = algorithm.halves.weight_NK.split([block - odd, odd])
    real_OK = real_EK[1 : odd + 1]
    first_EK, second_OK, both_OK = algorithm.weight_PK.split([block - odd, odd, odd])
    assert torch.equal(both_OK, real_OK)
    assert torch.equal(first_EK[1 : odd + 1], imaginary_OK - real_OK)
    assert torch.equal(second_OK, imaginary_OK + real_OK)
    assert torch.equal(first_EK[0], real_EK[0])
