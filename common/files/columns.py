"""Recordings in columns of Parquet and Arrow files, as Hugging Face's data sets have them; by pyarrow."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:  # optional
    pyarrow = None

_ROW_BITS = 32  # of a place in a Parquet file: the group above, the row in it below


class ColumnsError(ValueError):
    """A file cannot be read; the message names it."""


class Row(NamedTuple):
    """A row without its audio, and where that stands: a byte, or in Parquet what `of_parquet` takes."""

    told: dict[str, Any]
    start: int
    content: bytes
    """Empty where there is none."""


def rows(path: Path) -> Iterator[Row]:
    """All rows. Raises ColumnsError."""
    if pyarrow is None:
        raise ColumnsError(f"{path}: needs pyarrow; install it with: pip install pyarrow")
    try:
        yield from (_of_parquet if path.suffix == ".parquet" else _of_arrow)(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ColumnsError(f"{path}: cannot be read: {error}") from None


def _of_parquet(path: Path) -> Iterator[Row]:
    file = pyarrow.parquet.ParquetFile(path)
    column = _audio_column(path, file.schema_arrow)
    others = [name for name in file.schema_arrow.names if name != column]
    for group in range(file.num_row_groups):
        told = file.read_row_group(group, others).to_pylist()
        for row, content in enumerate(_bytes(file.read_row_group(group, [column])[column])):
            yield Row(told[row] if told else {}, group << _ROW_BITS | row, content or b"")


def _of_arrow(path: Path) -> Iterator[Row]:
    mapped = pyarrow.memory_map(str(path))
    base = mapped.read_buffer(1).address
    mapped.seek(0)
    try:
        batches = iter(pyarrow.ipc.open_stream(mapped))
    except pyarrow.ArrowInvalid:
        file = pyarrow.ipc.open_file(mapped)
        batches = (file.get_batch(number) for number in range(file.num_record_batches))
    for batch in batches:
        column = _audio_column(path, batch.schema)
        told = batch.drop_columns([column]).to_pylist() if batch.num_columns > 1 else []
        array = batch.column(column)
        contents = array.field("bytes") if pyarrow.types.is_struct(array.type) else array
        _, ends, values = contents.buffers()
        kind = np.int64 if pyarrow.types.is_large_binary(contents.type) else np.int32
        places = np.frombuffer(ends, kind)[contents.offset : contents.offset + len(contents) + 1].tolist()
        start = values.address - base if values is not None else 0
        if not 0 <= start <= mapped.size():
            raise ColumnsError(f"{path}: is compressed, so that nothing in it has a place; write it without")
        for row, (first, end) in enumerate(itertools.pairwise(places)):
            yield Row(told[row] if told else {}, start + first, values[first:end].to_pybytes() if end > first else b"")


def _audio_column(path: Path, schema: Any) -> str:
    for field in schema:
        kind = field.type
        inner = (
            kind.field("bytes").type if pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
        )
        if pyarrow.types.is_binary(inner) or pyarrow.types.is_large_binary(inner):
            return field.name
    raise ColumnsError(f"{path}: no column of audio among {', '.join(schema.names)}; expected bytes")


def _bytes(column: Any) -> list[bytes | None]:
    values = column.combine_chunks()
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else values
    contents = values.field("bytes") if pyarrow.types.is_struct(values.type) else values
    return contents.to_pylist()


@functools.lru_cache(2)
def _group(file: str, group: int) -> list[bytes | None]:
    table = pyarrow.parquet.ParquetFile(file)
    column = _audio_column(Path(file), table.schema_arrow)
    return _bytes(table.read_row_group(group, [column])[column])


def of_parquet(file: str, place: int) -> bytes:
    """The recording of a group and a row, of which a group is read at once: rows in order are read the fastest."""
    return _group(file, place >> _ROW_BITS)[place & ((1 << _ROW_BITS) - 1)] or b""
