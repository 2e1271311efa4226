"""What a request may ask for, what all requests together may hold, and how one that cannot be answered is refused."""

import asyncio
import contextlib
import gc
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from common.devices import memory

TRIM_SECONDS = 30.0
SECONDS_PER_SECOND = 0.05
"""How much later work is due for each second of sound that it is about."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds that keep the server up whatever clients send."""

    max_body_mb: float = 100.0
    """Largest body of a request, in megabytes."""
    max_json_kb: float = 64.0
    """Largest body that is no form with a recording, in kilobytes."""
    max_seconds: float = 3600.0
    """Longest recording, in seconds; of several channels or more than 192 kHz, as much less as that is more to
    decode."""
    max_spoken_seconds: float = 900.0
    """Longest speech of a text, its pauses included, in seconds."""
    max_ahead_seconds: float = 60.0
    """Most sound of a live stream that waits to be heard, in seconds."""
    max_backlog_seconds: float = 36000.0
    """Most sound of all requests together that waits to be heard or spoken, in seconds; requests beyond it are refused
    with status 503."""
    max_characters: int = 4096
    """Longest text to speak, in characters."""
    max_queue: int = 256
    """Most requests that are answered or wait at a time; further ones are refused with status 503. As many streams may
    be open besides, and as many connections of Wyoming's clients."""
    max_memory_mb: float = 2000.0
    """Most memory that the bodies and samples of all requests take together, in megabytes; requests beyond it are
    refused with status 503."""
    client_share: float = 0.5
    """Share of the places, of the memory and of the backlog that one client may have (a key, or an address); beyond it
    its requests are refused with status 429."""
    client_seconds: float = 30.0
    """Longest wait for a client, in seconds: for its whole body, and to take its whole answer, besides the time that
    these take at min_kb_per_second."""
    min_kb_per_second: float = 16.0
    """Slowest connection, in kilobytes a second."""
    drain_seconds: float = 30.0
    """Longest wait at the end for requests under way, in seconds."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise ValueError(f"{name} = {value}: expected above 0")


class RequestError(Exception):
    """Why a request is refused, as OpenAI's clients expect to read it."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry: bool = False
    ):
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.retry = status, message, param, code, retry

    def body(self) -> dict[str, dict[str, str | None]]:
        """The JSON that says so."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """When to try again, where that makes sense."""
        return {"Retry-After": "1"} if self.retry else {}


class ClientGoneError(Exception):
    """The client closed the connection, or did not take its answer in time: there is nobody to answer."""


class BusyError(RequestError):
    """The server has all the work that it can hold."""

    def __init__(self, what: str):
        super().__init__(503, f"the server is busy: {what}; try again later", code="server_busy", retry=True)


class SelfTestError(RuntimeError):
    """A model that does not answer as it should when the server starts."""


class RateError(RequestError):
    """The server could do the work, but this client has its share of it already."""

    def __init__(self, what: str):
        super().__init__(429, f"this client has its share: {what}; try again later", code="rate_limit", retry=True)


class Budget:
    """Bytes that requests hold, and seconds of sound that they wait for, of at most `most` and `most_seconds`; of these
    a client may have the `share`. For all threads."""

    def __init__(self, most: float, most_seconds: float = math.inf, share: float = 1.0):
        self.most, self.most_seconds, self.share = most, most_seconds, share
        self.held, self.seconds = 0, 0.0
        self._clients: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def take(self, count: int, seconds: float = 0.0, *, client: str = "") -> None:
        """Raises BusyError where so much more is too much, RateError where it is for this client."""
        with self._lock:
            own, own_seconds = self._clients.get(client, (0, 0.0))
            own, own_seconds = own + count, _rounded(own_seconds + seconds)
            if self.held + count > self.most:
                raise BusyError(f"requests hold {self.held / 1e6:.0f} MB of {self.most / 1e6:.0f} MB")
            if self.seconds + seconds > self.most_seconds:
                raise BusyError(f"{self.seconds:.0f} s of sound wait of {self.most_seconds:g} s")
            if client and count > 0 and own > self.share * self.most:
                raise RateError(f"it would hold {own / 1e6:.0f} MB of {self.share * self.most / 1e6:.0f} MB")
            if client and seconds > 0 and own_seconds > self.share * self.most_seconds:
                raise RateError(f"{own_seconds:.0f} s of its sound would wait of {self.share * self.most_seconds:g} s")
            self.held, self.seconds = self.held + count, _rounded(self.seconds + seconds)
            if (own, own_seconds) == (0, 0.0):
                self._clients.pop(client, None)
            else:
                self._clients[client] = own, own_seconds

    def give_back(self, count: int, seconds: float = 0.0, *, client: str = "") -> None:
        """Once they are not held any more."""
        self.take(-count, -seconds, client=client)


class Places:
    """Places, `most` at a time, of which one client may have the `share`. For the event loop alone."""

    def __init__(self, most: int, share: float, what: str):
        self._most, self._own, self._what = most, max(1, math.floor(share * most)), what
        self._clients = Counter[str]()

    def __len__(self) -> int:
        return self._clients.total()

    @contextlib.contextmanager
    def taken(self, client: str) -> Iterator[None]:
        """A place. Raises BusyError where there is none, RateError where this client has its share."""
        if len(self) >= self._most:
            raise BusyError(f"{self._most} {self._what}")
        if self._clients[client] >= self._own:
            raise RateError(f"{self._own} {self._what}")
        self._clients[client] += 1
        try:
            yield
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]


def _rounded(seconds: float) -> float:
    """Without what sums of floats leave when all of it is given back."""
    return seconds if abs(seconds) > 1e-6 else 0.0


class Taken:
    """What one request of a `client` has of a budget: threads may still want some when it has ended.

    `due` orders work: what comes first, and what is short before what is long that came a little earlier
    (`SECONDS_PER_SECOND`), so that nothing waits for ever.
    """

    def __init__(self, budget: Budget, client: str = ""):
        self._budget, self.client, self._has_ended, self._lock = budget, client, False, threading.Lock()
        self._held, self.seconds = 0, 0.0
        self.due = time.monotonic()

    def take(self, count: int, seconds: float = 0.0) -> None:
        """Raises BusyError and RateError where it is too much, and ClientGoneError once the request has ended."""
        with self._lock:
            if self._has_ended:
                raise ClientGoneError
            self._budget.take(count, seconds, client=self.client)
            self._held += count
            self.seconds += seconds
            self.due += SECONDS_PER_SECOND * seconds

    def give_back(self, count: int) -> None:
        """Bytes that are not held any more."""
        with self._lock:
            if not self._has_ended:
                self._budget.give_back(count, client=self.client)
                self._held -= count

    def end(self) -> None:
        """Gives all of it back."""
        with self._lock:
            self._has_ended = True
            self._budget.give_back(self._held, self.seconds, client=self.client)
            self._held, self.seconds = 0, 0.0

    def __enter__(self) -> "Taken":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


async def give_memory_back() -> None:
    """Now and then, until it is cancelled: memory that nobody uses goes back to the system, where libc can do that."""
    while memory.can_give_back():
        await asyncio.sleep(TRIM_SECONDS)
        gc.collect()
        await asyncio.to_thread(memory.give_back)
