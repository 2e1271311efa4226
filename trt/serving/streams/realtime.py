"""Transcription in real time, by the protocol of OpenAI's transcription sessions: /v1/realtime?intent=transcription.

Events of JSON go both ways. Sound comes in base64 and is cut into turns, by the server where turn_detection says so,
else by the client's commits; every turn is an item with a transcript of its own.

Legend: N samples.
"""

import asyncio
import base64
import binascii
import contextlib
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import numpy as np
from fastapi import WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from common.audio.vad import Turns, best_vad
from common.recognition.output.transcripts import Word
from trt.serving.admission.limits import Limits, RequestError, Taken
from trt.serving.streams.live import Incoming, said_to
from trt.serving.streams.samples import SampleStream
from trt.serving.streams.turns import NewWords, Turn, begun
from trt.serving.transcribing.favoured import favoured_in
from trt.serving.transcribing.hearing import Hearing
from trt.serving.transcribing.languages import check_languages
from trt.serving.transcribing.transcriptions import log_probs, usage

BYTES_PER_SECOND = 64_000  # of PCM at 24 kHz in base64
IDLE_SECONDS = 300.0  # between two events of a client
SAMPLES = {"audio/pcm": "s16le", "audio/pcmu": "mu-law", "audio/pcma": "a-law"}
MOST_COMMAS = 1000  # of an event, whose parts take time
SHORTEST_SECONDS = 0.1  # of sound that may be committed
# Models of OpenAI's without turns of the server's: their clients leave turn_detection out, and commit.
COMMITTED = ("gpt-live-transcribe", "gpt-realtime-whisper")
Send = Callable[[dict[str, Any]], Awaitable[None]]


class AudioFormat(BaseModel):
    """How samples come: 16 bits, or as in telephones."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: int = Field(default=24_000, ge=8_000, le=48_000)


class TurnDetection(BaseModel):
    """When a turn begins and ends."""

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: float = Field(default=0.5, ge=0, le=1)
    prefix_padding_ms: int = Field(default=300, ge=0, le=5_000)
    silence_duration_ms: int = Field(default=500, ge=20, le=10_000)


class Transcription(BaseModel):
    """What transcribes, and what it is told."""

    model: str = ""
    language: str = ""
    languages: list[str] = Field(default_factory=list)
    prompt: str = ""
    keywords: list[str] = Field(default_factory=list)
    language_model: str = ""

    @property
    def spoken(self) -> list[str]:
        """The languages that it names."""
        return [self.language] if self.language else self.languages


class AudioInput(BaseModel):
    """Settings of the sound that comes in."""

    model_config = ConfigDict(extra="ignore")
    format: AudioFormat = Field(default_factory=AudioFormat)
    transcription: Transcription = Field(default_factory=Transcription)
    turn_detection: TurnDetection | None = Field(default_factory=TurnDetection)


class RealtimeSession:
    """One client: its settings, its sound, its items. `receive` takes its events, in order."""

    def __init__(
        self,
        hearing: Hearing,
        send: Send,
        *,
        limits: Limits,
        taken: Taken,
        language: str,
        find: Callable[[str], Hearing],
    ):
        self._hearing, self._tell, self._limits, self._taken = hearing, send, limits, taken
        self._language, self._find = language, find
        self.settings, self._include = AudioInput(), list[str]()
        self._detects = False  # whether the client has said how turns end
        self._rate = hearing.ears.sample_rate
        self._item, self._previous = "", ""
        self._turn: Turn | None = None
        self._text, self._words, self._fed = "", list[Word](), 0
        self._samples = self._origin = 0  # of the stream, and where in it turns are looked for from
        self._begin_stream()

    async def end(self) -> None:
        """Ends the turn under way."""
        if self._turn is not None:
            await self._finish()

    def _begin_stream(self) -> None:
        """Sound as the settings say, from here on."""
        given = self.settings.format
        kind = SAMPLES[given.type]
        self._coming = SampleStream(kind, given.rate if kind == "s16le" else 8_000, self._rate)
        self._recent_N = np.zeros(0, np.float32)  # what a turn that begins may reach back to
        self._turns, self._origin = None, self._samples
        if (detection := self.settings.turn_detection) is not None:
            self._turns = Turns(
                best_vad(self._rate),
                self._rate,
                threshold=detection.threshold,
                prefix_seconds=detection.prefix_padding_ms / 1000,
                silence_seconds=detection.silence_duration_ms / 1000,
            )

    async def begin(self) -> None:
        """Says that it is there."""
        await self._send("session.created", session=self._described())

    async def receive(self, content: str | bytes) -> None:
        """One event of the client; what is wrong with it is an error event, and the session goes on."""
        event_id = None
        try:
            event = _event(content)
            event_id = event.get("event_id")
            match event.get("type"):
                case "session.update" | "transcription_session.update":
                    await self._update(event)
                case "input_audio_buffer.append":
                    await self._append(event)
                case "input_audio_buffer.commit":
                    await self._commit()
                case "input_audio_buffer.clear":
                    self.close()
                    await self._send("input_audio_buffer.cleared")
                case other:
                    message = (
                        f"type {str(other)[:60]!r}: expected session.update, or input_audio_buffer.append, .commit"
                    )
                    raise RequestError(400, f"{message} or .clear", param="type", code="invalid_value")
        except RequestError as error:
            await self._send("error", error={**error.body()["error"], "event_id": event_id})

    def close(self) -> None:
        """Leaves the turn under way."""
        if self._turn is not None:
            self._turn.close()
        self._turn, self._text, self._words, self._fed = None, "", [], 0

    async def _update(self, event: dict[str, Any]) -> None:
        session = event.get("session")
        given = session if isinstance(session, dict) else {}
        if given.get("type", "transcription") != "transcription":
            message = "session.type: expected transcription; this server only transcribes"
            raise RequestError(400, message, param="session.type", code="invalid_value")
        changes = given.get("audio", {}).get("input") if isinstance(given.get("audio"), dict) else None
        if changes is None:  # as before the protocol was final
            names = {"input_audio_format": "format", "input_audio_transcription": "transcription"}
            names["turn_detection"] = "turn_detection"
            changes = {ours: given[theirs] for theirs, ours in names.items() if theirs in given}
            kinds = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
            if isinstance(changes.get("format"), str):
                changes["format"] = {"type": kinds.get(changes["format"], changes["format"])}
        if not isinstance(changes, dict):
            raise RequestError(400, "session.audio.input: expected an object", param="session", code="invalid_value")
        own = self.settings.model_dump()
        for name, value in changes.items():
            nested = isinstance(value, dict) and isinstance(own.get(name), dict)
            own[name] = {**own[name], **value} if nested else value
        own = {name: value for name, value in own.items() if value is not None or name == "turn_detection"}
        try:
            settings = AudioInput.model_validate({k: _without_none(v) for k, v in own.items()})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(["session.audio.input", *map(str, first["loc"])])
            raise RequestError(400, f"{where}: {first['msg']}", param=where, code="invalid_value") from None
        asked = settings.transcription
        detects = self._detects or "turn_detection" in changes
        if not detects:
            settings.turn_detection = None if asked.model.startswith(COMMITTED) else TurnDetection()
        hearing = self._hearing if asked.model == self.settings.transcription.model else self._find(asked.model)
        check_languages(asked.spoken, hearing.ears.languages or (self._language,))
        hearing.check(favoured_in(tuple(asked.keywords), asked.prompt, language_model=asked.language_model))
        if hearing is not self._hearing:
            if self._turn is not None:
                raise RequestError(
                    400, "the model cannot change within a turn; commit or clear it first", param="model"
                )
            self._taken.take(hearing.stream_bytes)
            self._taken.give_back(self._hearing.stream_bytes)
        is_other = (settings.format, settings.turn_detection) != (self.settings.format, self.settings.turn_detection)
        is_other |= hearing is not self._hearing
        if is_other and self._turn is not None and settings.turn_detection is not None:
            await self._finish()  # what looks for turns from here on knows of none that has begun
        self.settings, self._hearing, self._rate = settings, hearing, hearing.ears.sample_rate
        self._detects = detects
        if isinstance(include := given.get("include"), list):
            self._include = [str(each) for each in include]
        if is_other:
            self._begin_stream()
        kind = "session.updated" if event["type"] == "session.update" else "transcription_session.updated"
        await self._send(kind, session=self._described())

    async def _append(self, event: dict[str, Any]) -> None:
        try:
            content = base64.b64decode(event.get("audio") or "", validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise RequestError(400, "audio: expected base64", param="audio", code="invalid_value") from None
        samples_N = await self._hearing.workers(lambda: self._coming.add(content))
        self._samples += len(samples_N)
        turns = self._turns
        if turns is None:
            await self._hear(samples_N)
            return
        before = self._samples - len(samples_N) - len(self._recent_N)  # sample of the stream that recent begins with
        recent_N = np.concatenate([self._recent_N, samples_N])
        position = self._samples - len(samples_N)
        for found in await self._hearing.workers(lambda: turns.feed(samples_N)):
            at = found.at + self._origin
            if found.kind == "started":
                position = max(before, at)
                self._item = _name("item")
                await self._send("input_audio_buffer.speech_started", audio_start_ms=self._ms(at), item_id=self._item)
                await self._open()
            else:
                await self._hear(recent_N[position - before : at - before])
                position = max(position, at)
                await self._send("input_audio_buffer.speech_stopped", audio_end_ms=self._ms(at), item_id=self._item)
                await self._finish()
        if self._turn is not None:
            await self._hear(recent_N[position - before :])
        assert self.settings.turn_detection is not None
        keep = round((self.settings.turn_detection.prefix_padding_ms / 1000 + 0.2) * self._rate)
        self._recent_N = recent_N[-keep:]

    async def _open(self) -> None:
        self.close()
        asked = self.settings.transcription
        favoured = favoured_in(tuple(asked.keywords), asked.prompt, language_model=asked.language_model)
        language = asked.spoken[0] if len(asked.spoken) == 1 else ""
        self._turn = await begun(self._hearing, self._taken, language, self._language, favoured)

    async def _hear(self, samples_N: np.ndarray) -> None:
        if not len(samples_N):
            return
        if self._turn is None:
            self._item = _name("item")
            await self._open()
        assert self._turn is not None
        self._fed += len(samples_N)
        if self._fed > self._limits.max_seconds * self._rate:
            self.close()
            raise RequestError(413, f"a turn of more than {self._limits.max_seconds:g} s", code="too_long")
        await self._note(await self._turn.add(samples_N))

    async def _note(self, heard: NewWords) -> None:
        """Tells what is new, of a turn that a client has yet to commit at its end."""
        self._words += heard.words
        self._text += heard.delta
        if heard.delta and self._turns is not None:
            await self._delta(heard)

    async def _delta(self, heard: NewWords) -> None:
        more = {"logprobs": log_probs(heard.words)} if self._has_log_probs else {}
        kind = "conversation.item.input_audio_transcription.delta"
        await self._send(kind, item_id=self._item, content_index=0, delta=heard.delta, **more)

    async def _commit(self) -> None:
        seconds = self._fed / self._rate
        if self._turn is None or seconds < SHORTEST_SECONDS:
            message = f"{1000 * seconds:.0f} ms of sound to commit; expected at least {1000 * SHORTEST_SECONDS:.0f} ms"
            raise RequestError(400, message, code="input_audio_buffer_commit_empty")
        await self._finish()
        if self._turns is not None:
            self._begin_stream()

    async def _finish(self) -> None:
        """Ends the turn, whose item gets its transcript."""
        item, turn, seconds = self._item, self._turn, self._fed / self._rate
        assert turn is not None
        await self._send("input_audio_buffer.committed", item_id=item, previous_item_id=self._previous or None)
        content = [{"type": "input_audio", "transcript": None}]
        described = {"id": item, "type": "message", "status": "completed", "role": "user", "content": content}
        for kind in ("conversation.item.added", "conversation.item.done"):
            await self._send(kind, item=described, previous_item_id=self._previous or None)
        self._previous, place = item, {"item_id": item, "content_index": 0}
        try:
            await self._note(await turn.end())
            if self._turns is None and self._text:
                await self._delta(NewWords(self._text, self._words))
            more = {"logprobs": log_probs(self._words)} if self._has_log_probs else {}
            kind = "conversation.item.input_audio_transcription.completed"
            await self._send(kind, **place, transcript=self._text.strip(), usage=usage(seconds), **more)
        except RequestError as error:
            kind = "conversation.item.input_audio_transcription.failed"
            await self._send(kind, **place, error=error.body()["error"])
        finally:
            self.close()

    @property
    def _has_log_probs(self) -> bool:
        return "item.input_audio_transcription.logprobs" in self._include

    def _ms(self, sample: int) -> int:
        return round(1000 * sample / self._rate)

    def _described(self) -> dict[str, Any]:
        given = self.settings.model_dump()
        if given["format"]["type"] != "audio/pcm":
            del given["format"]["rate"]
        return {"type": "transcription", "audio": {"input": given}, "include": self._include or None}

    async def _send(self, kind: str, **content: Any) -> None:
        await self._tell({"type": kind, "event_id": _name("event"), **content})


async def serve_realtime(
    socket: WebSocket,
    hearing: Hearing,
    limits: Limits,
    ending: asyncio.Event,
    *,
    language: str,
    find: Callable[[str], Hearing],
) -> None:
    """Transcription of what a websocket brings."""
    offered = [each.strip() for each in socket.headers.get("sec-websocket-protocol", "").split(",")]
    await socket.accept(subprotocol="realtime" if "realtime" in offered else offered[0] or None)

    async def send(event: dict[str, Any]) -> None:
        await socket.send_text(json.dumps(event))  # all of it ASCII: what a client has sent may hold half a character

    async def converse() -> None:
        await session.begin()
        while (content := await incoming.next()) is not None:
            await session.receive(content)
        await session.end()

    taken = socket.state.taken
    most = limits.max_ahead_seconds * BYTES_PER_SECOND
    incoming = Incoming[str | bytes](socket, taken, most=most, idle_seconds=IDLE_SECONDS, content_of=_content)
    session = RealtimeSession(hearing, send, limits=limits, taken=taken, language=language, find=find)
    try:
        async with said_to(socket):
            await incoming.serve(converse(), ending)
    except RequestError as error:
        event = {"type": "error", "event_id": _name("event"), "error": error.body()["error"]}
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await send(event)
            await socket.close(1008)
    finally:
        session.close()


def _content(message: Any) -> str | bytes:
    return message.get("text") or message.get("bytes") or ""


def _event(content: str | bytes) -> dict[str, Any]:
    try:
        comma = "," if isinstance(content, str) else b","
        event = json.loads(content) if content.count(comma) <= MOST_COMMAS else None  # type: ignore[arg-type]
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise RequestError(400, "expected an event as an object of JSON", code="invalid_json")
    return event


def _without_none(value: Any) -> Any:
    return {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value


def _name(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"
