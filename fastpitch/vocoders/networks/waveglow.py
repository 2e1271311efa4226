"""WaveGlow: "WaveGlow: A Flow-based Generative Network for Speech Synthesis" (Prenger, Valle, Catanzaro 2018).

Shapes: B utterances, M mel bins, T frames, N samples of audio, G samples of a group (channels of the flow), P positions
(N / G), D channels of the condition (M G), C channels within a coupling network.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from fastpitch.vocoders.networks.config import WaveglowConfig
from fastpitch.vocoders.networks.hifigan import masked, own_places


class Likelihood(NamedTuple):
    """Audio as noise, and what the mapping does to densities."""

    z_BGP: Tensor
    """The noise; channels put out early come first."""
    log_scales_B: Tensor
    """Per utterance, the sum of the logarithms of the coupling layers' scales."""
    log_determinant: Tensor
    """The sum over flows of P log |det W|, W being the flow's matrix: the same for every utterance."""


class Waveglow(nn.Module):
    """Maps audio to noise given its mel spectrogram, and back. `normalized` as in `HifiganGenerator`."""

    def __init__(self, cfg: WaveglowConfig, mel_bins: int, hop: int, *, normalized: bool = False):
        super().__init__()
        self.cfg, self.hop_samples = cfg, hop
        # Four hops long, as published; what it adds beyond the last frame is cut off.
        self.upsample = nn.ConvTranspose1d(mel_bins, mel_bins, 4 * hop, hop)
        widths = [cfg.group - k // cfg.early_every * cfg.early_channels for k in range(cfg.flows)]
        self.convinv = nn.ModuleList(InvertibleConvolution(width) for width in widths)
        self.WN = nn.ModuleList(CouplingNetwork(cfg, width // 2, mel_bins * cfg.group) for width in widths)
        if normalized:
            for _, network in self._flows():
                network.normalize()

    def forward(self, mel_BMT: Tensor, audio_BN: Tensor) -> Likelihood:
        """The noise that `audio_BN` is, N at most T hop and a multiple of G."""
        condition_BDP = self._condition(mel_BMT)[:, :, : audio_BN.shape[1] // self.cfg.group]
        x_BGP = audio_BN.unflatten(1, (-1, self.cfg.group)).mT
        log_scales_B, log_determinant = audio_BN.new_zeros(len(audio_BN)), torch.zeros((), device=audio_BN.device)
        early = []
        for flow, (mix, network) in enumerate(self._flows()):
            if self._puts_out(flow):
                early.append(x_BGP[:, : self.cfg.early_channels])
                x_BGP = x_BGP[:, self.cfg.early_channels :]
            x_BGP = mix(x_BGP)
            kept, changed = x_BGP.chunk(2, dim=1)
            log_scale, shift = network(kept, condition_BDP)
            x_BGP = torch.cat([kept, log_scale.exp() * changed + shift], 1)
            log_scales_B = log_scales_B + log_scale.float().sum((1, 2))
            log_determinant = log_determinant + x_BGP.shape[2] * mix.log_determinant()
        return Likelihood(torch.cat([*early, x_BGP], 1), log_scales_B, log_determinant)

    def inverse(self, mel_BMT: Tensor, z_BGP: Tensor, frames_B: Tensor | None = None) -> Tensor:
        """The audio [B, T hop] that noise is (P = T hop / G); zero beyond `frames_B[b]` frames, which are ignored.

        Raises ValueError for noise of another shape.
        """
        cfg = self.cfg
        expected = (len(mel_BMT), cfg.group, mel_BMT.shape[2] * self.hop_samples // cfg.group)
        if tuple(z_BGP.shape) != expected:
            raise ValueError(f"z of shape {tuple(z_BGP.shape)} for mel {tuple(mel_BMT.shape)}; expected {expected}")
        condition_BDP = self._condition(mel_BMT)
        positions_B = None if frames_B is None else frames_B * (self.hop_samples // cfg.group)
        early = (cfg.flows - 1) // cfg.early_every * cfg.early_channels
        x_BGP = z_BGP[:, early:]
        for flow, (mix, network) in reversed(list(enumerate(self._flows()))):
            kept, changed = x_BGP.chunk(2, dim=1)
            log_scale, shift = network(kept, condition_BDP, positions_B)
            x_BGP = mix.inverse(torch.cat([kept, (changed - shift) * (-log_scale).exp()], 1))
            if self._puts_out(flow):
                early -= cfg.early_channels
                x_BGP = torch.cat([z_BGP[:, early : early + cfg.early_channels], x_BGP], 1)
        audio_B1N = x_BGP.mT.flatten(1)[:, None]
        return masked(audio_B1N, own_places(audio_B1N, frames_B, self.hop_samples)).squeeze(1)

    @property
    def context_frames(self) -> int:
        """Frames on either side of its own that a sample of audio depends on: 99 in the published sizes."""
        reach = self.cfg.flows * (self.cfg.kernel // 2) * (2**self.cfg.layers - 1)
        return math.ceil(reach * self.cfg.group / self.hop_samples) + 3

    def _condition(self, mel_BMT: Tensor) -> Tensor:
        """The mel spectrogram at the rate of the audio, in groups: channels are (bin, place in the group).

        `upsample` as one matrix product over each frame and the three before it, which reach into its hop: oneDNN
        would generate code for kernels of 1024 samples, a second of work for every new number of frames.
        """
        reach = self.upsample.kernel_size[0] // self.hop_samples
        bins, group = mel_BMT.shape[1], self.cfg.group
        padded_BTM = F.pad(mel_BMT, (reach - 1, 0)).mT
        frames_BTE = padded_BTM.unfold(1, reach, 1).flip(-1).flatten(2)  # E: (bin, frames ago)
        weight_EN = self.upsample.weight.unflatten(2, (reach, -1)).transpose(1, 2).flatten(2).flatten(0, 1)
        spread_BTMPG = (frames_BTE @ weight_EN).unflatten(2, (bins, -1, group))
        assert self.upsample.bias is not None
        # The sum is in float32; cast once, it is not cast again by each of the layers that hear it.
        spread_BTMPG = (spread_BTMPG + self.upsample.bias[:, None, None]).to(spread_BTMPG.dtype)
        return spread_BTMPG.permute(0, 2, 4, 1, 3).flatten(3).flatten(1, 2)

    def _flows(self) -> "list[tuple[InvertibleConvolution, CouplingNetwork]]":
        return list(zip(self.convinv, self.WN, strict=True))  # type: ignore[arg-type]

    def _puts_out(self, flow: int) -> bool:
        return flow > 0 and flow % self.cfg.early_every == 0


class InvertibleConvolution(nn.Module):
    """Mixes channels by a matrix that starts as a rotation (Kingma, Dhariwal 2018)."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 1, bias=False)
        rotation = torch.linalg.qr(torch.randn(channels, channels))[0]
        rotation[:, 0] *= torch.linalg.det(rotation).sign()
        self.conv.weight.data = rotation[:, :, None].contiguous()
        self._inverse: tuple[tuple[object, ...], Tensor] | None = None

    def forward(self, x_BGP: Tensor) -> Tensor:
        """The mixed channels."""
        return self.conv(x_BGP)

    def inverse(self, x_BGP: Tensor) -> Tensor:
        """The channels before they were mixed; the inverted matrix is kept as long as the weight is the same."""
        weight = self.conv.weight
        version = None if weight.is_inference() else weight._version  # in inference mode torch does not count
        known = (weight.data_ptr(), version, weight.dtype)
        if self._inverse is None or self._inverse[0] != known:
            inverted = weight.detach().squeeze(-1).double().inverse()[:, :, None].to(weight.dtype)
            self._inverse = (known, inverted)
        return F.conv1d(x_BGP, self._inverse[1])

    def log_determinant(self) -> Tensor:
        """log |det W|, in double precision: it is near 0 and counts once for every position."""
        return torch.linalg.slogdet(self.conv.weight.squeeze(-1).double()).logabsdet


class CouplingNetwork(nn.Module):
    """Scales and shifts of half of the channels, from the other half and the condition: gated dilated convolutions."""

    def __init__(self, cfg: WaveglowConfig, half: int, condition: int):
        super().__init__()
        width = cfg.channels
        self.start = nn.Conv1d(half, width, 1)
        self.end = nn.Conv1d(width, 2 * half, 1)
        nn.init.zeros_(self.end.weight)  # the first step of training then starts from the identity
        nn.init.zeros_(self.end.bias)  # type: ignore[arg-type]
        self.in_layers = nn.ModuleList(
            nn.Conv1d(width, 2 * width, cfg.kernel, dilation=2**i, padding=(cfg.kernel // 2) * 2**i)
            for i in range(cfg.layers)
        )
        self.cond_layers = nn.ModuleList(nn.Conv1d(condition, 2 * width, 1) for _ in range(cfg.layers))
        self.res_skip_layers = nn.ModuleList(
            nn.Conv1d(width, 2 * width if i < cfg.layers - 1 else width, 1) for i in range(cfg.layers)
        )

    def normalize(self) -> None:
        """Gives all convolutions but `end` weight normalisation, as in training."""
        for conv in (self.start, *self.in_layers, *self.cond_layers, *self.res_skip_layers):
            weight_norm(conv)

    def forward(
        self, half_BHP: Tensor, condition_BDP: Tensor, positions_B: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logarithms of scales, and shifts, both [B, G / 2, P]; nothing beyond `positions_B[b]` is seen."""
        x_BCP = self.start(half_BHP)
        inside_B1P = own_places(x_BCP, positions_B)
        skipped_BCP: Tensor | float = 0.0
        for dilated, cond, res_skip in zip(self.in_layers, self.cond_layers, self.res_skip_layers, strict=True):
            gates_BCP = dilated(masked(x_BCP, inside_B1P)) + cond(condition_BDP)
            tanh_BCP, sigmoid_BCP = gates_BCP.chunk(2, dim=1)
            out_BCP = res_skip(tanh_BCP.tanh() * sigmoid_BCP.sigmoid())
            if out_BCP.shape[1] > x_BCP.shape[1]:
                residual_BCP, out_BCP = out_BCP.chunk(2, dim=1)
                x_BCP = x_BCP + residual_BCP
            skipped_BCP = skipped_BCP + out_BCP
        shift_BHP, log_scale_BHP = self.end(skipped_BCP).chunk(2, dim=1)
        return log_scale_BHP, shift_BHP
