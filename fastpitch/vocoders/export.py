"""The vocoders for export: from mel spectrograms to audio.

Shapes: B utterances, M mel bins, T frames, N samples, of noise_BTN those of one frame; WaveGlow's G samples of a group,
P positions, D channels of the condition.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import Tensor, nn

from common.export import ExportGraph, encoded
from fastpitch.vocoders.networks.fused import FusedHifigan
from fastpitch.vocoders.networks.fused_waveglow import FusedWaveglow
from fastpitch.vocoders.networks.istft import IstftGenerator, overlapped
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.vocoder import LoadedGenerator


class PlainWaveglow(nn.Module):
    """`Waveglow.inverse` with the weights of `network`, its mixing matrices inverted beforehand."""

    def __init__(self, network: Waveglow):
        super().__init__()
        self.cfg, self.hop_samples = network.cfg, network.hop_samples
        self.upsample, self.couplings = network.upsample, network.WN
        inverted = (mix.conv.weight.detach()[:, :, 0].double().inverse().float() for mix in network.convinv)  # type: ignore[union-attr,operator]
        self.mixing = nn.ParameterList(nn.Parameter(matrix, requires_grad=False) for matrix in inverted)

    def forward(self, mel_BMT: Tensor, frames_B: Tensor, noise_BTN: Tensor) -> tuple[Tensor]:
        """audio_BN that the noise is, hop samples of it for each frame."""
        cfg = self.cfg
        positions_B = frames_B * (self.hop_samples // cfg.group)
        spread_BMN = self.upsample(mel_BMT)[:, :, : mel_BMT.shape[2] * self.hop_samples]
        condition_BDP = spread_BMN.unflatten(2, (-1, cfg.group)).mT.flatten(1, 2)
        z_BGP = noise_BTN.flatten(1).unflatten(1, (-1, cfg.group)).mT
        early = (cfg.flows - 1) // cfg.early_every * cfg.early_channels
        x_BGP = z_BGP[:, early:]
        for flow in reversed(range(cfg.flows)):
            kept, changed = x_BGP.chunk(2, dim=1)
            log_scale, shift = self.couplings[flow](kept, condition_BDP, positions_B)
            x_BGP = self.mixing[flow] @ torch.cat([kept, (changed - shift) * (-log_scale).exp()], 1)
            if flow > 0 and flow % cfg.early_every == 0:
                early -= cfg.early_channels
                x_BGP = torch.cat([z_BGP[:, early : early + cfg.early_channels], x_BGP], 1)
        audio_BN = x_BGP.mT.flatten(1)
        place_N = torch.arange(audio_BN.shape[1], device=audio_BN.device)
        return (audio_BN * (place_N < frames_B[:, None] * self.hop_samples).to(audio_BN.dtype),)


class PlainIstft(nn.Module):
    """`IstftGenerator`, whose inverse transform is a product with a windowed basis: TensorRT has no transform."""

    def __init__(self, generator: IstftGenerator):
        super().__init__()
        self.generator = generator
        size = len(generator.window_S)
        frequency_K = torch.arange(size // 2 + 1, dtype=torch.float64)
        phase_KS = 2 * math.pi / size * frequency_K[:, None] * torch.arange(size, dtype=torch.float64)
        twice_K1 = torch.where((frequency_K > 0) & (frequency_K < size // 2), 2.0, 1.0)[:, None]
        window_S = generator.window_S.double() / size
        self.real_KS, self.imaginary_KS = (
            nn.Parameter((twice_K1 * basis_KS * window_S).float(), requires_grad=False)
            for basis_KS in (phase_KS.cos(), -phase_KS.sin())
        )

    def forward(self, mel_BMT: Tensor, frames_B: Tensor) -> tuple[Tensor]:
        """audio_BN, zero from the end of each utterance on."""
        magnitude_BTK, phase_BTK, keep_BT1 = self.generator.polar(mel_BMT, frames_B)
        real_BTS = (magnitude_BTK * phase_BTK.cos()) @ self.real_KS
        frames_BTS = real_BTS + (magnitude_BTK * phase_BTK.sin()) @ self.imaginary_KS
        return (overlapped(frames_BTS, keep_BT1, self.generator.window_S, self.generator.hop_samples),)


def graph(loaded: LoadedGenerator) -> ExportGraph:
    """The generator of a checkpoint, on the CPU."""
    generator, features, delay = loaded
    assert not isinstance(generator, FusedHifigan | FusedWaveglow)  # which `Vocoder` makes, not a checkpoint
    is_flow = isinstance(generator, Waveglow)

    def reference(mel_BMT: Tensor, frames_B: Tensor, noise_BTN: Tensor | None = None) -> tuple[Tensor]:
        if not isinstance(generator, Waveglow):
            return (generator(mel_BMT, frames_B),)
        assert noise_BTN is not None
        z_BGP = noise_BTN.flatten(1).unflatten(1, (-1, generator.cfg.group)).mT
        return (generator.inverse(mel_BMT, z_BGP, frames_B),)

    floor = math.log(features.log_floor)
    noise = features.hop_samples if is_flow else 0
    ragged, *others = (_mel(features.mel_bins, frames, floor, noise) for frames in ((37, 23, 5), (90, 61), (1,)))
    return ExportGraph(
        module=_plain(generator),
        reference=reference,
        inputs=ragged,
        axes={"mel_BMT": {0: "B", 2: "T"}, "frames_B": {0: "B"}, "noise_BTN": {0: "B", 1: "T"}},
        outputs=("audio_BN",),
        checks=(*others, ragged | {"mel_BMT": torch.full_like(ragged["mel_BMT"], floor)}),
        # A pulse moves by what its frames' pitch is rounded by, and each correction goes on from there: a thousandth.
        tolerance=5e-3 if isinstance(generator, IstftGenerator) and generator.cfg.phases == "pulses" else 1e-5,
        metadata=encoded(
            family=generator.__class__.__name__.removesuffix("Generator").lower(),
            task="vocoding",
            sample_rate=features.sample_rate,
            hop_samples=features.hop_samples,
            delay_samples=delay,
            context_frames=generator.context_frames,
            features=asdict(features),
        ),
    )


def _plain(generator: nn.Module) -> nn.Module:
    if isinstance(generator, Waveglow):
        return PlainWaveglow(generator)
    if isinstance(generator, IstftGenerator) and not generator.cfg.corrections:
        return PlainIstft(generator)
    return generator


def _mel(bins: int, frames: Sequence[int], floor: float, noise_samples: int) -> dict[str, Tensor]:
    """Log-mel values between silence and loud speech, and rows with more frames than any utterance has."""
    noise = torch.Generator().manual_seed(sum(frames))
    mel_BMT = floor * torch.rand(len(frames), bins, max(frames) + 2, generator=noise)
    inputs = {"mel_BMT": mel_BMT, "frames_B": torch.tensor(frames)}
    if noise_samples:
        inputs["noise_BTN"] = torch.randn(len(frames), mel_BMT.shape[2], noise_samples, generator=noise)
    return inputs
