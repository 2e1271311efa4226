import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from common import config
from common.config import ConfigError
from common.devices.precision import cast_for_inference
from fastpitch.vocoders.config import WaveglowRun
from fastpitch.vocoders.networks.config import WaveglowConfig
from fastpitch.vocoders.networks.fused_waveglow import FusedWaveglow
from fastpitch.vocoders.networks.waveglow import Likelihood, Waveglow
from fastpitch.vocoders.training.objective import negative_log_likelihood
from tests.fastpitch.vocoders.small import WAVEGLOW, loud, random_mel


def small(seed: int = 0, *, normalized: bool = False) -> Waveglow:
    torch.manual_seed(seed)
    network = Waveglow(WAVEGLOW.model, 16, 256, normalized=normalized)
    return network if normalized else loud(network, seed)  # type: ignore[return-value]


def random_audio(*shape: int) -> torch.Tensor:
    return 0.3 * torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("channels", "normalized", "expected"),
    [(256, False, 87_731_816), (256, True, 87_879_272), (512, False, 267_999_848), (512, True, 268_294_760)],
)
def test_there_are_as_many_parameters_as_published(channels, normalized, expected):
    with torch.device("meta"):
        network = Waveglow(WaveglowConfig(channels=channels), 80, 256, normalized=normalized)
    assert sum(p.numel() for p in network.parameters()) == expected


def test_the_inverse_of_the_noise_is_the_audio():
    network, mel_BMT, audio_BN = small().eval(), random_mel(2, 16, 12), random_audio(2, 12 * 256)
    with torch.no_grad():
        said = network(mel_BMT, audio_BN)
        assert (said.z_BGP.transpose(1, 2).flatten(1) - audio_BN).abs().max() > 0.1
        torch.testing.assert_close(network.inverse(mel_BMT, said.z_BGP), audio_BN, rtol=0, atol=1e-4)


@pytest.mark.parametrize("is_prepared", [False, True])
def test_the_layout_for_a_cpu_gives_the_same_audio(is_prepared):
    network = small().eval()
    fused = FusedWaveglow(network)
    fused = cast_for_inference(fused, "fp32") if is_prepared else fused
    mel_BMT, frames_B, z_BGP = (
        random_mel(2, 16, 12),
        torch.tensor([12, 5]),
        random_audio(2, WAVEGLOW.model.group, 12 * 256 // WAVEGLOW.model.group),
    )
    with torch.no_grad():
        plain_BN, fused_BN = (model.inverse(mel_BMT, z_BGP, frames_B) for model in (network, fused))
        alone_BN = fused.inverse(mel_BMT[1:, :, :5], z_BGP[1:, :, :160])
    assert plain_BN.std() > 0.01
    torch.testing.assert_close(fused_BN, plain_BN, rtol=0, atol=1e-5)
    torch.testing.assert_close(alone_BN, plain_BN[1:, : alone_BN.shape[1]], rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="z of shape"):
        fused.inverse(mel_BMT, z_BGP[..., :-1])


def test_the_log_determinant_is_that_of_the_jacobian():
    """The Jacobian of the whole mapping is computed by brute force, for a short piece."""
    torch.manual_seed(0)
    cfg = WaveglowConfig(flows=5, group=8, layers=1, channels=4)
    network = loud(Waveglow(cfg, 3, 16)).double().eval()
    mel_BMT, audio_BN = random_mel(1, 3, 2).double(), random_audio(1, 32).double()
    jacobian = torch.func.jacrev(lambda x: network(mel_BMT, x).z_BGP.flatten())(audio_BN).squeeze(1)
    said = network(mel_BMT, audio_BN)
    expected = torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(said.log_scales_B[0] + said.log_determinant, expected, rtol=0, atol=1e-6)


def test_training_starts_from_a_mapping_that_keeps_volumes():
    network, mel_BMT, audio_BN = small(normalized=True), random_mel(1, 16, 4), random_audio(1, 1024)
    said = network(mel_BMT, audio_BN)
    assert said.log_scales_B.abs().max() == 0
    assert abs(said.log_determinant.item()) < 1e-2
    assert said.z_BGP.norm().item() == pytest.approx(audio_BN.norm().item(), rel=1e-4)
    loss = negative_log_likelihood(said, 1.0).item()
    assert loss == pytest.approx(audio_BN.square().mean().item() / 2, abs=1e-4)


def test_the_kept_inverse_follows_the_weights():
    network, mel_BMT, z_BGP = small().eval(), random_mel(1, 16, 4), torch.randn(1, 8, 128)
    with torch.no_grad():
        before = network.inverse(mel_BMT, z_BGP)
        network.convinv[0].conv.weight.mul_(2)
        assert not torch.equal(network.inverse(mel_BMT, z_BGP), before)
        assert network.half().inverse(mel_BMT.half(), z_BGP.half()).dtype == torch.float16


def test_a_network_made_in_inference_mode_speaks():
    with torch.inference_mode():
        network = small().eval()
        first, again = (network.inverse(random_mel(1, 16, 4), torch.ones(1, 8, 128)) for _ in range(2))
    assert torch.equal(first, again)


def test_published_sizes_need_99_frames_of_context():
    with torch.device("meta"):
        assert Waveglow(WaveglowConfig(), 80, 256).context_frames == 99


def test_noise_of_another_shape_is_told():
    with pytest.raises(ValueError, match=r"z of shape \(1, 8, 100\) for mel \(1, 16, 4\); expected \(1, 8, 128\)"):
        small().inverse(random_mel(1, 16, 4), torch.zeros(1, 8, 100))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model": {"kernel": 2}}, "kernel = 2: expected an odd number of positions"),
        ({"model": {"flows": 17}}, "group = 8 with 8 channels put out early: expected even numbers, and 2 channels"),
        ({"features": {"hop_samples": 100, "n_fft": 400, "window_samples": 400}}, "expected a multiple of model.group"),
        ({"sigma": 0.0}, "sigma = 0.0: expected a number above 0"),
        ({"clip_norm": -1.0}, "clip_norm = -1.0: expected a number of at least 0"),
    ],
)
def test_a_configuration_that_cannot_be_is_told(settings, told):
    with pytest.raises(ConfigError, match=told):
        config.build(WaveglowRun, settings, "x.toml")


def test_the_constant_of_the_loss_is_the_gaussians():
    """Exact noise has -log p = ½ + log σ√(2π) per sample; the loss leaves the constant out."""
    z_BGP = torch.randn(4, 8, 10_000, generator=torch.Generator().manual_seed(0))
    loss = negative_log_likelihood(Likelihood(z_BGP, torch.zeros(4), torch.zeros(())), 1.0).item()
    density = torch.distributions.Normal(0, 1).log_prob(z_BGP).mean().item()
    assert -density == pytest.approx(loss + math.log(math.sqrt(2 * math.pi)), abs=1e-5)


class Casts(TorchDispatchMode):
    """Counts the tensors of three dimensions, activations, that are copied into another type."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.count += operator is torch.ops.aten._to_copy.default and args[0].shape[-1] == 640
        return operator(*args, **(kwargs or {}))


def test_under_autocast_the_condition_is_not_cast_by_every_layer_that_hears_it():
    network = loud(Waveglow(WaveglowConfig(flows=2, layers=8, channels=8), 16, 256))
    with torch.autocast("cpu", torch.bfloat16), Casts() as casts:
        network(random_mel(1, 16, 20), torch.randn(1, 20 * 256))
    assert casts.count == 3  # 19 when each of the 16 layers casts the condition
