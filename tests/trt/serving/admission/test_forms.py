"""Forms that come in any chunks, and what each of them costs."""

import asyncio
import random

import pytest
from starlette.requests import Request

from tests.timing import assert_takes_less
from trt.serving.admission.forms import MOST_FIELD_BYTES, File, Form, read_form
from trt.serving.admission.limits import RequestError


def read(body: bytes, kind: str, cuts: list[int]) -> Form:
    parts = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}
    return asyncio.run(read_form(Request(scope, receive)))


CONTENT = b"\r\n--b\r\n\r\n--" + bytes(range(256)) + b"\r\n-" + b"\r\n--b-" * 3


@pytest.mark.parametrize("seed", range(20))
def test_a_form_is_the_same_in_any_chunks(seed):
    """With what looks like its boundary in the recording."""
    parts = [
        ('name="model"', b"m"),
        ('name="timestamp_granularities[]"', b"word"),
        ('name="timestamp_granularities[]"', b"segment"),
        ('name="prompt"', "\u00e4\r\n\u4e2d".encode()),
        ('name="file"; filename="d\u00e9j\u00e0/vu.wav"\r\nContent-Type: audio/wav', CONTENT),
        ('name="empty"; filename="e"', b""),
    ]
    body = b"".join(
        f"--b-1\r\nContent-Disposition: form-data; {told}\r\n\r\n".encode() + content + b"\r\n"
        for told, content in parts
    )
    body, kind = body + b"--b-1--\r\n", "multipart/form-data; boundary=b-1"
    draw = random.Random(seed)
    cuts = sorted(draw.sample(range(len(body)), draw.choice([0, 1, 7, len(body) - 1])))
    form = read(body, kind, cuts)
    fields = {"model": ["m"], "timestamp_granularities[]": ["word", "segment"], "prompt": ["\u00e4\r\n\u4e2d"]}
    assert form == Form(fields, {"file": File("vu.wav", CONTENT), "empty": File("e", b"")})


def test_the_largest_field_may_end_anywhere_in_a_chunk():
    head = b'--b-1\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n'
    body = head + b"a" * MOST_FIELD_BYTES + b"\r\n--b-1--\r\n"
    for end in range(len(body) - 12, len(body)):
        assert read(body, "multipart/form-data; boundary=b-1", [end]).fields == {"prompt": ["a" * MOST_FIELD_BYTES]}


def test_names_come_with_quotes_and_without():
    head = b"\r\n--b \r\nX: 1\r\ncontent-disposition: form-data; name=file; FileName*=utf-8''a%20b.wav\r\n\r\n"
    form = read(head + b"\r\n--b\r\n\r\nnameless\r\n--b--\r\nrest", 'Multipart/Form-Data; boundary="b"', [])
    assert form == Form({"": ["nameless"]}, {"file": File("utf-8''a%20b.wav", b"")})


@pytest.mark.parametrize("crumbs", [b"\r\n--", b"\r", b"-", b"\r\n--b\r", b"\r\n--b\r\n\r\n"])
def test_what_looks_like_boundaries_takes_no_longer(crumbs):
    """Parsing runs on the event loop: 64 kB of anything take some milliseconds."""
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    body = head + crumbs * (4_000_000 // len(crumbs))

    def refused() -> None:
        with pytest.raises(RequestError):
            read(body, "multipart/form-data; boundary=b", list(range(1 << 16, len(body), 1 << 16)))

    assert_takes_less(0.3, refused)  # of 62 chunks
