"""Language models compiled to a file that is mapped into memory: `python -m ctc.ngram compile lm.arpa -o lm.ngram`.

The file is a header, the words, one a line in UTF-8, and the arrays of `ctc_ngram` (`ctc_decode.h`), each from a
multiple of ALIGNMENT on, all numbers little-endian.
"""

import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ctc.bindings import _native
from ctc.language_models import packings
from ctc.language_models.arpa import ArpaError, BackoffModel, read_arpa
from ctc.language_models.packed import WIDEST, Packed, packed_bytes
from ctc.language_models.tables import NgramAutomaton, is_valid_automaton, ngram_automaton

KIND = b"CTCNGRM"
MAGIC = KIND + b"2"
# Magic, checksum of the rest; states, arcs, words; the states or words of start, unknown and end; bytes of the words;
# bits of a number in each of PACKED.
HEADER = struct.Struct("<8sI7q4q")
SIZES = struct.Struct("<7q4q")
ALIGNMENT = 64
PACKED = ("first_arc", "arc_word", "arc_next", "backoff_state")
ARRAYS = ("first_arc", "arc_word", "arc_log_prob", "arc_next", "backoff", "backoff_state", "word_bound")
FLOAT = np.dtype("<f4")


class NgramModel(NamedTuple):
    """A model as a scorer walks it."""

    vocabulary: tuple[str, ...]
    automaton: NgramAutomaton


def compile_model(model: BackoffModel) -> NgramModel:
    """`model` as a scorer walks it. Raises ValueError for what `ngram_automaton` refuses."""
    return NgramModel(model.vocabulary, ngram_automaton(model))


def write_model(path: str | Path, model: NgramModel) -> None:
    """Writes the file whole or not at all."""
    path = Path(path)
    automaton, words = model.automaton, "\n".join(model.vocabulary).encode()
    arrays = [getattr(automaton, name) for name in ARRAYS]
    parts = [words, *((a.bits if isinstance(a, Packed) else a.astype(FLOAT)).tobytes() for a in arrays)]
    body = b"".join(part + bytes(-len(part) % ALIGNMENT) for part in parts)
    fixed = (automaton.start_state, automaton.unknown_word, automaton.end_word, len(words))
    widths = (getattr(automaton, name).width for name in PACKED)
    sizes = (len(automaton.backoff), len(automaton.arc_word), len(automaton.word_bound), *fixed, *widths)
    rest = SIZES.pack(*sizes)
    header = HEADER.pack(MAGIC, zlib.crc32(body, zlib.crc32(rest)), *sizes)
    with packings.written_whole(path) as partial, partial.open("wb") as file:
        file.write(header + bytes(-len(header) % ALIGNMENT) + body)


def read_model(path: str | Path) -> BackoffModel | NgramModel:
    """A model of either kind of file: compiled, or ARPA, plain or packed. Raises ArpaError that names the file."""
    path = Path(path)
    with path.open("rb") as file:
        is_compiled = file.read(len(KIND)) == KIND
    return map_model(path) if is_compiled else read_arpa(path)


def map_model(path: str | Path) -> NgramModel:
    """A compiled model, mapped into memory, its checksum and its tables looked at. Raises ArpaError."""
    path = Path(path)
    size = path.stat().st_size
    if size < HEADER.size:
        raise ArpaError(f"{path}: expected a compiled model, found {size} bytes")
    content = np.memmap(path, np.uint8, mode="r")
    magic, checksum, *sizes = HEADER.unpack(content[: HEADER.size].tobytes())
    if magic != MAGIC:
        raise ArpaError(f"{path}: expected a compiled model, found one of another kind or version; compile it again")
    states, arcs, words, start_state, unknown_word, end_word, word_bytes, *bits = sizes
    widths = dict(zip(PACKED, bits, strict=True))
    counts = {"first_arc": states + 1, "arc_word": arcs, "arc_log_prob": arcs, "arc_next": arcs}
    counts |= {"backoff": states, "backoff_state": states, "word_bound": words}
    if not all(1 <= width <= WIDEST for width in bits):
        raise ArpaError(f"{path}: expected numbers of 1 to {WIDEST} bits, found others: it is damaged")
    sized = {n: packed_bytes(c, widths[n]) if n in widths else c * FLOAT.itemsize for n, c in counts.items()}
    lengths = [word_bytes, *(sized[name] for name in ARRAYS)]
    begin = HEADER.size + -HEADER.size % ALIGNMENT
    starts = [begin]
    for length in lengths:
        starts.append(starts[-1] + length + -length % ALIGNMENT)
    if min(states, arcs, words, *lengths) < 0 or starts[-1] != size:
        raise ArpaError(f"{path}: expected {starts[-1]} bytes, found {size}: it is damaged")
    if zlib.crc32(content[begin:].data, zlib.crc32(SIZES.pack(*sizes))) != checksum:
        raise ArpaError(f"{path}: expected the content that its checksum promises, found other: it is damaged")
    arrays: dict[str, Any] = {}
    for name, start, length in zip(ARRAYS, starts[1:], lengths[1:], strict=False):
        part = content[start : start + length]
        arrays[name] = Packed(part, widths[name], counts[name]) if name in widths else part.view(FLOAT)
    automaton = NgramAutomaton(**arrays, start_state=start_state, unknown_word=unknown_word, end_word=end_word)
    try:
        vocabulary = tuple(content[begin : begin + word_bytes].tobytes().decode().split("\n"))
    except UnicodeDecodeError as error:
        raise ArpaError(f"{path}: expected words in UTF-8, found {error.reason}") from error
    library = _native.load()
    is_valid = library is None or is_valid_automaton(library, automaton)
    if len(vocabulary) not in (words, words - 1) or not is_valid:
        raise ArpaError(f"{path}: expected tables that lead from one to the other, found others: it is damaged")
    return NgramModel(vocabulary, automaton)
