"""A server in this process, and the raw HTTP that clients of all kinds send."""

import asyncio
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from trt.serve import ServeConfig, build, serve
from trt.serving.gateway import Gateway


class Served(NamedTuple):
    """A gateway that listens."""

    port: int
    gateway: Gateway

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()

    def transcribe(self, content: bytes, name: str = "a.wav", **fields: str) -> tuple[int, bytes]:
        body, kind = form(content, name, **fields)
        return self.ask("POST", "/v1/audio/transcriptions", body, {"Content-Type": kind})

    def speak(self, **asked: Any) -> tuple[int, bytes]:
        return self.ask("POST", "/v1/audio/speech", json.dumps(asked).encode(), {"Content-Type": "application/json"})

    def comes_to_rest(self, seconds: float = 10.0) -> None:
        """Waits until no request is under way, and no memory is held."""
        ends = time.monotonic() + seconds
        while self.gateway.app.under_way or self.gateway.budget.held:
            assert time.monotonic() < ends, (self.gateway.app.under_way, self.gateway.budget.held)
            time.sleep(0.01)


def form(content: bytes, name: str = "a.wav", **fields: str) -> tuple[bytes, str]:
    lines = [f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return "".join([*lines, head]).encode() + content + b"\r\n--b--\r\n", "multipart/form-data; boundary=b"


@contextlib.contextmanager
def served(cfg: ServeConfig) -> Iterator[Served]:
    gateway = build(cfg)
    loop = asyncio.new_event_loop()
    ends, listening = asyncio.Event(), threading.Event()
    port, problems = [0], []

    def listens(at: int) -> None:
        port[0] = at
        listening.set()

    def run() -> None:
        try:
            loop.run_until_complete(serve(gateway, cfg, ends, listens))
        except BaseException as error:
            problems.append(error)
        finally:
            listening.set()
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert listening.wait(120)
    if problems:
        raise problems[0]
    try:
        yield Served(port[0], gateway)
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join(60)
        assert not thread.is_alive(), "the server does not end"


def noise(seconds: float, seed: int = 0, rate: int = 16_000) -> np.ndarray:
    random = np.random.default_rng(seed)
    loudness = np.repeat(random.uniform(0.01, 0.3, int(seconds * 10) + 1), rate // 10)[: round(seconds * rate)]
    return (loudness * random.standard_normal(len(loudness))).astype(np.float32)
