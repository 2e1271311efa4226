"""An exported voice in use, without torch: texts in, sound out.

The text front end is that of `fastpitch`: SSML, phonemes in braces, controls of pace, pitch and energy. Sentences are
computed one after the other, so that the first can be heard while the next are made.

Shapes: L symbols, M mel bins, T frames, N samples.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np

from common import config
from common.audio import Audio
from fastpitch.front import planning
from fastpitch.front.control import EnergyKind, Speaker, to_hz
from fastpitch.front.planning import PlannedSentence
from fastpitch.front.symbols import Encoded, TextConfig, TextProcessor
from fastpitch.speaking import sound
from fastpitch.vocoders.networks.config import SAME_MEL
from trt.facts import usable
from trt.runtime import Model, ModelError

FADE_FRAMES = 10  # at the end of every sentence, in which it fades to silence
CHUNK_FRAMES = 64  # of a stream, 0.74 s


class Sentence(NamedTuple):
    """A sentence as it is said: its symbols, the frames, pitch (Hz) and energy they got, its mel spectrogram."""

    encoded: Encoded
    frames_L: np.ndarray
    pitch_hz_L: np.ndarray
    energy_L: np.ndarray
    mel_MT: np.ndarray


class SpeechError(ValueError):
    """A text that a model cannot say, though it is well written; the message says what came out instead."""


class Vocoder:
    """A file of `trt.export` that makes sound of mel spectrograms."""

    def __init__(self, path: Path, *, sigma: float = 0.9, seed: int = 0, threads: int = 0):
        """`sigma`, `seed`: of the noise that WaveGlow starts from. `threads`: 0 for one per core. Raises ModelError."""
        self.network = Model(path, threads=threads)
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
        return np.concatenate(list(self.stream(mel_MT, chunk_frames=max(1, mel_MT.shape[1]))))

    def stream(self, mel_MT: np.ndarray, *, chunk_frames: int = CHUNK_FRAMES) -> Iterator[np.ndarray]:
        """The same in pieces, each computed with the frames around it that it depends on."""
        frames, hop = mel_MT.shape[1], self.hop_samples
        noise_TN = None
        if "noise_BTN" in self.network.inputs:
            draw = np.random.default_rng(self.seed)
            noise_TN = (self.sigma * draw.standard_normal((frames, hop))).astype(np.float32)
        for start in range(0, frames, chunk_frames):
            first, end = max(0, start - self.context_frames), min(frames, start + chunk_frames)
            heard = slice(first, end + self.context_frames)
            inputs = {"mel_BMT": np.ascontiguousarray(mel_MT[None, :, heard])}
            inputs["frames_B"] = np.array([inputs["mel_BMT"].shape[2]])
            if noise_TN is not None:
                inputs["noise_BTN"] = noise_TN[None, heard]
            samples_N = self.network.run(**inputs)["audio_BN"][0]
            yield samples_N[(start - first) * hop : (end - first) * hop]


def _speaker(mean: float, deviation: float, energy: str = "log_mel") -> Speaker:
    """What a voice is described by. Raises ValueError and TypeError."""
    if not (math.isfinite(mean) and math.isfinite(deviation)) or energy not in get_args(EnergyKind):
        raise ValueError(f"a voice of {mean} Hz, {deviation} Hz and {energy!r}")
    return Speaker(mean, deviation, cast(EnergyKind, energy))


class Synthesizer:
    """A FastPitch that `trt.export` wrote, and the vocoder that makes its sound."""

    def __init__(self, path: Path, vocoder: Vocoder, *, threads: int = 0, **reading: Any):
        """`reading`: fields of `TextConfig` that replace those of the model. Raises ModelError and ValueError."""
        self.network, self.vocoder = Model(path, threads=threads), vocoder
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
            self.voices = [_speaker(*voice) for voice in facts["voices"]]
            skipping = {"unknown_characters": "skip"} | reading  # and logged, as fastpitch.load
            self.text = TextProcessor(replace(config.build(TextConfig, facts["text"], str(path)), **skipping))

    def plan(self, text: str, **how: Any) -> list[PlannedSentence]:
        """The sentences of `text` and what is asked of each, as `fastpitch.Synthesizer.plan`."""
        return planning.planned(text, self.text, self.voices, name=self.name, **how)

    def say(self, text: str, **how: Any) -> Audio:
        """The sound of a text, float32 [N], and its rate; `how` as `plan`. Raises SpeechError and as `plan`."""
        return Audio(np.concatenate(list(self.stream(text, chunk_frames=None, **how))), self.sample_rate)

    def stream(self, text: str, *, chunk_frames: int | None = CHUNK_FRAMES, **how: Any) -> Iterator[np.ndarray]:
        """The same in pieces: sentences one after the other, each in chunks of so many frames, or whole."""
        yield from self.stream_sentences(self.plan(text, **how), chunk_frames=chunk_frames)

    def stream_sentences(
        self, pieces: Sequence[PlannedSentence], *, chunk_frames: int | None = CHUNK_FRAMES
    ) -> Iterator[np.ndarray]:
        """The sound of planned sentences and the pauses after them, in pieces. Raises SpeechError."""
        for piece in pieces:
            if piece.encoded.tokens:
                yield from self.voiced(self.sentence(piece).mel_MT, chunk_frames=chunk_frames)
            if piece.pause_ms:
                yield sound.silence(piece.pause_ms, self.sample_rate)

    def sentence(self, piece: PlannedSentence) -> Sentence:
        """What is said for a piece with symbols. Raises SpeechError."""
        edits = piece.edits
        symbols = len(piece.encoded.tokens)
        inputs = {
            "tokens_BL": np.array([piece.encoded.tokens]),
            "lengths_B": np.array([symbols]),
            "pace_BL": edits.pace_L[None],
            "durations_BL": edits.durations_L[None],
            "pitch_BL": edits.pitch_L[None],
            "pitch_scale_BL": edits.pitch_scale_L[None],
            "pitch_shift_BL": edits.pitch_shift_L[None],
            "energy_BL": np.full((1, symbols), np.nan, np.float32),
            "energy_scale_BL": edits.energy_scale_L[None],
            "energy_shift_BL": edits.energy_shift_L[None],
            "speaker_B": np.array([piece.speaker]),
        }
        said = self.network.run(**{name: inputs[name] for name in self.network.inputs})
        sentence = Sentence(
            piece.encoded,
            said["symbol_frames_BL"][0],
            to_hz(said["spoken_pitch_BL"][0], self.voices[piece.speaker]),
            said["spoken_energy_BL"][0],
            said["mel_BMT"][0, :, : said["frames_B"][0]],
        )
        if not np.isfinite(sentence.mel_MT).all():
            raise SpeechError(f"{self.name} gives NaN; its weights are damaged, or a control is far too great")
        if not sentence.mel_MT.shape[1]:
            raise SpeechError(f"{self.name} gives it no frames; its pace is too fast, or the model is not trained")
        return sentence

    def voiced(self, mel_MT: np.ndarray, *, chunk_frames: int | None = None) -> Iterator[np.ndarray]:
        """The sound of a sentence, in chunks of so many frames or in one piece; its end fades."""
        total, position = mel_MT.shape[1] * self.hop_samples, 0
        for samples_N in self.vocoder.stream(mel_MT, chunk_frames=chunk_frames or mel_MT.shape[1]):
            faded_N = sound.fade_out(samples_N, first=position, total=total, length=FADE_FRAMES * self.hop_samples)
            position += len(samples_N)
            yield sound.guard(faded_N)
