"""Weights that a file of `trt.export` holds beside its graph, read without the package onnx.

ONNX is a message of protocol buffers: fields, each a number with its kind and a value, messages within messages
(protobuf.dev, "Encoding"; onnx.proto3). Only what leads to the weights is looked at.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

GRAPH, INITIALIZER = 7, 5  # of a model; of a graph
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9  # of a tensor
FLOAT = 1
WEIGHTS = "decoder."
"""Before the names of the weights that a decoder computes with; `fastconformer.export.PREFIX`."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def weights_in(path: Path, prefix: str) -> dict[str, np.ndarray]:
    """The float32 weights whose names begin with `prefix`, by the rest. Raises ValueError for a damaged file."""
    found = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for number, (start, end) in _messages(content, 0, len(content)):
            if number == GRAPH:
                for inner, span in _messages(content, start, end):
                    if inner == INITIALIZER:
                        name, values = _tensor(content, *span, prefix)
                        if values is not None:
                            found[name.removeprefix(prefix)] = values
    return found


def _tensor(content: mmap.mmap, start: int, end: int, prefix: str) -> tuple[str, np.ndarray | None]:
    dims, kind, name, raw = list[int](), 0, "", (0, 0)
    for number, value in _fields(content, start, end):
        if number == DIMS and isinstance(value, int):
            dims.append(value)
        elif number == DIMS and isinstance(value, tuple):  # several in one
            place, last = value
            while place < last:
                size, place = _varint(content, place, last)
                dims.append(size)
        elif number == DATA_TYPE and isinstance(value, int):
            kind = value
        elif number == NAME and isinstance(value, tuple):
            name = content[slice(*value)].decode(errors="replace")
        elif number == RAW_DATA and isinstance(value, tuple):
            raw = value
    if not name.startswith(prefix) or kind != FLOAT:
        return name, None
    return name, np.frombuffer(content[slice(*raw)], np.float32).reshape(dims)


def _messages(content: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """The fields of a message that have bytes, and where those are."""
    for number, value in _fields(content, start, end):
        if isinstance(value, tuple):
            yield number, value


def _fields(content: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int | tuple[int, int]]]:
    while start < end:
        key, start = _varint(content, start, end)
        kind = key & 7
        if kind == VARINT:
            value, start = _varint(content, start, end)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, start = _varint(content, start, end)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError("not an ONNX file: a field of no kind that there is")
        if start + size > end:
            raise ValueError("not a whole ONNX file: a field ends beyond it")
        yield key >> 3, (start, start + size)
        start += size


def _varint(content: mmap.mmap, start: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while start < end and shift < 64:
        byte = content[start]
        value |= (byte & 127) << shift
        start, shift = start + 1, shift + 7
        if byte < 128:
            return value, start
    raise ValueError("not a whole ONNX file: a number has no end")
