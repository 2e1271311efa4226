import math

import pytest
import torch

from common.features import TTS, LogMel
from fastpitch.vocoders.config import DiscriminatorConfig, LossConfig
from fastpitch.vocoders.training.discriminators import Discriminators, Judgement, ScaleDiscriminator
from fastpitch.vocoders.training.objective import (
    adversarial_loss,
    discriminator_loss,
    feature_loss,
    generator_loss,
    log_spectral_distance,
    mel_loss,
    stft_loss,
)

REAL = Judgement(
    [torch.tensor([[0.5, 1.0]]), torch.tensor([[2.0]])], [[torch.tensor([1.0, 3.0])], [torch.zeros(1)] * 2]
)
FAKE = Judgement([torch.tensor([[0.5, 0.0]]), torch.tensor([[1.0]])], [[torch.tensor([2.0, 1.0])], [torch.ones(1)] * 2])


@pytest.fixture(scope="module")
def audio_BN():
    return 0.3 * torch.randn(2, 8192, generator=torch.Generator().manual_seed(0))


def test_the_published_discriminators_have_as_many_parameters_as_published():
    with torch.device("meta"):
        networks = Discriminators(DiscriminatorConfig())
    assert sum(p.numel() for p in networks.mpd.parameters()) == 41_105_770
    assert sum(p.numel() for p in networks.msd.parameters()) == 29_618_821


def test_adversarial_losses_are_those_computed_by_hand():
    # (1 - 0.5)² and (1 - 1)², mean 0.125, and 0.5², 0², mean 0.125; then (1 - 2)² = 1 and 1² = 1
    assert discriminator_loss(REAL, FAKE) == 0.125 + 0.125 + 1 + 1
    assert adversarial_loss(FAKE) == (0.25 + 1) / 2 + 0
    assert feature_loss(REAL, FAKE) == (1 + 2) / 2 + 1 + 1


def test_the_loss_of_the_generator_is_the_weighted_sum(audio_BN):
    cfg, log_mel = LossConfig(mel=45, stft=2, features=3, adversarial=5), LogMel(TTS)
    fake_BN = 0.5 * audio_BN
    loss = generator_loss(cfg, log_mel, audio_BN, fake_BN, REAL, FAKE)
    torch.testing.assert_close(loss.value, 45 * loss.mel + 2 * loss.stft + 3 * 3.5 + 5 * 0.625)
    without = generator_loss(cfg, log_mel, audio_BN, fake_BN)
    torch.testing.assert_close(without.value, 45 * loss.mel + 2 * loss.stft)
    assert (without.features, without.adversarial) == (0, 0)


def test_half_of_the_amplitude_is_log_2_away_in_all_spectra(audio_BN):
    """And its spectral convergence is a half."""
    log_mel, fake_BN = LogMel(TTS), 0.5 * audio_BN
    assert mel_loss(log_mel, audio_BN, fake_BN).item() == pytest.approx(math.log(2), rel=1e-4)
    assert stft_loss(audio_BN, fake_BN).item() == pytest.approx(0.5 + math.log(2), rel=1e-3)
    torch.testing.assert_close(log_spectral_distance(audio_BN, fake_BN), torch.full((2,), 6.0206), rtol=1e-3, atol=0)


def test_losses_of_a_batch_are_means_over_its_utterances(audio_BN):
    fake_BN = audio_BN.flip(0) * 0.9
    for loss in (stft_loss, lambda a, b: mel_loss(LogMel(TTS), a, b)):
        alone = [loss(audio_BN[i : i + 1], fake_BN[i : i + 1]) for i in range(2)]
        torch.testing.assert_close(loss(audio_BN, fake_BN), torch.stack(alone).mean())


def test_gradients_of_silence_are_finite(audio_BN):
    fake_BN = torch.zeros_like(audio_BN, requires_grad=True)
    (stft_loss(audio_BN, fake_BN) + mel_loss(LogMel(TTS), audio_BN, fake_BN)).backward()
    assert fake_BN.grad is not None
    assert fake_BN.grad.isfinite().all()


def test_grouped_convolutions_stay_in_fp32_if_told(audio_BN):
    networks = Discriminators(DiscriminatorConfig(periods=(), scales=1, fp32_grouped=True, divide_channels=2))
    with torch.autocast("cpu", torch.bfloat16):
        kinds = {features.dtype for features in networks(audio_BN).features[0]}
    assert kinds == {torch.float32, torch.bfloat16}


def test_the_greatest_singular_value_is_found_in_float32_under_autocast():
    def judged(autocast: bool) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        network = ScaleDiscriminator(16, is_spectral=True)
        audio_BN = torch.randn(1, 4096)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            network(audio_BN)
        return network.convs[1].parametrizations.weight[0]._u, network.convs[1].weight

    for plain, reduced in zip(judged(False), judged(True), strict=True):
        assert torch.equal(plain, reduced)
