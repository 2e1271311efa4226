"""What generators and discriminators minimise.

Shapes: B utterances, N samples, K frequencies, T frames, G and P groups and positions of WaveGlow's noise.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from common.features import LogMel
from fastpitch.vocoders.config import LossConfig
from fastpitch.vocoders.networks.waveglow import Likelihood
from fastpitch.vocoders.training.discriminators import Judgement

STFT_SIZES = (512, 1024, 2048)  # windows of the multi-resolution loss; hops are a quarter
SMALLEST_POWER = 1e-7  # below it a frequency counts as silent: 16-bit recordings have a power of 1e-7 there


class GeneratorLoss(NamedTuple):
    """The weighted sum, and its parts before they are weighted (0 where they have no weight)."""

    value: Tensor
    mel: Tensor
    stft: Tensor
    features: Tensor
    adversarial: Tensor


def discriminator_loss(real: Judgement, fake: Judgement) -> Tensor:
    """Least squares (Mao et al. 2017): mean (1 - D(real))² + mean D(fake)², summed over the discriminators."""
    pairs = zip(real.scores, fake.scores, strict=True)
    return torch.stack([(1 - r.float()).square().mean() + f.float().square().mean() for r, f in pairs]).sum()


def adversarial_loss(fake: Judgement) -> Tensor:
    """mean (1 - D(fake))², summed over the discriminators."""
    return torch.stack([(1 - scores.float()).square().mean() for scores in fake.scores]).sum()


def feature_loss(real: Judgement, fake: Judgement) -> Tensor:
    """Mean absolute difference of the activations, summed over layers and discriminators (the scores among them)."""
    pairs = [pair for layers in zip(real.features, fake.features, strict=True) for pair in zip(*layers, strict=True)]
    return torch.stack([(r.float() - f.float()).abs().mean() for r, f in pairs]).sum()


def mel_loss(log_mel: LogMel, audio_BN: Tensor, fake_BN: Tensor) -> Tensor:
    """Mean absolute difference of log-mel spectrograms."""
    samples_B = torch.full((len(audio_BN),), audio_BN.shape[1], device=audio_BN.device)
    with torch.no_grad():
        wanted_BFT = log_mel(audio_BN, samples_B).features_BFT
    return F.l1_loss(log_mel(fake_BN, samples_B).features_BFT, wanted_BFT)


def stft_loss(audio_BN: Tensor, fake_BN: Tensor) -> Tensor:
    """Spectral convergence plus mean absolute difference of log-magnitudes, mean over three resolutions.

    Yamamoto, Song, Kim 2020, "Parallel WaveGAN". The convergence ||Y - X|| / ||X|| is of each utterance by itself.
    """
    losses = []
    for size in STFT_SIZES:
        wanted_BKT, found_BKT = _magnitude(audio_BN, size), _magnitude(fake_BN, size)
        distance_B = torch.linalg.vector_norm(wanted_BKT - found_BKT, dim=(1, 2))
        convergence = (distance_B / torch.linalg.vector_norm(wanted_BKT, dim=(1, 2))).mean()
        losses.append(convergence + F.l1_loss(found_BKT.log(), wanted_BKT.log()))
    return torch.stack(losses).mean()


def generator_loss(
    cfg: LossConfig,
    log_mel: LogMel,
    audio_BN: Tensor,
    fake_BN: Tensor,
    real: Judgement | None = None,
    fake: Judgement | None = None,
) -> GeneratorLoss:
    """All that `cfg` gives weight to; without judgements, only what needs none. `log_mel` is of the full band."""
    fake_BN = fake_BN.float()
    zero = fake_BN.new_zeros(())
    mel = mel_loss(log_mel, audio_BN, fake_BN) if cfg.mel else zero
    stft = stft_loss(audio_BN, fake_BN) if cfg.stft else zero
    features = feature_loss(real, fake) if real is not None and fake is not None and cfg.features else zero
    adversarial = adversarial_loss(fake) if fake is not None and cfg.adversarial else zero
    value = cfg.mel * mel + cfg.stft * stft + cfg.features * features + cfg.adversarial * adversarial
    return GeneratorLoss(value, mel, stft, features, adversarial)


def log_spectral_distance(audio_BN: Tensor, fake_BN: Tensor) -> Tensor:
    """Root mean square over frequencies of the difference of log-magnitudes, in dB, mean over frames: of each [B]."""
    levels = (20 * _magnitude(x_BN, 1024).clamp(min=1e-4).log10() for x_BN in (audio_BN, fake_BN))
    wanted_BKT, found_BKT = levels
    return (wanted_BKT - found_BKT).square().mean(1).sqrt().mean(1)


def _magnitude(audio_BN: Tensor, size: int) -> Tensor:
    window_N = torch.hann_window(size, device=audio_BN.device)
    spectrum_BKT = torch.stft(audio_BN, size, size // 4, window=window_N, return_complex=True)
    return (spectrum_BKT.real.square() + spectrum_BKT.imag.square()).clamp(min=SMALLEST_POWER).sqrt()


def negative_log_likelihood(said: Likelihood, sigma: float) -> Tensor:
    """Mean over samples of z²/(2σ²) - log scales - log |det W|: -log p(audio) less the constant log σ√(2π)."""
    z_BGP = said.z_BGP.float()
    energy_B = z_BGP.square().sum((1, 2)) / (2 * sigma**2)
    return (energy_B - said.log_scales_B - said.log_determinant).mean().to(torch.float32) / z_BGP[0].numel()
