"""fp32 is fp32, and int8 what it promises, whatever scales weights and inputs have; loud frames harm no quiet ones.

Errors are those of the sum in float64, as parts of its greatest value; torch's convolution of the same kind has a few
1e-7 and, in bfloat16, 4e-3.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from common.convolution import native
from common.convolution.operator import FusedConvolution, prepare

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native library was never built")
CHANNELS, FILTERS, FRAMES, LOUD = 128, 96, 150, 100
Problem = tuple[Tensor, Tensor]  # weight_OIK, x_BTI


def problem(taps: int = 11) -> Problem:
    torch.manual_seed(0)
    return torch.randn(FILTERS, CHANNELS, taps) / (CHANNELS * taps) ** 0.5, torch.randn(1, FRAMES, CHANNELS)


def moved(gain_I: Tensor) -> Problem:
    """The same function, with weights larger and inputs smaller."""
    weight_OIK, x_BTI = problem()
    return weight_OIK * gain_I[:, None], x_BTI / gain_I


def one(channel_gain: float) -> Problem:
    gain_I = torch.ones(CHANNELS)
    gain_I[7] = channel_gain
    return moved(gain_I)


def spread(deviation: float) -> Problem:
    return moved(10 ** (deviation * torch.randn(CHANNELS, generator=torch.Generator().manual_seed(1))))


def hot(filters: slice | int, input_gain: float) -> Problem:
    weight_OIK, x_BTI = problem()
    weight_OIK[filters, 7] *= 1e4
    x_BTI[..., 7] *= input_gain
    return weight_OIK, x_BTI


def heavy_tailed(of_weights: bool) -> Problem:
    weight_OIK, x_BTI = problem()
    tail = torch.distributions.StudentT(1.5)
    return (weight_OIK * tail.sample(weight_OIK.shape), x_BTI) if of_weights else (weight_OIK, tail.sample(x_BTI.shape))


def scaled(weights: float, inputs: float) -> Problem:
    weight_OIK, x_BTI = problem()
    return weight_OIK * weights, x_BTI * inputs


PROBLEMS: dict[str, Callable[[], Problem]] = {
    **{f"one channel by {gain:g}": (lambda gain=gain: one(gain)) for gain in (1e-5, 1e3, 1e5, 1e30)},
    **{f"all channels, 10^({s} n)": (lambda s=s: spread(s)) for s in (0.0, 0.5, 1.0, 2.0)},
    "one filter hears a quiet channel": lambda: hot(3, 1e-4),
    "one filter hears a channel": lambda: hot(3, 1.0),
    "all filters hear a channel": lambda: hot(slice(None), 1.0),
    "heavy-tailed weights": lambda: heavy_tailed(True),
    "heavy-tailed inputs": lambda: heavy_tailed(False),
    "denormal weights": lambda: scaled(1e-38, 1e30),
    "denormal inputs": lambda: scaled(1e30, 1e-38),
}


def errors(found: dict[str, Problem], kind: str, heard: slice = slice(None), instructions: str = "automatic") -> None:
    """Fails where one is larger than this kind's may be."""
    for name, (weight_OIK, x_BTI) in found.items():
        layer = FusedConvolution(weight_OIK, frames=FRAMES)
        prepare(layer, kind, instructions=instructions)
        padding = weight_OIK.shape[2] // 2
        exact_BTO = F.conv1d(x_BTI.mT.double(), weight_OIK.double(), padding=padding).mT[:, heard]
        dtype = torch.bfloat16 if kind == "bf16" else torch.float32
        torch_BTO = F.conv1d(x_BTI.mT.to(dtype), weight_OIK.to(dtype), padding=padding).mT[:, heard]
        size = exact_BTO.abs().max()
        error, torchs = ((y_BTO - exact_BTO).abs().max() / size for y_BTO in (layer(x_BTI)[:, heard], torch_BTO))
        most = {"fp32": 4 * torchs, "bf16": 1.5 * torchs, "int8": 0.04}[kind]
        assert error <= most, f"{name}: {error:.1e} of the greatest value, torch {torchs:.1e}"


@pytest.mark.parametrize("instructions", ["automatic", "avx2"])
@pytest.mark.parametrize("kind", ["fp32", "bf16", "int8"])
def test_scales_of_weights_and_inputs_cost_no_precision(kind, instructions):
    if native.best_instructions() == "generic" and instructions != "automatic":
        pytest.skip("this processor lacks the instructions")
    errors({name: make() for name, make in PROBLEMS.items()}, kind, instructions=instructions)


@pytest.mark.parametrize("kind", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("taps", [3, 11])
def test_quiet_frames_lose_nothing_to_loud_ones_in_their_block(kind, taps):
    if taps == 3 and kind == "fp32":
        pytest.skip("Toom-Cook's points lose digits of all frames")
    found = {}
    for factor in (30.0, 1e2, 1e4, 1e8, 1e30):
        for channels in (slice(None), 5):
            weight_OIK, x_BTI = problem(taps)
            x_BTI[:, LOUD, channels] *= factor
            found[f"{channels} by {factor:g}"] = weight_OIK, x_BTI
    errors(found, kind, slice(0, LOUD - taps // 2))
    fading = problem(taps)[1] * torch.logspace(0, -12, FRAMES)[:, None]
    errors({"fading": (problem(taps)[0], fading)}, "fp32" if kind == "fp32" else kind, slice(FRAMES - 20, None))


@pytest.mark.parametrize("kind", ["fp32", "int8"])
def test_what_is_no_number_reaches_the_outputs_that_see_it_and_silence_is_silent(kind):
    weight_OIK, x_BTI = problem()
    layer = FusedConvolution(weight_OIK, torch.arange(float(FILTERS)), frames=FRAMES)
    prepare(layer, kind)
    x_BTI[:, :60] = 0
    for wrong in (torch.nan, torch.inf, -torch.inf):
        x_BTI[0, LOUD, 5] = wrong
        y_TO = layer(x_BTI)[0]
        assert not y_TO[LOUD - 5 : LOUD + 6].isfinite().all(1).any()
        assert y_TO[: LOUD - 5].isfinite().all()
        assert y_TO[LOUD + 6 :].isfinite().all()
        assert (y_TO[:55] == torch.arange(float(FILTERS))).all()


def test_weights_that_a_format_would_harm_are_kept_in_the_next_more_exact_one_and_named():
    network = torch.nn.ModuleDict({
        "even": FusedConvolution(problem()[0]), "hot": FusedConvolution(hot(3, 1.0)[0]),
        "labels": FusedConvolution(torch.randn(29, CHANNELS, 1)),
    })  # fmt: skip
    report = prepare(network, "int8")
    assert report.higher == ("hot", "labels")
    assert str(report).endswith("in higher precision: hot, labels")
    assert network["even"].packed.weights == "int8"
    assert network["hot"].packed.weights == "float32"


@pytest.mark.parametrize("kind", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("fading", [1.0, 2.0, 4.0, -6.0])
def test_a_recording_shorter_than_the_taps_gets_none_of_the_rounding_of_taps_that_do_not_hear_it(kind, fading):
    taps_K = torch.logspace(0, -abs(fading), 75)
    weight_OIK = problem(75)[0] * (taps_K if fading > 0 else taps_K.flip(0))
    errors({"fading taps": (weight_OIK, torch.randn(1, 20, CHANNELS))}, kind)


def test_powers_of_two_are_taken_out_of_the_weights_and_given_back():
    weight_OIK, _ = spread(2.0)
    layer, even = FusedConvolution(weight_OIK, frames=FRAMES), FusedConvolution(problem()[0], frames=FRAMES)
    prepare(layer)
    prepare(even)
    assert even.packed.scale_I is None
    assert (layer.packed.scale_I.log2() % 1 == 0).all()
    difference_OKI = layer.direct_weight() - weight_OIK.mT
    assert (difference_OKI.abs().amax((0, 1)) < 2e-6 * weight_OIK.abs().amax((0, 2))).all()
