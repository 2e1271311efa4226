"""What a client needs: requests to a server of `trt.serve`, tried again where that loses nothing. Needs no torch."""

import contextlib
import http.client
import io
import json
import math
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import soundfile

from common.audio import waveform
from common.data.manifest import Utterance
from common.files.json_text import parsed
from common.files.stores import Stored
from common.recognition.output.transcripts import Transcript, Word

AGAIN = (429, 502, 503)  # the server is busy, or another takes its place
WAITS = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds before it is tried again


class ServerError(RuntimeError):
    """A server that cannot be reached, or that refuses; the message says what it said."""


class Server:
    """One connection to the server at `url`, kept open; `key` goes with every request. For one thread."""

    def __init__(self, url: str, *, key: str = "", timeout: float = 600.0, waits: tuple[float, ...] = WAITS):
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ServerError(f"url {url!r}: {error}; expected http://HOST:PORT") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ServerError(f"url {url!r}: expected http://HOST:PORT")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.url, self._path, self._host = url, parts.path.rstrip("/").removesuffix("/v1"), parts.netloc
        self._connection = kind(parts.hostname, port, timeout=timeout)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._waits = waits

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def transcribe(self, content: bytes, name: str, *, style: str = "verbose_json") -> str:
        """The transcript of a recording's bytes, in a format of the server's. Raises ServerError."""
        body, headers = form_of(content, name, style)
        with self.asked("POST", "/v1/audio/transcriptions", body, headers) as answer:
            return answer.read().decode()

    def request_bytes(self, content: bytes, name: str, *, style: str = "verbose_json") -> bytes:
        """What `transcribe` sends, as it goes over the connection."""
        body, headers = form_of(content, name, style)
        told = {"Host": self._host, "Content-Length": str(len(body)), **self._headers, **headers}
        lines = "".join(f"{field}: {value}\r\n" for field, value in told.items())
        return f"POST {self._path}/v1/audio/transcriptions HTTP/1.1\r\n{lines}\r\n".encode() + body

    def speak(self, text: str, **how: Any) -> Iterator[bytes]:
        """The sound of a text, in pieces as they come. Raises ServerError."""
        body = json.dumps({"input": text, **how}).encode()
        with self.asked("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"}, whole=False) as answer:
            while piece := answer.read1(1 << 16):
                yield piece
            if getattr(answer, "length", None):  # of a body without chunks, read1 does not tell that it is cut off
                raise ServerError(f"{self.url}: the answer breaks off: {answer.length} bytes are missing")  # type: ignore[attr-defined]

    def metric(self, name: str) -> float:
        """A number of the server's metrics; NaN where it tells none of this name, as other servers, and proxies."""
        try:
            with self.asked("GET", "/metrics", b"", {}) as answer:
                lines = answer.read().decode().splitlines()
            return float(next(line.split()[-1] for line in lines if line.split()[:1] == [name]))
        except (ServerError, ValueError, StopIteration):
            return math.nan

    @contextlib.contextmanager
    def asked(
        self, method: str, path: str, body: bytes, headers: dict[str, str], *, whole: bool = True
    ) -> Iterator[io.BufferedIOBase]:
        """The answer: `whole`, and asked for again where it breaks off, or as it comes."""
        for wait in (*self._waits, None):
            try:
                self._connection.request(method, self._path + path, body, {**self._headers, **headers})
                answer = self._connection.getresponse()
                content = answer.read() if whole or answer.status != 200 else None
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                problem = f"{self.url}: {error or type(error).__name__}"
            else:
                if answer.status == 200:
                    try:
                        yield answer if content is None else io.BytesIO(content)
                    except (http.client.HTTPException, OSError) as error:
                        self._connection.close()
                        raise ServerError(f"{self.url}: the answer breaks off: {error}") from None
                    return
                problem = f"{self.url}: status {answer.status}: {_message(content or b'')}"
                if answer.status not in AGAIN:
                    raise ServerError(problem)
            if wait is not None:
                time.sleep(wait)
        raise ServerError(f"{problem}; tried {len(self._waits) + 1} times")


def form_of(content: bytes, name: str, style: str) -> tuple[bytes, dict[str, str]]:
    """The body of a request for a transcript, and the headers that describe it."""
    mark = uuid.uuid4().hex
    fields = f'--{mark}\r\nContent-Disposition: form-data; name="response_format"\r\n\r\n{style}\r\n'
    safe = name.replace('"', "_").replace("\r", "_").replace("\n", "_")
    head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{safe}"\r\n\r\n'
    body = (fields + head).encode() + content + f"\r\n--{mark}--\r\n".encode()
    return body, {"Content-Type": f"multipart/form-data; boundary={mark}"}


def content_of(source: Path | Utterance | waveform.Held) -> tuple[bytes, str]:
    """The bytes of a recording, and its name; of a piece of a file as WAV. Raises AudioError and OSError."""
    if isinstance(source, waveform.Held):
        return source.content(), source.name
    if isinstance(source, Path):
        return source.read_bytes(), source.name
    if not source.piece():
        return source.audio.read() if isinstance(source.audio, Stored) else source.audio.read_bytes(), source.id
    read = waveform.read(source.audio, sample_rate=None, **source.piece())
    file = io.BytesIO()
    soundfile.write(file, read.samples, read.sample_rate, format="WAV", subtype="FLOAT")
    return file.getvalue(), source.id


def transcript_from(answer: str, name: str) -> Transcript:
    """The transcript in an answer of verbose_json. Raises ServerError for what is none."""
    try:
        found = parsed(answer)
        words = [
            Word(str(w["word"]), float(w["start"]), float(w["end"]), float(w.get("confidence", 1.0)))
            for w in found["words"]
        ]
        return Transcript(name, str(found["text"]), words, float(found["duration"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ServerError(f"an answer that is no transcript ({error!r}): {answer[:200]!r}") from None


def percentile(values: list[float], percent: float) -> float:
    """The percentile of at least one value: one of them, not between two."""
    return float(np.percentile(values, percent, method="higher"))


def _message(content: bytes) -> str:
    try:
        return str(parsed(content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return content[:300].decode("utf-8", "replace")
