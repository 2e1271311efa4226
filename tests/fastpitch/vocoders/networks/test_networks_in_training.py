"""Vocoders in training compute what was published: independent forwards, values and gradients.

Vocoders are trained on pieces that are all equally long, as published, so that no batch of theirs has padding. Where a
network can be told of some, it is here told, and the padding is full of large values.
"""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common import config
from common.features import TTS, LogMelConfig
from fastpitch.vocoders.networks.config import HifiganConfig, IstftConfig, WaveglowConfig
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.istft import IstftGenerator
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.training.objective import negative_log_likelihood
from tests.fastpitch.vocoders.small import random_mel

RUBBISH, MEL_BINS = 1e3, 6
SMALL = {"upsample_rates": (4, 2), "upsample_kernels": (8, 4), "channels": 8}
HIFIGAN = {
    "pairs": HifiganConfig(**SMALL, resblock_kernels=(3, 5), resblock_dilations=((1, 3), (1, 2))),
    "single": HifiganConfig(**SMALL, resblock="2", resblock_kernels=(3, 5), resblock_dilations=((1, 2), (2, 6))),
}


def lively(network: nn.Module) -> nn.Module:
    """`network` in training, in double precision, no bias 0 and no scale 1, with weights that keep sizes."""
    torch.manual_seed(0)
    for name, parameter in network.named_parameters():
        if name.endswith("original0"):
            parameter.data = 1 + 0.1 * torch.randn(parameter.shape)
        elif parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn(parameter.shape)
        elif "convinv" not in name:
            torch.nn.init.normal_(parameter, 0.0, parameter[0].numel() ** -0.5)
    return network.double().train()


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Weights and biases by name; those with weight normalisation are length g times direction v / |v|."""
    weights = dict(network.named_parameters())
    for name in [name for name in weights if name.endswith(".original0")]:
        v = weights[name.replace("original0", "original1")]
        size = v.flatten(1).square().sum(1).sqrt().view(-1, *[1] * (v.ndim - 1))
        weights[name.replace("parametrizations.weight.original0", "weight")] = weights[name] * v / size
    return weights


def close(found: Tensor, expected: Tensor) -> None:
    """To 1e-5, of the greatest where that is beyond 1."""
    largest = max(1.0, float(expected.detach().abs().max()))
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=1e-5 * largest)


def same_gradients(found: Tensor, expected: Tensor, learned: list[Tensor]) -> list[Tensor]:
    """The gradients of `found`, which must be those of `expected`, and none of them 0."""
    mine, theirs = (torch.autograd.grad(total, learned, retain_graph=True) for total in (found, expected))
    for found_gradient, expected_gradient in zip(mine, theirs, strict=True):
        close(found_gradient, expected_gradient)
    assert all(gradient.abs().max() > 1e-4 for gradient in theirs)
    return list(mine)


def leaky(x: Tensor, slope: float) -> Tensor:
    return torch.where(x > 0, x, slope * x)


def hifigan_forward(weights: dict[str, Tensor], cfg: HifiganConfig, mel_MT: Tensor) -> Tensor:
    """Audio of one utterance."""

    def conv(name: str, x: Tensor, dilation: int = 1) -> Tensor:
        weight = weights[f"{name}.weight"]
        return F.conv1d(x, weight, weights[f"{name}.bias"], 1, weight.shape[2] // 2 * dilation, dilation)

    x = conv("conv_pre", mel_MT)
    for stage, (rate, kernel) in enumerate(zip(cfg.upsample_rates, cfg.upsample_kernels, strict=True)):
        up = weights[f"ups.{stage}.weight"], weights[f"ups.{stage}.bias"]
        x = F.conv_transpose1d(leaky(x, 0.1), *up, rate, (kernel - rate) // 2)
        blocks = []
        for k, dilations in enumerate(cfg.resblock_dilations):
            y = x
            for d, dilation in enumerate(dilations):
                branch = conv(f"resblocks.{stage}.{k}.convs1.{d}", leaky(y, 0.1), dilation)
                if cfg.resblock == "1":
                    branch = conv(f"resblocks.{stage}.{k}.convs2.{d}", leaky(branch, 0.1))
                y = y + branch
            blocks.append(y)
        x = torch.stack(blocks).mean(0)
    return conv("conv_post", leaky(x, 0.01))[0].tanh()


def istft_forward(generator: IstftGenerator, weights: dict[str, Tensor], mel_MT: Tensor) -> Tensor:
    """Audio of one utterance: frames are synthesised one by one, from sines and cosines."""
    cfg, hop, size = generator.cfg, generator.hop_samples, generator.cfg.n_fft

    def conv(name: str, x_TC: Tensor, groups: int = 1) -> Tensor:
        return F.conv1d(x_TC.T, weights[f"{name}.weight"], weights[f"{name}.bias"], 1, cfg.kernel // 2, 1, groups).T

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = norm("norm", conv("embed", (mel_MT.T + 5) * 0.4))
    for i in range(cfg.layers):
        wide = linear(f"blocks.{i}.widen", norm(f"blocks.{i}.norm", conv(f"blocks.{i}.depthwise", x, cfg.channels)))
        wide = wide * (1 + torch.erf(wide / math.sqrt(2))) / 2
        x = x + weights[f"blocks.{i}.scale_C"] * linear(f"blocks.{i}.narrow", wide)
    log_magnitude_TK, phase_TK = linear("head", norm("last_norm", x)).chunk(2, -1)
    prior_TK = mel_MT.T @ generator.prior_KM.double().T + generator.prior_K.double()
    magnitude_TK = (log_magnitude_TK + prior_TK).clamp(max=7.0).exp()

    sample_S, frequency_K = torch.arange(size).double(), torch.arange(size // 2 + 1).double()
    counts_K = torch.full((size // 2 + 1,), 2.0, dtype=torch.float64)
    counts_K[0] = counts_K[-1] = 1.0  # the others stand for two
    window_S = torch.sin(math.pi * sample_S / size).square()
    angle_KS = 2 * math.pi * frequency_K[:, None] * sample_S / size
    audio, squares = (torch.zeros(len(x) * hop + size, dtype=torch.float64) for _ in range(2))
    for t, (magnitude_K, phase_K) in enumerate(zip(magnitude_TK, phase_TK, strict=True)):
        waves_KS = magnitude_K[:, None] * (phase_K[:, None] + angle_KS).cos()
        # At 0 and at half the sample rate an inverse transform of real audio knows no imaginary part.
        frame_S = (counts_K[:, None] * waves_KS).sum(0) / size * window_S
        before, after = t * hop, len(audio) - t * hop - size
        audio, squares = audio + F.pad(frame_S, (before, after)), squares + F.pad(window_S.square(), (before, after))
    here = slice(size // 2, size // 2 + len(x) * hop)
    return audio[here] / squares[here].clamp(min=1e-3)


def ragged_mel(*frames: int) -> tuple[Tensor, Tensor]:
    mel_BMT = random_mel(len(frames), MEL_BINS, max(frames)).double()
    for mel_MT, n in zip(mel_BMT, frames, strict=True):
        mel_MT[:, n:] = RUBBISH
    return mel_BMT, torch.tensor(frames)


def ragged_generator_test(generator, forward, frames: tuple[int, ...]) -> None:
    mel_BMT, frames_B = ragged_mel(*frames)
    mel_BMT.requires_grad_()
    found_BN = generator(mel_BMT, frames_B)
    expected = [forward(mel_MT[:, :n]) for mel_MT, n in zip(mel_BMT, frames, strict=True)]
    expected_BN = torch.stack([F.pad(audio_N, (0, found_BN.shape[1] - len(audio_N))) for audio_N in expected])
    assert expected_BN.std() > 0.01
    close(found_BN, expected_BN)
    direction_BN = torch.randn_like(expected_BN)
    learned = [mel_BMT, *generator.parameters()]
    gradient_BMT, *_ = same_gradients((found_BN * direction_BN).sum(), (expected_BN * direction_BN).sum(), learned)
    assert all(not gradient_MT[:, n:].any() for gradient_MT, n in zip(gradient_BMT, frames, strict=True))
    whole = generator(mel_BMT[:1])  # as training has it: pieces without padding
    close(whole[0], expected[0])


@pytest.mark.parametrize("kind", HIFIGAN)
def test_hifigan_with_weight_normalisation_computes_what_was_published(kind):
    generator = lively(HifiganGenerator(HIFIGAN[kind], MEL_BINS, normalized=True))
    weights = weights_of(generator)
    assert sum(name.endswith("original0") for name in weights) == sum(
        isinstance(module, nn.Conv1d | nn.ConvTranspose1d) for module in generator.modules()
    )
    ragged_generator_test(generator, lambda mel_MT: hifigan_forward(weights, HIFIGAN[kind], mel_MT), (19, 7, 1))


def test_the_inverse_stft_vocoder_computes_its_description():
    framing = {"mel_bins": MEL_BINS, "n_fft": 64, "window_samples": 64, "hop_samples": 16}
    features = LogMelConfig(**(config.to_dict(TTS) | framing))
    generator = lively(IstftGenerator(IstftConfig(channels=8, layers=2, kernel=5, n_fft=64), features))
    weights = weights_of(generator)
    ragged_generator_test(generator, lambda mel_MT: istft_forward(generator, weights, mel_MT), (13, 6, 1))


def waveglow_forward(network: Waveglow, mel_BMT: Tensor, audio_BN: Tensor) -> Tensor:
    """Mean over samples of -log p(audio), less the constant: equations 4 to 8 of the paper."""
    cfg, hop, weights = network.cfg, network.hop_samples, weights_of(network)

    def conv(name: str, x: Tensor, dilation: int = 1) -> Tensor:
        weight = weights[f"{name}.weight"]
        return F.conv1d(x, weight, weights[f"{name}.bias"], 1, weight.shape[2] // 2 * dilation, dilation)

    n_samples = audio_BN.shape[1]
    spread = F.conv_transpose1d(mel_BMT, weights["upsample.weight"], weights["upsample.bias"], hop)[:, :, :n_samples]
    spread = torch.cat([spread[:, [m], g :: cfg.group] for m in range(mel_BMT.shape[1]) for g in range(cfg.group)], 1)
    x = torch.stack([audio_BN[:, g :: cfg.group] for g in range(cfg.group)], 1)
    early, log_density = [], torch.zeros((), dtype=torch.float64)
    for flow in range(cfg.flows):
        if flow and flow % cfg.early_every == 0:
            early.append(x[:, : cfg.early_channels])
            x = x[:, cfg.early_channels :]
        matrix = weights[f"convinv.{flow}.conv.weight"][:, :, 0]
        x = torch.einsum("ij,bjp->bip", matrix, x)
        log_density = log_density + x.shape[0] * x.shape[2] * matrix.det().abs().log()
        half = x.shape[1] // 2
        kept, changed = x[:, :half], x[:, half:]
        hidden, skipped = conv(f"WN.{flow}.start", kept), 0
        for i in range(cfg.layers):
            heard = conv(f"WN.{flow}.cond_layers.{i}", spread)
            gates = conv(f"WN.{flow}.in_layers.{i}", hidden, 2**i) + heard
            gated = gates[:, : cfg.channels].tanh() * gates[:, cfg.channels :].sigmoid()
            out = conv(f"WN.{flow}.res_skip_layers.{i}", gated)
            if i < cfg.layers - 1:
                hidden, out = hidden + out[:, : cfg.channels], out[:, cfg.channels :]
            skipped = skipped + out
        end = conv(f"WN.{flow}.end", skipped)
        shift, log_scale = end[:, :half], end[:, half:]
        x = torch.cat([kept, changed * log_scale.exp() + shift], 1)
        log_density = log_density + log_scale.sum()
    z = torch.cat([*early, x], 1)
    return (z.square().sum() / 2 - log_density) / z.numel()


def test_waveglow_computes_the_published_likelihood_and_hears_no_frame_beyond_the_audio():
    cfg = WaveglowConfig(flows=5, group=8, layers=2, channels=4)
    network = lively(Waveglow(cfg, MEL_BINS, 16, normalized=True))
    mel_BMT, audio_BN = random_mel(2, MEL_BINS, 9).double() / 5, 0.3 * torch.randn(2, 6 * 16, dtype=torch.float64)
    mel_BMT[:, :, 6:] = RUBBISH  # upsampling is causal: frames that begin after the end say nothing of it
    mel_BMT.requires_grad_()
    found = negative_log_likelihood(network(mel_BMT, audio_BN), 1.0)
    expected = waveglow_forward(network, mel_BMT, audio_BN)
    close(found, expected)
    gradient_BMT, *_ = same_gradients(found, expected, [mel_BMT, *network.parameters()])
    assert not gradient_BMT[:, :, 6:].any()
