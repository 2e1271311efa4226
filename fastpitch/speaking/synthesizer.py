"""A trained model in use: texts in, sound out, and how it came about.

A text becomes sentences, sentences become batches of symbols, batches of mel frames, and those batches of samples; then
the sentences of each text are joined with their pauses. Sentences of many texts share batches, and each sounds as it
would alone.

Shapes: B utterances, L symbols, M mel bins, T frames, N samples; in arguments of `FastPitch.infer` symbols are T.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from common.audio.waveform import Audio
from common.devices import distributed
from common.devices.fastest import Choice, fastest
from common.devices.precision import Precision, cast_for_inference, float32_math
from common.features import LogMelConfig
from common.runs import checkpoint
from fastpitch import voices
from fastpitch.acoustic.checkpoints import reading
from fastpitch.acoustic.model import FastPitch, Spectrogram
from fastpitch.front.control import SpeakerStatistics
from fastpitch.front.planning import PlannedSentence
from fastpitch.front.symbols import TextConfig, TextProcessor
from fastpitch.speaking import sound
from fastpitch.speaking.sentences import PredictedBatch, SentenceSpeaker, SpokenSentence, SynthesisError
from fastpitch.speaking.voicing import Voice
from fastpitch.vocoders.vocoder import Vocoder, VocoderError


class MarkTime(NamedTuple):
    """When the place that SSML names is reached."""

    name: str
    seconds: float


class Spoken(NamedTuple):
    """A text as it was said: float32 samples_N, its sentences and marks; `error`, if it was not, says why."""

    samples_N: np.ndarray
    sample_rate: int
    hop_samples: int
    sentences: list[SpokenSentence]
    error: str = ""
    marks: tuple[MarkTime, ...] = ()


class Synthesizer(SentenceSpeaker):
    """A model with the text processing it was trained with, and the features it has learned."""

    def __init__(
        self,
        model: FastPitch,
        text: TextProcessor,
        features: LogMelConfig,
        *,
        name: str = "FastPitch",
        speakers: Sequence[str] = (),
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
    ):
        self.text, self.features, self.name, self.speakers = text, features, name, tuple(speakers)
        self.device, self.precision = torch.device(device), precision
        self.n_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.model = cast_for_inference(model.to(self.device), precision)
        self.vocoder: Vocoder | Voice | None = None
        """What makes its sound where a call names no vocoder."""

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

    def synthesize(self, text: str, *, vocoder: Vocoder | Voice | None = None, **how: Any) -> Audio:
        """The sound of a text, float32 [N], and its rate; `how` is all that `plan` takes.

        Raises SynthesisError, VocoderError, and what `plan` raises.
        """
        spoken = self.say(text, vocoder, **how)
        return Audio(spoken.samples_N, spoken.sample_rate)

    def say(self, text: str, vocoder: Vocoder | Voice | None = None, **how: Any) -> Spoken:
        """As `synthesize`, with the symbols, pitch, energy, durations and mel frames of its sentences."""
        (spoken,) = self.speak([self.plan(text, **how)], _voice(vocoder or self.vocoder))
        if spoken.error:
            raise SynthesisError(spoken.error)
        return spoken

    def stream(self, text: str, *, vocoder: Vocoder | Voice | None = None, **how: Any) -> Iterator[np.ndarray]:
        """As `synthesize`, in chunks [N], each as soon as it is there: the sentences after it are not begun."""
        voice = _voice(vocoder or self.vocoder)
        voice.vocoder.require(self.features, self.name)
        return self.stream_pieces(self.plan(text, **how), voice)

    def voices(self) -> list[SpeakerStatistics]:
        """What pitch each speaker can be given."""
        statistics = self.model.pitch_mean, self.model.pitch_std, self.model.pitch_range
        return [SpeakerStatistics(*row) for row in torch.column_stack(statistics).tolist()]

    def speak(self, texts: Iterable[Sequence[PlannedSentence]], voice: Voice) -> Iterator[Spoken]:
        """What the pieces of every text sound like, in order. Memory holds only the texts of a few batches.

        Raises VocoderError for a vocoder that takes other mel spectrograms than this model makes.
        """
        voice.vocoder.require(self.features, self.name)
        waiting: list[Sequence[PlannedSentence]] = []
        for pieces in texts:
            waiting.append(pieces)
            if sum(map(len, waiting)) >= 4 * voice.config.batch_size:  # enough for batches of similar lengths
                yield from self._spoken(waiting, voice)
                waiting = []
        yield from self._spoken(waiting, voice)

    @torch.inference_mode()
    def predict(self, pieces: Sequence[PlannedSentence]) -> PredictedBatch:
        """As `SentenceSpeaker`'s."""
        given = {name: torch.from_numpy(values).to(self.device) for name, values in self.inputs(pieces).items()}
        said = self.infer(
            given["tokens_BL"], given["lengths_B"], given["pace_BL"], given["speaker_B"], given["durations_BL"],
            pitch_BT=given["pitch_BL"], pitch_scale=given["pitch_scale_BL"], pitch_shift=given["pitch_shift_BL"],
        )  # fmt: skip
        of_symbols = said.symbol_frames_BT, said.pitch_BT.float(), said.energy_BT.float()
        frames = said.frames_B.clamp(min=0).tolist()
        return PredictedBatch(said.mel_BMT.float(), frames, *(values_BL.cpu().numpy() for values_BL in of_symbols))

    def _spoken(self, texts: Sequence[Sequence[PlannedSentence]], voice: Voice) -> Iterator[Spoken]:
        sentences = self.sentences([piece for pieces in texts for piece in pieces], batch_size=voice.config.batch_size)
        remaining = iter(sentences)
        own = [[next(remaining) for piece in pieces if piece.encoded.tokens] for pieces in texts]
        errors = ["; ".join(filter(None, map(self.problem, of_text))) for of_text in own]
        well = [sentence for of_text, error in zip(own, errors, strict=True) if not error for sentence in of_text]
        sounds = iter(voice.whole([own.mel_MT for own in well], [own.gain_T for own in well]))
        for pieces, of_text, error in zip(texts, own, errors, strict=True):
            if error:
                yield Spoken(np.zeros(0, np.float32), voice.sample_rate, voice.hop_samples, [], error)
            else:
                yield _joined(pieces, of_text, [next(sounds) for _ in of_text], voice)


def _voice(vocoder: Vocoder | Voice | None) -> Voice:
    if vocoder is None:
        raise VocoderError("no vocoder: name one, or load a packed voice, which has its own")
    return vocoder if isinstance(vocoder, Voice) else Voice(vocoder)


def _joined(
    pieces: Sequence[PlannedSentence], sentences: Sequence[SpokenSentence], sounds: Sequence[np.ndarray], voice: Voice
) -> Spoken:
    """The sentences one after the other, with the pauses that the pieces ask for."""
    remaining = iter(zip(sentences, sounds, strict=True))
    parts: list[np.ndarray] = []
    placed, position = [], 0
    marks: list[MarkTime] = []
    for piece in pieces:
        starts_L = np.zeros(1, int)
        if piece.encoded.tokens:
            sentence, samples_N = next(remaining)
            placed.append(sentence._replace(first_sample=position))
            parts.append(samples_N)
            starts_L = np.concatenate([[0], np.cumsum(sentence.frames_L)]) * voice.hop_samples
        marks += [MarkTime(name, (position + int(starts_L[at])) / voice.sample_rate) for name, at in piece.marks]
        parts.append(sound.silence(piece.pause_ms, voice.sample_rate))
        position = sum(map(len, parts))
    return Spoken(np.concatenate(parts), voice.sample_rate, voice.hop_samples, placed, marks=tuple(marks))


def load(
    path: str | Path,
    *,
    device: str = "auto",
    precision: Choice = "fp32",
    ema: bool | None = None,
    text: TextConfig | None = None,
) -> Synthesizer:
    """The model saved at `path`: a checkpoint of this repository or of DeepLearningExamples' FastPitch 1.1, or a voice
    by its name (`fastpitch.voices`).

    `ema`: take the averaged weights; None takes them where there are any. `precision`: "auto" measures
    (`common.devices.fastest`). `text` overrides how the checkpoint says that its texts were processed; without it,
    characters that are no symbols are skipped and logged, as readers expect. Raises CheckpointError for a file that is
    missing, damaged, not such a checkpoint, without averaged weights, or that does not fit `text`.
    """
    path = voices.located(path, voices.ACOUSTIC)
    with checkpoint.usable(path):
        imported = reading.read(path)
        config, weights = imported.config, imported.chosen(ema, path)
        processor = TextProcessor(text or replace(config.text, unknown_characters="skip"))
        symbols, mel_bins = len(processor.symbols), config.features.mel_bins
        model = checkpoint.made(lambda: FastPitch(config.model, n_symbols=symbols, mel_bins=mel_bins), weights, path)
        if not model.symbols_learned.all():
            learned = [symbol for symbol, is_it in zip(processor.symbols, model.symbols_learned, strict=True) if is_it]
            processor = TextProcessor(processor.config, learned=learned)
    chosen = distributed.pick_device(device)

    def build(tried: Precision, network: FastPitch) -> Synthesizer:
        return Synthesizer(
            network, processor, config.features, name=str(path), device=chosen,
            speakers=config.data.speakers, precision=tried,
        )  # fmt: skip

    if precision == "auto":
        tokens_BT = torch.arange(120)[None] % len(processor.symbols)
        return fastest(
            lambda tried: build(tried, copy.deepcopy(model)),
            lambda tts: tts.infer(tokens_BT, torch.tensor([tokens_BT.shape[1]])).mel_BMT.float(),
            chosen,
        )
    return build(precision, model)
