"""Back-off n-gram models as ARPA files, the format that every language-model tool reads and writes.

N n-grams of one order n.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ctc.bindings import _library, _native
from ctc.language_models import packings
from ctc.language_models._arpa_text import (
    BLANKS,
    ArpaPlace,
    ArpaWords,
    Status,
    line_before,
    next_line,
    read_level,
    read_level_in_python,
)
from ctc.language_models._arpa_text import Level as Level

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
SPACE = "|"  # a space as a word of a character model, for ARPA files separate words by spaces
DATA = b"\\data\\"  # how the text begins
IMPOSSIBLE = -99.0  # how the format writes log10 of 0


class ArpaError(ValueError):
    """A file that is not an ARPA model; the message names file and line."""


class BackoffModel(NamedTuple):
    """An n-gram model: p(w | h) is listed, or it is the back-off weight of h times p(w | h without its first word)."""

    vocabulary: tuple[str, ...]
    levels: tuple[Level, ...]
    """Orders 1, 2, ...; row w of the first is word w."""

    @property
    def order(self) -> int:
        """The longest n-grams."""
        return len(self.levels)


def write_arpa(path: str | Path, model: BackoffModel) -> None:
    """Writes `model`; a name that ends in .gz, .bz2 or .xz is compressed."""
    path = Path(path)
    with packings.written_whole(path) as partial, packings.open_to_write(partial, name=path.name) as file:
        file.write("\\data\\\n")
        for order, level in enumerate(model.levels, 1):
            file.write(f"ngram {order}={len(level.words)}\n")
        for order, level in enumerate(model.levels, 1):
            file.write(f"\n\\{order}-grams:\n")
            file.writelines(_lines(model, level, has_backoff=order < model.order))
        file.write("\n\\end\\\n")


def _lines(model: BackoffModel, level: Level, *, has_backoff: bool) -> Iterator[str]:
    columns = zip(level.words.tolist(), level.log10_prob.tolist(), level.log10_backoff.tolist(), strict=True)
    for words, log10_prob, log10_backoff in columns:
        text = " ".join([model.vocabulary[word] for word in words])
        yield f"{log10_prob:.7g}\t{text}\t{log10_backoff:.7g}\n" if has_backoff else f"{log10_prob:.7g}\t{text}\n"


def read_arpa(path: str | Path) -> BackoffModel:
    """Reads an ARPA file, plain or packed, and refuses what kenlm refuses, but for models of one order or without <s>.

    Packed ones are of gzip, bzip2 or xz, whatever their names are.

    Raises ArpaError that names file and line: for damaged compression, counts that are not kept, words that are not
    UTF-8 or listed twice, numbers that are not finite, probabilities above 1, and anything behind the end.
    """
    path = Path(path)
    try:
        text = packings.read_unpacked(path, start=DATA)
    except packings.DamagedError as error:
        raise ArpaError(f"{path}: {error}") from error
    place, sizes = _read_sizes(path, text)
    library = _native.load()
    if library is None:
        _library.warn_slow("ctc.read_arpa")
    for order, size in enumerate(sizes, 1):
        if size * (2 * order + 2) > len(text):  # "0 a b" and the end of the line, at least
            raise ArpaError(f"{path}: expected {size} {order}-grams, found only {len(text)} bytes")
    words = ArpaWords.empty(sizes[0])
    levels = []
    for order, size in enumerate(sizes, 1):
        level = Level(np.empty((size, order), np.int32), np.empty(size), np.empty(size))
        if library is not None:
            status = read_level(library, text, order, level, words, place)
        else:
            status = read_level_in_python(text, order, level, words, place)
        if status != Status.SUCCESS:
            raise ArpaError(_problem(path, text, order, size, place, status))
        levels.append(level)
    _read_end(path, text, place)
    return BackoffModel(_vocabulary(path, text, words), tuple(levels))


def _read_sizes(path: Path, text: bytes) -> tuple[ArpaPlace, list[int]]:
    place = ArpaPlace(0, 0, 0)
    line = next_line(text, place)
    while line is not None and not line.strip(BLANKS):
        line = next_line(text, place)
    if line is None or line.strip(BLANKS) != DATA:
        if text.startswith(b"mmap lm"):
            raise ArpaError(f"{path}: is a binary file of kenlm; expected the ARPA file that it was made of")
        found = "the end of the file" if line is None else f"{_shown(line)} in line {place.line}"
        raise ArpaError(f"{path}: expected \\data\\ before all else, found {found}")
    sizes: list[int] = []
    while (line := next_line(text, place)) is not None:
        if not line.strip(BLANKS) and sizes:
            break
        order, _, size = line.strip(BLANKS).removeprefix(b"ngram ").partition(b"=")
        is_size = line.strip(BLANKS).startswith(b"ngram ") and size.strip().isdigit() and len(size) < 19
        if not is_size or order.strip() != str(len(sizes) + 1).encode():
            raise ArpaError(f"{path}:{place.line}: expected `ngram {len(sizes) + 1}=...`, found {_shown(line)}")
        sizes.append(int(size))
    if not sizes:
        raise ArpaError(f"{path}:{place.line}: expected `ngram 1=...`, found the end of the file")
    return place, sizes


def _read_end(path: Path, text: bytes, place: ArpaPlace) -> None:
    for expected in (b"\\end\\", None):
        line = next_line(text, place)
        while line is not None and not line.strip(BLANKS):
            line = next_line(text, place)
        if line is None and expected is not None:
            raise ArpaError(f"{path}: expected \\end\\, found the end of the file")
        if line is not None and line.strip(BLANKS) != expected:
            end = "the end of the file" if expected is None else f"{expected.decode()}"
            raise ArpaError(f"{path}:{place.line}: expected {end}, found {_shown(line)}")


def _vocabulary(path: Path, text: bytes, words: ArpaWords) -> tuple[str, ...]:
    try:
        return tuple(words.texts(text))
    except UnicodeDecodeError as error:
        found = next(word for word in words.written(text) if not _is_utf8(word))
        raise ArpaError(f"{path}: expected words in UTF-8, found {found!r}") from error


def _is_utf8(word: bytes) -> bool:
    try:
        return word.decode() is not None
    except UnicodeDecodeError:
        return False


def _problem(path: Path, text: bytes, order: int, size: int, place: ArpaPlace, status: Status) -> str:
    line = line_before(text, place)
    where, found = f"{path}:{place.line}", _shown(line)
    if place.at >= len(text) and not line.strip(BLANKS):
        found = "the end of the file"
    match status:
        case Status.HEADER:
            return f"{where}: expected \\{order}-grams:, found {found}"
        case Status.NUMBER:
            return f"{where}: expected finite numbers up to 1e30, found {found}"
        case Status.POSITIVE:
            return f"{where}: expected the logarithm of a probability, at most 0, found {found}"
        case Status.WORD:
            return f"{where}: expected words that are 1-grams, found {found}"
        case Status.TWICE:
            return f"{where}: expected every word once, found it again: {found}"
        case _:
            return f"{where}: expected {size} {order}-grams, found {found} after {place.row} of them"


def _shown(line: bytes) -> str:
    return repr(line[:80].decode(errors="replace").strip())
