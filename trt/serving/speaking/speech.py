"""Sound of a text, sentence by sentence, in the formats that clients ask for; nothing of it is on disk.

Legend: N samples.
"""

import asyncio
import base64
import functools
import math
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, Field, field_validator

from fastpitch.front.planning import PlannedSentence
from fastpitch.speaking.sentences import Said, Saying
from trt.serving.admission.limits import Budget, Limits, RequestError, SelfTestError, Taken
from trt.serving.batching import Batcher, Lane, Workers
from trt.serving.metrics import SIZES, Metrics
from trt.serving.models import ServedVoice
from trt.serving.speaking.formats import MEDIA, WHOLE, Format, SoundTrack, rate_of
from trt.serving.transcribing.transcriptions import event

Given = TypeVar("Given")
Result = TypeVar("Result")
OPENAI_VOICES: tuple[str, ...] = ("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx")
OPENAI_VOICES += ("sage", "shimmer", "verse")
PART = 1 << 16  # samples that are resampled and encoded at a time
USUAL_SECONDS = 40.0  # of a sentence at most, whose attention is no matter
FRAME_PAIR_BYTES = 5  # of attention's scores, before and after their softmax, where a symbol takes 0.09 s
SHORT = 64  # symbols of sentences that share batches whatever their lengths
SYMBOL_SECONDS = 0.12  # that a symbol takes at most, in the mean of a text; phonemes of slow speech take 0.09
BITS_PER_SECOND = 320_000  # of MP3 and Opus, at most
AT_ONCE = 8  # texts whose next sound is made together
# Samples of an engine from those of this process; 1 is full scale. Batches differ by 1e-4
# (tests/trt/runtime/test_sentences.py).
MOST_DIFFERENT = 1e-3


class SpeechRequest(BaseModel):
    """A request to /v1/audio/speech; `sample_rate` is besides what OpenAI's has."""

    input: str
    model: str = ""
    voice: str | int | dict[str, Any] = "default"
    response_format: Format = "mp3"
    speed: float = Field(default=1.0, ge=0.25, le=4.0)
    sample_rate: int | None = Field(default=None, ge=8_000, le=48_000)
    instructions: str = ""
    stream_format: Literal["audio", "sse"] = "audio"

    @field_validator("input")
    @classmethod
    def _has_letters(cls, text: str) -> str:
        if "\0" in text or not any(character.isalnum() for character in text):
            raise ValueError("nothing to say in it; expected at least one word")
        return text


def name_of(voice: str | int | dict[str, Any]) -> str:
    """A voice as requests give it: by its name, by its number, or as an object with one of them as its id."""
    return str(voice["id"] if isinstance(voice, dict) and "id" in voice else voice).strip()


class SpeechAnswer(NamedTuple):
    """An answer: its type, its sample rate, and the bytes as they are made."""

    media: str
    rate: int
    chunks: AsyncIterator[bytes]


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The sound as server-sent events, as OpenAI's clients read them with stream_format = sse."""
    async for chunk in chunks:
        if chunk:
            yield event({"type": "speech.audio.delta", "audio": base64.b64encode(chunk).decode()})
    yield event({"type": "speech.audio.done", "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}})


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
        metrics: Metrics,
        workers: Workers,
        most: int = AT_ONCE,
        engine: Lane[Saying, Said] | None = None,
    ):
        """`most`: requests in a batch."""
        self.voice, self._limits, self._metrics, self._workers = voice, limits, metrics, workers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="voice")
        self._network = threading.Lock()  # the threads of batches and of single sentences take turns
        seen = functools.partial(metrics.observe, "speech_voice_batch_size", "Texts per batch.", bounds=SIZES)
        self._engine = engine
        if engine is None:
            engine = Batcher(self._next_sounds, delay_seconds=0.0, most=most, size=_size, seen=seen)
        self.lane = engine

    def start(self) -> None:
        """Within a running event loop."""
        self.lane.start()

    def stop(self) -> None:
        """Leaves what waits unanswered."""
        self.lane.stop()

    async def speak(self, asked: SpeechRequest, taken: Taken) -> SpeechAnswer:
        """The sound of a text, begun: what cannot be said is refused before the first byte. Raises RequestError."""
        natural = self.voice.sample_rate
        rate = rate_of(asked.response_format, asked.sample_rate, natural)
        plan = await self.plan(asked)
        self._admit(plan, asked, taken)
        pieces = self._sound(plan, taken.due)
        try:
            first_N = await anext(pieces, np.zeros(0, np.float32))
        except ValueError as error:
            raise RequestError(400, f"input: {error}", param="input", code="invalid_value") from None
        total = None
        if asked.response_format == "flac":  # readers that take no stream look for the length in its header
            total = round(sum([await self._alone(self.voice.samples, piece) for piece in plan]) * rate / natural)
        track = SoundTrack(asked.response_format, natural, rate, total)
        return SpeechAnswer(MEDIA[asked.response_format], rate, self._written(first_N, pieces, track, taken.due))

    def _admit(self, plan: Sequence[PlannedSentence], asked: SpeechRequest, taken: Taken) -> None:
        """Takes what the speech will need, before any of it is made. Raises RequestError."""
        spoken = [SYMBOL_SECONDS * float((1 / piece.edits.pace_L).sum()) for piece in plan if piece.encoded.tokens]
        pauses = sum(piece.pause_ms for piece in plan) / 1000
        seconds = sum(spoken) + pauses
        if seconds > self._limits.max_spoken_seconds:
            found = f"input: some {seconds:.0f} s of speech, {pauses:.0f} s of them pauses"
            expected = f"expected at most {self._limits.max_spoken_seconds:g} s"
            raise RequestError(413, f"{found}; {expected}", param="input", code="too_long")
        # Formats that come as a whole are held until then; of others a piece, before and after resampling. Attention
        # compares all frames of a sentence with one another.
        rate = asked.sample_rate or self.voice.sample_rate
        longest = max(spoken, default=0.0)
        frames = longest * self.voice.sample_rate / self.voice.hop_samples if longest > USUAL_SECONDS else 0.0
        held = round(min(seconds, 60.0) * 4 * (self.voice.sample_rate + rate) + FRAME_PAIR_BYTES * frames**2)
        taken.take(held + (round(seconds * BITS_PER_SECOND / 8) if asked.response_format in WHOLE else 0), seconds)

    async def _written(
        self, first_N: np.ndarray, pieces: AsyncIterator[np.ndarray], track: "SoundTrack", due: float
    ) -> AsyncIterator[bytes]:
        """The bytes of the track, in parts of bounded size that workers write."""
        piece_N: np.ndarray | None = first_N
        while piece_N is not None:
            for start in range(0, len(piece_N), PART):
                part_N = piece_N[start : start + PART]
                if content := await self._workers(functools.partial(track.add, part_N), due):
                    yield content
            piece_N = await anext(pieces, None)
        yield await self._workers(track.end, due)

    async def plan(self, asked: SpeechRequest) -> list[PlannedSentence]:
        """The sentences of the request's text. Raises RequestError."""
        if len(asked.input) > self._limits.max_characters:
            found = f"input of {len(asked.input)} characters"
            raise RequestError(400, f"{found}; expected at most {self._limits.max_characters}", param="input")
        speaker = self.speaker(asked.voice)
        return await self._run(lambda: self.voice.plan(asked.input, speaker=speaker, pace=asked.speed))

    async def words(self, asked: SpeechRequest) -> list[dict[str, Any]]:
        """The words of a text as they will be said: seconds, pitch in Hz, energy. Raises RequestError."""
        found, start = list[dict[str, Any]](), 0.0
        for piece in await self.plan(asked):
            words, seconds = await self._alone(self.voice.words, piece)
            moved = (word._replace(start=start + word.start, end=start + word.end) for word in words)
            found += [word._asdict() for word in moved]
            start += seconds
        return found

    async def self_test(self, tell: Callable[[str], None]) -> None:
        """A sentence must have a sound. Raises SelfTestError where it has none."""
        taken = Taken(Budget(math.inf))
        sound = await self.speak(SpeechRequest(input="One two three.", response_format="pcm"), taken)
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
            (alone_N,) = await self._alone(self.voice.whole, [plan])
            if isinstance(alone_N, Exception):
                raise SelfTestError(f"self-test: {text!r} cannot be said: {alone_N}")
            if len(found_N) != len(alone_N) or not np.allclose(found_N, alone_N, atol=MOST_DIFFERENT):
                raise SelfTestError(
                    f"self-test: {text!r} has {len(found_N)} samples from the engine and {len(alone_N)} alone, or they "
                    f"differ by more than {MOST_DIFFERENT:g}; the engine computes something else"
                )

    def speaker(self, voice: str | int | dict[str, Any]) -> int:
        """The number of a speaker; OpenAI's names stand for the first. Raises RequestError."""
        given = name_of(voice)
        name = (given.removeprefix(f"{self.voice.name}/") if given != self.voice.name else "default").lower()
        if name in ("default", *OPENAI_VOICES):
            return 0
        if name.isdecimal() and len(name) < 10 and int(name) < self.voice.speakers:
            return int(name)
        last = self.voice.speakers - 1
        expected = f"default, a name of OpenAI's, or {f'a number from 0 to {last}' if last else 0}"
        raise RequestError(400, f"voice {name[:100]!r}: expected {expected}", param="voice", code="invalid_value")

    async def _sound(self, plan: Sequence[PlannedSentence], due: float | None = None) -> AsyncIterator[np.ndarray]:
        saying = Saying(plan, chunk_frames=self.voice.chunk_frames)
        while (said := await self.lane(saying, due)) is not None:
            if isinstance(said, Exception):
                raise said
            seconds = len(said) / self.voice.sample_rate
            self._metrics.count("speech_spoken_seconds_total", "Seconds of sound synthesised.", seconds)
            yield said

    def _next_sounds(self, sayings: Sequence[Saying]) -> list[Said]:
        with self._network:
            return self.voice.next_sounds(sayings)

    async def _alone(self, work: Callable[[Given], Result], given: Given) -> Result:
        """What the networks do for one sentence besides its sound."""

        def locked() -> Result:
            with self._network:
                return work(given)

        return await self._run(locked)

    async def _run(self, work: Callable[[], Result]) -> Result:
        """Raises RequestError for a text that cannot be said."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except ValueError as error:
            raise RequestError(400, f"input: {error}", param="input", code="invalid_value") from None


def _size(saying: Saying) -> int:
    """How long the sentence is that is made next; pieces of sound are all alike."""
    return max(SHORT, len(saying.pieces[0].encoded.tokens)) if saying.next == "sentence" else SHORT
