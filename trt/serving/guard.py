"""Stands before every route: keys, sizes, slow and vanished clients, memory, counts, and errors as JSON."""

import asyncio
import contextlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeVar

from fastapi import Request, Response

from trt.serving.limits import Budget, BusyError, ClientGoneError, Limits, RequestError
from trt.serving.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Answer = TypeVar("Answer")

LINGER_SECONDS = 10.0  # in which a refused client may go on sending: most read the answer only after that
_log = logging.getLogger("trt.serve")


class Guard:
    """An ASGI application around another. `keys`: one of them must come with every request under /v1; none: open."""

    def __init__(self, app: App, *, limits: Limits, budget: Budget, metrics: Metrics, keys: Sequence[str] = ()):
        self.app, self.limits, self.budget, self.metrics, self.keys = app, limits, budget, metrics, tuple(keys)
        self.under_way = 0
        metrics.gauge("speech_requests_under_way", "Requests that are being answered or wait.", lambda: self.under_way)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves a request; a websocket only needs its key."""
        if scope["type"] == "websocket" and not self._admits(scope):
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "missing or wrong API key"})
        elif scope["type"] == "http":
            await _Exchange(self, scope, receive, send).serve()
        else:
            await self.app(scope, receive, send)

    # An exception that a local name holds where it is raised is a circle with the frames that it went through, and the
    # body in them stays until the next collection of garbage: so these raise what they refuse themselves.

    def check(self, scope: Message) -> None:
        """Raises RequestError for a request that is refused before its body is read."""
        if not self._admits(scope):
            raise RequestError(
                401, "missing or wrong API key; send 'Authorization: Bearer KEY'", code="invalid_api_key"
            )
        if self.under_way > self.limits.max_queue and scope["path"].startswith("/v1"):
            raise BusyError(f"{self.limits.max_queue} requests are under way")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and len(length) < 20:
            self.check_size(int(length))

    def check_size(self, count: int) -> None:
        """Raises RequestError for a body of so many bytes, if it is too large."""
        most = self.limits.max_body_mb
        if count > most * 1e6:
            raise RequestError(
                413,
                f"a body of {count / 1e6:.1f} MB; expected at most {most:g} MB",
                code="body_too_large",
                param="file",
            )

    def _admits(self, scope: Message) -> bool:
        if not self.keys or not scope["path"].startswith("/v1"):
            return True
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1").removeprefix("Bearer ").strip()
        if scope["type"] == "websocket" and not given:  # browsers cannot send headers with a websocket
            protocols = dict(scope["headers"]).get(b"sec-websocket-protocol", b"").decode("latin-1")
            given = protocols.rpartition("key.")[2].strip()
        return any(hmac.compare_digest(given.encode(), key.encode()) for key in self.keys)


class _Exchange:
    """One request and its answer."""

    def __init__(self, guard: Guard, scope: Message, receive: Receive, send: Send):
        self.guard, self.scope, self._receive, self._send = guard, scope, receive, send
        self.read, self.body_ended, self.status = 0, False, 0

    async def serve(self) -> None:
        guard, began = self.guard, time.monotonic()
        guard.under_way += 1
        self.scope.setdefault("state", {})["exchange"] = self
        try:
            guard.check(self.scope)
            await guard.app(self.scope, self.receive, self.send)
        except RequestError as error:
            await self.refuse(error)
        except (ClientGoneError, OSError):
            self.status = self.status or 499
        except Exception:
            _log.exception("error while answering %s", self.scope["path"])
            await self.refuse(RequestError(500, "internal error; the server's log has the details"))
        finally:
            guard.under_way -= 1
            guard.budget.give_back(self.read)
            self.read = 0
            self._count(time.monotonic() - began)

    async def receive(self) -> Message:
        """A part of the body, or the client's end. Raises RequestError for too much, and for too slow a client."""
        if self.body_ended:
            return await self._receive()
        try:
            async with asyncio.timeout(self.guard.limits.client_seconds):
                message = await self._receive()
        except TimeoutError:
            slow = f"the body did not come within {self.guard.limits.client_seconds:g} s"
            raise RequestError(408, slow, code="timeout") from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        count = len(message.get("body", b""))
        self.guard.budget.take(count)
        self.read += count
        self.body_ended = not message.get("more_body", False)
        self.guard.check_size(self.read)
        return message

    async def send(self, message: Message) -> None:
        """A part of the answer. Raises ClientGoneError where the client does not take it."""
        self.status = message.get("status", self.status)
        try:
            async with asyncio.timeout(self.guard.limits.client_seconds):
                await self._send(message)
        except TimeoutError:
            raise ClientGoneError from None

    async def refuse(self, error: RequestError) -> None:
        """Answers with the error, unless an answer has begun."""
        if self.status:  # the answer has begun: it is broken off, and the connection closed
            return
        content = json.dumps(error.body()).encode()
        headers = {"content-type": "application/json", "content-length": str(len(content)), **error.headers()}
        if not self.body_ended:
            headers["connection"] = "close"
        written = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        with contextlib.suppress(ClientGoneError, OSError):
            await self.send({"type": "http.response.start", "status": error.status, "headers": written})
            await self.send({"type": "http.response.body", "body": content, "more_body": True})
            await self._linger()
            await self.send({"type": "http.response.body", "body": b""})

    async def _linger(self) -> None:
        """Takes what still comes of the body, and drops it, so that the client reads its answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self.body_ended:
                    message = await self._receive()
                    self.body_ended = message["type"] == "http.disconnect" or not message.get("more_body", False)

    def _count(self, seconds: float) -> None:
        metrics, path = self.guard.metrics, self.scope["path"]
        if not path.startswith("/v1"):
            return
        route = getattr(self.scope.get("route"), "path", "none")  # a path of the client's own would be a label each
        text = "Requests by route and status; 499: the client went away."
        metrics.count("speech_requests_total", text, route=route, status=str(self.status))
        metrics.observe("speech_request_seconds", "Time from the request to the end of its answer.", seconds)


class Refusal(Response):
    """The answer to a request that cannot be answered, or to a client that is gone (None): the guard knows how."""

    def __init__(self, error: RequestError | None):
        super().__init__()
        self.error = error

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Sends it."""
        if self.error is not None:
            await scope["state"]["exchange"].refuse(self.error)


async def while_connected(request: Request, work: Awaitable[Answer]) -> Answer:
    """What `work` gives; it is cancelled if the client goes away. Raises ClientGoneError then."""
    own, gone, is_over = asyncio.current_task(), asyncio.ensure_future(request.receive()), False
    assert own is not None

    def cancel(_: object) -> None:
        if not is_over:
            own.cancel()

    gone.add_done_callback(cancel)
    try:
        return await work
    except asyncio.CancelledError:
        if gone.done() and own.uncancel() == 0:
            raise ClientGoneError from None
        raise
    finally:
        is_over = True
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
