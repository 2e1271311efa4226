"""Many clients at a time: how long they wait, whether each gets its own answer, how much the server does."""

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from common.audio.waveform import AudioError
from trt.client.asking import Server, ServerError, percentile
from trt.client.load import load


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
    firsts: list[float] = []
    lasts: list[float] = []
    problems: list[ServerError] = []
    ends = time.monotonic() + seconds

    def ask() -> None:
        server = Server(url, key=key)
        while time.monotonic() < ends and not problems:
            began, first = time.monotonic(), 0.0
            try:
                for _ in server.speak(text, response_format="pcm"):
                    first = first or time.monotonic() - began
            except ServerError as error:
                problems.append(error)
                return
            firsts.append(first)
            lasts.append(time.monotonic() - began)

    _in_parallel([ask] * clients)
    if problems:
        raise problems[0]
    return firsts, lasts


def measure_live(url: str, paths: Sequence[Path], *, key: str, clients: int) -> list[float]:
    """Seconds from the end of every word to its being final, with a recording by each client. Raises ServerError."""
    from trt.client.streaming import captions, in_real_time

    delays: list[float] = []
    problems: list[Exception] = []

    def follow(path: Path) -> None:
        try:
            delays.extend(captions(url, in_real_time(path), key=key).delays)
        except (ServerError, AudioError) as error:
            problems.append(error)

    _in_parallel([functools.partial(follow, paths[i % len(paths)]) for i in range(clients)])
    if problems:
        raise ServerError(str(problems[0]))
    return delays


def _in_parallel(jobs: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
