"""Many clients in one thread, which take little processor time from the server that they ask.

Requests are bytes that are made once; each client is a connection on which one follows the other, without a thread or a
parser of its own. What is answered is compared as bytes.
"""

import asyncio
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from trt.client.asking import AGAIN, WAITS

TIMEOUT = 600.0  # seconds that an answer may take once no request follows
END_OF_HEAD = b"\r\n\r\n"


class LoadOutcome(NamedTuple):
    """What came of the requests. `wrong`: answers other than those that were expected."""

    numbers: list[int]
    """The number of the request that each answer is of."""
    latencies: list[float]
    errors: list[str]
    wrong: int
    took: float
    cpu_seconds: float
    """Processor time of all clients together."""


def load(
    url: str, requests: Sequence[bytes], expected: Sequence[bytes], *, clients: int, seconds: float
) -> LoadOutcome:
    """Sends `requests` in turn from `clients` connections, each from another one on, for `seconds`.

    A refusal because the server is busy, and a connection that breaks, are tried again as `Server` does it.
    """

    def run() -> LoadOutcome:
        cpu, began = time.thread_time(), time.monotonic()
        return asyncio.run(_Load(url, requests, expected).run(clients, seconds))._replace(
            took=time.monotonic() - began, cpu_seconds=time.thread_time() - cpu
        )

    with ThreadPoolExecutor(1) as thread:  # the caller's may have an event loop already, as a notebook's has
        return thread.submit(run).result()


class _Load:
    """What the clients share."""

    def __init__(self, url: str, requests: Sequence[bytes], expected: Sequence[bytes]):
        parts = urlsplit(url)
        self.host, self.is_secret = parts.hostname or "", parts.scheme == "https"
        self.port = parts.port or (443 if self.is_secret else 80)
        self.url, self.requests, self.expected = url, requests, expected
        self.numbers: list[int] = []
        self.latencies: list[float] = []
        self.errors: list[str] = []
        self.wrong = 0

    async def run(self, clients: int, seconds: float) -> LoadOutcome:
        """All of it; how long it took is for the caller to say."""
        self.ends = time.monotonic() + seconds
        all_clients = [_Client(self, first) for first in range(clients)]
        for client in all_clients:
            client.ask()
        _, late = await asyncio.wait([client.done for client in all_clients], timeout=seconds + TIMEOUT)
        self.errors += [f"{self.url}: no answer within {TIMEOUT:g} s"] * len(late)
        return LoadOutcome(self.numbers, self.latencies, self.errors, self.wrong, 0.0, 0.0)


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, load: _Load, first: int):
        self._load, self._number, self._loop = load, first % len(load.requests), asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._came = b""
        self._is_asking, self._tries, self._since = False, 0, 0.0

    def ask(self) -> None:
        """The next request, unless the time is over."""
        if time.monotonic() >= self._load.ends:
            self._end()
            return
        self._tries, self._since = 0, time.monotonic()
        self._send()

    def _send(self) -> None:
        self._is_asking, self._came = True, b""
        if self._transport is None:
            self._connecting = self._loop.create_task(self._connect())
        else:
            self._transport.write(self._load.requests[self._number])

    async def _connect(self) -> None:
        load = self._load
        try:
            context = ssl.create_default_context() if load.is_secret else None
            await self._loop.create_connection(lambda: self, load.host, load.port, ssl=context)
        except OSError as error:
            self._failed(f"{load.url}: {error}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends what waits for it."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.write(self._load.requests[self._number])

    def connection_lost(self, error: Exception | None) -> None:
        """Tries again what is not answered."""
        self._transport = None
        if self._is_asking:
            self._failed(f"{self._load.url}: {error or 'the connection was closed'}")

    def data_received(self, data: bytes) -> None:
        """Answers, in one part mostly."""
        came = self._came + data if self._came else data
        head = came.find(END_OF_HEAD)
        length = _length(came[:head]) if head >= 0 else 0
        if length is None:
            self._refused("an answer without Content-Length")
        elif head < 0 or len(came) < head + len(END_OF_HEAD) + length:
            self._came = came
        elif came.startswith(b"HTTP/1.1 200 "):
            load = self._load
            load.latencies.append(time.monotonic() - self._since)
            load.numbers.append(self._number)
            load.wrong += came[head + len(END_OF_HEAD) :] != load.expected[self._number]
            self._next()
        elif (status := int(came[9:12])) in AGAIN:
            self._failed(f"{self._load.url}: status {status}")
        else:
            self._refused(f"status {status}: {came[head:].decode('utf-8', 'replace').strip()[:300]}")

    def _next(self) -> None:
        self._is_asking = False
        self._number = (self._number + 1) % len(self._load.requests)
        self.ask()

    def _refused(self, problem: str) -> None:
        self._load.errors.append(f"{self._load.url}: {problem}")
        self._next()

    def _failed(self, problem: str) -> None:
        self._is_asking = False
        if self._tries < len(WAITS):
            self._loop.call_later(WAITS[self._tries], self._send)
            self._tries += 1
        else:
            self._load.errors.append(f"{problem}; tried {len(WAITS) + 1} times")
            self._next()

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()
        if not self.done.done():
            self.done.set_result(None)


def _length(head: bytes) -> int | None:
    """The length of the body after this head."""
    for line in head.split(b"\r\n"):
        if line[:15].lower() == b"content-length:":
            return int(line[15:])
    return None
