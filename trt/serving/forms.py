"""Bodies of requests: forms with files, and JSON, read into memory alone.

Starlette's own parser of forms writes larger files to disk.
"""

import json
from typing import Any, NamedTuple, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from trt.serving.limits import RequestError

Asked = TypeVar("Asked", bound=BaseModel)
MOST_PARTS = 64  # of a form: OpenAI's have a dozen
MOST_FIELD_BYTES = 1 << 20  # of a part that is no file


class File(NamedTuple):
    """A file of a form: the name that the client gave it, which serves for messages alone, and its bytes."""

    name: str
    content: bytes


class Form(NamedTuple):
    """What a form holds; a field that comes several times has several values."""

    fields: dict[str, list[str]]
    files: dict[str, File]


async def read_form(request: Request) -> Form:
    """The form in the body. Raises RequestError for a body that is none."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or b"boundary" not in options:
        found = kind.decode("latin-1") or "none"
        raise RequestError(
            415, f"content type {found!r}: expected multipart/form-data with a boundary and a file in it"
        )
    parts = _Parts()
    try:
        parser = MultipartParser(options[b"boundary"], parts.callbacks())
        async for chunk in request.stream():
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise RequestError(400, f"the body is no form that can be read: {error}") from None
    if not parts.ended:
        raise RequestError(400, "the body ends before its form does; was it cut off?")
    return parts.form


async def read_json(request: Request, kind: type[Asked]) -> Asked:
    """The JSON object in the body, checked; a field that is null counts as one that is not there.

    Raises RequestError that names the field and what is wrong with it.
    """
    if request.headers.get("content-type", "").startswith("text/"):  # which pages elsewhere may send without asking
        raise RequestError(415, "content type text: expected application/json")
    content = b"".join([chunk async for chunk in request.stream()])
    try:
        return kind.model_validate(_object(content))
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else "body"
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(400, f"{field}: {message}", param=field, code="invalid_value") from None


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise RequestError(400, f"the body is a JSON {type(found).__name__}; expected an object")
    return {name: value for name, value in found.items() if value is not None}


class _Parts:
    """What the parser finds, as it finds it."""

    def __init__(self) -> None:
        self.form, self.ended = Form({}, {}), False
        self._name = self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._content = bytearray()
        self._parts = 0

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin,
            "on_part_data": lambda data, start, end: self._content.extend(memoryview(data)[start:end]),
            "on_part_end": self._end,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._headers, self._content = {}, bytearray()
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise RequestError(400, f"a form of more than {MOST_PARTS} parts; expected a file and a few fields")

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" in options:
            given = options[b"filename"].decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
            self.form.files[name] = File(given[:100] or "audio", bytes(self._content))
        elif len(self._content) > MOST_FIELD_BYTES:
            raise RequestError(
                400, f"field {name[:100]!r} of more than {MOST_FIELD_BYTES} bytes; files have a filename"
            )
        else:
            self.form.fields.setdefault(name, []).append(self._content.decode("utf-8", "replace"))
        self._content = bytearray()

    def _finish(self) -> None:
        self.ended = True
