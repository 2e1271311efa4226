"""HiFi-GAN and the inverse-STFT vocoder for export: from mel spectrograms to audio.

Shapes: B utterances, M mel bins, T frames, N samples.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import Tensor

from common.export import ExportGraph, encoded
from fastpitch.vocoders.networks.fused import FusedHifigan
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.vocoder import Loaded, VocoderError


def graph(loaded: Loaded) -> ExportGraph:
    """The generator of a checkpoint, on the CPU. Raises VocoderError for WaveGlow, which is not exported yet."""
    generator, features, delay = loaded
    if isinstance(generator, Waveglow | FusedHifigan):
        raise VocoderError(
            f"{type(generator).__name__} has no export yet; expected HiFi-GAN or the inverse-STFT vocoder"
        )

    def reference(mel_BMT: Tensor, frames_B: Tensor) -> tuple[Tensor]:
        return (generator(mel_BMT, frames_B),)

    floor = math.log(features.log_floor)
    ragged, *others = (_mel(features.mel_bins, frames, floor) for frames in ((37, 23, 5), (90, 61), (1,)))
    return ExportGraph(
        module=generator,
        reference=reference,
        inputs=ragged,
        axes={"mel_BMT": {0: "B", 2: "T"}, "frames_B": {0: "B"}},
        outputs=("audio_BN",),
        checks=(*others, ragged | {"mel_BMT": torch.full_like(ragged["mel_BMT"], floor)}),
        tolerance=1e-5,
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


def _mel(bins: int, frames: Sequence[int], floor: float) -> dict[str, Tensor]:
    """Log-mel values between silence and loud speech, and rows with more frames than any utterance has."""
    noise = torch.Generator().manual_seed(sum(frames))
    mel_BMT = floor * torch.rand(len(frames), bins, max(frames) + 2, generator=noise)
    return {"mel_BMT": mel_BMT, "frames_B": torch.tensor(frames)}
