"""An exported voice in use, without torch: texts in, sound out.

The text front end is that of `fastpitch`: SSML, phonemes in braces, controls of pace, pitch and energy. Sentences of a
text are computed one after the other, so that the first can be heard while the next are made; several texts at a time
go through the networks together.

Shapes: B sentences, L symbols, M mel bins, T frames, N samples.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from common import config
from common.audio.waveform import Audio
from fastpitch.front.control import SpeakerStatistics
from fastpitch.front.planning import PlannedSentence
from fastpitch.front.symbols import TextConfig, TextProcessor
from fastpitch.speaking.sentences import PredictedBatch, SentenceSpeaker
from fastpitch.speaking.voicing import Voice, VoicingConfig
from fastpitch.vocoders.networks.config import SAME_MEL
from fastpitch.vocoders.spans import CHUNK_FRAMES, MelSpan
from trt.facts import ModelError, usable
from trt.runtime.recognizer import OnnxModel


class Vocoder:
    """A file of `trt.export` that makes sound of mel spectrograms."""

    def __init__(self, path: Path, *, sigma: float = 0.9, seed: int = 0, threads: int = 0):
        """`sigma`, `seed`: of the noise that WaveGlow starts from. `threads`: 0 for one per core. Raises ModelError."""
        self.network = OnnxModel(path, threads=threads)
        facts = self.network.facts
        if facts.get("task") != "vocoding":
            takes = ", ".join(self.network.inputs)
            raise ModelError(f"{path}: takes {takes}; expected a vocoder that trt.export wrote")
        with usable(ModelError, path):
            self.sample_rate: int = facts["sample_rate"]
            self.hop_samples: int = facts["hop_samples"]
            self.context_frames: int = facts["context_frames"]
            self.features: dict[str, Any] = facts["features"]
        self.sigma, self.seed = sigma, seed

    def __call__(self, mel_MT: np.ndarray) -> np.ndarray:
        """The sound of a spectrogram, float32 [N], as the network gives it."""
        return next(self.stream(mel_MT, chunk_frames=max(1, mel_MT.shape[1])), np.zeros(0, np.float32))

    def stream(self, mel_MT: np.ndarray, *, chunk_frames: int = CHUNK_FRAMES) -> Iterator[np.ndarray]:
        """The same in pieces, each computed with the frames around it that it depends on."""
        for start in range(0, mel_MT.shape[1], chunk_frames):
            span = MelSpan(mel_MT, start, min(mel_MT.shape[1], start + chunk_frames))
            yield self.cuts([span], sigma=self.sigma, seed=self.seed)[0]

    def cuts(self, cuts: Sequence[MelSpan], *, sigma: float, seed: int) -> list[np.ndarray]:
        """The sound of some frames of each of several spectrograms, in one batch: of each as if it were alone.

        `sigma`, `seed`: of the noise that WaveGlow starts from.
        """
        heard = [cut.around(self.context_frames) for cut in cuts]
        frames_B = np.array([own.end - own.start for own in heard])
        mel_BMT = np.zeros((len(cuts), cuts[0].mel_MT.shape[0], frames_B.max()), np.float32)
        for row_MT, own, frames in zip(mel_BMT, heard, frames_B, strict=True):
            row_MT[:, :frames] = own.mel_MT[:, own.start : own.end]
        inputs = {"mel_BMT": mel_BMT, "frames_B": frames_B}
        if "noise_BTN" in self.network.inputs:
            drawn = [self._noise(own.start, own.start + frames_B.max(), seed) for own in heard]
            inputs["noise_BTN"] = (sigma * np.stack(drawn)).astype(np.float32)
        audio_BN, hop = self.network.run(**inputs)["audio_BN"], self.hop_samples
        return [cut.of(own, audio_N, hop) for cut, own, audio_N in zip(cuts, heard, audio_BN, strict=True)]

    def _noise(self, start: int, end: int, seed: int) -> np.ndarray:
        """[T, N] of some frames, the same whichever others are drawn."""
        first = start // CHUNK_FRAMES
        drawn = [
            np.random.default_rng((seed % 2**64, chunk)).standard_normal((CHUNK_FRAMES, self.hop_samples))
            for chunk in range(first, -(-end // CHUNK_FRAMES))
        ]
        return np.concatenate(drawn)[start - first * CHUNK_FRAMES :][: end - start]


def _speaker(*described: float | str) -> SpeakerStatistics:
    """What a voice is described by. Raises ValueError and TypeError."""
    found = SpeakerStatistics(*map(float, described))
    if not all(map(math.isfinite, found)):
        raise ValueError(f"a voice of {found}")
    return found


class Synthesizer(SentenceSpeaker):
    """A FastPitch that `trt.export` wrote, and the vocoder that makes its sound."""

    def __init__(self, path: Path, vocoder: Vocoder, *, threads: int = 0, **reading: Any):
        """`reading`: fields of `TextConfig` that replace those of the model. Raises ModelError and ValueError."""
        self.network, self.vocoder = OnnxModel(path, threads=threads), vocoder
        self.voice = Voice(vocoder, VoicingConfig(sigma=vocoder.sigma, seed=vocoder.seed))
        facts = self.network.facts
        if facts.get("task") != "synthesis" or facts.get("part") != "whole":
            takes = ", ".join(self.network.inputs)
            raise ModelError(f"{path}: takes {takes}; expected a whole FastPitch that trt.export wrote")
        with usable(ModelError, path):
            for name in SAME_MEL:
                found, expected = facts["features"][name], vocoder.features[name]
                if found != expected:
                    raise ModelError(
                        f"{vocoder.network.path}: takes mel spectrograms with {name} {expected:g}, but {path} has "
                        f"{name} {found:g}; use a vocoder trained on the same features"
                    )
            self.name, self.hop_samples, self.sample_rate = str(path), vocoder.hop_samples, vocoder.sample_rate
            self.precision = facts.get("precision", "fp32")
            self._voices = [_speaker(*voice) for voice in facts["voices"]]
            skipping = {"unknown_characters": "skip"} | reading  # and logged, as fastpitch.load
            reads = replace(config.build(TextConfig, facts["text"], str(path)), **skipping)
            self.text = TextProcessor(reads, learned=facts.get("learned", ()))

    def voices(self) -> list[SpeakerStatistics]:
        """As `SentenceSpeaker`'s."""
        return self._voices

    def say(self, text: str, **how: Any) -> Audio:
        """The sound of a text, float32 [N], and its rate; `how` as `plan`. Raises SynthesisError and as `plan`."""
        return Audio(np.concatenate(list(self.stream(text, chunk_frames=None, **how))), self.sample_rate)

    def stream(self, text: str, *, chunk_frames: int | None = CHUNK_FRAMES, **how: Any) -> Iterator[np.ndarray]:
        """The same in pieces: sentences one after the other, each in chunks of so many frames, or whole."""
        yield from self.stream_pieces(self.plan(text, **how), chunk_frames=chunk_frames)

    def predict(self, pieces: Sequence[PlannedSentence]) -> PredictedBatch:
        """As `SentenceSpeaker`'s."""
        inputs = self.inputs(pieces)
        plain_BL = np.ones_like(inputs["pace_BL"])
        inputs |= {"energy_BL": plain_BL * np.nan, "energy_scale_BL": plain_BL, "energy_shift_BL": 0 * plain_BL}
        said = self.network.run(**{name: inputs[name] for name in self.network.inputs})
        of_symbols = (said[name] for name in ("symbol_frames_BL", "spoken_pitch_BL", "spoken_energy_BL"))
        return PredictedBatch(said["mel_BMT"], said["frames_B"].tolist(), *of_symbols)
