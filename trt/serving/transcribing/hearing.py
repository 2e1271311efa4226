"""From the bytes of a recording to its transcript: decoded in memory, batched with those of other requests.

Legend: N samples.
"""

import asyncio
import contextlib
import functools
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import numpy as np

from common.audio import waveform
from common.audio.silence import Cut, cuts_of, in_recording
from common.audio.waveform import AudioError, Held, Opened
from common.config import ConfigError
from common.recognition.cutting.pauses import SoundStretch, between, stretches
from common.recognition.output.transcripts import Transcript, Word, text_of
from common.recognition.sources.long_sound import LongSound
from trt.facts import ModelError
from trt.serving.admission.forms import File
from trt.serving.admission.limits import SECONDS_PER_SECOND, Limits, RequestError, SelfTestError, Taken
from trt.serving.batching import Batcher, Lane, Workers
from trt.serving.metrics import SIZES, Metrics
from trt.serving.models import Ears, Favoured, Sound, WantedText
from trt.serving.transcribing.languages import code_of

# What is decoded by the thread that speaks HTTP: a millisecond for most, 15 for Opus, where the way to another thread
# and back takes one, and as much again of the network's, which waits for Python's lock.
STEP_DELAY_SECONDS = 0.01  # that a step of one stream waits for those of others
SMALL = 1 << 18  # bytes of the recording
SOON = 1 << 18  # samples of all its channels
SHARE = 0.25  # of the time of the thread that speaks HTTP, at most, in which it decodes
BLOCK = 1 << 19  # samples of all channels that are decoded at a time
OVERLAP_SECONDS = 1.0  # that two pieces both hear around a seam that is in no pause
PREFERRED_SHARE = 6 / 7  # of a chunk: after half of this it ends in the longest pause
NOTHING, NOBODY = WantedText(), Favoured()
MOST_DECODERS = 64  # that are kept for requests which favour the same words
USUAL_RATE = 192_000  # samples a second of all channels, up to which a second of sound counts as one


class Hearing:
    """A recogniser that answers many requests at a time.

    Recordings of more than one chunk are cut at pauses, and heard piece by piece: short ones go between them, and
    nothing more of one is heard once its client has gone. `engine` is a lane in place of that which runs the recogniser
    in this process; `workers` run what decodes.
    """

    def __init__(
        self,
        ears: Ears,
        *,
        limits: Limits,
        metrics: Metrics,
        workers: Workers,
        delay_seconds: float,
        most: int,
        engine: Lane[Sound, Transcript] | None = None,
    ):
        self.ears, self.workers, self._limits, self._metrics = ears, workers, limits, metrics
        self._decoders = dict[Favoured, Any]()
        self._pools, self._lock = dict[str, Any](), threading.Lock()  # of streams that search, by their language model
        self._decodes_from = 0.0  # when the thread that speaks HTTP may decode again
        if engine is None:
            seen = functools.partial(metrics.observe, "speech_batch_size", "Recordings per batch.", bounds=SIZES)
            most = min(most, ears.batch_size)  # once through the network: while its answers are sent, others follow
            size = lambda sound: len(sound.samples_N)  # noqa: E731
            engine = Batcher(ears.hear, delay_seconds=delay_seconds, most=most, size=size, seen=seen)
        self._lane: Lane[Sound, Transcript] = engine

    @property
    def waiting(self) -> int:
        """Recordings, or pieces of long ones, that wait for a batch."""
        return len(self._lane)

    @functools.cached_property
    def pool(self) -> Any:
        """The streams of a recogniser that hears such; None of any other, and of a search that hears whole ones. For
        the event loop alone."""
        return self._pool(self.ears.decoder)

    def _pool(self, decoder: Any) -> Any:
        if hasattr(self.ears.asr, "pool"):
            with contextlib.suppress(ValueError):  # of a search that wants all frames
                return self.ears.asr.pool(delay_seconds=STEP_DELAY_SECONDS, decoder=decoder)
        return None

    @property
    def stream_bytes(self) -> int:
        """Memory that a stream holds, its sound apart."""
        return getattr(self.pool, "bytes_per_stream", 0)

    def session(self, favoured: Favoured = NOBODY) -> Any:
        """A stream; None where what is asked for is found in whole recordings alone. For any thread.

        Raises RequestError for keywords that cannot be spelled; of a prompt they are left out.
        """
        words, decoder = favoured.keywords + favoured.prompt, self.ears.decoder_of(favoured.language_model)
        if decoder is self.ears.decoder and (decoder is not None or not words):
            pool = self.pool
        else:
            with self._lock:  # two threads would make one each
                if favoured.language_model not in self._pools:
                    self._pools[favoured.language_model] = self._pool(decoder or self.ears.asr.decoder())
            pool = self._pools[favoured.language_model]
        if pool is None or not words:
            return pool and pool.session()
        try:
            pool.decoder.scorer_with(favoured.keywords)
        except ConfigError as error:
            raise RequestError(400, f"keywords: {error}", param="keywords", code="invalid_value") from None
        return pool.session(hot_words=(*favoured.keywords, *pool.decoder.spelled(favoured.prompt)))

    def start(self) -> None:
        """Within a running event loop."""
        self._lane.start()

    def stop(self) -> None:
        """Leaves what waits unanswered."""
        self._lane.stop()

    async def wanted(
        self, source: str = "", target: str = "", assumed: str = "", favoured: Favoured = NOBODY
    ) -> WantedText:
        """What is to be written of a recording, and how; languages as `told`. Raises RequestError."""
        told = self.told(source, target, assumed)
        self.check(favoured)
        if favoured == NOBODY:
            return WantedText(told)
        if not self.ears.can_search:
            if not favoured.keywords and not favoured.beam:
                return WantedText(told)  # a prompt may have no effect
            message = "keywords and beam: this model takes none; its decoder is in its file, or in Triton"
            raise RequestError(400, message, param="keywords", code="invalid_value")
        found = self._decoders.pop(favoured, None)
        try:
            found = found or await self.workers(functools.partial(self.ears.decoder_with, favoured))
        except (ConfigError, ModelError) as error:
            raise RequestError(400, f"keywords, beam: {error}", param="keywords", code="invalid_value") from None
        self._decoders[favoured] = found
        if len(self._decoders) > MOST_DECODERS:
            del self._decoders[next(iter(self._decoders))]
        return WantedText(told, found)

    def check(self, favoured: Favoured) -> None:
        """Raises RequestError for a language model that there is not."""
        known = self.ears.language_models
        if favoured.language_model and favoured.language_model not in known:
            expected = f"expected one of {', '.join(known)}" if known else "this model has none; see --language_models"
            message = f"language_model {favoured.language_model[:40]!r}: {expected}"
            raise RequestError(400, message, param="language_model", code="invalid_value")

    def told(self, source: str = "", target: str = "", assumed: str = "") -> dict[str, str]:
        """What a model of several languages is to write, by NeMo's keys: nothing for one that is not told.

        `source` and `target` are codes or English names, "" where nothing is said of them; `assumed` is the language
        where a model cannot identify it. Raises RequestError for languages that it does not know.
        """
        if not self.ears.is_prompted:
            if target:
                told = "this model writes what is said, in no other language; translations need an attention decoder"
                raise RequestError(400, told, param="model", code="model_not_found")
            return {}
        found = {}
        asr, known = self.ears.asr, ", ".join(self.ears.languages)
        named = (("source_lang", source, "language"), ("target_lang", target, "to"))
        if not source and not asr.assumed_language:
            named = (("source_lang", assumed, "language"), named[1])
        for key, language, field in named:
            if not language and (key == "target_lang" or asr.assumed_language):
                continue
            code = code_of(language)
            if code not in self.ears.languages:
                raise RequestError(400, f"{field} {language[:40]!r}: expected one of {known}", param=field)
            found[key] = code
        spoken = [found["source_lang"]] if "source_lang" in found else asr.prompts.spoken()
        foreign = [each for each in spoken if each != found.get("target_lang")] or spoken  # of which one will do
        for at, each in enumerate(foreign, 1):
            try:
                asr.prompt(each, found.get("target_lang"))
                break
            except ValueError as error:
                if at == len(foreign):
                    at_fault = "to" if "target_lang" in found else "language"
                    raise RequestError(400, str(error), param=at_fault) from None
        return found

    async def transcribe(self, file: File, taken: Taken, wanted: WantedText = NOTHING) -> Transcript:
        """The transcript of a recording in any format that libsndfile reads. Raises RequestError."""
        return joined([part async for part in self.parts(file, taken, wanted)], file.name)

    async def parts(self, file: File, taken: Taken, wanted: WantedText = NOTHING) -> AsyncIterator[Transcript]:
        """Transcripts of its pieces, as they are heard."""
        samples_N = await self._decoded(file, taken)
        async for part in self.hear_parts(samples_N, file.name, taken.due, wanted):
            yield part

    async def _decoded(self, file: File, taken: Taken) -> np.ndarray:
        """The samples of a recording at the model's rate, decoded block by block."""
        held, rate = Held(file.content, file.name), self.ears.sample_rate

        def counted(sound: Opened) -> bool:
            """Whether there is little to decode; takes what it needs. Raises RequestError for too much."""
            seconds, channels = sound.n_samples / sound.sample_rate, sound.sound.channels
            cost = seconds * max(1.0, sound.sample_rate * channels / USUAL_RATE)
            if cost > self._limits.max_seconds:
                found = f"{file.name}: {seconds:.0f} s of audio"
                if cost > seconds:
                    found += f" of {channels} channels at {sound.sample_rate} Hz, which count as {cost:.0f}"
                raise RequestError(413, f"{found}; expected at most {self._limits.max_seconds:g} s", param="file")
            if taken.seconds == 0:
                taken.take(4 * round(seconds * rate), cost)
            return sound.n_samples * channels <= SOON

        def opening(channel: int | None) -> np.ndarray | None:
            with waveform.opened(held, most_seconds=math.inf, channel=channel) as sound:
                return sound.read(rate).samples if counted(sound) else None

        def blocks(channel: int | None) -> Iterator[np.ndarray | None]:
            """None after every block, and at last all of it."""
            with waveform.opened(held, most_seconds=math.inf, channel=channel) as sound:
                counted(sound)
                found_N, filled = np.empty(math.ceil(sound.n_samples / sound.sample_rate * rate) + 1, np.float32), 0
                for block_N in waveform.resampled(sound.blocks(BLOCK), sound.sample_rate, rate):
                    found_N[filled : filled + len(block_N)] = block_N
                    filled += len(block_N)
                    yield None
                yield found_N[:filled]

        with _refusing():
            began = time.monotonic()
            if len(file.content) <= SMALL and began >= self._decodes_from:
                samples_N = waveform.of_channels(opening)
                now = time.monotonic()
                self._decodes_from = now + (now - began) * (1 / SHARE - 1)
                if samples_N is not None:
                    return samples_N
            made = blocks(None)
            while True:
                try:
                    while (samples_N := await self.workers(lambda: next(made), taken.due)) is None:  # noqa: B023
                        pass
                    return samples_N
                except waveform.ChannelsCancelError as found:
                    made = blocks(found.channel)

    async def hear(
        self, samples_N: np.ndarray, name: str, due: float | None = None, wanted: WantedText = NOTHING
    ) -> Transcript:
        """The transcript of float32 samples at the model's rate. Raises RequestError."""
        return joined([part async for part in self.hear_parts(samples_N, name, due, wanted)], name)

    async def hear_parts(
        self, samples_N: np.ndarray, name: str, due: float | None = None, wanted: WantedText = NOTHING
    ) -> AsyncIterator[Transcript]:
        """Transcripts of the pieces that a recording of more than a chunk is cut into, silence apart."""
        rate, chunk, seconds = self.ears.sample_rate, self.ears.chunk_seconds, len(samples_N) / self.ears.sample_rate
        due = time.monotonic() + SECONDS_PER_SECOND * seconds if due is None else due
        pieces, is_long = iter([SoundStretch(0, samples_N, 0, len(samples_N))]), seconds > chunk
        heard_N: np.ndarray | LongSound = samples_N
        cuts: tuple[Cut, ...] = ()
        if is_long and self.ears.keep is not None:  # as of the whole: noise alone is the loudest sound of its piece
            blocks = lambda: (samples_N[first : first + BLOCK] for first in range(0, len(samples_N), BLOCK))  # noqa: E731
            sound = await self.workers(lambda: LongSound(blocks, rate, rate, keep=self.ears.keep), due)
            heard_N, cuts, is_long = sound, cuts_of(sound.kept_K2, rate), len(sound) > chunk * rate
        if is_long:
            overlap = min(OVERLAP_SECONDS, chunk / 4) if self.ears.tells_times(wanted) else 0.0
            preferred = chunk * PREFERRED_SHARE
            pieces = stretches(heard_N, rate, preferred=preferred, longest=chunk, overlap=overlap)
        heard, after = 0, -math.inf
        while (piece := await self._piece(pieces, due, is_long=is_long)) is not None:
            transcript = await self._lane(Sound(piece.samples_N, wanted), due)
            if transcript.error:
                problem = transcript.error.replace("array", name, 1)
                raise RequestError(400, problem, param="file", code="invalid_audio")
            counted = "Seconds of audio transcribed."
            self._metrics.count("speech_audio_seconds_total", counted, (piece.end - piece.first) / rate)
            heard, end = piece.end, piece.start + len(piece.samples_N)
            words = _moved(transcript.words, piece.start / rate)
            if piece.first > piece.start or piece.end < end:
                before = piece.end / rate if piece.end < end else math.inf
                words = between(words, after if piece.first > piece.start else -math.inf, before)
                transcript = transcript._replace(text=text_of(words))
            after = max((word.end for word in words), default=piece.end / rate)
            if is_long:
                words = [timed(word, cuts) for word in words]
            yield transcript._replace(words=words, seconds=in_recording(cuts, piece.end / rate) if is_long else seconds)
        if is_long and (heard < len(heard_N) or cuts):  # nobody can hear what follows
            yield Transcript(name, "", [], seconds)

    async def _piece(self, pieces: Iterator[SoundStretch], due: float | None, *, is_long: bool) -> SoundStretch | None:
        if is_long:
            return await self.workers(lambda: next(pieces, None), due)
        return next(pieces, None)


def joined(parts: Sequence[Transcript], name: str) -> Transcript:
    """The transcript of a recording whose pieces have these; their times are those of the recording."""
    if len(parts) == 1:
        return parts[0]
    words = [word for part in parts for word in part.words]
    text = " ".join(part.text for part in parts if part.text)
    language = next((part.language for part in parts if part.language), "")
    return Transcript(name, text, words, parts[-1].seconds if parts else 0.0, language=language)


def _moved(words: list[Word], start: float) -> list[Word]:
    if not start:
        return words
    return [word._replace(start=round(word.start + start, 3), end=round(word.end + start, 3)) for word in words]


def timed(word: Word, cuts: Sequence[Cut]) -> Word:
    """A word of a recording out of which these are cut, at its time in it."""
    start, end = in_recording(cuts, word.start), in_recording(cuts, word.end, is_end=True)
    return word._replace(start=round(start, 3), end=round(end, 3))


class _refusing:  # noqa: N801  a context manager
    """Recordings that cannot be used become requests that are refused."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, AudioError):
            raise RequestError(400, str(error), param="file", code="invalid_audio") from None


async def self_test(hearing: Hearing, tell: Callable[[str], None]) -> None:
    """Recordings of different lengths, recognised at the same time, must give what each gives alone.

    Raises SelfTestError where they do not.
    """
    random, rate = np.random.default_rng(0), hearing.ears.sample_rate
    sounds = [_noise(random, round(seconds * rate)) for seconds in (1.0, 2.3, 0.4, 1.7)]
    together = await asyncio.gather(*(hearing.hear(samples_N, "self-test") for samples_N in sounds))
    for samples_N, found in zip(sounds, together, strict=True):
        (alone,) = await asyncio.to_thread(hearing.ears.transcribe, [samples_N])
        if _essence(found) != _essence(alone):
            raise SelfTestError(
                f"self-test: {len(samples_N) / rate:.1f} s of noise give {found.text!r} in a batch and {alone.text!r} "
                "alone; the model's padding matters, or its engine computes something else"
            )
    tell(f"self-test: {hearing.ears.name} gives in a batch what it gives alone")


def _noise(random: np.random.Generator, samples: int) -> np.ndarray:
    loudness_N = np.repeat(random.uniform(0.01, 0.3, samples // 1000 + 1), 1000)[:samples]
    return (loudness_N * random.standard_normal(samples)).astype(np.float32)


def _essence(transcript: Transcript) -> list[tuple[str, float, float]]:
    return [word[:3] for word in transcript.words]
