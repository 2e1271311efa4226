"""A server under load and attack for minutes: `python -m benchmarks.serving_soak m.onnx recordings/ --minutes 10`.

Starts `trt.serve` with the model, lets honest clients transcribe the recordings while others vanish, send too much,
garbage or nothing, and reports what the honest ones got, and the server's memory before and after. Everything stays on
127.0.0.1. The exit status is 1 where an answer was wrong or missing, or memory grew by more than 5 %.
"""

import contextlib
import http.client
import io
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import soundfile
import torch
from tyro.conf import Positional, arg
from websockets.sync.client import connect

from common import config
from common.audio import waveform
from common.benchmark import append_row
from common.recognition.inputs import find_recordings
from trt.client.asking import ServerError, content_of, percentile
from trt.client.measuring import ClientClip, measure
from trt.serving.limits import TRIM_SECONDS

LOOKS = 12  # at the memory, that are written down
WARM_UP = 10  # seconds with honest clients alone
PATIENCE = 5  # seconds that the server waits for a client
REST = TRIM_SECONDS + 5  # until clients that vanished or are too slow are left, and free memory has gone back
REPOSITORY = Path(__file__).parents[1]
PIECE = bytes(1 << 18)
FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'


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


def _head(
    length: int | None, path: str = "/v1/audio/transcriptions", kind: str = "multipart/form-data; boundary=b"
) -> bytes:
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST {path} HTTP/1.1\r\nHost: a\r\n{size}\r\nContent-Type: {kind}\r\n\r\n".encode()


def _answer(connection: socket.socket) -> int:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


def _sent(port: int, *parts: bytes, answers: bool = True) -> int:
    """The status that a connection which sends `parts` gets; 0 where it is cut off while it sends, or vanishes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            return 0
        if not answers:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return 0
        try:
            return _answer(connection)
        except (OSError, http.client.HTTPException):
            return 0


def _posted(port: int, content: bytes) -> int:
    body = FORM + content + b"\r\n--b--\r\n"
    return _sent(port, _head(len(body)), body)


def recording(seconds: float, style: str = "WAV", rate: int = 16_000, seed: int = 0) -> bytes:
    """A file of noise; of 0 samples that are alike where it is long, so that FLAC is small."""
    file = io.BytesIO()
    count = round(seconds * rate)
    draw = np.random.default_rng(seed)
    samples_N = 0.1 * draw.standard_normal(count).astype(np.float32) if seconds < 600 else np.zeros(count, np.int16)
    soundfile.write(file, samples_N, rate, format=style)
    return file.getvalue()


def vanish(port: int, huge_mb: int) -> int:
    """Resets the connection once its request is sent, or half of it."""
    body = FORM + recording(20.0) + b"\r\n--b--\r\n"
    cut = random.choice([10, len(body) // 2, len(body)])
    return _sent(port, _head(len(body)), body[:cut], answers=False)


def too_large_declared(port: int, huge_mb: int) -> int:
    """A body that says how large it is, and is sent whole."""
    return _sent(port, _head(huge_mb * 10**6), FORM, *[PIECE] * (huge_mb * 10**6 // len(PIECE)))


def too_large_chunked(port: int, huge_mb: int) -> int:
    """A body that does not say so."""
    chunk = f"{len(PIECE):x}\r\n".encode() + PIECE + b"\r\n"
    first = f"{len(FORM):x}\r\n".encode() + FORM + b"\r\n"
    return _sent(port, _head(None), first, *[chunk] * (huge_mb * 10**6 // len(PIECE)), b"0\r\n\r\n")


def garbage(port: int, huge_mb: int) -> int:
    """Bytes that are no HTTP."""
    return _sent(port, os.urandom(5000), b"\r\n\r\n")


def no_recording(port: int, huge_mb: int) -> int:
    """A file that is no recording, or one that ends in its middle."""
    return _posted(port, random.choice([os.urandom(100_000), b"", b"RIFF" + bytes(1000), recording(3.0, "FLAC")[:999]]))


def wrong_type(port: int, huge_mb: int) -> int:
    """A text to speak where numbers and lists are, and JSON that nests too deep."""
    content = random.choice([b'{"input": 5}', b'{"input": ["a"]}', b"[" * 100_000, b"\xff\xfe"])
    return _sent(port, _head(len(content), "/v1/audio/speech", "application/json"), content)


def two_hours(port: int, huge_mb: int) -> int:
    """A recording of two hours in a small file."""
    return _posted(port, TWO_HOURS)


def many_parts(port: int, huge_mb: int) -> int:
    """A form of very many fields."""
    body = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 10_000 + b"--b--\r\n"
    return _sent(port, _head(len(body)), body)


def half_a_head(port: int, huge_mb: int) -> int:
    """A request whose head does not end."""
    return _sent(port, b"GET /health HTTP/1.1\r\nHost:")


def slow_sender(port: int, huge_mb: int) -> int:
    """A body that stops coming."""
    return _sent(port, _head(100_000), FORM)


def dripping(port: int, huge_mb: int) -> int:
    """A body that comes a byte at a time, and never stops."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(_head(100_000) + FORM)
        try:
            while True:
                connection.sendall(b"-")
                time.sleep(0.05)
        except OSError:
            return 0


def huge_json(port: int, huge_mb: int) -> int:
    """Lists in lists without an end, where a text to speak should be."""
    return _sent(port, _head(huge_mb * 10**6, "/v1/audio/speech", "application/json"), b"[]," * 20_000)


def another_host(port: int, huge_mb: int) -> int:
    """A request that a page of another name makes a browser send."""
    return _sent(port, b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n")


def captions_for_nobody(port: int, huge_mb: int) -> int:
    """Sound to caption, much faster than it is spoken, of a client that goes at once."""
    with connect(f"ws://127.0.0.1:{port}/v1/audio/stream") as client:
        client.send(random.choice([recording(30.0)[44:], bytes(3_000_000)]))
        return 0


TWO_HOURS = recording(7200.0, "FLAC")
ATTACKS: dict[Callable[[int, int], int], tuple[int, ...]] = {
    vanish: (0,),
    too_large_declared: (413, 408, 0),  # 408 on a machine so busy that it does not come in time
    too_large_chunked: (413, 408, 0),
    garbage: (400, 0),
    no_recording: (400,),
    wrong_type: (400, 404, 413),
    two_hours: (413,),
    many_parts: (400,),
    half_a_head: (0,),
    slow_sender: (408,),
    dripping: (0,),
    huge_json: (413, 0),
    another_host: (421,),
    captions_for_nobody: (0,),
}
"""What clients do that mean ill, and the statuses that may come of it: 0 for a connection that is closed."""


def attack(port: int, *, until: float, huge_mb: int, draw: random.Random) -> Counter[str]:
    """One attack after the other; the counts by name and status, those that must not be with a !."""
    found: Counter[str] = Counter()
    while time.monotonic() < until:
        kind = draw.choice(list(ATTACKS))
        if kind in (too_large_declared, too_large_chunked) and draw.random() < 0.7:
            continue  # a gigabyte takes a while
        try:
            status = kind(port, huge_mb)
        except OSError as error:
            found[f"{kind.__name__} {type(error).__name__}!"] += 1
            continue
        found[f"{kind.__name__} {status}{'' if status in ATTACKS[kind] else '!'}"] += 1
    return found


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
        measure(server.url, clips, key="", clients=cfg.clients, seconds=WARM_UP)
        for kind in ATTACKS:  # each once: what a first use loads stays
            kind(server.port, cfg.huge_mb)
        time.sleep(REST)
        before = server.memory_mb()
        ends, counted, threads = time.monotonic() + 60 * cfg.minutes, Counter[str](), []
        lock, most, along = threading.Lock(), [before], list[float]()

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
                time.sleep(0.2)

        for i in range(cfg.attackers):
            threads.append(threading.Thread(target=mean_ill, args=(cfg.seed + i,)))
        threads.append(threading.Thread(target=watch))
        for thread in threads:
            thread.start()
        result = measure(server.url, clips, key="", clients=cfg.clients, seconds=60 * cfg.minutes)
        for thread in threads:
            thread.join()
        time.sleep(REST)
        after, is_up = server.memory_mb(), server.process.poll() is None
    unexpected = sum(count for name, count in counted.items() if name.endswith("!"))
    print("\n".join(result.lines()))
    print("attacks: " + ", ".join(f"{name}: {count}" for name, count in sorted(counted.items())))
    print(f"memory: {before:.1f} MB before, {after:.1f} MB after ({after / before - 1:+.1%}), {most[0]:.1f} MB at most")
    if cfg.save:
        row = {
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
    return 0 if is_up and not result.errors and not result.wrong and not unexpected and after < 1.05 * before else 1


if __name__ == "__main__":
    with config.reported(ServerError, OSError):
        sys.exit(main(config.parse_flags(ServingSoakConfig, None, sys.argv[1:], description=__doc__ or "")))
