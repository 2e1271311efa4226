"""An exported voice in use, without torch: texts in, sound out.

The text front end is that of `fastpitch`: SSML, phonemes in braces, controls of pace, pitch and energy. Sentences of a
text are computed one after the other, so that the first can be heard while the next are made; several texts at a time
go through the networks together.

Shapes: B sentences, L symbols, M mel bins, T frames, N samples.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import config
from common.audio.waveform import Audio
from fastpitch.front import planning
from fastpitch.front.control import SpeakerStatistics, to_hz
from fastpitch.front.planning import PlannedSentence
from fastpitch.front.symbols import EncodedText, TextConfig, TextProcessor
from fastpitch.speaking import sound
from fastpitch.vocoders.networks.config import SAME_MEL
from trt.facts import ModelError, usable
from trt.runtime.recognizer import OnnxModel
from trt.runtime.sentences import Said, Saying, say_together

FADE_FRAMES = 10  # at the end of every sentence, in which it fades to silence
CHUNK_FRAMES = 64  # of a stream, 0.74 s


class SaidSentence(NamedTuple):
    """A sentence as it is said: its symbols, the frames, pitch (Hz) and energy they got, its mel spectrogram."""

    encoded: EncodedText
    frames_L: np.ndarray
    pitch_hz_L: np.ndarray
    energy_L: np.ndarray
    mel_MT: np.ndarray
    gain_T: np.ndarray | None = None


class SpeechError(ValueError):
    """A text that a model cannot say, though it is well written; the message says what came out instead."""


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
        return np.concatenate(list(self.stream(mel_MT, chunk_frames=max(1, mel_MT.shape[1]))))

    def stream(self, mel_MT: np.ndarray, *, chunk_frames: int = CHUNK_FRAMES) -> Iterator[np.ndarray]:
        """The same in pieces, each computed with the frames around it that it depends on."""
        frames, noise_TN = mel_MT.shape[1], self.noise(mel_MT.shape[1])
        for start in range(0, frames, chunk_frames):
            yield self.sounds([NoisyCut(mel_MT, noise_TN, start, min(frames, start + chunk_frames))])[0]

    def noise(self, frames: int) -> np.ndarray | None:
        """The noise that so many frames of a spectrogram start from, float32 [T, N]; None where there is none."""
        if "noise_BTN" not in self.network.inputs:
            return None
        draw = np.random.default_rng(self.seed)
        return (self.sigma * draw.standard_normal((frames, self.hop_samples))).astype(np.float32)

    def sounds(self, cuts: Sequence["NoisyCut"]) -> list[np.ndarray]:
        """The sound of some frames of each of several spectrograms, in one batch: of each as if it were alone."""
        around = self.context_frames
        heard = [slice(max(0, cut.start - around), min(cut.mel_MT.shape[1], cut.end + around)) for cut in cuts]
        frames_B = np.array([own.stop - own.start for own in heard])
        mel_BMT = np.zeros((len(cuts), cuts[0].mel_MT.shape[0], frames_B.max()), np.float32)
        for row_MT, cut, own, frames in zip(mel_BMT, cuts, heard, frames_B, strict=True):
            row_MT[:, :frames] = cut.mel_MT[:, own]
        inputs = {"mel_BMT": mel_BMT, "frames_B": frames_B}
        if "noise_BTN" in self.network.inputs:
            noise_BTN = np.zeros((len(cuts), frames_B.max(), self.hop_samples), np.float32)
            for row_TN, cut, own, frames in zip(noise_BTN, cuts, heard, frames_B, strict=True):
                assert cut.noise_TN is not None
                row_TN[:frames] = cut.noise_TN[own]
            inputs["noise_BTN"] = noise_BTN
        audio_BN, hop = self.network.run(**inputs)["audio_BN"], self.hop_samples
        return [
            audio_N[(cut.start - own.start) * hop : (cut.end - own.start) * hop]
            for audio_N, cut, own in zip(audio_BN, cuts, heard, strict=True)
        ]


class NoisyCut(NamedTuple):
    """Frames `start` to `end` of a spectrogram, and the noise of all of it where a vocoder starts from one."""

    mel_MT: np.ndarray
    noise_TN: np.ndarray | None
    start: int
    end: int


def _speaker(*described: float | str) -> SpeakerStatistics:
    """What a voice is described by. Raises ValueError and TypeError."""
    found = SpeakerStatistics(*map(float, described))
    if not all(map(math.isfinite, found)):
        raise ValueError(f"a voice of {found}")
    return found


class Synthesizer:
    """A FastPitch that `trt.export` wrote, and the vocoder that makes its sound."""

    def __init__(self, path: Path, vocoder: Vocoder, *, threads: int = 0, **reading: Any):
        """`reading`: fields of `TextConfig` that replace those of the model. Raises ModelError and ValueError."""
        self.network, self.vocoder = OnnxModel(path, threads=threads), vocoder
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
            reads = replace(config.build(TextConfig, facts["text"], str(path)), **skipping)
            self.text = TextProcessor(reads, learned=facts.get("learned", ()))

    def plan(self, text: str, **how: Any) -> list[PlannedSentence]:
        """The sentences of `text` and what is asked of each, as `fastpitch.Synthesizer.plan`."""
        return planning.plan(text, self.text, self.voices, name=self.name, **how)

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
        saying = Saying(pieces, chunk_frames=chunk_frames)
        while (said := self.next_sounds([saying])[0]) is not None:
            if isinstance(said, Exception):
                raise said
            yield said

    def next_sounds(self, sayings: Sequence[Saying]) -> list[Said]:
        """The next piece of each of several texts: what each would say alone."""
        return say_together(sayings, sentences=self._begun, sounds=self._sounds, sample_rate=self.sample_rate)

    def sentence(self, piece: PlannedSentence) -> SaidSentence:
        """What is said for a piece with symbols. Raises SpeechError."""
        (found,) = self.sentences([piece])
        if isinstance(found, SpeechError):
            raise found
        return found

    def sentences(self, pieces: Sequence[PlannedSentence]) -> list[SaidSentence | SpeechError]:
        """What is said for several pieces with symbols, in one batch: for each what it gets alone.

        Pitch beyond a speaker's range is limited.
        """
        found = self._predicted(pieces)
        hertz = [said.pitch_hz_L for said in found]
        if again := planning.within_range(pieces, hertz, self.voices, name=self.name):
            for place, said in zip(again, self._predicted(list(again.values())), strict=True):
                found[place] = said
        problems = map(self._problem, found)
        return [SpeechError(told) if told else said for told, said in zip(problems, found, strict=True)]

    def _predicted(self, pieces: Sequence[PlannedSentence]) -> list[SaidSentence]:
        lengths_B = np.array([len(piece.encoded.tokens) for piece in pieces])

        def padded(rows: Iterable[np.ndarray], padding: float) -> np.ndarray:
            given = list(rows)
            rows_BL = np.full((len(given), lengths_B.max()), padding, given[0].dtype)
            for row_L, own_L in zip(rows_BL, given, strict=True):
                row_L[: len(own_L)] = own_L
            return rows_BL

        edits = [piece.edits for piece in pieces]
        predicted = [np.full(symbols, np.nan, np.float32) for symbols in lengths_B]
        inputs = {
            "tokens_BL": padded((np.array(piece.encoded.tokens) for piece in pieces), self.text.pad),
            "lengths_B": lengths_B,
            "pace_BL": padded((own.pace_L for own in edits), 1.0),
            "durations_BL": padded((own.durations_L for own in edits), 0.0),
            "pitch_BL": padded((own.pitch_L for own in edits), 0.0),
            "pitch_scale_BL": padded((own.pitch_scale_L for own in edits), 1.0),
            "pitch_shift_BL": padded((own.pitch_shift_L for own in edits), 0.0),
            "energy_BL": padded(predicted, 0.0),
            "energy_scale_BL": padded((np.ones_like(own_L) for own_L in predicted), 1.0),
            "energy_shift_BL": padded((np.zeros_like(own_L) for own_L in predicted), 0.0),
            "speaker_B": np.array([piece.speaker for piece in pieces]),
        }
        said = self.network.run(**{name: inputs[name] for name in self.network.inputs})
        return [
            SaidSentence(
                piece.encoded,
                said["symbol_frames_BL"][i, :symbols],
                to_hz(said["spoken_pitch_BL"][i, :symbols], self.voices[piece.speaker]),
                said["spoken_energy_BL"][i, :symbols],
                said["mel_BMT"][i, :, : said["frames_B"][i]],
                sound.gain_of_frames(piece.edits.gain_L, said["symbol_frames_BL"][i, :symbols]),
            )
            for i, (piece, symbols) in enumerate(zip(pieces, lengths_B, strict=True))
        ]

    def _problem(self, sentence: SaidSentence) -> str:
        if not np.isfinite(sentence.mel_MT).all():
            return f"{self.name} gives NaN; its weights are damaged, or a control is far too great"
        if not sentence.mel_MT.shape[1]:
            return f"{self.name} gives it no frames; its pace is too fast, or the model is not trained"
        return ""

    def _begun(self, pieces: list[PlannedSentence]) -> list[tuple[Any, int]]:
        """The spectrogram of each, the noise that its sound starts from, and its gain."""
        found: list[tuple[Any, int]] = []
        for sentence in self.sentences(pieces):
            if isinstance(sentence, SpeechError):
                found.append((sentence, 0))
            else:
                frames = sentence.mel_MT.shape[1]
                found.append(((sentence.mel_MT, self.vocoder.noise(frames), sentence.gain_T), frames))
        return found

    def _sounds(self, sayings: list[Saying]) -> list[np.ndarray]:
        """The end of every sentence fades."""
        cuts, gains = [], []
        for saying in sayings:
            mel_MT, noise_TN, gain_T = saying.sentence
            cuts.append(NoisyCut(mel_MT, noise_TN, saying.frames_said, saying.until_frame))
            gains.append(gain_T)
        hop, fade = self.hop_samples, FADE_FRAMES * self.hop_samples
        said = zip(cuts, sayings, gains, self.vocoder.sounds(cuts), strict=True)
        return [
            sound.finished(own_N, first=cut.start * hop, total=saying.frames * hop, fade=fade, hop=hop, gain_T=gain_T)
            for cut, saying, gain_T, own_N in said
        ]
