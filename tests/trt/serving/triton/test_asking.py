"""A client of Triton, whatever answers it."""

import asyncio
from contextlib import suppress

import numpy as np
import pytest

from common.recognition.output.transcripts import Transcript, Word
from trt.serving.admission.limits import RequestError
from trt.serving.models import Sound
from trt.serving.triton.asking import Infer, Remote
from trt.serving.triton.transcripts import content_of


class Writer:
    """The other end of a connection, which takes everything."""

    def writelines(self, parts):
        pass

    async def drain(self):
        pass

    def close(self):
        pass


def heard(head: bytes, tensor: bytes = b"", status: str = "200 OK") -> Transcript:
    """What is made of an answer."""

    async def ask():
        reader = asyncio.StreamReader()
        lengths = f"Content-Length: {len(head) + len(tensor)}\r\nInference-Header-Content-Length: {len(head)}\r\n\r\n"
        reader.feed_data(f"HTTP/1.1 {status}\r\n{lengths}".encode() + head + tensor)
        reader.feed_eof()
        infer = Infer("127.0.0.1", 1)
        infer.idle.append((reader, Writer()))
        return await Remote(infer)(Sound(np.zeros(3, np.float32)))

    return asyncio.run(ask())


def outputs(shape: list[int], kind: str = "UINT8") -> bytes:
    return f'{{"outputs": [{{"datatype": "{kind}", "shape": {shape}}}]}}'.encode()


def test_a_transcript_comes_through():
    said = Transcript("array", "é b", [Word("é", 0.0, 0.5, 0.9)], 1.0)
    content = content_of(said)
    assert heard(outputs([1, len(content)]), content) == said


@pytest.mark.parametrize(
    ("head", "tensor"),
    [
        (b"[]", b""),
        (b"[" * 30_000, b""),
        (b'{"outputs": []}', b""),
        (outputs([1, 5]), b"1234"),
        (outputs([1, 4], "FP99"), b"1234"),
        (b'{"outputs": [{"datatype": "UINT8"}]}', b"1234"),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_of_the_engine(head, tensor):
    with pytest.raises(RequestError, match="Triton answers what cannot be read: ") as raised:
        heard(head, tensor)
    assert (raised.value.status, raised.value.code) == (500, "engine_error")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"text": "a", "words": [3], "seconds": 1, "error": ""}'])
def test_a_tensor_that_is_no_transcript_is_an_error_of_the_engine(content):
    with pytest.raises(RequestError, match="Triton gives what is no transcript: "):
        heard(outputs([1, len(content)]), content)


def test_what_triton_says_of_an_error_is_said():
    with pytest.raises(RequestError, match="Triton: no such model"):
        heard(b'{"error": "no such model"}', status="400 Bad Request")
    with suppress(RequestError):
        heard(b"[" * 30_000, status="400 Bad Request")


def test_what_a_client_asked_for_that_has_gone_does_not_reach_triton():
    reached: list[float] = []

    async def ask():
        answers = asyncio.Event()

        class Slow(Infer):
            async def __call__(self, model, inputs, output):
                reached.append(float(inputs["audio"][0, 0]))
                await answers.wait()
                return np.frombuffer(content_of(Transcript("array", "", [], 1.0)), np.uint8)

        lane = Remote(Slow("127.0.0.1", 1), most=2)
        jobs = [asyncio.create_task(lane(Sound(np.full(3, i, np.float32)))) for i in range(5)]
        await asyncio.sleep(0.01)
        assert len(lane) == 5
        for gone in (jobs[0], jobs[3]):  # one that Triton has already, and one that waits
            gone.cancel()
        await asyncio.sleep(0.01)
        answers.set()
        await asyncio.gather(*jobs, return_exceptions=True)
        assert len(lane) == 0

    asyncio.run(ask())
    assert reached == [0.0, 1.0, 2.0, 4.0]
