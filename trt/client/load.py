"""Many clients in one thread, which take little processor time from the server that they ask.

Requests are bytes that are made once; each client is a connection on which one follows the other. What is answered is
compared as bytes.
"""

import asyncio
import re
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from trt.client.asking import AGAIN, WAITS

TIMEOUT = 600.0  # seconds that an answer may take once no request follows
BROKEN = 0  # in place of a status
Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


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
        own, cpu, began = _Load(url, requests, expected), time.thread_time(), time.monotonic()
        asyncio.run(own.run(clients, seconds))
        took, cpu = time.monotonic() - began, time.thread_time() - cpu
        return LoadOutcome(own.numbers, own.latencies, own.errors, own.wrong, took, cpu)

    with ThreadPoolExecutor(1) as thread:  # the caller's may have an event loop already, as a notebook's has
        return thread.submit(run).result()


class _Load:
    """What the clients share."""

    def __init__(self, url: str, requests: Sequence[bytes], expected: Sequence[bytes]):
        parts = urlsplit(url)
        self.context = ssl.create_default_context() if parts.scheme == "https" else None
        self.host, self.port = parts.hostname or "", parts.port or (443 if self.context else 80)
        self.url, self.requests, self.expected = url, requests, expected
        self.numbers: list[int] = []
        self.latencies: list[float] = []
        self.errors: list[str] = []
        self.wrong = 0

    async def run(self, clients: int, seconds: float) -> None:
        """All of it."""
        self.ends = time.monotonic() + seconds
        all_clients = [asyncio.create_task(self._ask(first % len(self.requests))) for first in range(clients)]
        done, late = await asyncio.wait(all_clients, timeout=seconds + TIMEOUT)
        self.errors += [f"{self.url}: no answer within {TIMEOUT:g} s"] * len(late)
        await asyncio.gather(*done)

    async def _ask(self, number: int) -> None:
        """What one client does, on one connection as long as it holds."""
        link: Link | None = None
        while time.monotonic() < self.ends:
            since = time.monotonic()
            for wait in (*WAITS, None):
                link, status, content = await self._answer(link, self.requests[number])
                if wait is None or status not in (BROKEN, *AGAIN):
                    break
                await asyncio.sleep(wait)
            if status == 200:
                self.latencies.append(time.monotonic() - since)
                self.numbers.append(number)
                self.wrong += content != self.expected[number]
            else:
                told = content.decode("utf-8", "replace").strip()[:300]
                told = told if status == BROKEN else f"status {status}: {told}" if told else f"status {status}"
                tries = f"; tried {len(WAITS) + 1} times" if status in (BROKEN, *AGAIN) else ""
                self.errors.append(f"{self.url}: {told}{tries}")
            number = (number + 1) % len(self.requests)
        if link is not None:
            link[1].close()

    async def _answer(self, link: Link | None, request: bytes) -> tuple[Link | None, int, bytes]:
        """The connection, if it holds, the status and the body; BROKEN and the reason where it does not."""
        try:
            link = link or await asyncio.open_connection(self.host, self.port, ssl=self.context)
            reader, writer = link
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if (length := _LENGTH.search(head)) is None:
                raise EOFError("an answer without Content-Length")
            content = await reader.readexactly(int(length[1]))
        except (OSError, EOFError) as error:
            if link is not None:
                link[1].close()
            is_cut = isinstance(error, asyncio.IncompleteReadError)
            return None, BROKEN, b"the connection was closed" if is_cut else str(error).encode()
        return link, int(head[9:12]), content
