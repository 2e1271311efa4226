import copy

import pytest
import torch
from torch.nn import functional as F

from tests.wav2vec2.small import lively, small_config
from wav2vec2.network.positions import PositionalConv, rfft


def direct(positions: PositionalConv, x_BSD: torch.Tensor) -> torch.Tensor:
    """As published: one grouped convolution, and an even kernel's last frame dropped."""
    weight_DEK = positions.direction * positions.norm / positions.direction.norm(dim=(0, 1), keepdim=True)
    y_BDS = F.conv1d(
        x_BSD.transpose(1, 2), weight_DEK, positions.bias, padding=positions.kernel // 2, groups=positions.groups
    )
    return F.gelu(y_BDS[:, :, : x_BSD.shape[1]]).transpose(1, 2)


@pytest.mark.parametrize("kernel", [1, 3, 16, 21])
@pytest.mark.parametrize("frames", [1, 5, 17, 100])
def test_values_and_gradients_are_those_of_the_convolution(kernel, frames):
    positions = lively(PositionalConv(small_config(pos_kernel=kernel)))
    x_BSD = torch.randn(3, frames, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found, expected = positions(x_BSD), direct(positions, x_BSD)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    inputs = [x_BSD, *positions.parameters()]
    gradients = (torch.autograd.grad((y * weight).sum(), inputs) for y in (found, expected))
    for mine, theirs in zip(*gradients, strict=True):
        assert (mine - theirs).norm() <= 1e-5 * theirs.norm() + 1e-5


def test_what_inference_keeps_is_given_up_when_weights_change():
    positions = lively(PositionalConv(small_config()))
    x_BSD = torch.randn(2, 30, 32)
    with torch.inference_mode():
        first = positions(x_BSD)
        kept = positions.kept.found
        assert kept is not None
        assert torch.equal(positions(x_BSD), first)
        assert positions.kept.found is kept
    with torch.no_grad():
        positions.norm *= 2
        torch.testing.assert_close(positions(x_BSD), direct(positions, x_BSD), atol=1e-5, rtol=1e-5)
        other = lively(PositionalConv(small_config()), seed=1)
        positions.load_state_dict(copy.deepcopy(other.state_dict()), assign=True)
        torch.testing.assert_close(positions(x_BSD), direct(other, x_BSD), atol=1e-5, rtol=1e-5)


def test_what_inference_keeps_is_given_up_when_a_fused_optimiser_takes_a_step():
    positions = lively(PositionalConv(small_config())).eval()
    optimizer = torch.optim.AdamW(positions.parameters(), lr=0.1, fused=True)
    x_BSD = torch.randn(2, 30, 32)
    with torch.no_grad():
        positions(x_BSD)
    positions(x_BSD).sum().backward()
    optimizer.step()
    with torch.no_grad():
        torch.testing.assert_close(positions(x_BSD), direct(positions, x_BSD), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_what_inference_keeps_is_given_up_when_weights_are_swapped_or_evaluation_begins():
    positions, x_BSD = lively(PositionalConv(small_config())).eval(), torch.randn(2, 30, 32)
    positions(x_BSD)
    positions.direction.data = lively(PositionalConv(small_config()), seed=1).direction.data
    torch.testing.assert_close(positions(x_BSD), direct(positions, x_BSD), atol=1e-5, rtol=1e-5)
    positions.norm.data.mul_(2)  # leaves no trace
    positions.eval()
    torch.testing.assert_close(positions(x_BSD), direct(positions, x_BSD), atol=1e-5, rtol=1e-5)


def test_weights_that_cannot_tell_of_changes_are_not_relied_upon():
    with torch.inference_mode():
        positions = lively(PositionalConv(small_config()))
        positions(torch.randn(2, 30, 32))
        assert positions.kept.found is None


def test_in_float64_it_is_computed_in_float64():
    positions = lively(PositionalConv(small_config(pos_kernel=21))).double()
    x_BSD = torch.randn(2, 60, 32, dtype=torch.float64)
    torch.testing.assert_close(positions(x_BSD), direct(positions, x_BSD), atol=1e-12, rtol=1e-12)


def test_in_low_precision_it_is_computed_in_float32():
    positions = lively(PositionalConv(small_config())).bfloat16()
    x_BSD = torch.randn(2, 30, 32).bfloat16()
    found = positions(x_BSD)
    expected = copy.deepcopy(positions).float()(x_BSD.float())
    assert found.dtype == torch.bfloat16
    assert (found.float() - expected).abs().max() <= expected.abs().max() / 128


@pytest.mark.parametrize("length", [5, 8])
def test_the_gradient_of_the_spectrum_is_that_of_torch(length):
    x = torch.randn(3, length, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 5, dtype=torch.complex128)
    mine, theirs = (
        torch.autograd.grad((y * weight).real.sum() + (y.abs() ** 2).sum(), x)[0]
        for y in (rfft(x, 8), torch.fft.rfft(x, n=8))
    )
    torch.testing.assert_close(mine, theirs)
