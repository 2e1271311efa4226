"""Very many clients that come, go, stall and send rubbish: `python -m benchmarks.serving_crowd m.onnx recordings/`.

Starts `trt.serve` with the model. Of the clients, all at a time, each does one thing after the other, by chance: it
asks for a transcript and compares it with that of the recording alone, goes away in the middle of a request, holds one
that it does not finish, streams sound and vanishes, or sends what is no request. The exit status is 1 where an answer
was wrong, or memory grew by more than 5 %. Refusals (429, 503) are answers of a server that has enough to do; they are
counted.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from tyro.conf import Positional, arg
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from benchmarks.serving_soak import REST, clips_of, running
from common import config
from common.benchmark import append_row
from trt.client.asking import Server, ServerError

STALL_SECONDS, PAUSE_SECONDS = 5.0, 1.0
SHARES = {"ask": 10, "go": 3, "stall": 2, "stream": 3, "rubbish": 2}


@dataclass(frozen=True, kw_only=True)
class CrowdConfig:
    """How many, for how long."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """ONNX file of a recogniser."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Recordings that are asked for: files, folders, manifests."""
    clients: int = 1000
    """Clients at a time."""
    minutes: float = 10.0
    """Minutes of it."""
    save: bool = False
    """Whether the row is appended to benchmarks/results/serving_crowd.jsonl."""


class Crowd:
    """What all clients share: the server's port, requests and their answers, what came of them, and when it ends."""

    def __init__(self, port: int, requests: list[bytes], expected: list[bytes], until: float):
        self.port, self.requests, self.expected, self.until = port, requests, expected, until
        self.counts = Counter[str]()

    async def client(self, seed: int) -> None:
        """One client: one thing after the other."""
        draw = random.Random(seed)
        await asyncio.sleep(draw.random() * PAUSE_SECONDS)
        while time.monotonic() < self.until:
            kind = draw.choices(list(SHARES), list(SHARES.values()))[0]
            try:
                told = await getattr(self, kind)(draw)
            except (OSError, EOFError, ValueError, WebSocketException) as error:
                told = type(error).__name__
            self.counts[f"{kind}: {told}"] += 1
            await asyncio.sleep(draw.random() * PAUSE_SECONDS)

    async def ask(self, draw: random.Random) -> str:
        """A transcript; its status, or wrong."""
        number = draw.randrange(len(self.requests))
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(self.requests[number])
            head = await reader.readuntil(b"\r\n\r\n")
            status = head[9:12].decode()
            if status != "200":
                return status
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(int(lengths[0].partition(b":")[2]))
            return "right" if body == self.expected[number] else "wrong"
        finally:
            writer.close()

    async def go(self, draw: random.Random) -> str:
        """A part of a request, and the connection is reset."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        request = draw.choice(self.requests)
        writer.write(request[: draw.choice([30, len(request) // 2, len(request)])])
        await asyncio.sleep(0.05 * draw.random())
        writer.transport.abort()
        return "gone"

    async def stall(self, draw: random.Random) -> str:
        """Half a request, held for a while."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        request = draw.choice(self.requests)
        writer.write(request[: len(request) // 2])
        await asyncio.sleep(STALL_SECONDS)
        writer.transport.abort()
        return "held"

    async def stream(self, draw: random.Random) -> str:
        """Some seconds of noise for captions; sometimes it waits for the last words."""
        async with connect(f"ws://127.0.0.1:{self.port}/v1/audio/stream", open_timeout=60) as socket:
            for _ in range(draw.randrange(1, 20)):
                await socket.send(os.urandom(3200))
            if draw.random() < 0.5:
                return "left"
            await socket.send(json.dumps({"type": "end"}))
            async for message in socket:
                if (kind := json.loads(message)["type"]) in ("done", "error"):
                    return str(kind)
        return "closed"

    async def rubbish(self, draw: random.Random) -> str:
        """Bytes that are none."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(draw.randbytes(draw.randrange(1, 5000)) + b"\r\n\r\n")
            return (await asyncio.wait_for(reader.read(12), 60))[9:12].decode("latin-1") or "closed"
        finally:
            writer.close()


async def crowded(crowd: Crowd, clients: int) -> None:
    """All clients, until the time is over."""
    await asyncio.gather(*(crowd.client(seed) for seed in range(clients)))


def main(cfg: CrowdConfig) -> int:
    """Prints what came of it; returns the exit status."""
    clips = clips_of(cfg.inputs)
    flags = ["--asr", str(cfg.model), "--threads", "1", "--client_seconds", "10", "--client_share", "1"]
    with running(*flags) as server:
        alone = Server(server.url)
        expected = [alone.transcribe(clip.content, clip.name, style="text").encode() for clip in clips]
        requests = [alone.request_bytes(clip.content, clip.name, style="text") for clip in clips]
        asyncio.run(crowded(Crowd(server.port, requests, expected, time.monotonic() + 10), cfg.clients))
        time.sleep(REST)
        before = server.memory_mb()
        crowd = Crowd(server.port, requests, expected, time.monotonic() + 60 * cfg.minutes)
        asyncio.run(crowded(crowd, cfg.clients))
        time.sleep(REST)
        after = server.memory_mb()
        server.process.terminate()
        status = server.process.wait(60)
    wrong = crowd.counts["ask: wrong"]
    print(", ".join(f"{name}: {count}" for name, count in sorted(crowd.counts.items())))
    row = {
        "clients": cfg.clients,
        "minutes": cfg.minutes,
        "right": crowd.counts["ask: right"],
        "wrong": wrong,
        "refused": crowd.counts["ask: 503"] + crowd.counts["ask: 429"],
        "others": sum(crowd.counts.values()) - sum(n for name, n in crowd.counts.items() if name.startswith("ask")),
        "before_mb": round(before, 1),
        "after_mb": round(after, 1),
        "status": status,
    }
    print(json.dumps(row))
    if cfg.save:
        append_row("serving_crowd", row, device=torch.device("cpu"))
    return 1 if wrong or status or not crowd.counts["ask: right"] or after > 1.05 * before else 0


if __name__ == "__main__":
    with config.reported(ServerError, OSError):
        sys.exit(main(config.parse_flags(CrowdConfig, None, sys.argv[1:], description=__doc__ or "")))
