"""Discriminators in training compute what was published: independent forwards, values and gradients.

They are trained on pieces that are all equally long, as published, and know no padding: what they must not do is to let
one piece have an effect on what they say of another.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fastpitch.vocoders.config import DiscriminatorConfig
from fastpitch.vocoders.training.discriminators import Discriminators

LOUD = 1e3
# Of a scale as published: stride and groups, the latter over the divisor of the channels.
SCALE_STRIDES, SCALE_GROUPS = (1, 2, 2, 4, 4, 1, 1), (1, 4, 16, 16, 16, 16, 1)
ONES = (1, 1, 1, 1, 1)


def lively(cfg: DiscriminatorConfig) -> Discriminators:
    torch.manual_seed(0)
    network = Discriminators(cfg).train()
    for parameter in network.parameters():
        parameter.data += 0.1 * parameter.abs().mean() * torch.randn(parameter.shape)
    return network


def normalised_weights(network: nn.Module) -> dict[str, Tensor]:
    """Weights and biases by name, after weight normalisation (g v / |v|) or spectral normalisation.

    The latter divides by the greatest singular value, which is estimated by one more step of the power iteration.
    """
    weights, state = dict(network.named_parameters()), {k: v.clone() for k, v in network.named_buffers()}
    for name in list(weights):
        prefix, _, kind = name.rpartition(".parametrizations.weight.")
        if kind == "original1":
            v, g = weights[name], weights[f"{prefix}.parametrizations.weight.original0"]
            size = v.flatten(1).square().sum(1).sqrt().view(-1, *[1] * (v.ndim - 1))
            weights[f"{prefix}.weight"] = g * v / size
        elif kind == "original":
            matrix = weights[name].flatten(1)
            u = matrix.detach() @ state[f"{prefix}.parametrizations.weight.0._v"]
            u = u / u.norm()
            v = matrix.detach().T @ u
            v = v / v.norm()
            weights[f"{prefix}.weight"] = weights[name] / (u @ matrix @ v)
    return weights


def stacked(weights: dict[str, Tensor], prefix: str, x: Tensor, strides: tuple, groups: tuple) -> list[Tensor]:
    """Outputs of all layers over x [1, C, ...]; kernels are centred, and LeakyReLU follows all but the last."""
    said = []
    for i, (stride, parts) in enumerate(zip((*strides, 1), (*groups, 1), strict=True)):
        name = f"{prefix}.convs.{i}" if i < len(strides) else f"{prefix}.conv_post"
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        conv = F.conv1d if weight.ndim == 3 else F.conv2d
        x = conv(x, weight, bias, stride, tuple(k // 2 for k in weight.shape[2:]), 1, parts)
        x = torch.where(x > 0, x, 0.1 * x) if i < len(strides) else x
        said.append(x)
    return said


def of_period(weights: dict[str, Tensor], prefix: str, period: int, audio_N: Tensor) -> list[Tensor]:
    """Each of `period` columns by itself, a one-dimensional network over every period-th sample."""
    missing = -len(audio_N) % period
    audio_N = torch.cat([audio_N, audio_N[-1 - missing : -1].flip(0)])
    flat = {k: v.squeeze(-1) if v.ndim == 4 else v for k, v in weights.items() if k.startswith(prefix)}
    columns = [stacked(flat, prefix, audio_N[None, None, p::period], (3, 3, 3, 3, 1), ONES) for p in range(period)]
    return [torch.stack(layer, -1) for layer in zip(*columns, strict=True)]


def of_scale(weights: dict[str, Tensor], scale: int, divide: int, audio_N: Tensor) -> list[Tensor]:
    for _ in range(scale):
        audio_N = F.pad(audio_N, (2, 2)).unfold(0, 4, 2).mean(1)
    groups = tuple(max(1, n // divide) for n in SCALE_GROUPS)
    return stacked(weights, f"msd.{scale}", audio_N[None, None], SCALE_STRIDES, groups)


def of_resolution(weights: dict[str, Tensor], prefix: str, size: int, audio_N: Tensor) -> list[Tensor]:
    """Over magnitudes of windows, which are reflected at the ends of the audio."""
    audio_N = torch.cat([audio_N[1 : size // 2 + 1].flip(0), audio_N, audio_N[-size // 2 - 1 : -1].flip(0)])
    time_S, frequency_K = torch.arange(size).double(), torch.arange(size // 2 + 1).double()
    windows_TS = audio_N.double().unfold(0, size, size // 4) * torch.sin(torch.pi * time_S / size).square()
    angle_SK = 2 * torch.pi * time_S[:, None] * frequency_K / size
    power_TK = (windows_TS @ angle_SK.cos()).square() + (windows_TS @ angle_SK.sin()).square()
    image = power_TK.clamp(min=1e-7).sqrt().to(audio_N.dtype)[None, None]
    return stacked(weights, prefix, image, ((1, 1), (1, 2), (1, 2), (1, 2), (1, 1)), ONES)


def close(found: Tensor, expected: Tensor) -> None:
    """To 1e-5, of the greatest where that is beyond 1."""
    largest = max(1.0, float(expected.detach().abs().max()))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize(
    ("cfg", "dtype"),
    [
        (DiscriminatorConfig(periods=(2, 3), scales=3, divide_channels=16), torch.float64),
        # Spectrograms are in float32 whatever the network is.
        (DiscriminatorConfig(periods=(), scales=0, resolutions=(64, 32), divide_channels=16), torch.float32),
    ],
    ids=["periods and scales", "resolutions"],
)
def test_discriminators_compute_what_was_published_of_every_piece_by_itself(cfg, dtype):
    network = lively(cfg).to(dtype)
    weights = normalised_weights(network)  # before the forward pass, which goes on with the power iteration
    audio_BN = 0.3 * torch.randn(3, 301, generator=torch.Generator().manual_seed(1), dtype=dtype)
    audio_BN[1] = LOUD
    audio_BN.requires_grad_()
    found, beside = network(audio_BN), (0, 2)
    names = [f"mpd.{i}" for i in range(len(cfg.periods))]
    totals = torch.zeros(2, dtype=dtype)
    for b in beside:
        expected = [of_period(weights, name, p, audio_BN[b]) for name, p in zip(names, cfg.periods, strict=True)]
        expected += [of_scale(weights, scale, cfg.divide_channels, audio_BN[b]) for scale in range(cfg.scales)]
        expected += [of_resolution(weights, f"mrd.{i}", n, audio_BN[b]) for i, n in enumerate(cfg.resolutions)]
        assert [len(layers) for layers in found.features] == [len(layers) for layers in expected]
        for mine, theirs, scores in zip(found.features, expected, found.scores, strict=True):
            assert scores is mine[-1]
            for one, other in zip(mine, theirs, strict=True):
                close(one[b], other[0])
                direction = torch.randn_like(other)
                totals = totals + torch.stack([(one[b] * direction[0]).mean(), (other * direction).mean()])
    learned = [audio_BN, *network.parameters()]
    gradients = [torch.autograd.grad(total, learned, retain_graph=True) for total in totals]
    for one, other in zip(*gradients, strict=True):
        close(one, other)
        assert other.abs().max() > 1e-6
    assert not gradients[0][0][1].any()
