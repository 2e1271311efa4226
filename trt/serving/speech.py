"""Sound of a text, sentence by sentence, in the formats that clients ask for; nothing of it is on disk.

Legend: N samples.
"""

import asyncio
import functools
import io
import struct
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import soundfile
import soxr
from pydantic import BaseModel, Field, field_validator

from fastpitch.front.planning import PlannedSentence
from trt.runtime.sentences import Said, Saying
from trt.serving.batching import Batcher
from trt.serving.limits import Budget, Limits, RequestError, SelfTestError
from trt.serving.metrics import SIZES, Metrics
from trt.serving.models import ServedVoice

Result = TypeVar("Result")
Format = Literal["wav", "pcm", "flac", "mp3", "opus"]
MEDIA = {"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg", "pcm": "audio/pcm"}
OPENAI_PCM_RATE = 24_000  # what clients of OpenAI's take raw samples to be
OPUS_RATE = 24_000
OPENAI_VOICES = ("alloy", "ash", "ballad", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer", "verse")
WHOLE = ("mp3", "opus")  # formats whose encoder ends a file as a whole: they come when all of it has been said
FULL_SCALE = 32767
AT_ONCE = 8  # texts whose next sound is made together
# Samples of an engine from those of this process; 1 is full scale. Batches differ by 1e-4
# (tests/trt/runtime/test_sentences.py).
MOST_DIFFERENT = 1e-3
UNKNOWN_BYTES = 0xFFFFFFFF  # in a header of WAV: until the end


class SpeechRequest(BaseModel):
    """A request to /v1/audio/speech; `sample_rate` is besides what OpenAI's has."""

    input: str
    model: str = ""
    voice: str | int | dict[str, Any] = "default"
    response_format: Format = "mp3"
    speed: float = Field(default=1.0, ge=0.25, le=4.0)
    sample_rate: int | None = Field(default=None, ge=8_000, le=48_000)
    instructions: str = ""
    stream_format: Literal["audio"] = "audio"

    @field_validator("input")
    @classmethod
    def _has_letters(cls, text: str) -> str:
        if "\0" in text or not any(character.isalnum() for character in text):
            raise ValueError("nothing to say in it; expected at least one word")
        return text


class SpeechAnswer(NamedTuple):
    """An answer: its type, its sample rate, and the bytes as they are made."""

    media: str
    rate: int
    chunks: AsyncIterator[bytes]


class SpeechLane(Protocol):
    """What says texts, the next pieces of several at a time."""

    def start(self) -> None:
        """Within a running event loop."""

    def stop(self) -> None:
        """Leaves what waits unanswered."""

    async def __call__(self, saying: Saying, /) -> Said:
        """The next piece of a text; None at its end."""


class Speaking:
    """A voice that answers many requests at a time: the next pieces of sound of several are made in one batch.

    Each asks for its next piece when it has sent the one before, so that none waits for the whole of another. `engine`
    makes the pieces in place of this process, which goes on to plan texts and to tell how they will be said.
    """

    def __init__(
        self,
        voice: ServedVoice,
        *,
        limits: Limits,
        budget: Budget,
        metrics: Metrics,
        most: int = AT_ONCE,
        engine: SpeechLane | None = None,
    ):
        """`most`: requests in a batch."""
        self.voice, self._limits, self._budget, self._metrics = voice, limits, budget, metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="voice")
        self._network = threading.Lock()  # the threads of batches and of single sentences take turns
        seen = functools.partial(metrics.observe, "speech_voice_batch_size", "Texts per batch.", bounds=SIZES)
        self._engine = engine
        self._lane: SpeechLane = engine or Batcher(self._next_sounds, delay_seconds=0.0, most=most, seen=seen)

    def start(self) -> None:
        """Within a running event loop."""
        self._lane.start()

    def stop(self) -> None:
        """Leaves what waits unanswered."""
        self._lane.stop()

    async def speak(self, asked: SpeechRequest) -> SpeechAnswer:
        """The sound of a text, begun: what cannot be said is refused before the first byte. Raises RequestError."""
        plan = await self.plan(asked)
        natural = self.voice.sample_rate
        rate = asked.sample_rate or {"pcm": OPENAI_PCM_RATE, "opus": OPUS_RATE}.get(asked.response_format, natural)
        pieces = self._sound(plan)
        try:
            first_N = await anext(pieces, np.zeros(0, np.float32))
        except ValueError as error:
            raise RequestError(400, f"input: {error}", param="input", code="invalid_value") from None
        total = None
        if asked.response_format == "flac":  # readers that take no stream look for the length in its header
            total = round(await self._alone(lambda: self.voice.samples(plan)) * rate / natural)
        sound = _resampled(_preceded(first_N, pieces), natural, rate)
        chunks = _encoded(sound if total is None else _of_length(sound, total), asked.response_format, rate, total)
        return SpeechAnswer(MEDIA[asked.response_format], rate, chunks)

    async def plan(self, asked: SpeechRequest) -> list[PlannedSentence]:
        """The sentences of the request's text. Raises RequestError."""
        if len(asked.input) > self._limits.max_characters:
            found = f"input of {len(asked.input)} characters"
            raise RequestError(400, f"{found}; expected at most {self._limits.max_characters}", param="input")
        speaker = self.speaker(asked.voice)
        try:
            return await self._run(lambda: self.voice.plan(asked.input, speaker=speaker, pace=asked.speed))
        except ValueError as error:
            raise RequestError(400, f"input: {error}", param="input", code="invalid_value") from None

    async def words(self, asked: SpeechRequest) -> list[dict[str, Any]]:
        """The words of a text as they will be said: seconds, pitch in Hz, energy. Raises RequestError."""
        plan = await self.plan(asked)
        return [word._asdict() for word in await self._alone(lambda: self.voice.words(plan))]

    async def self_test(self, tell: Callable[[str], None]) -> None:
        """A sentence must have a sound. Raises SelfTestError where it has none."""
        sound = await self.speak(SpeechRequest(input="One two three.", response_format="pcm"))
        samples_N = np.frombuffer(b"".join([chunk async for chunk in sound.chunks]), "<i2")
        if not samples_N.any():
            raise SelfTestError(f"self-test: {self.voice.name} says nothing; its weights or its vocoder's are damaged")
        if self._engine is not None:
            await self._compare()
        tell(f"self-test: {self.voice.name} speaks {len(samples_N) / sound.rate:.2f} s")

    async def _compare(self) -> None:
        """Texts that the engine says at the same time must sound as they do alone in this process."""
        texts = "One two three.", "Four five six seven eight nine. Ten."
        plans = [await self.plan(SpeechRequest(input=text)) for text in texts]

        async def whole(plan: Sequence[PlannedSentence]) -> np.ndarray:
            return np.concatenate([piece_N async for piece_N in self._sound(plan)])

        for text, plan, found_N in zip(texts, plans, await asyncio.gather(*map(whole, plans)), strict=True):
            (alone_N,) = await self._alone(functools.partial(self.voice.whole, [plan]))
            if isinstance(alone_N, Exception):
                raise SelfTestError(f"self-test: {text!r} cannot be said: {alone_N}")
            if len(found_N) != len(alone_N) or not np.allclose(found_N, alone_N, atol=MOST_DIFFERENT):
                raise SelfTestError(
                    f"self-test: {text!r} has {len(found_N)} samples from the engine and {len(alone_N)} alone, or they "
                    f"differ by more than {MOST_DIFFERENT:g}; the engine computes something else"
                )

    def speaker(self, voice: str | int | dict[str, Any]) -> int:
        """The number of a speaker; OpenAI's names stand for the first. Raises RequestError."""
        name = str(voice["id"] if isinstance(voice, dict) and "id" in voice else voice).strip().lower()
        if name in ("default", *OPENAI_VOICES):
            return 0
        if name.isdecimal() and len(name) < 10 and int(name) < self.voice.speakers:
            return int(name)
        last = self.voice.speakers - 1
        expected = f"default, a name of OpenAI's, or {f'a number from 0 to {last}' if last else 0}"
        raise RequestError(400, f"voice {name[:100]!r}: expected {expected}", param="voice", code="invalid_value")

    async def _sound(self, plan: Sequence[PlannedSentence]) -> AsyncIterator[np.ndarray]:
        saying = Saying(plan, chunk_frames=self.voice.chunk_frames)
        while (said := await self._lane(saying)) is not None:
            if isinstance(said, Exception):
                raise said
            seconds = len(said) / self.voice.sample_rate
            self._metrics.count("speech_spoken_seconds_total", "Seconds of sound synthesised.", seconds)
            yield said

    def _next_sounds(self, sayings: Sequence[Saying]) -> list[Said]:
        with self._network:
            return self.voice.next_sounds(sayings)

    async def _alone(self, work: Callable[[], Result]) -> Result:
        """What the networks do for one request besides its sound."""

        def locked() -> Result:
            with self._network:
                return work()

        return await self._run(locked)

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


async def _preceded(first_N: np.ndarray, pieces: AsyncIterator[np.ndarray]) -> AsyncIterator[np.ndarray]:
    yield first_N
    async for piece_N in pieces:
        yield piece_N


async def _resampled(pieces: AsyncIterator[np.ndarray], rate: int, to_rate: int) -> AsyncIterator[np.ndarray]:
    if rate == to_rate:
        async for piece_N in pieces:
            yield piece_N
        return
    stream = soxr.ResampleStream(rate, to_rate, 1, dtype="float32", quality="HQ")
    async for piece_N in pieces:
        yield stream.resample_chunk(piece_N)
    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)


async def _of_length(pieces: AsyncIterator[np.ndarray], total: int) -> AsyncIterator[np.ndarray]:
    """Exactly `total` samples: resampling may give one more or less."""
    async for piece_N in pieces:
        yield piece_N[:total]
        total -= min(total, len(piece_N))
    yield np.zeros(total, np.float32)


async def _encoded(
    pieces: AsyncIterator[np.ndarray], style: Format, rate: int, total: int | None
) -> AsyncIterator[bytes]:
    encoder = _Raw(style, rate) if style in ("wav", "pcm") else _Encoder(style, rate, total)
    async for piece_N in pieces:
        if content := encoder.add(piece_N):
            yield content
    yield encoder.end()


class _Raw:
    """16-bit samples, after a header that leaves their number open, or without one."""

    def __init__(self, style: Format, rate: int):
        self._header = _wav_header(rate) if style == "wav" else b""

    def add(self, samples_N: np.ndarray) -> bytes:
        header, self._header = self._header, b""
        return header + _int16(samples_N).tobytes()

    def end(self) -> bytes:
        return b""


class _Encoder:
    """A format of libsndfile: what it has written so far is handed out, of WHOLE ones all of it at the end."""

    def __init__(self, style: Format, rate: int, total: int | None):
        kinds = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
        self._file, self._given, self._is_whole = io.BytesIO(), 0, style in WHOLE
        kind, subtype = kinds[style]
        self._sound = soundfile.SoundFile(self._file, "w", rate, 1, format=kind, subtype=subtype)
        self._total = total

    def add(self, samples_N: np.ndarray) -> bytes:
        self._sound.write(_int16(samples_N))
        return b"" if self._is_whole else self._new()

    def end(self) -> bytes:
        self._sound.close()
        return self._new()

    def _new(self) -> bytes:
        content = bytearray(self._file.getbuffer()[self._given :])
        if self._total is not None and self._given == 0 and content:
            _set_flac_length(content, self._total)
        self._given += len(content)
        return bytes(content)


def _set_flac_length(content: bytearray, total: int) -> None:
    """Writes the number of samples into the block STREAMINFO: 36 bits from the middle of byte 21 (RFC 9639, 8.2)."""
    content[21] = content[21] & 0xF0 | total >> 32
    content[22:26] = struct.pack(">I", total & 0xFFFFFFFF)


def _int16(samples_N: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(samples_N * FULL_SCALE), -FULL_SCALE - 1, FULL_SCALE).astype("<i2")


def _wav_header(rate: int) -> bytes:
    described = struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    return (
        b"RIFF"
        + struct.pack("<I", UNKNOWN_BYTES)
        + b"WAVEfmt "
        + described
        + b"data"
        + struct.pack("<I", UNKNOWN_BYTES)
    )
