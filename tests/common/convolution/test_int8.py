"""Convolutions of bytes beside the same bytes multiplied in float64, and beside the sum as it is defined."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from common.convolution import native
from common.convolution.algorithms import overlap_save
from common.convolution.operator import FusedConvolution, Lengths, prepare
from tests.common.convolution.test_native import BYTES, largest_error

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native library was never built")
# batch, frames, channels, filters, taps, dilation, block: sizes that fill no vector, panel or register block.
CASES = [(2, 50, 40, 70, 11, 1, 33), (3, 300, 41, 64, 13, 1, 24), (1, 200, 130, 34, 29, 2, 48), (1, 9, 7, 3, 5, 1, 16)]


def inputs(case: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    batch, frames, channels, filters, taps, *_ = case
    torch.manual_seed(0)
    weight_KIO = torch.randn(taps, channels, filters) / (taps * channels) ** 0.5
    return torch.randn(batch, frames, channels).relu(), weight_KIO


def run(x_BTI: Tensor, weight_KIO: Tensor, block: int, dilation: int = 1, **options) -> Tensor:
    taps, _, filters = weight_KIO.shape
    algorithm = overlap_save(block, taps)._replace(in_pairs=True) if block else None
    out_BTO = torch.full((*x_BTI.shape[:2], filters), torch.nan)
    packed = native.pack(weight_KIO.permute(2, 0, 1), algorithm, weights="int8", **options)
    native.run(x_BTI, packed, native.Epilogue(), out_BTO, dilation=dilation, before=taps // 2 * dilation)
    return out_BTO


def exact(x_BTI: Tensor, weight_KIO: Tensor, dilation: int = 1) -> Tensor:
    taps = weight_KIO.shape[0]
    weight_OIK = weight_KIO.double().permute(2, 1, 0)
    return F.conv1d(x_BTI.double().mT, weight_OIK, padding=taps // 2 * dilation, dilation=dilation).mT


def rounded_at_points(x_BTI: Tensor, weight_KIO: Tensor, block: int) -> Tensor:
    """By complex numbers in float64: what is rounded is in 127 steps of the greatest part of a block, or of a filter;
    frequencies that have no imaginary part in 255 steps from the least (or 0) to the greatest."""
    taps, _, filters = weight_KIO.shape
    batch, frames, _ = x_BTI.shape
    outputs = block - taps + 1
    n_blocks = -(-frames // outputs)
    padded_BTI = F.pad(x_BTI.double(), (0, 0, taps // 2, n_blocks * outputs + block - taps // 2 - frames))
    x_BUIF = torch.fft.rfft(padded_BTI.unfold(1, block, outputs)[:, :n_blocks])
    w_IOF = torch.fft.rfft(weight_KIO.double().permute(1, 2, 0), n=block).conj().resolve_conj()
    x, w = torch.view_as_real(x_BUIF), torch.view_as_real(w_IOF)
    x_step = x.abs().amax((2, 4), keepdim=True) / 127
    rounded = (x / x_step).round() * x_step
    for f in {0, block // 2} if block % 2 == 0 else {0}:
        real_BUI = x[..., f, 0]
        least, greatest = real_BUI.amin(2, keepdim=True).clamp(max=0), real_BUI.amax(2, keepdim=True).clamp(min=0)
        step, zero = (greatest - least) / 255, (-255 * least / (greatest - least)).round()
        rounded[..., f, 0] = (((real_BUI / step) + zero).round().clamp(0, 255) - zero) * step
    w_step = w.abs().amax((0, 3), keepdim=True) / 127
    x_BUIF, w_IOF = torch.view_as_complex(rounded), torch.view_as_complex((w / w_step).round() * w_step)
    y_BUOM = torch.fft.irfft(torch.einsum("buif,iof->buof", x_BUIF, w_IOF), n=block)[..., :outputs]
    return y_BUOM.mT.reshape(batch, -1, filters)[:, :frames]


@pytest.mark.parametrize("instructions", BYTES)
@pytest.mark.parametrize("case", CASES)
def test_every_instruction_set_is_as_near_to_float64_as_eight_bits_are(case, instructions):
    x_BTI, weight_KIO = inputs(case)
    *_, dilation, block = case
    found_BTO = run(x_BTI, weight_KIO, block, dilation, instructions=instructions)
    exact_BTO = exact(x_BTI, weight_KIO, dilation)
    noise_db = 10 * torch.log10((found_BTO - exact_BTO).square().mean() / exact_BTO.var())
    assert noise_db < -36


@pytest.mark.parametrize("instructions", BYTES)
@pytest.mark.parametrize("case", [case for case in CASES if case[5] == 1])
def test_products_are_those_of_the_rounded_numbers_in_float64(case, instructions):
    """But where float32 and float64 round to different sides, one value in some ten thousand: most blocks have none."""
    x_BTI, weight_KIO = inputs(case)
    found_BTO = run(x_BTI, weight_KIO, case[-1], instructions=instructions)
    expected_BTO = rounded_at_points(x_BTI, weight_KIO, case[-1])
    error_BT = (found_BTO - expected_BTO).abs().amax(2) / expected_BTO.abs().max()
    assert error_BT.max() < 5e-3
    assert (error_BT < 2e-6).float().mean() > 0.6


@pytest.mark.parametrize("instructions", BYTES)
@pytest.mark.parametrize(("frames", "channels", "filters"), [(61, 33, 40), (200, 1100, 64)])
def test_whole_numbers_of_eight_bits_are_multiplied_exactly_for_one_tap(frames, channels, filters, instructions):
    x_BTI = torch.randint(-100, 156, (2, frames, channels)).float()
    x_BTI[..., 0], x_BTI[..., 1] = -100, 155
    weight_KIO = torch.randint(-127, 128, (1, channels, filters)).float()
    weight_KIO[:, 2] = 127
    found_BTO = run(x_BTI, weight_KIO, 0, instructions=instructions)
    exact_BTO = exact(x_BTI, weight_KIO)
    assert largest_error(found_BTO, exact_BTO) < 2e-7


def test_threads_and_other_utterances_change_no_bit():
    before = torch.get_num_threads()
    for case in CASES[:3]:
        x_BTI, weight_KIO = inputs(case)
        alone = torch.cat([run(x_TI[None], weight_KIO, case[-1], case[5]) for x_TI in x_BTI])
        try:
            torch.set_num_threads(3)
            assert torch.equal(run(x_BTI, weight_KIO, case[-1], case[5]), alone)
        finally:
            torch.set_num_threads(before)


def test_zeros_tiny_and_huge_numbers_and_what_is_no_number():
    x_BTI, weight_KIO = inputs((1, 60, 40, 36, 11, 1, 32))
    for block, taps in ((32, 11), (0, 1)):
        weight = weight_KIO[:taps]
        assert (run(torch.zeros_like(x_BTI), weight, block) == 0).all()
        for scale in (1e-12, 1e12):
            scaled_BTO = run(x_BTI * scale, weight, block) / scale
            assert largest_error(scaled_BTO, exact(x_BTI, weight)) < 0.05
        for wrong in (torch.nan, torch.inf):
            broken_BTI = x_BTI.clone()
            broken_BTI[0, 20, 5] = wrong
            assert run(broken_BTI, weight, block)[0, 20].isnan().all()


def test_what_has_no_bytes_is_refused_and_prepare_leaves_it_in_float32():
    _, weight_KIO = inputs(CASES[0])
    with pytest.raises(RuntimeError, match="an argument is invalid"):
        native.pack(weight_KIO.permute(2, 0, 1), overlap_save(32, 11), weights="int8")
    network = torch.nn.ModuleList([
        FusedConvolution(torch.randn(64, 32, 11), stride=2), FusedConvolution(torch.randn(28, 64, 1)),
        FusedConvolution(torch.randn(64, 64, 1)), FusedConvolution(torch.randn(64, 64, 11)),
    ])  # fmt: skip
    prepare(network, "int8")
    kept = [layer.packed.weights for layer in network]
    assert kept == ["float32", "float32", "int8", "int8"]


def test_lengths_bias_residual_and_activation_are_those_of_floats():
    torch.manual_seed(0)
    for taps in (1, 11):
        layers = [FusedConvolution(torch.randn(64, 40, taps) / 20, torch.randn(64)) for _ in range(2)]
        layers[1].load_state_dict(layers[0].state_dict())
        for layer, kind in zip(layers, ("fp32", "int8"), strict=True):
            prepare(layer, kind)
        frames_B = torch.tensor([70, 31])
        mask_BS1 = (torch.arange(70) < frames_B[:, None]).float()[..., None]
        x_BTI, residual_BSO = torch.randn(2, 70, 40) * mask_BS1, torch.randn(2, 70, 64)
        exact_BSO, found_BSO = (
            layer(x_BTI, Lengths(frames_B, mask_BS1), residual_BSO=residual_BSO, activation="clipped_relu", slope=1.0)
            for layer in layers
        )
        assert (found_BSO[1, 31:] == 0).all()
        assert 0 < largest_error(found_BSO, exact_BSO) < 0.05
