"""A server under load and attack for minutes: `python -m benchmarks.serving_soak m.onnx recordings/ --minutes 10`.

Starts `trt.serve` with the model, lets honest clients transcribe the recordings while others vanish, send too much,
crumbs, garbage or nothing (benchmarks/serving_attacks.py), and reports what the honest ones got, how long `/health`
took, and the server's memory. Everything stays on 127.0.0.1. The exit status is 1 where an answer was wrong or missing,
memory grew by more than 5 % or beyond its budget and a tenth, or the server did not end with status 0.
"""

import contextlib
import http.client
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
from tyro.conf import Positional, arg

from benchmarks.serving_attacks import ATTACKS, attack
from benchmarks.serving_load import ClientClip, measure
from common import config
from common.audio import waveform
from common.benchmark import append_row
from common.recognition.inputs import find_recordings
from trt.client.asking import ServerError, content_of, percentile
from trt.serving.limits import TRIM_SECONDS, Limits

LOOKS = 12  # at the memory, that are written down
WARM_UP = 10  # seconds with honest clients alone
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
        told = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", told)
        assert found is not None
        return int(found[1]) / 1000

    def health_seconds(self) -> float:
        """How long /health takes to answer."""
        began, connection = time.monotonic(), http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            connection.getresponse().read()
        return time.monotonic() - began


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


def clips_of(inputs: Sequence[Path]) -> list[ClientClip]:
    """The recordings as they are sent."""
    items, problems = find_recordings(list(inputs))
    if problems or not items:
        raise ServerError("; ".join(problems) or "no recordings")
    found = []
    for item in items:
        content, name = content_of(item.source)
        found.append(ClientClip(content, name, waveform.info(waveform.Held(content, name)).seconds))
    return found


def main(cfg: ServingSoakConfig) -> int:
    """Prints what came of it; returns the exit status."""
    clips = clips_of(cfg.inputs)
    with running("--asr", str(cfg.model), "--client_seconds", str(PATIENCE)) as server:
        alone = measure(server.url, clips, key="", clients=cfg.clients, seconds=WARM_UP)
        for kind in ATTACKS:  # each once: what a first use loads stays
            kind(server.port, cfg.huge_mb)
        time.sleep(REST)
        before = server.memory_mb()
        ends, counted, threads = time.monotonic() + 60 * cfg.minutes, Counter[str](), []
        lock, most, along, health = threading.Lock(), [before], list[float](), list[float]()

        def mean_ill(seed: int) -> None:
            found = attack(server.port, until=ends, huge_mb=cfg.huge_mb, draw=random.Random(seed))
            with lock:
                counted.update(found)

        def watch() -> None:
            while (left := ends - time.monotonic()) > 0:
                now = server.memory_mb()
                most[0] = max(most[0], now)
                if left < 60 * cfg.minutes * (1 - len(along) / LOOKS):
                    along.append(round(now, 1))
                health.append(server.health_seconds())
                time.sleep(0.1)

        for i in range(cfg.attackers):
            threads.append(threading.Thread(target=mean_ill, args=(cfg.seed + i,)))
        threads.append(threading.Thread(target=watch))
        for thread in threads:
            thread.start()
        result = measure(server.url, clips, key="", clients=cfg.clients, seconds=60 * cfg.minutes)
        for thread in threads:
            thread.join()
        time.sleep(REST)
        after = server.memory_mb()
        server.process.terminate()
        status = server.process.wait(60)
    unexpected = sum(count for name, count in counted.items() if name.endswith("!"))
    print("\n".join(result.lines()))
    print("attacks: " + ", ".join(f"{name}: {count}" for name, count in sorted(counted.items())))
    print(f"memory: {before:.1f} MB before, {after:.1f} MB after ({after / before - 1:+.1%}), {most[0]:.1f} MB at most")
    ratio = percentile(result.latencies, 95) / percentile(alone.latencies, 95)
    print(f"/health in ms: p50, p95, p100 {', '.join(f'{1000 * percentile(health, p):.0f}' for p in (50, 95, 100))}")
    print(f"p95 of honest clients: {ratio:.2f} of what it is without attacks; exit status {status}")
    if cfg.save:
        row = {
            "health_p95_ms": round(1000 * percentile(health, 95), 1),
            "of_alone_p95": round(ratio, 2),
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
            "peak_mb": round(most[0], 1),
            "along_mb": along,
        }
        print(json.dumps(append_row("serving_soak", row, device=torch.device("cpu"))))
    is_small = after < 1.05 * before and most[0] < before + MOST_OF_BUDGET * Limits.max_memory_mb
    return 0 if not status and not result.errors and not result.wrong and not unexpected and is_small else 1


if __name__ == "__main__":
    with config.reported(ServerError, OSError):
        sys.exit(main(config.parse_flags(ServingSoakConfig, None, sys.argv[1:], description=__doc__ or "")))
