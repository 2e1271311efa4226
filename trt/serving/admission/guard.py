"""Stands before every route: hosts, keys, places, sizes, slow and vanished clients, memory, counts, errors as JSON."""

import asyncio
import contextlib
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Request, Response

from trt.serving.admission.limits import Budget, ClientGoneError, Limits, Places, RequestError, Taken
from trt.serving.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Answer = TypeVar("Answer")

LINGER_SECONDS = 10.0  # in which a refused client may go on sending: most read the answer only after that
LINGERING = 0.25  # of the places, at most, that refused clients have besides
_log = logging.getLogger("trt.serve")


class Guard:
    """An ASGI application around another.

    `keys`: one of them must come with every request under /v1; none: open. `hosts`: names that requests may call the
    server by, besides addresses and names without a dot, of which there are none in the internet; None: any name.
    """

    def __init__(
        self,
        app: App,
        *,
        limits: Limits,
        budget: Budget,
        metrics: Metrics,
        keys: Sequence[str] = (),
        hosts: Sequence[str] | None = None,
    ):
        self.app, self.limits, self.budget, self.metrics, self.keys = app, limits, budget, metrics, tuple(keys)
        self.hosts, self.lingering = hosts, 0
        self.under_way = Places(limits.max_queue, limits.client_share, "requests are under way")
        metrics.gauge("speech_requests_under_way", "Requests that are answered or wait.", lambda: len(self.under_way))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves a request, or a websocket, which has no place among requests: its route counts those."""
        if scope["type"] == "http":
            await Exchange(self, scope, receive, send).serve()
        elif scope["type"] == "websocket":
            try:
                self._check_origin(scope)
                scope.setdefault("state", {})["taken"] = Taken(self.budget, self._client(scope))
            except RequestError as error:
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
                return
            await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    # An exception that a local name holds where it is raised is a circle with the frames that it went through, and the
    # body in them stays until the next collection of garbage: so these raise what they refuse themselves.

    def admit(self, scope: Message) -> Taken:
        """What a request is given before its body is read. Raises RequestError for one that is refused."""
        self._check_origin(scope)
        client = self._client(scope)
        length = _header(scope, b"content-length")
        if length.isdigit() and len(length) < 20:
            self.check_size(int(length), scope)
        return Taken(self.budget, client)

    def check_size(self, count: int, scope: Message) -> None:
        """Raises RequestError for a body of so many bytes, if it is too large for its kind."""
        found, most = f"a body of {count / 1e6:.1f} MB", self.limits.max_body_mb
        if count > most * 1e6:
            raise RequestError(413, f"{found}; expected at most {most:g} MB", code="body_too_large", param="file")
        kind = _header(scope, b"content-type").partition(";")[0].strip().lower()
        if kind != "multipart/form-data" and count > self.limits.max_json_kb * 1e3:
            found, most = f"a body of {count / 1e3:.0f} kB and type {kind or 'none'}", self.limits.max_json_kb
            expected = f"expected at most {most:g} kB, or multipart/form-data with a recording"
            raise RequestError(413, f"{found}; {expected}", code="body_too_large")

    def _check_origin(self, scope: Message) -> None:
        """Raises RequestError for a request to another name, or by a page of another: a page elsewhere can make a
        browser send them."""
        host, origin = _name(f"//{_header(scope, b'host')}"), _header(scope, b"origin")
        if self.hosts is not None and host not in self.hosts and not _is_local(host):
            known = ", ".join(["addresses", "names without a dot", *self.hosts])
            raise RequestError(421, f"host {host[:100]!r}: expected {known}; see --hosts", code="wrong_host")
        if origin and _name(origin) not in (host, *(self.hosts or ())):
            raise RequestError(403, f"origin {origin[:100]!r}: expected a page of {host!r}", code="wrong_origin")

    def _client(self, scope: Message) -> str:
        """The key that a request comes with, else its address. Raises RequestError for a missing or wrong key."""
        address = str((scope.get("client") or ["unknown"])[0])
        if not self.keys or not scope["path"].startswith("/v1"):
            return address
        scheme, _, given = _header(scope, b"authorization").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
        if scope["type"] == "websocket" and not given:  # browsers cannot send headers with a websocket
            offered = [each.strip() for each in _header(scope, b"sec-websocket-protocol").split(",")]
            marks = ("key.", "openai-insecure-api-key.")
            given = next((each[len(m) :] for each in offered for m in marks if each.startswith(m)), "")
        if not any(hmac.compare_digest(given.encode(), key.encode()) for key in self.keys):
            raise RequestError(
                401, "missing or wrong API key; send 'Authorization: Bearer KEY'", code="invalid_api_key"
            )
        return f"key {given}"


class Exchange:
    """One request and its answer."""

    def __init__(self, guard: Guard, scope: Message, receive: Receive, send: Send):
        self.guard, self.scope, self._receive, self._send = guard, scope, receive, send
        self.read, self.sent, self.body_ended, self.status = 0, 0, False, 0
        self.began, self.blocked = time.monotonic(), 0.0
        self.taken, self._place = Taken(guard.budget), contextlib.ExitStack()

    async def serve(self) -> None:
        """Lets the request through, and answers it where it may not pass."""
        guard = self.guard
        self.scope.setdefault("state", {})["exchange"] = self
        try:
            self.taken = self.scope["state"]["taken"] = guard.admit(self.scope)
            if self.scope["path"].startswith("/v1"):
                self._place.enter_context(guard.under_way.taken(self.taken.client))
            await guard.app(self.scope, self.receive, self.send)
        except RequestError as error:
            await self.refuse(error)
        except (ClientGoneError, OSError):
            self.status = self.status or 499
        except Exception:
            _log.exception("error while answering %s", self.scope["path"])
            await self.refuse(RequestError(500, "internal error; the server's log has the details"))
        finally:
            self._leave()
            self._count(time.monotonic() - self.began)

    def _leave(self) -> None:
        """Gives back the place, and what is taken."""
        self._place.close()
        self.taken.end()

    async def receive(self) -> Message:
        """A part of the body, or the client's end. Raises RequestError for too much, and for too slow a client."""
        if self.body_ended:
            return await self._receive()
        limit = self._seconds(self.read)
        try:
            async with asyncio.timeout(max(0.0, self.began + limit - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise RequestError(408, f"the body did not come within {limit:.3g} s", code="timeout") from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        count = len(message.get("body", b""))
        self.taken.take(count)
        self.read += count
        self.body_ended = not message.get("more_body", False)
        self.guard.check_size(self.read, self.scope)
        return message

    async def send(self, message: Message) -> None:
        """A part of the answer. Raises ClientGoneError where the client does not take it in time."""
        self.status = message.get("status", self.status)
        count, began = len(message.get("body", b"")), time.monotonic()
        self.sent += count
        try:
            async with asyncio.timeout(max(0.0, min(self._seconds(count), self._seconds(self.sent) - self.blocked))):
                await self._send(message)
        except TimeoutError:
            raise ClientGoneError from None
        self.blocked += time.monotonic() - began

    def _seconds(self, count: int) -> float:
        """That so many bytes may take in all."""
        return self.guard.limits.client_seconds + count / (self.guard.limits.min_kb_per_second * 1e3)

    async def refuse(self, error: RequestError) -> None:
        """Answers with the error, unless an answer has begun; others have the place meanwhile."""
        self._leave()
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
            if self.guard.lingering < max(1, LINGERING * self.guard.limits.max_queue):
                self.guard.lingering += 1
                try:
                    await self._linger()
                finally:
                    self.guard.lingering -= 1
            await self.send({"type": "http.response.body", "body": b""})

    async def _linger(self) -> None:
        """Takes what still comes of the body, and drops it, so that the client reads its answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(LINGER_SECONDS, self.guard.limits.client_seconds)):
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


def _header(scope: Message, name: bytes) -> str:
    return next((value.decode("latin-1") for own, value in scope.get("headers", ()) if own == name), "")


def _name(url: str) -> str:
    """The name of a host, without its port; "" for what has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_local(host: str) -> bool:
    """Whether it is an address, or a name that nobody can register."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return "." not in host or host.endswith(".localhost")


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
