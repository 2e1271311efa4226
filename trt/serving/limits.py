"""What a request may ask for, what all requests together may hold, and how one that cannot be answered is refused."""

import asyncio
import gc
import threading
from dataclasses import dataclass

from common.devices import memory

TRIM_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds that keep the server up whatever clients send."""

    max_body_mb: float = 100.0
    """Largest body of a request, in megabytes."""
    max_seconds: float = 3600.0
    """Longest recording, in seconds."""
    max_characters: int = 4096
    """Longest text to speak, in characters."""
    max_queue: int = 256
    """Most requests that are answered or wait at a time; further ones are refused with status 503."""
    max_memory_mb: float = 2000.0
    """Most memory that the bodies and samples of all requests take together, in megabytes; requests beyond it are
    refused with status 503."""
    client_seconds: float = 30.0
    """Longest wait, in seconds, for a client that sends its body, or takes its answer, too slowly."""
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


class Budget:
    """Bytes that requests hold, of at most `most`; for all threads."""

    def __init__(self, most: float):
        self.most, self.held, self._lock = most, 0, threading.Lock()

    def take(self, count: int) -> None:
        """Raises BusyError where `count` more are too many."""
        with self._lock:
            if self.held + count > self.most:
                raise BusyError(f"requests hold {self.held / 1e6:.0f} MB of {self.most / 1e6:.0f} MB")
            self.held += count

    def give_back(self, count: int) -> None:
        """Once they are not held any more."""
        with self._lock:
            self.held -= count


class Taken:
    """What one request holds of a budget; its threads may still take some when it has ended."""

    def __init__(self, budget: Budget):
        self._budget, self._held, self._has_ended, self._lock = budget, 0, False, threading.Lock()

    def take(self, count: int) -> None:
        """Raises BusyError where it is too much, and ClientGoneError once the request has ended."""
        with self._lock:
            if self._has_ended:
                raise ClientGoneError
            self._budget.take(count)
            self._held += count

    def __enter__(self) -> "Taken":
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._has_ended = True
            self._budget.give_back(self._held)


async def give_memory_back() -> None:
    """Now and then, until it is cancelled: memory that nobody uses goes back to the system, where libc can do that."""
    while memory.can_give_back():
        await asyncio.sleep(TRIM_SECONDS)
        gc.collect()
        await asyncio.to_thread(memory.give_back)
