import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from common.convolution import native
from common.convolution.native import workspace
from common.convolution.operator import FusedConvolution, Lengths, convolve, prepare
from ctc import SlowPathWarning

# taps, channels, filters, stride, dilation
SHAPES = [
    (11, 24, 40, 1, 1),
    (3, 64, 64, 1, 1),
    (29, 16, 24, 1, 2),
    (11, 24, 40, 2, 1),
    (1, 24, 40, 1, 1),
    (3, 32, 32, 1, 5),
]


@pytest.fixture(params=["native", "torch"])
def library(request, monkeypatch):
    """With the native library, and as if it was never built."""
    if request.param == "torch":
        monkeypatch.setattr(native, "load", lambda: None)
    elif native.load() is None:
        pytest.skip("the native library was never built")
    return request.param


def layer(taps: int, channels: int, filters: int, stride: int, dilation: int) -> FusedConvolution:
    torch.manual_seed(0)
    weight_OIK = torch.randn(filters, channels, taps) / (taps * channels) ** 0.5
    return FusedConvolution(weight_OIK, torch.randn(filters), stride=stride, dilation=dilation, frames=300)


def lengths(frames_B: list[int], frames: int) -> Lengths:
    valid_B = torch.tensor(frames_B)
    return Lengths(valid_B, (torch.arange(frames) < valid_B[:, None]).float().unsqueeze(2))


@pytest.mark.parametrize("shape", SHAPES)
def test_prepared_gives_what_a_plain_convolution_gives(shape, library):
    taps, channels, _, stride, dilation = shape
    module = layer(*shape)
    x_BTI = torch.randn(2, 83, channels)
    weight_OIK = module.weight_OKI.mT.double()
    exact_BOS = F.conv1d(x_BTI.mT.double(), weight_OIK, module.bias.double(), stride, taps // 2 * dilation, dilation)
    assert (module(x_BTI) - exact_BOS.mT).abs().max() < 1e-5
    prepare(module)
    found_BSO = module(x_BTI)
    assert found_BSO.is_contiguous()
    assert (found_BSO - exact_BOS.mT).abs().max() < 1e-5


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("activation", ["identity", "leaky_relu", "clipped_relu", "gelu"])
def test_bias_residual_activation_and_mask_are_done_on_the_way_out(shape, activation, library):
    module = layer(*shape)
    x_BTI = torch.randn(2, 50, shape[1])
    valid = lengths([module.outputs(50), 7], module.outputs(50))
    residual_BSO = torch.randn(2, module.outputs(50), shape[2])
    options = {"residual_BSO": residual_BSO, "activation": activation, "slope": 0.3, "input_slope": 0.1}
    expected_BSO = module(x_BTI, valid, **options)
    prepare(module)
    found_BSO = module(x_BTI, valid, **options)
    assert (found_BSO - expected_BSO).abs().max() < 1e-5
    assert (found_BSO[1, 7:] == 0).all()
    assert module(x_BTI, valid, **options, out_BSO=residual_BSO) is residual_BSO
    assert torch.equal(residual_BSO, found_BSO)


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
def test_an_utterance_gives_the_same_alone_and_in_a_batch(kind):
    for shape in SHAPES:
        module = layer(*shape)
        prepare(module, kind)
        x_BTI = torch.randn(3, 200, shape[1])
        x_BTI[1, 60:] = 0
        together_BSO = module(x_BTI)
        alone_BSO = module(x_BTI[1:2, :60])
        inside = module.outputs(60)
        assert (together_BSO[1, :inside] - alone_BSO[0]).abs().max() < 1e-5


def test_the_direct_weights_are_dropped_and_can_be_had_back(library):
    for shape in SHAPES:
        module = layer(*shape)
        weight_OKI = module.weight_OKI.clone()
        report = prepare(module)
        assert (module.packed is None) == (library == "torch")
        assert module.weight_OKI.numel() == (0 if module.packed else weight_OKI.numel())
        assert report.direct_bytes == (weight_OKI.numel() * 4 if module.packed else 0)
        assert (module.direct_weight() - weight_OKI).abs().max() < 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_what_was_prepared_is_prepared_anew_as_another_kind_where_nothing_has_rounded_it(shape):
    if native.load() is None:
        pytest.skip("the native library was never built")
    x_BTI = torch.randn(2, 83, shape[1])
    for kind in ("bf16", "int8"):
        alone, again = layer(*shape), layer(*shape)
        expected, found = prepare(alone, kind), (prepare(again), prepare(again, kind))[1]
        assert found == expected
        assert alone.packed is None or again.packed.weights == alone.packed.weights
        torch.testing.assert_close(again(x_BTI), alone(x_BTI), rtol=1e-4, atol=1e-4)
        before = again(x_BTI)
        assert prepare(again, kind).weight_bytes == (0 if again.packed else expected.weight_bytes)
        if again.packed is not None and again.packed.weights in ("bfloat16", "int8"):
            with pytest.raises(
                ValueError, match=r"^weights to pack as \w+: they are packed as \w+, which rounded them"
            ):
                prepare(again, "fp32")
        else:
            prepare(again, "fp32")
        torch.testing.assert_close(again(x_BTI), before, rtol=1e-4, atol=1e-4)
    half = layer(*shape).to(torch.bfloat16)
    with pytest.raises(ValueError, match="expected float32 on the CPU, found bfloat16 on cpu"):
        prepare(half)


def test_a_network_of_which_one_layer_is_rounded_is_not_packed_in_part():
    if native.load() is None:
        pytest.skip("the native library was never built")
    network = nn.Sequential(layer(11, 64, 64, 1, 1), layer(11, 64, 64, 1, 1))
    prepare(network[0])
    prepare(network[1], "bf16")
    packed = network[0].packed
    assert network[1].packed.weights == "bfloat16"
    with pytest.raises(ValueError, match="which rounded them"):
        prepare(network, "int8")
    assert network[0].packed is packed


def test_a_change_of_type_brings_the_direct_weights_back_and_none_does_not():
    module = layer(*SHAPES[0])
    weight_OKI = module.weight_OKI.clone()
    prepare(module)
    assert module.float().cpu().packed is not None
    assert module.double().packed is None
    assert module.weight_OKI.dtype == torch.float64
    assert (module.weight_OKI - weight_OKI).abs().max() < 1e-6


@pytest.mark.parametrize(("kind", "weights"), [("fp32", "float32"), ("fp32", "fixed24"), ("int8", "int8")])
def test_traced_it_is_direct(kind, weights):
    if weights != "float32" and native.load() is None:
        pytest.skip("the native library was never built")
    shape = SHAPES[0] if weights == "float32" else (11, 96, 96, 1, 1)
    module = layer(*shape)
    x_BTI = torch.randn(1, 40, shape[1])
    prepare(module, kind)
    traced = torch.jit.trace(module, x_BTI, check_trace=False)
    assert "conv" in str(traced.inlined_graph)
    exported = torch.export.export(module, (x_BTI,))
    for graph in (traced, exported.module()):
        # int8 rounds the inputs too, which a direct sum of the same weights does not.
        assert (graph(x_BTI) - module(x_BTI)).abs().max() < (0.05 if kind == "int8" else 1e-5)


@pytest.mark.parametrize("taps", [1, 11])
def test_nothing_gives_nothing(library, taps):
    module = layer(taps, 24, 40, 1, 1)
    prepare(module)
    assert module(torch.empty(0, 50, 24)).shape == (0, 50, 40)


def test_under_autocast_it_is_direct():
    module = layer(*SHAPES[0])
    prepare(module)
    with torch.autocast("cpu", torch.bfloat16):
        assert module(torch.randn(1, 40, SHAPES[0][1])).dtype == torch.bfloat16


def test_a_gradient_of_the_input_is_that_of_the_direct_sum():
    module = layer(*SHAPES[0])
    x_BTI = torch.randn(1, 40, SHAPES[0][1], requires_grad=True)
    (expected,) = torch.autograd.grad(module(x_BTI).square().sum(), x_BTI)
    prepare(module)
    (found,) = torch.autograd.grad(module(x_BTI).square().sum(), x_BTI)
    assert (found - expected).abs().max() < 1e-4


def test_bfloat16_weights_cost_no_more_than_plain_bfloat16():
    for shape in SHAPES:
        module = layer(*shape)
        x_BTI = torch.randn(2, 60, shape[1])
        exact = module(x_BTI)
        plain = copy.deepcopy(module).bfloat16()(x_BTI.bfloat16()).float()
        prepare(module, "bf16")
        assert (module(x_BTI) - exact).norm() < 2 * (plain - exact).norm()


def test_a_limit_of_bytes_is_kept_where_direct_weights_fit_and_told():
    network = nn.Sequential(*(layer(25, 64, 64, 1, 1) for _ in range(4)))
    free = prepare(copy.deepcopy(network))
    assert free.limited == 0
    assert free.weight_bytes > free.direct_bytes == 4 * 25 * 64 * 64 * 4
    with pytest.warns(SlowPathWarning, match=r"^\d+ MiB .* in place of 2; \d layers would be faster with"):
        tight = prepare(network, limit_bytes=(free.weight_bytes + free.direct_bytes) // 2)
    assert tight.weight_bytes <= (free.weight_bytes + free.direct_bytes) // 2
    assert tight.limited > 0
    x_BTI = torch.randn(1, 80, 64)
    assert network(x_BTI).isfinite().all()


@pytest.mark.parametrize("groups", [1, 8])
def test_dilated_frames_that_are_taken_apart_give_the_same(groups):
    torch.manual_seed(0)
    x_BTI, weight_OIK = torch.randn(2, 31, 8), torch.randn(8, 8 // groups, 7)
    expected = F.conv1d(x_BTI.mT, weight_OIK, padding=9, dilation=3, groups=groups).mT
    found = convolve(x_BTI, weight_OIK.transpose(1, 2), None, dilation=3, padding=9, groups=groups)
    assert found.is_contiguous()
    assert (found - expected).abs().max() < 1e-5


def test_more_frames_after_than_before_and_the_other_way_round(library):
    torch.manual_seed(0)
    x_BTI, weight_OIK = torch.randn(2, 30, 16), torch.randn(24, 16, 8) / 11
    for before, after in ((4, 3), (3, 4), (7, 7), (0, 0)):
        module = FusedConvolution(weight_OIK, before=before, after=after)
        expected = F.conv1d(F.pad(x_BTI.mT, (before, after)), weight_OIK).mT
        assert (module(x_BTI) - expected).abs().max() < 1e-5
        prepare(module)
        assert (module(x_BTI) - expected).abs().max() < 1e-5


def test_a_buffer_is_the_same_until_it_has_to_grow():
    like = torch.empty(0)
    first = workspace(like, "test", 3, 4)
    assert first.shape == (3, 4)
    assert workspace(like, "test", 12).data_ptr() == first.data_ptr()
    assert workspace(like, "other", 12).data_ptr() != first.data_ptr()
    assert workspace(like.double(), "test", 2).dtype == torch.float64
    assert workspace(like, "test", 100_000).shape == (100_000,)


def test_every_thread_has_buffers_of_its_own():
    like = torch.empty(0)
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(workspace, like, "test", 12).result()
    assert theirs.data_ptr() != workspace(like, "test", 12).data_ptr()


@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_bias_that_is_no_parameter_of_its_own_counts_too(is_prepared):
    """As of a replica of `nn.DataParallel` and of a parametrised layer."""
    module, x_BTI = layer(3, 24, 40, 1, 1), torch.randn(2, 19, 24)
    if is_prepared:
        prepare(module)
    expected_BSO = module(x_BTI, activation="gelu")
    replica = module._replicate_for_data_parallel()
    for name, parameter in module.named_parameters():
        setattr(replica, name, parameter.detach())
    assert torch.equal(replica(x_BTI, activation="gelu"), expected_BSO)
    parametrize.register_parametrization(module, "bias", nn.Identity())
    assert torch.equal(module(x_BTI, activation="gelu"), expected_BSO)
