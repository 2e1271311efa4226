import pytest
import torch
from torch.nn import functional as F

from common.convolution import native, products
from tests.wav2vec2.small import CONV_LAYERS, audio_batch, lively, small_config
from wav2vec2.network import extractor
from wav2vec2.network.config import CONV_LAYERS as PUBLISHED_LAYERS
from wav2vec2.network.extractor import FeatureExtractor, FirstLayer, StridedConv, n_frames

ODD_LAYERS = ((8, 7, 3), (12, 5, 2), (8, 4, 4), (8, 1, 1))


def reference(model: FeatureExtractor, audio_N: torch.Tensor) -> torch.Tensor:
    """One utterance through torch's own convolutions and normalisations, as published."""
    x_1CS = audio_N[None, None]
    for layer in model.layers:
        x_1CS = F.conv1d(x_1CS, layer.weight.transpose(1, 2), layer.bias, stride=layer.stride)
        if isinstance(layer, FirstLayer):
            x_1CS = layer.norm(x_1CS)
        elif layer.norm is not None:
            x_1CS = layer.norm(x_1CS.transpose(1, 2)).transpose(1, 2)
        x_1CS = F.gelu(x_1CS)
    return x_1CS[0].T


@pytest.fixture(params=[False, True], ids=["slow products", "fast products"])
def products_are_fast(request, monkeypatch):
    """As on a processor where MKL is fast, and as where it is slow."""
    monkeypatch.setattr(products, "has_fast_products", lambda: request.param)


@pytest.mark.usefixtures("products_are_fast")
@pytest.mark.parametrize("kind", ["base", "large"])
@pytest.mark.parametrize("layers", [CONV_LAYERS, ODD_LAYERS])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_every_utterance_of_a_padded_batch_gets_the_features_that_it_gets_alone(kind, layers, grad, bias):
    config = small_config(kind, conv_layers=layers, conv_bias=bias)
    model = lively(FeatureExtractor(config))
    audio_BN, samples_B = audio_batch((8003, 5000, 4001), padding=7.0)
    with torch.set_grad_enabled(grad):
        x_BSC, frames_B = model(audio_BN, samples_B)
    for audio_N, samples, x_SC, frames in zip(audio_BN, samples_B, x_BSC, frames_B, strict=True):
        expected = reference(model, audio_N[:samples])
        assert len(expected) == frames
        torch.testing.assert_close(x_SC[:frames], expected, atol=1e-5, rtol=1e-5)
    assert x_BSC.shape[1] == max(frames_B)


@pytest.mark.usefixtures("products_are_fast")
def test_what_inference_packs_is_given_up_when_weights_change():
    model = lively(FeatureExtractor(small_config()))
    audio_BN, samples_B = audio_batch((4000,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    with torch.no_grad():
        model(audio_BN, samples_B)
    model(audio_BN, samples_B).x_BSC.square().sum().backward()
    optimizer.step()  # leaves no trace
    with torch.no_grad():
        found = model(audio_BN, samples_B).x_BSC[0]
        torch.testing.assert_close(found, reference(model, audio_BN[0]), atol=1e-5, rtol=1e-5)
        model.layers[1].weight.data.mul_(0.5)  # neither
        found = model.eval()(audio_BN, samples_B).x_BSC[0]
        torch.testing.assert_close(found, reference(model, audio_BN[0]), atol=1e-5, rtol=1e-5)


def test_a_bias_that_normalisation_takes_away_gets_a_gradient_of_zero():
    model = lively(FeatureExtractor(small_config(conv_bias=True)))
    model(*audio_batch((8000,))).x_BSC.square().sum().backward()
    assert not model.layers[0].bias.grad.any()


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (2, 2), (10, 5), (7, 3), (1, 1), (5, 4)])
def test_the_gradient_of_a_strided_convolution_is_that_of_finite_differences(kernel, stride):
    generator = torch.Generator().manual_seed(0)
    draw = {"generator": generator, "dtype": torch.float64, "requires_grad": True}
    x_RI, weight_OKI, bias_O = (torch.randn(*s, **draw) for s in ((6 * stride, 3), (4, kernel, 3), (4,)))
    assert torch.autograd.gradcheck(lambda x, w, b: StridedConv.apply(x, w, b, stride), (x_RI, weight_OKI, bias_O))
    assert torch.autograd.gradcheck(lambda x, w: StridedConv.apply(x, w, None, stride), (x_RI, weight_OKI))


@pytest.mark.skipif(native.load() is None, reason="the native library was never built")
@pytest.mark.parametrize("has_gelu", [False, True])
@pytest.mark.parametrize(("taps", "stride"), [(3, 2), (2, 2), (5, 3), (10, 5), (1, 1)])
def test_by_native_products_a_strided_convolution_and_its_gradients_are_those_of_torch(
    taps, stride, has_gelu, monkeypatch
):
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    torch.manual_seed(0)
    given = [torch.randn(shape, requires_grad=True) for shape in ((101, 40), (50, taps, 40), (50,))]
    x_RI, weight_OKI, bias_O = exactly = [leaf.detach().double().requires_grad_() for leaf in given]
    found = StridedConv.apply(*given, stride, has_gelu)
    exact = F.conv1d(x_RI.T[None], weight_OKI.transpose(1, 2), bias_O, stride)[0].T
    exact = F.gelu(exact) if has_gelu else exact
    weights_SO = torch.randn_like(found)
    gradients = torch.autograd.grad((found * weights_SO).sum(), given)
    wanted = torch.autograd.grad((exact * weights_SO.double()).sum(), exactly)
    for ours, theirs in zip((found, *gradients), (exact, *wanted), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-5 * float(theirs.detach().abs().max()))


def test_what_passes_in_stretches_is_what_passes_at_once(monkeypatch):
    model = lively(FeatureExtractor(small_config("large")))
    with torch.no_grad():
        expected = model(*audio_batch()).x_BSC
        monkeypatch.setattr(extractor, "STRETCH", 37)
        monkeypatch.setattr(extractor, "FIRST_LAYERS", 5)
        torch.testing.assert_close(model(*audio_batch()).x_BSC, expected, atol=1e-5, rtol=1e-5)


def test_a_loud_offset_does_not_spoil_the_statistics_of_the_first_layer():
    model = lively(FeatureExtractor(small_config()))
    audio_BN, samples_B = audio_batch((8000,))
    with torch.no_grad():
        found = model(audio_BN + 50, samples_B).x_BSC[0]
        expected = reference(model.double(), audio_BN[0].double() + 50)
    assert (found - expected).abs().max() < 1e-3 * expected.abs().max()


@pytest.mark.parametrize("grad", [False, True])
def test_an_offset_is_taken_away_before_samples_are_rounded_to_16_bits(grad):
    model = lively(FeatureExtractor(small_config()))
    audio_BN, samples_B = audio_batch((8000, 5000))
    quiet_BN = (0.1 * (audio_BN - 0.02)).masked_fill(audio_BN == 0, 0.0)
    expected = model(quiet_BN, samples_B).x_BSC
    offset_BN = torch.where(audio_BN == 0, 0.0, quiet_BN + 0.5)
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
        found = model(offset_BN, samples_B).x_BSC
    frames = n_frames(5000, CONV_LAYERS)
    assert (found[:, :frames].float() - expected[:, :frames]).norm() < 0.05 * expected[:, :frames].norm()
    assert model((offset_BN * 100).half(), samples_B).x_BSC.isfinite().all()  # its sum is beyond what float16 holds


def test_ten_seconds_are_499_frames_and_less_than_25_ms_are_none():
    assert n_frames(160_000, PUBLISHED_LAYERS) == 499
    assert n_frames(torch.tensor([400, 399, 0, 720]), PUBLISHED_LAYERS).tolist() == [1, 0, 0, 2]
    assert [n_frames(samples, PUBLISHED_LAYERS) for samples in (400, 399, 0)] == [1, 0, 0]


def test_in_autocast_the_features_are_close_to_those_in_float32():
    model = lively(FeatureExtractor(small_config("large")))
    expected = model(*audio_batch()).x_BSC
    for grad in (True, False):
        with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
            found = model(*audio_batch()).x_BSC
        assert (found.float() - expected).norm() < 0.05 * expected.norm()
