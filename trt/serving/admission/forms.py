"""Bodies of requests: forms with files, and JSON, read into memory alone.

Starlette's own parser of forms writes larger files to disk.
"""

import json
import re
from typing import Any, NamedTuple, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from trt.serving.admission.limits import RequestError

Asked = TypeVar("Asked", bound=BaseModel)
MOST_PARTS = 64  # of a form: OpenAI's have a dozen
MOST_FIELD_BYTES = 1 << 16  # of a part that is no file
MOST_HEADERS, LONGEST_HEAD = 16, 1 << 13  # of a part: their number, and the bytes of all
LONGEST_BOUNDARY = 70  # RFC 2046, 5.1.1
_PARAMETER = re.compile(r';\s*+([\w-]++)\*?=(?:"([^"]*+)"|([^\s";]*+))')


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
    given = request.headers.get("content-type", "")
    boundary = _parameters(given).get("boundary", "")
    if given.partition(";")[0].strip().lower() != "multipart/form-data" or not 0 < len(boundary) <= LONGEST_BOUNDARY:
        found = given.partition(";")[0].strip()[:100] or "none"
        raise RequestError(
            415, f"content type {found!r}: expected multipart/form-data with a boundary and a file in it"
        )
    parts = _Parts(boundary.encode("latin-1", "replace"))
    async for chunk in request.stream():
        parts.write(chunk)
    if not parts.ended:
        raise RequestError(400, "the body ends before its form does; was it cut off?")
    return parts.form


async def read_json(request: Request, kind: type[Asked]) -> Asked:
    """The JSON object in the body, checked; a field that is null counts as one that is not there.

    Raises RequestError that names the field and what is wrong with it.
    """
    media = request.headers.get("content-type", "").partition("/")[0].strip().lower()
    if media in ("text", "multipart"):  # which pages elsewhere may send without asking; which may be large
        raise RequestError(415, f"content type {media}: expected application/json")
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
    """What a body that comes in chunks holds, between lines of its boundary (RFC 7578). What is searched is searched
    once, by functions that take no time to speak of, whatever it is."""

    def __init__(self, boundary: bytes) -> None:
        self.form, self.ended = Form({}, {}), False
        self._line = b"\r\n--" + boundary
        self._waiting = bytearray(b"\r\n")  # what came of the part, or of its head
        self._searched, self._parts = 0, 0
        self._options: dict[str, str] | None = None  # of the part under way, once its head has come

    def write(self, chunk: bytes) -> None:
        """Takes what comes next. Raises RequestError for what is no form, and for too many or too large parts."""
        if self.ended:
            return
        self._waiting += chunk
        while not self.ended and (self._ends_head() if self._options is None else self._ends_part()):
            self._searched = 0

    def _ends_head(self) -> bool:
        """Whether the head of the next part is there; it is taken then."""
        line, waiting = self._line, self._waiting
        if not self._parts:
            waiting[:] = b"\r\n" + waiting.lstrip(b"\r\n")
        if not waiting.startswith(line[: len(waiting)]):
            raise RequestError(400, "the body is no form that can be read: expected it to begin with its boundary")
        if waiting[len(line) : len(line) + 2] == b"--":
            self.ended = True
            return True
        end = waiting.find(b"\r\n\r\n", len(line), len(line) + LONGEST_HEAD)
        head = bytes(waiting[len(line) : end if end >= 0 else len(line) + LONGEST_HEAD])
        for what, is_exceeded in (("count", head.count(b"\r\n") > MOST_HEADERS), ("size", len(head) == LONGEST_HEAD)):
            if is_exceeded:
                raise RequestError(400, f"the body is no form that can be read: Maximum header {what} exceeded")
        if end < 0:
            return False
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise RequestError(400, f"a form of more than {MOST_PARTS} parts; expected a file and a few fields")
        headers = [each.partition(":") for each in head.decode("utf-8", "replace").split("\r\n")]
        own = (value for name, _, value in headers if name.strip().lower() == "content-disposition")
        self._options = _parameters(next(own, ""))
        del waiting[: end + 4]
        waiting[:0] = b"\r\n"  # where the boundary may follow at once
        return True

    def _ends_part(self) -> bool:
        """Whether all of the part is there; it is taken then."""
        assert self._options is not None
        end = self._waiting.find(self._line, self._searched)
        if end < 0:
            self._searched = max(0, len(self._waiting) - len(self._line) + 1)
        name, size = self._options.get("name", ""), (self._searched if end < 0 else end) - 2
        if "filename" not in self._options and size > MOST_FIELD_BYTES:
            raise RequestError(
                400, f"field {name[:100]!r} of more than {MOST_FIELD_BYTES} bytes; files have a filename"
            )
        if end < 0:
            return False
        content = bytes(memoryview(self._waiting)[2:end])
        if "filename" in self._options:
            given = self._options["filename"].replace("\\", "/").rpartition("/")[2]
            self.form.files[name] = File(given[:100] or "audio", content)
        else:
            self.form.fields.setdefault(name, []).append(content.decode("utf-8", "replace"))
        self._waiting, self._options = self._waiting[end:], None
        return True


def _parameters(header: str) -> dict[str, str]:
    """Those behind the value of a header, by their names in small letters."""
    return {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(header)}
