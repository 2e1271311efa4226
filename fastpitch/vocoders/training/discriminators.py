"""Who tells generated from recorded audio: over periods and scales (HiFi-GAN, Kong et al. 2020; MelGAN, Kumar et al.
2019) and, if wanted, over spectrograms (UnivNet, Jang et al. 2021), which cost a CPU least.

Shapes: B utterances, N samples, P a period, R rows of a period, K frequencies, T frames; images are [B, C, ., .].
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from fastpitch.vocoders.config import DiscriminatorConfig

SLOPE = 0.1  # of the leaky ReLUs
PERIOD_CHANNELS = (32, 128, 512, 1024, 1024)
# A scale: channels, kernel, stride, groups.
SCALE_LAYERS = (
    (128, 15, 1, 1), (128, 41, 2, 4), (256, 41, 2, 16), (512, 41, 4, 16), (1024, 41, 4, 16), (1024, 41, 1, 16),
    (1024, 5, 1, 1),
)  # fmt: skip
# A resolution: kernel and stride over frequencies and frames, after a transposition that puts frames first.
RESOLUTION_LAYERS = (((3, 9), (1, 1)), ((3, 9), (1, 2)), ((3, 9), (1, 2)), ((3, 9), (1, 2)), ((3, 3), (1, 1)))
RESOLUTION_CHANNELS = 32


class Judgement(NamedTuple):
    """The scores of each discriminator (1: recorded, 0: generated) and the activations of all its layers."""

    scores: list[Tensor]
    features: list[list[Tensor]]


class Discriminators(nn.Module):
    """All discriminators of a configuration."""

    def __init__(self, cfg: DiscriminatorConfig):
        super().__init__()
        divide = cfg.divide_channels
        self.mpd = nn.ModuleList(PeriodDiscriminator(period, divide) for period in cfg.periods)
        self.msd = nn.ModuleList(
            ScaleDiscriminator(divide, is_spectral=scale == 0, fp32_grouped=cfg.fp32_grouped)
            for scale in range(cfg.scales)
        )
        self.mrd = nn.ModuleList(ResolutionDiscriminator(size, divide) for size in cfg.resolutions)

    def forward(self, audio_BN: Tensor) -> Judgement:
        """What all of them say of audio [B, N]."""
        said = [network(audio_BN) for network in self.mpd]
        scaled_B1N = audio_BN[:, None]
        for scale, network in enumerate(self.msd):
            scaled_B1N = F.avg_pool1d(scaled_B1N, 4, 2, padding=2) if scale else scaled_B1N
            said.append(network(scaled_B1N.squeeze(1)))
        said += [network(audio_BN) for network in self.mrd]
        return Judgement([features[-1] for features in said], said)


class PeriodDiscriminator(nn.Module):
    """Sees audio in rows of `period` samples, and each column by itself."""

    def __init__(self, period: int, divide: int):
        super().__init__()
        self.period = period
        widths = [1, *(channels // divide for channels in PERIOD_CHANNELS)]
        last = len(widths) - 2
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv2d(before, after, (5, 1), (3 if i < last else 1, 1), padding=(2, 0)))
            for i, (before, after) in enumerate(pairwise(widths))
        )
        self.conv_post = weight_norm(nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, audio_BN: Tensor) -> list[Tensor]:
        """Activations of all layers, the scores last."""
        missing = -audio_BN.shape[1] % self.period
        rows_B1RP = F.pad(audio_BN[:, None], (0, missing), mode="reflect").unflatten(2, (-1, self.period))
        return _activations(rows_B1RP, self.convs, self.conv_post)


class ScaleDiscriminator(nn.Module):
    """Sees audio as it is; `is_spectral`: with spectral instead of weight normalisation."""

    def __init__(self, divide: int, *, is_spectral: bool, fp32_grouped: bool = False):
        super().__init__()
        self.is_spectral = is_spectral
        normalize = spectral_norm if is_spectral else weight_norm
        convs, before = [], 1
        for channels, kernel, stride, groups in SCALE_LAYERS:
            after, parts = channels // divide, max(1, groups // divide)
            kind = _Float32Conv1d if fp32_grouped and parts > 1 else nn.Conv1d
            convs.append(normalize(kind(before, after, kernel, stride, groups=parts, padding=kernel // 2)))
            before = after
        self.convs = nn.ModuleList(convs)
        self.conv_post = normalize(nn.Conv1d(before, 1, 3, padding=1))

    def forward(self, audio_BN: Tensor) -> list[Tensor]:
        """Activations of all layers, the scores last."""
        if not self.is_spectral:
            return _activations(audio_BN[:, None], self.convs, self.conv_post)
        with parametrize.cached():
            # The greatest singular value is found in float32 whatever autocast says: in half precision it is too rough.
            with torch.autocast(audio_BN.device.type, enabled=False):
                for conv in (*self.convs, self.conv_post):
                    conv.weight  # noqa: B018  computed and kept until the end of the block
            return _activations(audio_BN[:, None], self.convs, self.conv_post)


class ResolutionDiscriminator(nn.Module):
    """Sees the magnitude spectrogram of windows of `size` samples every quarter of them."""

    window_N: Tensor

    def __init__(self, size: int, divide: int):
        super().__init__()
        self.register_buffer("window_N", torch.hann_window(size), persistent=False)
        width = max(4, RESOLUTION_CHANNELS // divide)
        widths = [1] + [width] * len(RESOLUTION_LAYERS)
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv2d(before, width, kernel, stride, padding=(kernel[0] // 2, kernel[1] // 2)))
            for before, (kernel, stride) in zip(widths, RESOLUTION_LAYERS, strict=False)
        )
        self.conv_post = weight_norm(nn.Conv2d(width, 1, (3, 3), padding=(1, 1)))

    def forward(self, audio_BN: Tensor) -> list[Tensor]:
        """Activations of all layers, the scores last."""
        size = len(self.window_N)
        with torch.autocast(audio_BN.device.type, enabled=False):
            spectrum_BKT = torch.stft(audio_BN.float(), size, size // 4, window=self.window_N, return_complex=True)
            image_B1TK = (spectrum_BKT.real.square() + spectrum_BKT.imag.square()).clamp(min=1e-7).sqrt().mT[:, None]
        return _activations(image_B1TK, self.convs, self.conv_post)


class _Float32Conv1d(nn.Conv1d):
    """Not in reduced precision, in which some GPUs have only slow kernels for grouped convolutions."""

    def forward(self, x_BCL: Tensor) -> Tensor:
        """The convolution, in fp32 whatever autocast says."""
        with torch.autocast(x_BCL.device.type, enabled=False):
            return super().forward(x_BCL.float())


def _activations(x: Tensor, convs: nn.ModuleList, last: nn.Module) -> list[Tensor]:
    features = []
    for conv in convs:
        x = F.leaky_relu(conv(x), SLOPE)
        features.append(x)
    return [*features, last(x)]
