import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from common.convolution import library, native
from common.convolution.algorithms import Algorithm, overlap_save, toom_cook
from ctc import SlowPathWarning

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native library was never built")
ALL = list(native.INSTRUCTIONS)[1:]
HERE = ALL[: ALL.index(native.best_instructions() or "generic") + 1]
FLOATS = [name for name in HERE if name not in ("avx512_vnni", "avx512_bf16")]
BYTES = [name for name in HERE if name != "avx512_bf16"]
WINOGRAD = toom_cook((0, 1, -1, 2, -2), 3)
# batch, frames, channels, filters, taps, dilation, stride, algorithm: sizes that fill no vector, panel or block.
CASES = [
    (2, 50, 8, 12, 11, 1, 1, overlap_save(32, 11)),
    (2, 50, 40, 70, 11, 1, 1, overlap_save(33, 11)),
    (1, 50, 7, 12, 29, 2, 1, overlap_save(48, 29)),
    (2, 50, 40, 70, 11, 1, 1, overlap_save(33, 11)._replace(in_pairs=True)),
    (3, 500, 41, 64, 13, 1, 1, overlap_save(24, 13)._replace(in_pairs=True)),
    (1, 300, 128, 160, 29, 2, 1, overlap_save(48, 29)._replace(in_pairs=True)),
    (3, 37, 33, 64, 3, 3, 1, WINOGRAD),
    (1, 1, 33, 32, 3, 1, 1, WINOGRAD),
    (1, 700, 96, 96, 11, 1, 1, overlap_save(24, 11)),
    (2, 90, 9, 33, 11, 1, 2, None),
    (2, 90, 40, 33, 5, 3, 1, None),
    (1, 20, 64, 64, 1, 1, 1, None),
    (2, 419, 63, 31, 1, 1, 1, None),
    (1, 30, 1100, 40, 1, 1, 1, None),
]


def both(
    case: tuple, *, weights: native.Weights = "float32", instructions: native.Instructions = "automatic"
) -> tuple[Tensor, Tensor]:
    """What the library gives, and the sum as it is defined in float64; with bias, residual and a leaky ReLU."""
    batch, frames, channels, filters, taps, dilation, stride, algorithm = case
    torch.manual_seed(0)
    x_BTI, bias_O = torch.randn(batch, frames, channels), torch.randn(filters)
    weight_KIO = torch.randn(taps, channels, filters) / (taps * channels) ** 0.5
    outputs, before = (frames - 1) // stride + 1, taps // 2 * dilation
    residual_BSO, found_BSO = torch.randn(batch, outputs, filters), torch.full((batch, outputs, filters), torch.nan)
    epilogue = native.Epilogue(bias_O, residual_BSO, "leaky_relu", 0.1, 1.0 if taps == 1 else 0.2)
    packed = native.pack(weight_KIO.permute(2, 0, 1), algorithm, weights=weights, instructions=instructions)
    native.run(x_BTI, packed, epilogue, found_BSO, stride=stride, dilation=dilation, before=before)
    x_BIT = F.leaky_relu(x_BTI.double().mT, epilogue.input_slope)
    weight_OIK = weight_KIO.double().permute(2, 1, 0)
    exact_BOS = F.conv1d(x_BIT, weight_OIK, bias_O.double(), stride, before, dilation)
    return found_BSO, F.leaky_relu(exact_BOS.mT + residual_BSO, 0.1)


def largest_error(found: Tensor, exact: Tensor) -> float:
    return ((found - exact).abs().max() / exact.abs().max()).item()


@pytest.mark.parametrize("instructions", FLOATS)
@pytest.mark.parametrize("case", CASES)
def test_every_instruction_set_gives_the_sum_as_it_is_defined(case, instructions):
    assert largest_error(*both(case, instructions=instructions)) < 1e-6


@pytest.mark.parametrize("instructions", [name for name in HERE if name != "avx512_vnni"])
@pytest.mark.parametrize("case", CASES)
def test_weights_in_bfloat16_cost_their_rounding_only(case, instructions):
    if instructions == "avx512_bf16" and case[-1] and case[-1].in_pairs:
        pytest.skip("products of bfloat16 have all three planes of weights")
    assert largest_error(*both(case, weights="bfloat16", instructions=instructions)) < 2e-2


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_threads_change_nothing(case, threads):
    before = torch.get_num_threads()
    alone, _ = both(case)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(both(case)[0], alone)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("weights", list(native.WEIGHTS))
@pytest.mark.parametrize("algorithm", [None, *(case[-1] for case in CASES if case[4] == 11)])
def test_packed_weights_can_be_read_back(algorithm: Algorithm | None, weights):
    if algorithm is None and weights == "fixed24":
        pytest.skip("the direct sum has no weights in fixed point")
    if weights == "int8" and not (algorithm and algorithm.in_pairs):
        pytest.skip("bytes are for pairs, and for one tap")
    weight_KIO = torch.randn(11, 7, 40)
    found_KIO = native.unpack(native.pack(weight_KIO.permute(2, 0, 1), algorithm, weights=weights))
    assert found_KIO.shape == weight_KIO.shape
    assert (found_KIO - weight_KIO).abs().max() < (0.05 if weights in ("bfloat16", "int8") else 1e-5)


@pytest.mark.parametrize("instructions", FLOATS)
@pytest.mark.parametrize("case", [case for case in CASES if case[-1] is not None])
def test_weights_in_fixed_point_are_as_good_as_floats(case, instructions):
    assert largest_error(*both(case, weights="fixed24", instructions=instructions)) < 1e-6


@pytest.mark.parametrize("in_pairs", [False, True])
def test_fixed_point_keeps_filters_of_any_size_and_what_is_no_number(in_pairs):
    algorithm = overlap_save(32, 11)._replace(in_pairs=in_pairs)
    x_BTI, weight_KIO = torch.randn(1, 50, 40), torch.randn(11, 40, 36)
    weight_KIO[..., 0] = 0
    weight_KIO[..., 1], weight_KIO[..., 2] = 1e-20 * weight_KIO[..., 1], 1e20 * weight_KIO[..., 2]
    weight_KIO[3, 5, 3], weight_KIO[3, 6, 4] = torch.nan, torch.inf
    out_BTO = torch.empty(1, 50, 36)
    packed = native.pack(weight_KIO.permute(2, 0, 1), algorithm, weights="fixed24")
    native.run(x_BTI, packed, native.Epilogue(), out_BTO, before=5)
    exact_BTO = F.conv1d(x_BTI.double().mT, weight_KIO.double().permute(2, 1, 0), padding=5).mT
    assert (out_BTO[..., 0] == 0).all()
    assert out_BTO[..., 3:5].isnan().all()
    for column in (1, 2, *range(5, 36)):
        assert largest_error(out_BTO[..., column], exact_BTO[..., column]) < 1e-6


def test_rows_beyond_the_lengths_are_zeros_and_nothing_else_is_written():
    x_BTI, packed = torch.randn(3, 40, 8), native.pack(torch.randn(12, 3, 8), WINOGRAD)
    room = torch.full((3, 40, 20), 7.0)
    out_BSO = room[:, :, 4:16]
    lengths_B = torch.tensor([40, 11, 0])
    native.run(x_BTI, packed, native.Epilogue(), out_BSO, stride=1, dilation=1, before=1, output_lengths_B=lengths_B)
    assert (out_BSO[1, 11:] == 0).all()
    assert (out_BSO[2] == 0).all()
    assert (out_BSO[1, :11] != 0).all()
    assert (room[:, :, :4] == 7).all()
    assert (room[:, :, 16:] == 7).all()


def test_clipped_relu_lies_between_zero_and_its_ceiling():
    x_BTI, weight_KIO = torch.randn(1, 40, 8), torch.randn(1, 8, 12)
    out_BSO = torch.empty(1, 40, 12)
    epilogue = native.Epilogue(activation="clipped_relu", slope=1.5)
    native.run(x_BTI, native.pack(weight_KIO.permute(2, 0, 1), None), epilogue, out_BSO, stride=1, dilation=1, before=0)
    assert (out_BSO - (x_BTI @ weight_KIO[0]).clamp(0, 1.5)).abs().max() < 1e-5


def test_what_the_library_refuses_is_an_error():
    x_BTI, weight_KIO, out_BTO = torch.randn(1, 9, 8), torch.randn(3, 8, 12), torch.empty(1, 9, 12)
    with pytest.raises(RuntimeError, match="native convolution: an argument is invalid"):
        native.run(
            x_BTI,
            native.pack(weight_KIO.permute(2, 0, 1), WINOGRAD),
            native.Epilogue(),
            out_BTO,
            stride=2,
            dilation=1,
            before=1,
        )
    with pytest.raises(RuntimeError, match="native convolution: an argument is invalid"):
        native.pack(weight_KIO.permute(2, 0, 1), None, weights="fixed24")
    packed = native.pack(
        weight_KIO.permute(2, 0, 1), WINOGRAD, instructions="avx512_bf16"
    )  # which has no products of floats
    with pytest.raises(RuntimeError, match="native convolution: this processor lacks the instructions"):
        native.run(x_BTI, packed, native.Epilogue(), out_BTO, stride=1, dilation=1, before=1)


def test_bfloat16_is_multiplied_in_the_way_that_is_faster_here():
    assert native.fastest_for_bfloat16() in ("automatic", "avx512_bf16")
    if native.best_instructions() != "avx512_bf16":
        assert native.fastest_for_bfloat16() == "automatic"


def test_a_library_that_cannot_be_built_is_told_once(monkeypatch):
    native.load.cache_clear()
    monkeypatch.setattr(library.building, "load", lambda library: None)
    try:
        with pytest.warns(SlowPathWarning, match=r"convolutions run in plain torch, which is slower: .* is missing;"):
            assert native.load() is None
    finally:
        native.load.cache_clear()
