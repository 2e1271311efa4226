"""Connections that cost more than they bring: on which no request begins, which come in crumbs, or do not read.

Work on what one connection brings is short before others get their turn: no more of it is read at a time than READ.
"""

import asyncio
import contextlib
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

READ = 1 << 14  # bytes
FREE, SMALLEST, A_SECOND = 256, 64, 100  # pieces: of any size, bytes of others in the mean, and more for every second


class Crumbs:
    """Chunks or frames in which a connection's bytes come. Each takes time, whatever is in it."""

    def __init__(self) -> None:
        self._began, self._count, self._bytes = time.monotonic(), 0, 0

    def are_too_many(self, count: int, *, begins: bool = True) -> bool:
        """Whether they are, with these bytes more, with which a piece begins."""
        self._count += begins
        self._bytes += count
        seconds = time.monotonic() - self._began
        return self._count > FREE + self._bytes / SMALLEST + A_SECOND * seconds


def impatient(seconds: float, most: int) -> type[asyncio.Protocol]:
    """A protocol that closes connections on which no request begins for `seconds` to twice that.

    Beyond `most` connections, an idle one is closed for a new one: the oldest of those that never asked for anything,
    then of the others; without any, the new one is.
    """

    class Impatient(H11Protocol):
        _idle_since: Any = "never"  # the exchange after which nothing has begun at the last look

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            with contextlib.suppress(AttributeError):  # another loop's
                transport.max_size = READ  # type: ignore[attr-defined]  # asyncio's, which reads 256 kB otherwise
            self._made, self._crumbs, self._next = self.loop.time(), Crumbs(), self.conn.next_event
            self.conn.next_event = self._next_event  # type: ignore[method-assign]
            if len(self.connections) > most:
                others = [other for other in self.connections if isinstance(other, Impatient) and other is not self]
                idle = [other for other in others if other._is_idle()]
                oldest = min(idle, key=lambda other: (other.cycle is not None, other._made), default=self)
                oldest.transport.abort()
                if oldest is self:
                    return
            self.loop.call_later(seconds, self._look)

        def _next_event(self) -> Any:
            event = self._next()
            if isinstance(event, h11.Data) and self._crumbs.are_too_many(len(event.data), begins=event.chunk_start):
                self.transport.abort()
                return h11.NEED_DATA
            return event

        def _is_idle(self) -> bool:
            return self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)

        def _look(self) -> None:
            if self.transport.get_protocol() is not self:  # a websocket
                return
            if self.transport.is_closing():  # it would wait for a client that does not read
                self.transport.abort()
                return
            is_idle = self._is_idle()
            if is_idle and self._idle_since is self.cycle:
                self.transport.close()
                return
            self._idle_since = self.cycle if is_idle else "never"
            self.loop.call_later(seconds, self._look)

    return Impatient


def sockets(seconds: float) -> type[asyncio.Protocol]:
    """Websockets that are broken off when what they are sent is not taken for `seconds`, or they come in crumbs."""

    class Socket(WebSocketsSansIOProtocol):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._crumbs, self._received = Crumbs(), self.conn.events_received
            self.conn.events_received = self._events_received  # type: ignore[method-assign]

        def _events_received(self) -> list[Any]:
            events = self._received()
            frames = [event for event in events if isinstance(event, Frame)]
            if not any(self._crumbs.are_too_many(len(frame.data)) for frame in frames):
                return events
            self.transport.abort()
            return []

        async def send(self, message: Any) -> None:
            try:
                async with asyncio.timeout(seconds):
                    await super().send(message)
            except TimeoutError:
                self.transport.abort()
                await super().send(message)  # which says that the client has gone
            if message["type"] == "websocket.close":
                self.loop.call_later(seconds, self.transport.abort)

        def keepalive_timeout(self) -> None:
            self.transport.abort()

    return Socket
