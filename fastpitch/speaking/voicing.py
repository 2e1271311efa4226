"""Mel spectrograms of many sentences to their sound, in batches, by a vocoder of torch or an exported one.

Shapes: B utterances, M mel bins, T frames, N samples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpitch.speaking import sound
from fastpitch.vocoders.spans import CHUNK_FRAMES, MelSpan

Gain = np.ndarray | None
"""The gain of every frame of a sentence, [T], as `sound.gain_of_frames` gives it."""


@dataclass(frozen=True, kw_only=True)
class VoicingConfig:
    """From mel frames to samples."""

    batch_size: int = 8
    """Greatest number of sentences that are computed together."""
    sigma: float = 0.9
    """Standard deviation of the noise that WaveGlow starts from; other vocoders have none."""
    denoising: float = 0.0
    """Strength at which the vocoder's own hum is removed; 0 for none, 0.01 in the published examples."""
    fade_out: int = 10
    """Frames at the end of every sentence in which it fades to silence."""
    seed: int = 0
    """Seed of WaveGlow's noise and of the dither of 16-bit files."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size = {self.batch_size}: expected at least 1")
        if min(self.sigma, self.denoising, self.fade_out) < 0:
            found = f"sigma = {self.sigma:g}, denoising = {self.denoising:g}, fade_out = {self.fade_out}"
            raise ValueError(f"{found}: expected 0 or more")


class Voice:
    """A vocoder as `VoicingConfig` wants it used."""

    def __init__(self, vocoder: Any, config: VoicingConfig | None = None):
        """`vocoder`: a `Vocoder` of `fastpitch.vocoders` or of `trt.runtime`; denoising is for the former alone."""
        self.vocoder, self.config = vocoder, config or VoicingConfig()
        self.sample_rate: int = vocoder.sample_rate
        self.hop_samples: int = vocoder.hop_samples
        self._speak = vocoder
        if self.config.denoising:
            from fastpitch.vocoders.vocoder import Denoiser  # which needs torch

            self._speak = Denoiser(vocoder, self.config.denoising)

    def whole(self, mels: Sequence[Any], gains: Sequence[Gain] = ()) -> list[np.ndarray]:
        """The sound, float32 [N], of each of several mel spectrograms [M, T]. Raises VocoderError."""
        gains = gains or [None] * len(mels)
        sounds: list[np.ndarray] = [np.zeros(0, np.float32)] * len(mels)
        for rows in batches([mel_MT.shape[1] for mel_MT in mels], self.config.batch_size):
            cuts = [MelSpan(mels[i], 0, mels[i].shape[1]) for i in rows]
            for i, sound_N in zip(rows, self.cuts(cuts, [gains[i] for i in rows]), strict=True):
                sounds[i] = sound_N
        return sounds

    def stream(self, mel_MT: Any) -> Iterator[np.ndarray]:
        """The same in pieces, each as soon as it is there."""
        for start in range(0, mel_MT.shape[1], CHUNK_FRAMES):
            yield self.cuts([MelSpan(mel_MT, start, min(mel_MT.shape[1], start + CHUNK_FRAMES))], [None])[0]

    def cuts(self, cuts: Sequence[MelSpan], gains: Sequence[Gain]) -> list[np.ndarray]:
        """The sound of some frames of each of several mel spectrograms, in one batch: what `stream` gives of each."""
        hop, fade = self.hop_samples, self.config.fade_out * self.hop_samples
        found = self._speak.cuts(cuts, sigma=self.config.sigma, seed=self.config.seed)
        return [
            sound.finished(
                audio_N if isinstance(audio_N, np.ndarray) else audio_N.cpu().numpy(),
                first=cut.start * hop, total=cut.mel_MT.shape[1] * hop, fade=fade, hop=hop, gain_T=gain_T,
            )
            for cut, audio_N, gain_T in zip(cuts, found, gains, strict=True)
        ]  # fmt: skip


def batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Indices of things of similar length, `batch_size` at a time: little padding."""
    by_length = sorted(range(len(lengths)), key=lambda i: lengths[i])
    for first in range(0, len(by_length), batch_size):
        yield by_length[first : first + batch_size]
