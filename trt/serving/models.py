"""The models behind the gateway, each used from one file: a recogniser, and a voice of FastPitch and its vocoder.

Files of `trt.export` need no torch; checkpoints are used through the packages that train them, which are imported then.

Legend: N samples.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from common.recognition.transcripts import Transcript
from trt.runtime import ModelError, Recognizer


class Ears(NamedTuple):
    """A recogniser: its name, what it hears, and a function from recordings to transcripts, in order."""

    name: str
    sample_rate: int
    chunk_seconds: float
    """Longer recordings are recognised in chunks."""
    asr: Any
    batch_size: int

    def transcribe(self, recordings: Sequence[np.ndarray]) -> list[Transcript]:
        """Transcripts of float32 [N] at the model's sample rate; what cannot be recognised has its `error` set."""
        more = {} if isinstance(self.asr, Recognizer) else {"on_error": "skip"}
        return list(self.asr.stream(recordings, batch_size=self.batch_size, **more))


class Planned(Protocol):
    """A sentence, as fastpitch.front.planning plans it."""

    @property
    def pause_ms(self) -> float:
        """Silence after it."""


class Spoken(NamedTuple):
    """A word as it was said: seconds from the start, its mean pitch in Hz (0 where it has no voice) and its energy."""

    text: str
    start: float
    end: float
    pitch_hz: float
    energy: float


class Voice:
    """A voice: FastPitch and a vocoder."""

    def __init__(self, name: str, tts: Any, voice: Any):
        self.name, self._tts, self._voice = name, tts, voice

    @property
    def sample_rate(self) -> int:
        """Of the sound, in Hz."""
        return int(self._voice.sample_rate)

    @property
    def speakers(self) -> int:
        """How many voices there are, numbered from 0."""
        return len(self._tts.model.pitch_mean)

    def plan(self, text: str, *, speaker: int, pace: float) -> list[Planned]:
        """The sentences of a text, which may be SSML. Raises ValueError for what cannot be said."""
        planned: list[Planned] = self._tts.plan(text, speaker=speaker, pace=pace)
        return planned

    def stream(self, planned: Sequence[Planned]) -> Iterator[np.ndarray]:
        """The sound, float32 [N], in pieces as they are made. Raises ValueError for what the model cannot say."""
        yield from self._tts.stream_pieces(planned, self._voice)

    def samples(self, planned: Sequence[Planned]) -> int:
        """How many samples `stream` gives, without the vocoder."""
        hop, said = self._voice.hop_samples, self._tts.sentences(planned, batch_size=1)
        pauses = sum(round(piece.pause_ms * self.sample_rate / 1000) for piece in planned)
        return sum(int(sentence.frames_L.sum()) * hop for sentence in said) + pauses

    def words(self, planned: Sequence[Planned]) -> list[Spoken]:
        """What `stream` says, word by word, without its sound."""
        sentences = iter(self._tts.sentences([piece for piece in planned if _speaks(piece)], batch_size=1))
        seconds = self._voice.hop_samples / self.sample_rate
        found, start = [], 0.0
        for piece in planned:
            if _speaks(piece):
                said = next(sentences)
                ends_L = np.cumsum(said.frames_L) * seconds + start
                starts_L = ends_L - said.frames_L * seconds
                for text, first, last in said.encoded.words:
                    voiced = [hz for hz in said.pitch_hz_L[first : last + 1] if hz > 0]
                    pitch, energy = float(np.mean(voiced or [0.0])), float(said.energy_L[first : last + 1].mean())
                    found.append(Spoken(text, float(starts_L[first]), float(ends_L[last]), pitch, energy))
                start += float(said.frames_L.sum()) * seconds
            start += piece.pause_ms / 1000
        return found


def _speaks(piece: Any) -> bool:
    return bool(piece.encoded.tokens)


def load_ears(path: Path, *, batch_size: int = 8, threads: int = 0, device: str = "auto") -> Ears:
    """The recogniser in `path`: an ONNX file of trt.export, a checkpoint (.pt, .nemo) or a folder of Hugging Face's.

    Raises ModelError, and CheckpointError for a checkpoint that cannot be read.
    """
    if path.suffix == ".onnx":
        asr = Recognizer(path, threads=threads)
        return Ears(path.stem, asr.sample_rate, asr.chunk_seconds, asr, batch_size)
    if not path.exists():
        raise ModelError(f"{path}: no such file; expected an ONNX file of trt.export, or a checkpoint of a recogniser")
    match _family(path):
        case "transducer":
            import transducer.long_audio
            import transducer.recognizer

            hybrid = transducer.recognizer.load(path, device=device)
            seconds, rate = transducer.long_audio.ChunkOptions.chunk_seconds, hybrid.feature_config.sample_rate
            return Ears(path.stem, rate, seconds, hybrid, batch_size)
        case "wav2vec2":
            import wav2vec2.recognizer

            learned = wav2vec2.recognizer.load(path, device=device)
            return Ears(path.stem, 16_000, wav2vec2.recognizer.CHUNK_SECONDS, learned, batch_size)
        case _:  # what is no recogniser at all, this one says
            import jasper.recognizer

            convolutional = jasper.recognizer.load(path, device=device)
            rate = convolutional.config.features.sample_rate
            return Ears(path.stem, rate, jasper.recognizer.CHUNK_SECONDS, convolutional, batch_size)


def _family(path: Path) -> str:
    """Which package reads a checkpoint."""
    if path.suffix == ".nemo":
        return "transducer"
    if path.is_dir():
        described = path / "config.json"
        known = described.is_file() and "wav2vec2" in described.read_text(encoding="utf-8")
        return "wav2vec2" if known else "transducer"
    from common import checkpoint

    return str(checkpoint.load(path).get("format", "jasper"))


def load_voice(tts: Path, vocoder: Path, *, device: str = "auto") -> Voice:
    """The voice of an acoustic model and a vocoder. Raises ModelError, CheckpointError and VocoderError."""
    import fastpitch

    loaded = fastpitch.load(tts, device=device)
    voice = fastpitch.Voice(fastpitch.load_vocoder(vocoder, device=device))
    voice.vocoder.require(loaded.features, loaded.name)
    return Voice(tts.stem, loaded, voice)
