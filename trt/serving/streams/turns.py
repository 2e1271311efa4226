"""A turn of speech as it comes: words while it is spoken where the recogniser hears streams, else at its end.

Legend: N samples.
"""

import functools
from typing import Any, NamedTuple, Protocol

import numpy as np

from common.recognition.output.transcripts import Word
from trt.serving.admission.limits import RequestError, Taken
from trt.serving.models import Favoured, WantedText
from trt.serving.transcribing.hearing import Hearing


class NewWords(NamedTuple):
    """What a turn has said since the last time: words that stay, and the `partial` text that may still change."""

    delta: str
    words: list[Word]
    partial: str = ""


class Turn(Protocol):
    """Sound of one turn, which is recognised while it comes or at its end."""

    async def add(self, samples_N: np.ndarray) -> NewWords:
        """More of it."""

    async def end(self) -> NewWords:
        """What is left."""

    def close(self) -> None:
        """Leaves it."""


class StreamedTurn:
    """A turn of a recogniser that hears streams: text that stays comes while it is spoken."""

    def __init__(self, session: Any):
        self._session = session

    async def add(self, samples_N: np.ndarray) -> NewWords:
        """More of it."""
        return _heard(await self._session.feed(samples_N))

    async def end(self) -> NewWords:
        """What is left."""
        return _heard(await self._session.finish())

    def close(self) -> None:
        """Leaves it."""
        self._session.close()


class WholeTurn:
    """A turn of any recogniser, which hears it at its end."""

    def __init__(self, hearing: Hearing, taken: Taken, wanted: WantedText):
        self._hearing, self._taken, self._parts, self._held = hearing, taken, list[np.ndarray](), 0
        self._wanted = wanted

    async def add(self, samples_N: np.ndarray) -> NewWords:
        """More of it. Raises RequestError where too much is held."""
        self._taken.take(samples_N.nbytes)
        self._held += samples_N.nbytes
        self._parts.append(samples_N)
        return NewWords("", [])

    async def end(self) -> NewWords:
        """All of it."""
        if not self._held:
            return NewWords("", [])
        transcript = await self._hearing.hear(np.concatenate(self._parts), "turn", wanted=self._wanted)
        self.close()
        return NewWords(transcript.text, transcript.words)

    def close(self) -> None:
        """Leaves it."""
        self._taken.give_back(self._held)
        self._parts, self._held = [], 0


async def begun(hearing: Hearing, taken: Taken, language: str, assumed: str, favoured: Favoured) -> Turn:
    """A turn, heard while it comes where the recogniser hears streams. Raises RequestError."""
    hearing.check(favoured)
    if hearing.pool is not None:
        opened = functools.partial(hearing.session, favoured)
        session = await hearing.workers.soon(opened, favoured != Favoured(), 0)
        if session is not None:
            return StreamedTurn(session)
    return WholeTurn(hearing, taken, await hearing.wanted(language, "", assumed, favoured))


def _heard(update: Any) -> NewWords:
    if update.error:
        raise RequestError(500, update.error, code="engine_error")
    return NewWords(update.delta, update.words, update.pending)
