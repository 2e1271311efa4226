"""Many clients at a time: how long they wait, whether each gets its own answer, how much the server does."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from common.ahead import in_threads
from common.audio.waveform import AudioError
from trt.client.asking import Server, ServerError, percentile
from trt.client.load import load
from trt.client.streaming import captions, in_real_time


class ClientClip(NamedTuple):
    """A recording to ask for: its bytes, its name, its length in seconds, what is said in it where that is known."""

    content: bytes
    name: str
    seconds: float
    reference: str | None = None


class ClientMeasurement(NamedTuple):
    """What came of it. `wrong`: answers other than the one that the same recording got alone, before."""

    answers: int
    errors: list[str]
    wrong: int
    latencies: list[float]
    audio_seconds: float
    took: float
    cpu_seconds: float = math.nan
    """Processor time that the server took, with what it runs in its own process; NaN where it does not tell."""
    client_cpu_seconds: float = 0.0
    """Processor time that all clients together took."""

    def lines(self) -> list[str]:
        """The result for people."""
        waits = ", ".join(f"p{p} {1000 * percentile(self.latencies, p):.0f}" for p in (50, 90, 95, 99))
        cpu = (
            ""
            if math.isnan(self.cpu_ms)
            else f"; processor time an answer: {self.cpu_ms:.2f} ms, of the clients {self.client_cpu_ms:.2f}"
        )
        return [
            f"{self.answers} answers in {self.took:.1f} s: {len(self.errors)} errors, {self.wrong} wrong",
            f"latency in ms: {waits}",
            f"throughput: {self.throughput:.1f} s of audio a second{cpu}",
            *sorted(set(self.errors))[:5],
        ]

    @property
    def cpu_ms(self) -> float:
        """Processor time of the server per answer, in milliseconds."""
        return 1000 * self.cpu_seconds / self.answers

    @property
    def client_cpu_ms(self) -> float:
        """Processor time of the clients per answer, in milliseconds."""
        return 1000 * self.client_cpu_seconds / self.answers

    @property
    def throughput(self) -> float:
        """Seconds of audio per second."""
        return self.audio_seconds / self.took


def measure(url: str, clips: Sequence[ClientClip], *, key: str, clients: int, seconds: float) -> ClientMeasurement:
    """Asks for `clips` in turn from `clients` connections, each from another clip on, for `seconds`.

    Raises ServerError where one alone is refused.
    """
    alone = Server(url, key=key)
    expected = [alone.transcribe(clip.content, clip.name, style="text").encode() for clip in clips]
    requests = [alone.request_bytes(clip.content, clip.name, style="text") for clip in clips]
    cpu = alone.metric("process_cpu_seconds")
    found = load(url, requests, expected, clients=clients, seconds=seconds)
    cpu = alone.metric("process_cpu_seconds") - cpu
    alone.close()
    if not found.latencies:
        raise ServerError(f"{url}: no answer: {found.errors[0] if found.errors else 'the time was too short'}")
    return ClientMeasurement(
        answers=len(found.latencies),
        errors=found.errors,
        wrong=found.wrong,
        latencies=found.latencies,
        audio_seconds=sum(clips[number].seconds for number in found.numbers),
        took=found.took,
        cpu_seconds=cpu,
        client_cpu_seconds=found.cpu_seconds,
    )


def measure_speech(url: str, text: str, *, key: str, clients: int, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds until the first sound of a text, and until its last, from `clients` at a time. Raises ServerError."""
    ends = time.monotonic() + seconds

    def ask(server: Server) -> list[tuple[float, float]]:
        found = []
        while time.monotonic() < ends:
            began, first = time.monotonic(), 0.0
            for _ in server.speak(text, response_format="pcm"):
                first = first or time.monotonic() - began
            found.append((first, time.monotonic() - began))
        return found

    servers = [Server(url, key=key) for _ in range(clients)]
    waits = [wait for own in in_threads(servers, ask, threads=clients) for wait in own]
    return [first for first, _ in waits], [last for _, last in waits]


def measure_live(url: str, paths: Sequence[Path], *, key: str, clients: int) -> list[float]:
    """Seconds from the end of every word to its being final, with a recording by each client. Raises ServerError."""

    def follow(path: Path) -> list[float]:
        try:
            return captions(url, in_real_time(path), key=key).delays
        except AudioError as error:
            raise ServerError(str(error)) from None

    chosen = [paths[i % len(paths)] for i in range(clients)]
    return [delay for own in in_threads(chosen, follow, threads=clients) for delay in own]
