"""Many clients at a time: how long they wait, whether each gets its own answer, how much the server does."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trt.client.asking import Server, ServerError, percentile


class Clip(NamedTuple):
    """A recording to ask for: its bytes, its name, its length in seconds."""

    content: bytes
    name: str
    seconds: float


class Measured(NamedTuple):
    """What came of it. `wrong`: answers other than the one that the same recording got alone, before."""

    answers: int
    errors: list[str]
    wrong: int
    latencies: list[float]
    audio_seconds: float
    took: float

    def lines(self) -> list[str]:
        """The result for people."""
        waits = ", ".join(f"p{p} {1000 * percentile(self.latencies, p):.0f}" for p in (50, 90, 95, 99))
        return [
            f"{self.answers} answers in {self.took:.1f} s: {len(self.errors)} errors, {self.wrong} wrong",
            f"latency in ms: {waits}",
            f"throughput: {self.throughput:.1f} s of audio a second",
            *sorted(set(self.errors))[:5],
        ]

    @property
    def throughput(self) -> float:
        """Seconds of audio per second."""
        return self.audio_seconds / self.took


def measure(url: str, clips: Sequence[Clip], *, key: str, clients: int, seconds: float) -> Measured:
    """Asks for `clips` in turn from `clients` threads, each from another clip on, for `seconds`.

    Raises ServerError where one alone is refused.
    """
    alone = Server(url, key=key)
    expected = [alone.transcribe(clip.content, clip.name, style="text") for clip in clips]
    alone.close()
    latencies: list[float] = []
    errors: list[str] = []
    wrong, heard, lock = 0, 0.0, threading.Lock()
    ends = time.monotonic() + seconds

    def ask(first: int) -> None:
        nonlocal wrong, heard
        server, i = Server(url, key=key), first
        while time.monotonic() < ends:
            clip, began = clips[i % len(clips)], time.monotonic()
            try:
                answer = server.transcribe(clip.content, clip.name, style="text")
            except ServerError as error:
                with lock:
                    errors.append(str(error))
            else:
                with lock:
                    latencies.append(time.monotonic() - began)
                    heard += clip.seconds
                    wrong += answer != expected[i % len(clips)]
            i += 1
        server.close()

    began = time.monotonic()
    threads = [threading.Thread(target=ask, args=(first,)) for first in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not latencies:
        raise ServerError(f"{url}: no answer: {errors[0] if errors else 'the time was too short'}")
    return Measured(len(latencies), errors, wrong, latencies, heard, time.monotonic() - began)


def offline_throughput(model: Path, clips: Sequence[Clip], *, batch_size: int, seconds: float) -> float:
    """Seconds of audio a second of `trt.run` in this process, over the same clips, from their bytes on."""
    from common.audio import Held, read
    from trt.runtime import Recognizer

    asr, heard, began = Recognizer(model), 0.0, time.monotonic()
    while time.monotonic() - began < seconds:
        several = [clip for clip in clips for _ in range(max(1, 32 // len(clips)))]
        samples = [read(Held(clip.content, clip.name), sample_rate=asr.sample_rate).samples for clip in several]
        list(asr.stream(samples, batch_size=batch_size))
        heard += sum(clip.seconds for clip in several)
    return heard / (time.monotonic() - began)
