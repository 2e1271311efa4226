"""Many clients at a time: how long they wait, whether each gets its own answer, how much the server does."""

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from common.audio import AudioError
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
    cpu_seconds: float = math.nan
    """Processor time that the server took, with what it runs in its own process; NaN where it does not tell."""

    def lines(self) -> list[str]:
        """The result for people."""
        waits = ", ".join(f"p{p} {1000 * percentile(self.latencies, p):.0f}" for p in (50, 90, 95, 99))
        cpu = "" if math.isnan(self.cpu_ms) else f"; processor time {self.cpu_ms:.1f} ms an answer"
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

    watch = Server(url, key=key)
    cpu, began = watch.metric("process_cpu_seconds"), time.monotonic()
    threads = [threading.Thread(target=ask, args=(first,)) for first in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not latencies:
        raise ServerError(f"{url}: no answer: {errors[0] if errors else 'the time was too short'}")
    took, cpu = time.monotonic() - began, watch.metric("process_cpu_seconds") - cpu
    watch.close()
    return Measured(len(latencies), errors, wrong, latencies, heard, took, cpu)


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


def offline_throughput(
    model: Path, clips: Sequence[Clip], *, batch_size: int, seconds: float, threads: int = 0
) -> float:
    """Seconds of audio a second of `trt.run` in this process, over the same clips, from their bytes on."""
    from common.audio import Held, read
    from trt import recognizers

    asr, heard, began = recognizers.load(model, threads=threads), 0.0, time.monotonic()
    while time.monotonic() - began < seconds:
        several = [clip for clip in clips for _ in range(max(1, 32 // len(clips)))]
        samples = [read(Held(clip.content, clip.name), sample_rate=asr.sample_rate).samples for clip in several]
        list(asr.stream(samples, batch_size=batch_size))
        heard += sum(clip.seconds for clip in several)
    return heard / (time.monotonic() - began)
