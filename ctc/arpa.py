"""Back-off n-gram models as ARPA files, the format that every language-model tool reads and writes.

N n-grams of one order n.
"""

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO, cast

import numpy as np

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
IMPOSSIBLE = -99.0  # how the format writes log10 of 0


class ArpaError(ValueError):
    """A file that is not an ARPA model; the message names file and line."""


class Level(NamedTuple):
    """All n-grams of one order."""

    words: np.ndarray
    """int32 [N, n]: indices into the vocabulary."""
    log10_prob: np.ndarray
    """float64 [N]: log10 p(last word | the words before)."""
    log10_backoff: np.ndarray
    """float64 [N]: log10 weight of the shorter history for words that do not follow this n-gram."""


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
    """Writes `model`; a name that ends in .gz is compressed."""
    path = Path(path)
    partial = path.with_name(f".{path.name}")
    with _open(partial, "wt", is_gzip=path.suffix == ".gz") as file:
        file.write("\\data\\\n")
        for order, level in enumerate(model.levels, 1):
            file.write(f"ngram {order}={len(level.words)}\n")
        for order, level in enumerate(model.levels, 1):
            file.write(f"\n\\{order}-grams:\n")
            file.writelines(_lines(model, level, has_backoff=order < model.order))
        file.write("\n\\end\\\n")
    partial.replace(path)


def _lines(model: BackoffModel, level: Level, *, has_backoff: bool) -> Iterator[str]:
    columns = zip(level.words.tolist(), level.log10_prob.tolist(), level.log10_backoff.tolist(), strict=True)
    for words, log10_prob, log10_backoff in columns:
        text = " ".join([model.vocabulary[word] for word in words])
        yield f"{log10_prob:.7g}\t{text}\t{log10_backoff:.7g}\n" if has_backoff else f"{log10_prob:.7g}\t{text}\n"


def read_arpa(path: str | Path) -> BackoffModel:
    """Reads an ARPA file, plain or .gz. Raises ArpaError that names file and line."""
    path = Path(path)
    vocabulary: list[str] = []
    levels: list[Level] = []
    with _open(path, "rt", is_gzip=path.suffix == ".gz") as file:
        lines = enumerate(file, 1)
        sizes = _read_sizes(path, lines)
        index: dict[str, int] = {}
        for order, size in enumerate(sizes, 1):
            levels.append(_read_level(path, lines, order, size, index))
            if order == 1:
                vocabulary = list(index)
    return BackoffModel(tuple(vocabulary), tuple(levels))


def _read_sizes(path: Path, lines: Iterator[tuple[int, str]]) -> list[int]:
    if not any(line.strip() == "\\data\\" for _, line in lines):
        raise ArpaError(f"{path}: expected a line \\data\\, found the end of the file")
    sizes: list[int] = []
    for number, line in lines:
        text = line.strip()
        if not text.startswith("ngram "):
            if sizes:
                break
            raise ArpaError(f"{path}:{number}: expected `ngram 1=...`, found {text!r}")
        order, _, size = text.removeprefix("ngram ").partition("=")
        if order.strip() != str(len(sizes) + 1) or not size.strip().isdigit():
            raise ArpaError(f"{path}:{number}: expected `ngram {len(sizes) + 1}=...`, found {text!r}")
        sizes.append(int(size))
    return sizes


def _read_level(path: Path, lines: Iterator[tuple[int, str]], order: int, size: int, index: dict[str, int]) -> Level:
    """The n-grams after the next header; those of order 1 fill `index`."""
    words = np.zeros((size, order), np.int32)
    log10_prob, log10_backoff = np.zeros((2, size))
    row, is_inside = 0, order > 1 and size == 0
    for number, line in lines:
        fields = line.split()
        if not fields:
            if row == size and is_inside:
                break
            continue
        if not is_inside:
            if fields[0] != f"\\{order}-grams:":
                raise ArpaError(f"{path}:{number}: expected \\{order}-grams:, found {line.strip()!r}")
            is_inside = True
            continue
        if row == size or not order + 1 <= len(fields) <= order + 2:
            raise ArpaError(
                f"{path}:{number}: expected {size} {order}-grams, found {line.strip()!r} after {row} of them"
            )
        if order == 1:
            index.setdefault(fields[1], len(index))
        try:
            words[row] = [index[word] for word in fields[1 : order + 1]]
            log10_prob[row] = float(fields[0])
            log10_backoff[row] = float(fields[order + 1]) if len(fields) == order + 2 else 0.0
        except (KeyError, ValueError) as error:
            raise ArpaError(f"{path}:{number}: not a {order}-gram of known words: {line.strip()!r}") from error
        row += 1
    if row != size:
        raise ArpaError(f"{path}: expected {size} {order}-grams, found the end of the file after {row}")
    return Level(words, log10_prob, log10_backoff)


def _open(path: Path, mode: str, *, is_gzip: bool) -> TextIO:
    if is_gzip:
        return cast(TextIO, gzip.open(path, mode, encoding="utf-8"))
    return cast(TextIO, path.open(mode, encoding="utf-8"))


def log10_prob(model: BackoffModel, index: "NgramIndex", history: Sequence[int], word: int) -> float:
    """log10 p(word | history), by the definition: for tests and small work."""
    history = tuple(history)[max(0, len(history) - model.order + 1) :]
    backoff = 0.0
    while (*history, word) not in index:
        backoff += index.get(history, (0.0, 0.0))[1]
        history = history[1:]
    return backoff + index[(*history, word)][0]


NgramIndex = dict[tuple[int, ...], tuple[float, float]]


def index_ngrams(model: BackoffModel) -> NgramIndex:
    """{n-gram: (log10 probability, log10 back-off weight)}."""
    index: NgramIndex = {}
    for level in model.levels:
        values = zip(level.log10_prob.tolist(), level.log10_backoff.tolist(), strict=True)
        index.update(zip(map(tuple, level.words.tolist()), values, strict=True))
    return index
