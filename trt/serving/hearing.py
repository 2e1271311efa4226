"""From the bytes of a recording to its transcript: decoded in memory, batched with those of other requests.

Legend: N samples.
"""

import asyncio
import functools
import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from common.audio import waveform
from common.audio.waveform import AudioError, Held
from common.recognition.transcripts import Transcript
from trt.serving.batching import Batcher
from trt.serving.forms import File
from trt.serving.limits import Budget, Limits, RequestError, SelfTestError, Taken
from trt.serving.metrics import SIZES, Metrics
from trt.serving.models import Ears

# What is decoded by the thread that speaks HTTP: a millisecond for most, 15 for Opus, where the way to another thread
# and back takes one, and as much again of the network's, which waits for Python's lock.
SMALL = 1 << 18  # bytes of the recording
SOON = 1 << 18  # samples of all its channels


class RecognitionLane(Protocol):
    """What answers recordings, several at a time."""

    def start(self) -> None:
        """Within a running event loop."""

    def stop(self) -> None:
        """Leaves what waits unanswered."""

    def __len__(self) -> int:
        """How many wait."""

    async def __call__(self, samples_N: np.ndarray, /) -> Transcript:
        """The transcript of float32 samples."""


class Hearing:
    """A recogniser that answers many requests at a time.

    Recordings of more than one chunk have a lane of their own, so that short ones do not wait for them. `engine` is
    a lane for all of them, in place of those that run the recogniser in this process.
    """

    def __init__(
        self,
        ears: Ears,
        *,
        limits: Limits,
        budget: Budget,
        metrics: Metrics,
        delay_seconds: float,
        most: int,
        engine: RecognitionLane | None = None,
    ):
        self.ears, self._limits, self._budget, self._metrics = ears, limits, budget, metrics
        self._short: RecognitionLane
        self._long: RecognitionLane
        seen = functools.partial(metrics.observe, "speech_batch_size", "Recordings per batch.", bounds=SIZES)
        if engine is not None:
            self._short = self._long = engine
        else:
            most = min(most, ears.batch_size)  # once through the network: while its answers are sent, others follow
            self._short = Batcher(ears.transcribe, delay_seconds=delay_seconds, most=most, size=len, seen=seen)
            self._long = Batcher(ears.transcribe, delay_seconds=0.0, most=1, size=len, seen=seen)
        waiting = "Recordings that wait for a batch."
        metrics.gauge("speech_waiting", waiting, lambda: sum(map(len, self._lanes)))

    @property
    def _lanes(self) -> set[RecognitionLane]:
        return {self._short, self._long}

    def start(self) -> None:
        """Within a running event loop."""
        for lane in self._lanes:
            lane.start()

    def stop(self) -> None:
        """Leaves what waits unanswered."""
        for lane in self._lanes:
            lane.stop()

    async def transcribe(self, file: File) -> Transcript:
        """The transcript of a recording in any format that libsndfile reads. Raises RequestError."""
        with Taken(self._budget) as taken:
            samples_N = self._decoded(file, taken, most=SOON) if len(file.content) <= SMALL else None
            if samples_N is None:
                samples_N = await asyncio.to_thread(self._decoded, file, taken)
            assert samples_N is not None
            return await self.hear(samples_N, file.name)

    def _decoded(self, file: File, taken: Taken, *, most: float = math.inf) -> np.ndarray | None:
        """The samples of a recording at the model's rate; None for one of more than `most`, which takes its time."""
        rate, most_seconds = self.ears.sample_rate, self._limits.max_seconds
        held = Held(file.content, file.name)

        def read(channel: int | None) -> np.ndarray | None:
            with waveform.opened(held, most_seconds=math.inf, channel=channel) as sound:
                seconds = sound.n_samples / sound.sample_rate
                if seconds > most_seconds:
                    found = f"{file.name}: {seconds:.0f} s of audio"
                    raise RequestError(413, f"{found}; expected at most {most_seconds:g} s", param="file")
                if sound.n_samples * sound.sound.channels > most:
                    return None
                if channel is None:
                    taken.take(4 * (sound.n_samples + round(seconds * rate)))
                return sound.read(rate).samples

        with _refusing():
            return waveform.of_channels(read)

    async def hear(self, samples_N: np.ndarray, name: str) -> Transcript:
        """The transcript of float32 samples at the model's rate. Raises RequestError."""
        rate = self.ears.sample_rate
        lane = self._short if len(samples_N) <= self.ears.chunk_seconds * rate else self._long
        transcript = await lane(samples_N)
        if transcript.error:
            raise RequestError(400, transcript.error.replace("array", name, 1), param="file", code="invalid_audio")
        self._metrics.count("speech_audio_seconds_total", "Seconds of audio transcribed.", transcript.seconds)
        return transcript


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
