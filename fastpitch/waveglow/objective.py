"""What WaveGlow minimises. Shapes as in `fastpitch.waveglow.model`."""

import torch
from torch import Tensor

from fastpitch.waveglow.model import Likelihood


def negative_log_likelihood(said: Likelihood, sigma: float) -> Tensor:
    """Mean over samples of z²/(2σ²) - log scales - log |det W|: -log p(audio) less the constant log σ√(2π)."""
    z_BGP = said.z_BGP.float()
    energy_B = z_BGP.square().sum((1, 2)) / (2 * sigma**2)
    return (energy_B - said.log_scales_B - said.log_determinant).mean().to(torch.float32) / z_BGP[0].numel()
