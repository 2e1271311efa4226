"""Planned sentences as they are said, whatever runs the networks: predicted in batches, their pitch kept within range,
their sound made piece by piece, the next pieces of several texts together. Needs no torch.

Shapes: B sentences, L symbols, M mel bins, T frames, N samples.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fastpitch.front import planning
from fastpitch.front.control import SpeakerStatistics, to_hz
from fastpitch.front.planning import PlannedSentence
from fastpitch.front.symbols import EncodedText, TextProcessor
from fastpitch.speaking import sound
from fastpitch.speaking.voicing import Gain, Voice, batches
from fastpitch.vocoders.spans import CHUNK_FRAMES, MelSpan

if TYPE_CHECKING:  # its module needs torch
    from common.devices.precision import Precision

Next = Literal["sentence", "sound", "pause", "problem", "end"]
Said = np.ndarray | Exception | None
"""A piece of sound, float32 [N]; the reason why there is none; None at the end."""


class SynthesisError(ValueError):
    """A text that a model cannot say, though it is well written; the message says what came out instead."""


class SpokenSentence(NamedTuple):
    """A sentence as it was said: its symbols, the frames, pitch (Hz) and energy they got, its mel spectrogram, a tensor
    or an array.

    `gain_T` is a factor of the sound of its frames, None for 1.
    """

    encoded: EncodedText
    frames_L: np.ndarray
    pitch_hz_L: np.ndarray
    energy_L: np.ndarray
    mel_MT: Any
    first_sample: int = 0
    gain_T: Gain = None


class PredictedBatch(NamedTuple):
    """What a network says of several sentences: mel_BMT, a tensor or an array, the frames of each, and of every symbol
    its frames, pitch (in deviations from the speaker's mean) and energy."""

    mel_BMT: Any
    frames: list[int]
    symbol_frames_BL: np.ndarray
    pitch_BL: np.ndarray
    energy_BL: np.ndarray


class Saying:
    """A text of which some has been said."""

    def __init__(self, pieces: Sequence[PlannedSentence], *, chunk_frames: int | None):
        """`chunk_frames`: of the spectrogram of a sentence, whose sound is one piece; None for a sentence."""
        self.pieces, self.chunk_frames = list(pieces), chunk_frames
        self.sentence: Any = None
        """What a model made of the first of the pieces, or why it could not; None before that."""
        self.frames = self.frames_said = 0
        """How many frames the sentence has, and how many have been said."""

    @property
    def next(self) -> Next:
        """What comes next."""
        if isinstance(self.sentence, Exception):
            return "problem"
        while self.pieces:
            if self.pieces[0].encoded.tokens and self.sentence is None:
                return "sentence"
            if self.sentence is not None and self.frames_said < self.frames:
                return "sound"
            if self.pieces[0].pause_ms:
                return "pause"
            self._go_on()
        return "end"

    @property
    def until_frame(self) -> int:
        """The frame of the sentence up to which the next piece of sound goes."""
        return min(self.frames, self.frames_said + (self.chunk_frames or self.frames))

    def say(self, found: np.ndarray | None, sample_rate: int) -> Said:
        """What is said next, of which `found` is the sound; it is behind us then."""
        match self.next:
            case "problem":
                return self.sentence
            case "sound":
                self.frames_said = self.until_frame
                return found
            case "pause":
                silence_N = sound.silence(self.pieces[0].pause_ms, sample_rate)
                self._go_on()
                return silence_N
            case _:
                return None

    def _go_on(self) -> None:
        self.pieces = self.pieces[1:]
        self.sentence, self.frames, self.frames_said = None, 0, 0


def say_together(
    sayings: Sequence[Saying],
    *,
    sentences: Callable[[list[PlannedSentence]], Sequence[tuple[Any, int]]],
    sounds: Callable[[list[Saying]], Sequence[np.ndarray]],
    sample_rate: int,
) -> list[Said]:
    """The next piece of each of the texts.

    `sentences` makes of several what a voice needs to sound, and how many frames each has; an exception stands for one
    that cannot be said. `sounds` makes of each text the frames from `frames_said` to `until_frame`. If either raises an
    exception, nothing has been said, and fewer of them may be tried.
    """
    begun = [saying for saying in sayings if saying.next == "sentence"]
    if begun:
        for saying, made in zip(begun, sentences([saying.pieces[0] for saying in begun]), strict=True):
            saying.sentence, saying.frames = made
    speaking = [saying for saying in sayings if saying.next == "sound"]
    found = iter(sounds(speaking) if speaking else ())
    own = {id(saying): next(found) for saying in speaking}
    return [saying.say(own.get(id(saying)), sample_rate) for saying in sayings]


class SentenceSpeaker(ABC):
    """A model of sentences with the text processing it was trained with.

    `name`, in messages, is where it comes from; `speakers` are the names of its speakers, if they have any.
    """

    text: TextProcessor
    name: str
    precision: "Precision"
    speakers: tuple[str, ...] = ()
    voice: Voice | None = None
    """What makes its sound where a call names no other."""

    @abstractmethod
    def voices(self) -> list[SpeakerStatistics]:
        """What pitch each speaker can be given."""

    @abstractmethod
    def predict(self, pieces: Sequence[PlannedSentence]) -> PredictedBatch:
        """What the network says of several pieces with symbols, in one batch: of each what it would alone."""

    def plan(self, text: str, **how: Any) -> list[PlannedSentence]:
        """The sentences of `text`, which may hold SSML and {phonemes}, and what is asked of each of their symbols.

        `how`: `speaker`, its number or name; `control`, or its fields (pace=0.9, pitch_shift_hz=20 …), for all of it;
        `words` and `symbols` for some ("really: pace=0.8"), see `fastpitch.front.control`. Raises TextError, SsmlError
        and ControlError.
        """
        return planning.plan(text, self.text, self.voices(), name=self.name, names=self.speakers, **how)

    def sentences(self, pieces: Sequence[PlannedSentence], *, batch_size: int | None = None) -> list[SpokenSentence]:
        """Mel spectrograms of the pieces that have symbols, in order, `batch_size` or all at a time; pitch beyond a
        speaker's range is limited."""
        said = [piece for piece in pieces if piece.encoded.tokens]
        batch_size = batch_size or max(1, len(said))
        found = self._predicted(said, batch_size)
        hertz = [sentence.pitch_hz_L for sentence in found]
        again = planning.within_range(said, hertz, self.voices(), name=self.name)
        for place, sentence in zip(again, self._predicted(list(again.values()), batch_size), strict=True):
            found[place] = sentence
        return found

    def sentence(self, piece: PlannedSentence) -> SpokenSentence:
        """The same of one piece with symbols. Raises SynthesisError."""
        (found,) = self.sentences([piece])
        if told := self.problem(found):
            raise SynthesisError(told)
        return found

    def _predicted(self, pieces: Sequence[PlannedSentence], batch_size: int) -> list[SpokenSentence]:
        found: dict[int, SpokenSentence] = {}
        voices = self.voices()
        for rows in batches([len(piece.encoded.tokens) for piece in pieces], batch_size):
            said = self.predict([pieces[i] for i in rows])
            for row, i in enumerate(rows):
                piece, symbols = pieces[i], slice(len(pieces[i].encoded.tokens))
                frames_L = said.symbol_frames_BL[row, symbols]
                found[i] = SpokenSentence(
                    encoded=piece.encoded,
                    frames_L=frames_L,
                    pitch_hz_L=to_hz(said.pitch_BL[row, symbols], voices[piece.speaker]),
                    energy_L=said.energy_BL[row, symbols],
                    mel_MT=said.mel_BMT[row, :, : said.frames[row]],
                    gain_T=sound.gain_of_frames(piece.edits.gain_L, frames_L),
                )
        return [found[i] for i in range(len(pieces))]

    def inputs(self, pieces: Sequence[PlannedSentence]) -> dict[str, np.ndarray]:
        """What the network takes of several pieces, by the names that exported models have, padded."""
        lengths_B = np.array([len(piece.encoded.tokens) for piece in pieces])

        def padded(rows: Sequence[np.ndarray], padding: float) -> np.ndarray:
            rows_BL = np.full((len(rows), lengths_B.max()), padding, rows[0].dtype)
            for row_L, own_L in zip(rows_BL, rows, strict=True):
                row_L[: len(own_L)] = own_L
            return rows_BL

        neutral = {"pace_L": 1.0, "durations_L": 0.0, "pitch_L": 0.0, "pitch_scale_L": 1.0, "pitch_shift_L": 0.0}
        return {
            "tokens_BL": padded([np.array(piece.encoded.tokens) for piece in pieces], self.text.pad),
            "lengths_B": lengths_B,
            "speaker_B": np.array([piece.speaker for piece in pieces]),
        } | {
            name.replace("_L", "_BL"): padded([getattr(piece.edits, name) for piece in pieces], padding)
            for name, padding in neutral.items()
        }

    def problem(self, sentence: SpokenSentence) -> str:
        """Why a sentence cannot be given to a vocoder; "" if it can."""
        if not (abs(sentence.mel_MT) < np.inf).all() or not np.isfinite(sentence.pitch_hz_L).all():
            otherwise = "its weights are damaged, or a control is far too great"
            advice = "take bf16 or fp32" if self.precision == "fp16" else otherwise
            return f"{self.name} gives NaN in {self.precision}; {advice}"
        if not sentence.mel_MT.shape[1]:
            return f"{self.name} gives it no frames; its pace is too fast, or the model is not trained"
        return ""

    def stream_pieces(
        self, pieces: Sequence[PlannedSentence], voice: Voice | None = None, *, chunk_frames: int | None = CHUNK_FRAMES
    ) -> Iterator[np.ndarray]:
        """The sound of one text, float32 [N], in chunks, each sentence when the one before has been said.

        `chunk_frames`: of a chunk; None for whole sentences. Raises SynthesisError.
        """
        saying = Saying(pieces, chunk_frames=chunk_frames)
        while (said := self.next_sounds([saying], voice)[0]) is not None:
            if isinstance(said, Exception):
                raise said
            yield said

    def next_sounds(self, sayings: Sequence[Saying], voice: Voice | None = None) -> list[Said]:
        """The next piece of each of several texts, made together: what each would say alone."""
        voice = voice or self.voice
        assert voice is not None
        return say_together(
            sayings,
            sentences=self._begun,
            sounds=lambda speaking: voice.cuts(
                [MelSpan(saying.sentence.mel_MT, saying.frames_said, saying.until_frame) for saying in speaking],
                [saying.sentence.gain_T for saying in speaking],
            ),
            sample_rate=voice.sample_rate,
        )

    def _begun(self, pieces: list[PlannedSentence]) -> list[tuple[Any, int]]:
        """What is said for each, and its frames, or why it cannot be said."""
        return [
            (SynthesisError(told), 0) if (told := self.problem(sentence)) else (sentence, sentence.mel_MT.shape[1])
            for sentence in self.sentences(pieces)
        ]
