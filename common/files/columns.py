"""Recordings in columns of Parquet and Arrow files, as Hugging Face's data sets have them; by pyarrow."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

try:
    import pyarrow
    import pyarrow.parquet

    _DAMAGE = (pyarrow.ArrowException, OSError, UnicodeDecodeError)  # what reading it may raise
except ImportError:  # optional
    pyarrow = None

_AT_ONCE = 1 << 20  # bytes in which the next batch is looked for
_ROW_BITS = 32  # of a place in a Parquet file: the group above, the row in it below


class ColumnsError(ValueError):
    """A file cannot be read; the message names it."""


class Row(NamedTuple):
    """A row without its audio, and where that stands: a byte, or in Parquet what `of_parquet` takes."""

    told: dict[str, Any]
    start: int
    content: bytes
    """Empty where there is none."""
    problem: str = ""
    """Why it cannot be had, where it is damaged."""


def rows(path: Path) -> Iterator[Row | str]:
    """All rows, and a message for each place where none can be read. Raises ColumnsError where nothing can."""
    if pyarrow is None:
        raise ColumnsError(f"{path}: needs pyarrow; install it with: pip install pyarrow")
    try:
        yield from (_of_parquet if path.suffix == ".parquet" else _of_arrow)(path)
    except _DAMAGE as error:
        raise ColumnsError(f"{path}: cannot be read: {error}") from None


def _of_parquet(path: Path) -> Iterator[Row]:
    file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)
    column = _audio_column(path, file.schema_arrow)
    others = [name for name in file.schema_arrow.names if name != column]
    for group in range(file.num_row_groups):
        both = zip(_readable(file, group, others), _contents(path, file, group), strict=True)
        for row, ((told, problem), (content, of_audio)) in enumerate(both):
            problem = problem or of_audio
            yield Row(told, group << _ROW_BITS | row, b"" if problem else content, problem)


def _contents(path: Path, file: Any, group: int) -> list[tuple[bytes, str]]:
    """The recordings of a group, without what else their column has, or why one cannot be read."""
    name = _audio_column(path, file.schema_arrow)
    is_struct = pyarrow.types.is_struct(file.schema_arrow.field(name).type)
    found = _readable(file, group, [f"{name}.bytes" if is_struct else name])
    values = ((row.get(name), problem) for row, problem in found)
    return [((value["bytes"] if isinstance(value, dict) else value) or b"", problem) for value, problem in values]


def _readable(file: Any, group: int, names: list[str]) -> list[tuple[dict[str, Any], str]]:
    """Some columns of each row of a group, or why they cannot be read: then those that follow cannot be, either."""
    count, problem = file.metadata.row_group(group).num_rows, "damaged: fewer rows than its file tells"
    found: list[tuple[dict[str, Any], str]] = []
    try:
        found = _told(file.read_row_group(group, names)) if names else [({}, "")] * count
    except _DAMAGE as error:
        problem = _why(error)
        with contextlib.suppress(*_DAMAGE):
            for batch in file.iter_batches(1, row_groups=[group], columns=names):  # page by page
                found += _told(batch)
    return [*found[:count], *[({}, problem)] * (count - len(found))]


def _of_arrow(path: Path) -> Iterator[Row | str]:
    mapped = pyarrow.memory_map(str(path))
    base = mapped.read_buffer(1).address
    for batch in _batches(mapped):
        if isinstance(batch, tuple):
            what = "cut short" if batch[1] == mapped.size() else "damaged"
            yield f"{path}: {what}, bytes {batch[0]}-{batch[1]}: what should be there is left out"
            continue
        column = _audio_column(path, batch.schema)
        array = batch.column(column)
        contents = array.field("bytes") if pyarrow.types.is_struct(array.type) else array
        _, ends, values = contents.buffers()
        kind = np.int64 if pyarrow.types.is_large_binary(contents.type) else np.int32
        places = np.frombuffer(ends, kind)[contents.offset : contents.offset + len(contents) + 1].tolist()
        start, size = (values.address - base, values.size) if values is not None else (0, 0)
        if not 0 <= start <= mapped.size():
            raise ColumnsError(f"{path}: is compressed, so that nothing in it has a place; write it without")
        found = zip(_told(batch.drop_columns([column])), itertools.pairwise(places), strict=True)
        for (told, problem), (first, end) in found:
            if not 0 <= first <= end <= size:
                problem = f"damaged: bytes {first} to {end} of {size}"
            content = values[first:end].to_pybytes() if end > first and not problem else b""
            yield Row(told, start + first, content, problem)


def _why(error: Exception) -> str:
    return f"damaged: {' '.join(str(error).split())}"


def _told(batch: Any) -> list[tuple[dict[str, Any], str]]:
    """What each row of a table or a batch has, or why that cannot be read."""
    try:
        batch.validate(full=True)
        return [(row, "") for row in batch.to_pylist()]
    except _DAMAGE as error:
        if batch.num_rows == 1:
            return [({}, _why(error))]
        return [one for row in range(batch.num_rows) for one in _told(batch.slice(row, 1))]


def _batches(mapped: Any) -> Iterator[Any]:
    """The batches of a file or stream, and from which byte to which there is none that can be read."""
    mapped.seek(0)
    mapped.seek(8 if mapped.read(6) == b"ARROW1" else 0)  # a file is a stream with a table behind it
    reader = pyarrow.ipc.open_stream(mapped)
    read = reader.read_next_batch

    def again() -> Any:
        return pyarrow.ipc.read_record_batch(pyarrow.ipc.read_message(mapped), reader.schema)

    while True:
        at = mapped.tell()
        try:
            batch = read()
            batch.validate()
            if batch.num_rows:
                yield batch
        except (StopIteration, EOFError):  # pyarrow takes any end of the file for the end of the batches
            if at == mapped.size():
                yield at, at
            return
        except _DAMAGE:
            read, place = again, _next_batch(mapped, at + 8, again)  # a reader that failed does not go on
            yield at, place
            mapped.seek(place)
            if place == mapped.size():
                return


def _next_batch(mapped: Any, at: int, read: Callable[[], Any]) -> int:
    """Where the next batch begins that can be read, or the end: at a multiple of 8 bytes, with four of 255."""
    size = mapped.size()
    for start in range(at - at % 8, size, _AT_ONCE):
        mapped.seek(start)
        words = np.frombuffer(mapped.read(_AT_ONCE), "<u8", min(_AT_ONCE, size - start) // 8)
        for place in (np.flatnonzero((words & 0xFFFFFFFF) == 0xFFFFFFFF) * 8 + start).tolist():
            mapped.seek(place)
            with contextlib.suppress(*_DAMAGE, EOFError):
                read().validate()
                return place
    return size


def _audio_column(path: Path, schema: Any) -> str:
    for field in schema:
        kind = field.type
        inner = (
            kind.field("bytes").type if pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
        )
        if pyarrow.types.is_binary(inner) or pyarrow.types.is_large_binary(inner):
            return field.name
    raise ColumnsError(f"{path}: no column of audio among {', '.join(schema.names)}; expected bytes")


@functools.lru_cache(2)
def _group(file: str, group: int) -> list[tuple[bytes, str]]:
    return _contents(Path(file), pyarrow.parquet.ParquetFile(file, page_checksum_verification=True), group)


def of_parquet(file: str, place: int) -> bytes:
    """The recording of a group and a row, of which a group is read at once: rows in order are read the fastest."""
    content, problem = _group(file, place >> _ROW_BITS)[place & ((1 << _ROW_BITS) - 1)]
    if problem:
        raise ColumnsError(problem)
    return content
