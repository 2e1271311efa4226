"""A server under load and attack for minutes: `python -m benchmarks.serving_soak m.onnx recordings/ --minutes 10`.

Starts `trt.serve` with the model, lets honest clients transcribe the recordings while others vanish, send too much,
crumbs, garbage or nothing (benchmarks/serving_attacks.py), and reports what the honest ones got, how long `/health`
took, and the server's memory. What the machine takes is measured besides: honest clients while the same attacks go to a
second server, and `/health` of that one, once it is idle, in turns with the first's. Attackers, and who measures, are
processes of their own, so that none waits for another's lock. Everything stays on 127.0.0.1. The exit status is 1 where
an answer was wrong or missing, memory grew by more than 5 % or beyond its budget and a tenth, or the server did not end
with status 0.
"""

import contextlib
import http.client
import json
import multiprocessing
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
from tyro.conf import Positional, arg

from benchmarks.serving_attacks import ATTACKS, attack
from common import config
from common.audio import waveform
from common.benchmark import append_row
from common.recognition.sources.inputs import find_recordings
from trt.client.asking import ServerError, content_of, percentile
from trt.client.measuring import ClientClip, ClientMeasurement, measure
from trt.serving.admission.limits import TRIM_SECONDS, Limits

LOOKS = 12  # at the memory, that are written down
WARM_UP, ELSEWHERE = 10, 20  # seconds with honest clients alone, and with attacks on another server
MOST_OF_BUDGET = 1.1
PATIENCE = 5  # seconds that the server waits for a client
REST = TRIM_SECONDS + 5  # until clients that vanished or are too slow are left, and free memory has gone back
REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class ServingSoakConfig:
    """For how long, with what."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """ONNX file of a recogniser."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Recordings that the honest clients have transcribed: files, folders, manifests."""
    minutes: float = 10.0
    """Minutes of the soak."""
    clients: int = 4
    """Honest clients."""
    attackers: int = 2
    """Clients that mean ill, each with one attack after the other."""
    huge_mb: int = 1000
    """Size of the bodies that are too large, in megabytes."""
    seed: int = 0
    """Seed of the order in which the attacks come."""
    save: bool = False
    """Whether the row is appended to benchmarks/results/serving_soak.jsonl."""


class Running(NamedTuple):
    """A server in a process of its own."""

    process: "subprocess.Popen[str]"
    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def memory_mb(self) -> float:
        """What the process holds in memory now."""
        return memory_mb(self.process.pid)


class Watched(NamedTuple):
    """What was seen of a server while something was done to it."""

    health: list[float]
    """Seconds that /health took."""
    idle_health: list[float]
    """Seconds that it took a server that does nothing else, in turns with the others."""
    memory: list[float]
    """MB that the process held, at the same times."""


def memory_mb(process: int) -> float:
    """What a process holds in memory now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) / 1000


def health_seconds(port: int) -> float:
    """How long /health takes to answer."""
    began, connection = time.monotonic(), http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/health")
        connection.getresponse().read()
    return time.monotonic() - began


def watch(process: int, port: int, idle_port: int, until: float) -> Watched:
    """Looks at a server again and again, once at least."""
    found = Watched([], [], [])
    while not found.health or time.monotonic() < until:
        found.memory.append(memory_mb(process))
        found.health.append(health_seconds(port))
        found.idle_health.append(health_seconds(idle_port))
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def running(*flags: str) -> Iterator[Running]:
    """`trt.serve` with these flags."""
    command = [sys.executable, "-m", "trt.serve", "--port", "0", *flags]
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"serving .* at http://\S+:(\d+)", line):
                threading.Thread(target=process.stderr.read, daemon=True).start()
                yield Running(process, int(found[1]))
                return
        raise RuntimeError(f"no server: {''.join(said)}")
    finally:
        process.kill()
        process.wait()


def clips_of(inputs: Sequence[Path], most: int | None = None) -> list[ClientClip]:
    """The recordings as they are sent, the first `most` of them."""
    items, problems = find_recordings(list(inputs))
    if problems or not items:
        raise ServerError("; ".join(problems) or "no recordings")
    found = []
    for item in items[:most]:
        content, name = content_of(item.source)
        found.append(ClientClip(content, name, waveform.info(waveform.Held(content, name)).seconds, item.reference))
    return found


def main(cfg: ServingSoakConfig) -> int:
    """Prints what came of it; returns the exit status."""
    clips, flags = clips_of(cfg.inputs), ("--asr", str(cfg.model), "--client_seconds", str(PATIENCE))
    others = ProcessPoolExecutor(cfg.attackers + 1, mp_context=multiprocessing.get_context("spawn"))
    with running(*flags) as server, running(*flags) as idle, others:

        def attacked(port: int, seconds: float) -> list["Future[Counter[str]]"]:
            ends = time.monotonic() + seconds
            draws = [random.Random(cfg.seed + i) for i in range(cfg.attackers)]
            return [others.submit(attack, port, until=ends, huge_mb=cfg.huge_mb, draw=draw) for draw in draws]

        def honest(seconds: float) -> ClientMeasurement:
            return measure(server.url, clips, key="", clients=cfg.clients, seconds=seconds)

        alone = honest(WARM_UP)
        for kind in ATTACKS:  # each once: what a first use loads stays
            kind(server.port, cfg.huge_mb)
        attacks = attacked(idle.port, ELSEWHERE)
        elsewhere = honest(ELSEWHERE)
        for each in attacks:
            each.result()
        time.sleep(REST)
        before, seconds = server.memory_mb(), 60 * cfg.minutes
        watching = others.submit(watch, server.process.pid, server.port, idle.port, time.monotonic() + seconds)
        attacks, result = attacked(server.port, seconds), honest(seconds)
        counted, watched = sum((each.result() for each in attacks), Counter[str]()), watching.result()
        time.sleep(REST)
        after = server.memory_mb()
        server.process.terminate()
        status = server.process.wait(60)
    health, idle_health, most = watched.health, watched.idle_health, max(watched.memory)
    along = [round(watched.memory[i * len(watched.memory) // LOOKS], 1) for i in range(LOOKS)]
    unexpected = sum(count for name, count in counted.items() if name.endswith("!"))
    print("\n".join(result.lines()))
    print("attacks: " + ", ".join(f"{name}: {count}" for name, count in sorted(counted.items())))
    print(f"memory: {before:.1f} MB before, {after:.1f} MB after ({after / before - 1:+.1%}), {most:.1f} MB at most")
    without = {"alone": percentile(alone.latencies, 95), "elsewhere": percentile(elsewhere.latencies, 95)}
    ratios = {name: percentile(result.latencies, 95) / p95 for name, p95 in without.items()}
    for name, own in (("/health", health), ("/health of an idle server", idle_health)):
        print(f"{name} in ms: p50, p95, p100", *(round(1000 * percentile(own, p)) for p in (50, 95, 100)))
    told = f"{ratios['alone']:.2f} of what it is without attacks, {ratios['elsewhere']:.2f} of with attacks elsewhere"
    print(f"p95 of honest clients: {told}; exit status {status}")
    print(f"server's processor time an answer: {alone.cpu_ms:.1f} ms without attacks, {result.cpu_ms:.1f} with them")
    if cfg.save:
        row = {
            "health_p95_ms": round(1000 * percentile(health, 95), 1),
            "idle_health_p95_ms": round(1000 * percentile(idle_health, 95), 1),
            **{f"of_{name}_p95": round(ratio, 2) for name, ratio in ratios.items()},
            "cpu_ms": round(result.cpu_ms, 2),
            "alone_cpu_ms": round(alone.cpu_ms, 2),
            "minutes": cfg.minutes,
            "clients": cfg.clients,
            "attackers": cfg.attackers,
            "answers": result.answers,
            "errors": len(result.errors),
            "wrong": result.wrong,
            "attacks": sum(counted.values()),
            "unexpected": unexpected,
            "p50_ms": round(1000 * percentile(result.latencies, 50), 1),
            "p99_ms": round(1000 * percentile(result.latencies, 99), 1),
            "before_mb": round(before, 1),
            "after_mb": round(after, 1),
            "peak_mb": round(most, 1),
            "along_mb": along,
        }
        print(json.dumps(append_row("serving_soak", row, device=torch.device("cpu"))))
    is_small = after < 1.05 * before and most < before + MOST_OF_BUDGET * Limits.max_memory_mb
    return 0 if not status and not result.errors and not result.wrong and not unexpected and is_small else 1


if __name__ == "__main__":
    with config.reported(ServerError, OSError):
        sys.exit(main(config.parse_flags(ServingSoakConfig, None, sys.argv[1:], description=__doc__ or "")))
