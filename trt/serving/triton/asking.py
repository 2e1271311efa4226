"""A client of a Triton server: KServe's protocol, version 2, over HTTP with binary tensors.

Legend: N samples.
"""

import asyncio
import json
from typing import Any

import numpy as np

from common.files.json_text import parsed
from common.recognition.output.transcripts import Transcript
from fastpitch.speaking.sentences import Said, Saying
from trt.serving.admission.limits import RequestError
from trt.serving.models import Sound
from trt.serving.triton.sentences import tensors_of
from trt.serving.triton.transcripts import transcript_in

KINDS = {"FP32": np.float32, "INT64": np.int64, "UINT8": np.uint8}
NAMES = {np.dtype(kind): name for name, kind in KINDS.items()}
MODEL = "recognizer"
VOICE = "voice"
MOST_AT_ONCE = 64  # recordings
UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, OverflowError)


class RefusalError(RequestError):
    """What Triton answers in place of an output: an error of the engine, unless a lane knows better."""

    def __init__(self, status: int, reason: str):
        """`status`: of Triton's answer."""
        super().__init__(500, f"Triton: {reason}", code="engine_error")
        self.of_triton, self.reason = status, reason


class Infer:
    """Requests to the server at `host`:`port`, over as many connections as there are requests at a time."""

    def __init__(self, host: str, port: int):
        self._host, self._port = host, port
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def __call__(self, model: str, inputs: dict[str, np.ndarray], output: str) -> np.ndarray:
        """One output of a model. Raises RefusalError where the server refuses, RequestError where it is not there."""
        contents = {name: np.ascontiguousarray(value).tobytes() for name, value in inputs.items()}
        described: list[dict[str, Any]] = [
            {
                "name": name,
                "shape": value.shape,
                "datatype": NAMES[value.dtype],
                "parameters": {"binary_data_size": len(contents[name])},
            }
            for name, value in inputs.items()
        ]
        wanted = [{"name": output, "parameters": {"binary_data": True}}]
        head = json.dumps({"inputs": described, "outputs": wanted}).encode()
        size = len(head) + sum(map(len, contents.values()))
        lines = (
            f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {size}\r\n"
            f"Inference-Header-Content-Length: {len(head)}\r\n\r\n"
        )
        try:
            status, headers, content = await self._asked([lines.encode(), head, *contents.values()])
        except (OSError, EOFError, ValueError, IndexError) as error:
            raise RequestError(
                503, f"Triton does not answer: {error or type(error).__name__}", code="engine_error", retry=True
            ) from None
        if status != 200:
            raise RefusalError(status, _refusal(content))
        try:
            told = int(headers.get("inference-header-content-length", len(content)))
            (answer,) = parsed(content[:told])["outputs"]
            return np.frombuffer(content[told:], KINDS[answer["datatype"]]).reshape(answer["shape"])
        except UNREADABLE as error:
            raise RequestError(500, f"Triton answers what cannot be read: {error!r}", code="engine_error") from None

    async def _asked(self, parts: list[bytes]) -> tuple[int, dict[str, str], bytes]:
        reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection(self._host, self._port)
        try:
            writer.writelines(parts)
            await writer.drain()
            answer = await _read(reader)
        except BaseException:  # of one who is cancelled too: nobody reads what comes then
            writer.close()
            raise
        self.idle.append((reader, writer))
        return answer

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        while self.idle:
            self.idle.pop()[1].close()


class RemoteLane:
    """What Triton does, and batches with one another.

    Triton does not see that a client has gone; of what waits for a place here, nothing reaches it then.
    """

    def __init__(self, infer: Infer, *, most: int = MOST_AT_ONCE):
        """`most`: requests that Triton has at a time."""
        self._infer, self._under_way, self._places = infer, 0, asyncio.Semaphore(most)

    def start(self) -> None:
        """Nothing: the server runs."""

    def stop(self) -> None:
        """Closes its connections."""
        self._infer.close()

    def __len__(self) -> int:
        return self._under_way


class Remote(RemoteLane):
    """A lane of recordings that Triton recognises."""

    async def __call__(self, sound: Sound, due: float | None = None) -> Transcript:
        """The transcript, in the order in which they come. Raises RequestError."""
        self._under_way += 1
        try:
            async with self._places:
                found = await self._infer(MODEL, {"audio": sound.samples_N[None]}, "transcript")
        finally:
            self._under_way -= 1
        try:
            return transcript_in(found.tobytes())
        except UNREADABLE as error:
            raise RequestError(500, f"Triton gives what is no transcript: {error!r}", code="engine_error") from None


class RemoteVoice(RemoteLane):
    """A lane of texts whose sentences Triton says; each comes as a whole."""

    def __init__(self, infer: Infer, *, sample_rate: int, most: int):
        super().__init__(infer, most=most)
        self._rate = sample_rate

    async def __call__(self, saying: Saying, due: float | None = None) -> Said:
        """The next sentence or pause of a text, or why it cannot be said; None at its end. Raises RequestError."""
        if saying.next != "sentence":
            return saying.say(None, self._rate)
        try:
            async with self._places:
                found = await self._infer(VOICE, tensors_of(saying.pieces[0]), "sound")
        except RefusalError as refusal:
            if refusal.of_triton != 400:
                raise
            return ValueError(refusal.reason)
        saying.sentence, saying.frames = VOICE, 1  # its sound is one piece
        return saying.say(found[0], self._rate)


async def _read(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    first = await reader.readline()
    if not first:
        raise EOFError("the connection ended")
    headers = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(first.split()[1]), headers, content


def _refusal(content: bytes) -> str:
    try:
        return str(parsed(content)["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return content[:300].decode("utf-8", "replace")
