"""A trained model in use: texts in, sound out, and how it came about.

A text becomes sentences, sentences become batches of symbols, batches of mel frames, and those batches of samples; then
the sentences of each text are joined with their pauses. Sentences of many texts share batches, and each sounds as it
would alone.

Shapes: B utterances, L symbols, M mel bins, T frames, N samples; in arguments of `FastPitch.infer` symbols are T.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from common.features import LogMelConfig
from common.precision import Precision, cast_for_inference, float32_math
from fastpitch import sound
from fastpitch.model import FastPitch, Spectrogram
from fastpitch.text import Encoded, TextProcessor
from fastpitch.voicing import Voice, batches


class Edits(NamedTuple):
    """What is asked of the symbols of a sentence, a value for each, as `FastPitch.infer` takes it.

    Durations (frames), pitch (deviations) and energy that are NaN are predicted.
    """

    pace_L: np.ndarray
    durations_L: np.ndarray
    pitch_L: np.ndarray
    pitch_scale_L: np.ndarray
    pitch_shift_L: np.ndarray
    energy_scale_L: np.ndarray
    energy_shift_L: np.ndarray


class Piece(NamedTuple):
    """A sentence to say, by a speaker, and the milliseconds of silence after it. Without symbols: only silence."""

    encoded: Encoded
    edits: Edits
    speaker: int = 0
    pause_ms: float = 0.0


class Sentence(NamedTuple):
    """A sentence as it was said: its symbols, the frames, pitch (Hz) and energy they got, its mel spectrogram."""

    encoded: Encoded
    frames_L: np.ndarray
    pitch_hz_L: np.ndarray
    energy_L: np.ndarray
    mel_MT: Tensor
    first_sample: int = 0


class Spoken(NamedTuple):
    """A text as it was said: float32 samples_N, and its sentences; `error`, if it was not, says why."""

    samples_N: np.ndarray
    sample_rate: int
    hop_samples: int
    sentences: list[Sentence]
    error: str = ""


class SynthesisError(ValueError):
    """A text that a model cannot say, though it is well written; the message says what came out instead."""


class Synthesizer:
    """A model with the text processing it was trained with and the features it makes.

    `name`, in messages, is where it comes from.
    """

    def __init__(
        self,
        model: FastPitch,
        text: TextProcessor,
        features: LogMelConfig,
        *,
        name: str = "FastPitch",
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
    ):
        self.text, self.features, self.name = text, features, name
        self.device, self.precision = torch.device(device), precision
        self.n_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.model = cast_for_inference(model.to(self.device), precision)

    def infer(
        self,
        tokens_BT: Tensor,
        lengths_B: Tensor,
        pace: float | Tensor = 1.0,
        speaker: int | Tensor = 0,
        durations_BT: Tensor | None = None,
        **edits: Any,
    ) -> Spectrogram:
        """As `FastPitch.infer`, whose arguments `edits` are; tensors may be on any device. Raises ValueError."""
        with float32_math(self.precision):
            return self.model.infer(
                tokens_BT.to(self.device), lengths_B.to(self.device), pace, speaker, durations_BT, **edits
            )

    def speak(self, texts: Iterable[Sequence[Piece]], voice: Voice) -> Iterator[Spoken]:
        """What the pieces of every text sound like, in order. Memory holds only the texts of a few batches.

        Raises VocoderError for a vocoder that takes other mel spectrograms than this model makes.
        """
        voice.vocoder.require(self.features, self.name)
        waiting: list[Sequence[Piece]] = []
        for pieces in texts:
            waiting.append(pieces)
            if sum(map(len, waiting)) >= 4 * voice.config.batch_size:  # enough for batches of similar lengths
                yield from self._spoken(waiting, voice)
                waiting = []
        yield from self._spoken(waiting, voice)

    def stream(self, pieces: Sequence[Piece], voice: Voice) -> Iterator[np.ndarray]:
        """The sound of one text, float32 [N], in chunks; later sentences are not begun before they are asked for."""
        voice.vocoder.require(self.features, self.name)
        for piece in pieces:
            for sentence in self.sentences([piece], batch_size=1):
                self._check(sentence)
                yield from voice.stream(sentence.mel_MT)
            if piece.pause_ms:
                yield sound.silence(piece.pause_ms, voice.sample_rate)

    @torch.inference_mode()
    def sentences(self, pieces: Sequence[Piece], *, batch_size: int) -> list[Sentence]:
        """Mel spectrograms of the pieces that have symbols, in order."""
        said = [piece for piece in pieces if piece.encoded.tokens]
        found: dict[int, Sentence] = {}
        for rows in batches([len(piece.encoded.tokens) for piece in said], batch_size):
            batch = [said[i] for i in rows]
            found |= zip(rows, self._sentences_of(batch, self._spectrogram(batch)), strict=True)
        return [found[i] for i in range(len(said))]

    def _spectrogram(self, pieces: Sequence[Piece]) -> Spectrogram:
        def padded(name: str, padding: float) -> Tensor:
            rows = [torch.as_tensor(getattr(piece.edits, name), dtype=torch.float32) for piece in pieces]
            return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding).to(self.device)

        tokens = [torch.tensor(piece.encoded.tokens) for piece in pieces]
        return self.infer(
            torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=self.text.pad),
            torch.tensor([len(row) for row in tokens]),
            padded("pace_L", 1.0),
            torch.tensor([piece.speaker for piece in pieces], device=self.device),
            padded("durations_L", 0.0),
            pitch_BT=padded("pitch_L", 0.0),
            pitch_scale=padded("pitch_scale_L", 1.0),
            pitch_shift=padded("pitch_shift_L", 0.0),
            energy_scale=padded("energy_scale_L", 1.0),
            energy_shift=padded("energy_shift_L", 0.0),
        )

    def _sentences_of(self, pieces: Sequence[Piece], said: Spectrogram) -> Iterator[Sentence]:
        frames, counts_BL = said.frames_B.tolist(), said.symbol_frames_BT.cpu().numpy()
        speakers_B = torch.tensor([piece.speaker for piece in pieces], device=self.device)
        mean_B1, deviation_B1 = self.model.pitch_mean[speakers_B, None], self.model.pitch_std[speakers_B, None]
        hertz_BL = (said.pitch_BT.float() * deviation_B1 + mean_B1).cpu().numpy()
        energy_BL = said.energy_BT.float().cpu().numpy()
        for row, piece in enumerate(pieces):
            symbols = slice(len(piece.encoded.tokens))
            yield Sentence(
                encoded=piece.encoded,
                frames_L=counts_BL[row, symbols],
                pitch_hz_L=hertz_BL[row, symbols],
                energy_L=energy_BL[row, symbols],
                mel_MT=said.mel_BMT[row, :, : frames[row]].float(),
            )

    def _spoken(self, texts: Sequence[Sequence[Piece]], voice: Voice) -> Iterator[Spoken]:
        sentences = self.sentences([piece for pieces in texts for piece in pieces], batch_size=voice.config.batch_size)
        remaining = iter(sentences)
        own = [[next(remaining) for piece in pieces if piece.encoded.tokens] for pieces in texts]
        errors = ["; ".join(filter(None, map(self._problem, of_text))) for of_text in own]
        well = [sentence for of_text, error in zip(own, errors, strict=True) if not error for sentence in of_text]
        sounds = iter(voice.whole([sentence.mel_MT for sentence in well]))
        for pieces, of_text, error in zip(texts, own, errors, strict=True):
            if error:
                yield Spoken(np.zeros(0, np.float32), voice.sample_rate, voice.hop_samples, [], error)
            else:
                yield _joined(pieces, of_text, [next(sounds) for _ in of_text], voice)

    def _problem(self, sentence: Sentence) -> str:
        """Why a sentence cannot be given to a vocoder; "" if it can."""
        if not sentence.mel_MT.shape[1]:
            return f"{self.name} gives it no frames; its pace is too fast, or the model is not trained"
        if not bool(sentence.mel_MT.isfinite().all()):
            advice = "take bf16 or fp32" if self.precision == "fp16" else "its weights are damaged"
            return f"{self.name} gives NaN in {self.precision}; {advice}"
        return ""

    def _check(self, sentence: Sentence) -> None:
        if problem := self._problem(sentence):
            raise SynthesisError(problem)


def _joined(
    pieces: Sequence[Piece], sentences: Sequence[Sentence], sounds: Sequence[np.ndarray], voice: Voice
) -> Spoken:
    """The sentences one after the other, with the pauses that the pieces ask for."""
    remaining = iter(zip(sentences, sounds, strict=True))
    parts: list[np.ndarray] = []
    placed, position = [], 0
    for piece in pieces:
        if piece.encoded.tokens:
            sentence, samples_N = next(remaining)
            placed.append(sentence._replace(first_sample=position))
            parts.append(samples_N)
        parts.append(sound.silence(piece.pause_ms, voice.sample_rate))
        position = sum(map(len, parts))
    return Spoken(np.concatenate(parts), voice.sample_rate, voice.hop_samples, placed)
