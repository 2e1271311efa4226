"""Connections of clients that say nothing: uvicorn waits for the head of a request as long as it takes."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(seconds: float, most: int) -> type[asyncio.Protocol]:
    """A protocol that closes connections on which no request begins for `seconds` to twice that.

    Beyond `most` connections, an idle one is closed for a new one: the oldest of those that never asked for anything,
    then of the others; without any, the new one is.
    """

    class Impatient(H11Protocol):
        _idle_since: Any = "never"  # the exchange after which nothing has begun at the last look

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._made = self.loop.time()
            if len(self.connections) > most:
                others = [other for other in self.connections if isinstance(other, Impatient) and other is not self]
                idle = [other for other in others if other._is_idle()]
                oldest = min(idle, key=lambda other: (other.cycle is not None, other._made), default=self)
                oldest.transport.abort()
                if oldest is self:
                    return
            self.loop.call_later(seconds, self._look)

        def _is_idle(self) -> bool:
            return self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)

        def _look(self) -> None:
            if self.transport.is_closing() or self.transport.get_protocol() is not self:  # closed, or a websocket
                return
            is_idle = self._is_idle()
            if is_idle and self._idle_since is self.cycle:
                self.transport.close()
                return
            self._idle_since = self.cycle if is_idle else "never"
            self.loop.call_later(seconds, self._look)

    return Impatient
