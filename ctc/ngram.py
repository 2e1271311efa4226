"""Estimates n-gram language models from text: `python -m ctc.ngram text... -o lm.arpa --order 4`.

`python -m ctc.ngram compile lm.arpa -o lm.ngram` makes of any ARPA file one that loads at once (see `ctc.compiled`).

Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998), written as a back-off model:
    p(w | h) = (a(hw) - D(a(hw))) / a(h.) + g(h) p(w | h'),    g(h) = sum of the discounts of h / a(h.)
a is the count for the longest n-grams and those at the start of a sentence, else the number of different words seen
before; D takes three values per order, from how many n-grams have a = 1, 2, 3, 4; h' is h without its first word. The
shortest history shares g evenly among all words and <unk>. Everything is counted in memory, as arrays.
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ctc._interruption import EndedByTheUser
from ctc.language_models import packings
from ctc.language_models.arpa import (
    END,
    IMPOSSIBLE,
    SPACE,
    START,
    UNKNOWN,
    BackoffModel,
    Level,
    read_arpa,
    write_arpa,
)
from ctc.language_models.compiled import compile_model, write_model

# Where a text is too small or too regular for the formula (Heafield et al. 2013 use the same).
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


class _Counts(NamedTuple):
    """The n-grams of one order, as rows; a row refers to rows one order shorter."""

    prefix: np.ndarray
    suffix: np.ndarray
    word: np.ndarray
    seen: np.ndarray


def estimate(sentences: Iterable[Sequence[str]], *, order: int, prune: Sequence[int] = ()) -> BackoffModel:
    """The model of `sentences`, each a sequence of words, to which start and end are added.

    `prune`: n-grams of order i seen at most prune[i] times are left out, their probability given to the
    back-off (orders beyond its end use its last value; words are never left out). Raises ValueError for
    an order below 1, for text without words, for words that the format reserves and for `prune` that decreases.
    """
    thresholds = [*prune, *[prune[-1] if prune else 0] * order][:order]
    if order < 1:
        raise ValueError(f"order: expected at least 1, found {order}")
    if sorted(thresholds) != thresholds or min(thresholds) < 0:
        raise ValueError(f"prune: expected thresholds that do not decrease, found {list(prune)}")
    vocabulary, tokens, sentence = _encode(sentences)
    counts = _count(tokens, sentence, len(vocabulary), order)
    return BackoffModel(vocabulary, tuple(_smooth(counts, len(vocabulary), thresholds)))


def _encode(sentences: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """(words, words of the whole text by number, sentence that each belongs to)."""
    index = {UNKNOWN: 0, START: 1, END: 2}
    tokens: list[int] = []
    ends: list[int] = []
    for number, words in enumerate(sentences, 1):
        for word in (START, UNKNOWN, END):
            if word in words:
                raise ValueError(f"sentence {number}: {word} is not a word: it is added here")
        tokens += [1, *[index.setdefault(word, len(index)) for word in words], 2]
        ends.append(len(tokens))
    if len(index) == 3:
        raise ValueError("expected text to count n-grams in, found no word")
    lengths = np.diff(np.array(ends), prepend=0)
    return tuple(index), np.array(tokens), np.repeat(np.arange(len(lengths)), lengths)


def _count(tokens: np.ndarray, sentence: np.ndarray, words: int, order: int) -> list[_Counts]:
    everything = np.arange(words)
    root = np.zeros(words, np.int64)
    levels = [_Counts(root, root, everything, np.bincount(tokens, minlength=words))]
    row_at = tokens  # row of the n-gram that starts at each position
    for length in range(2, order + 1):
        starts = np.flatnonzero(sentence[: len(tokens) - length + 1] == sentence[length - 1 :])
        key = row_at[starts] * words + tokens[starts + length - 1]
        unique, first, row, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        suffix = row_at[starts[first] + 1]
        levels.append(_Counts(unique // words, suffix, unique % words, count))
        row_at = np.full(len(tokens), -1)
        row_at[starts] = row
    return levels


def _smooth(levels: list[_Counts], words: int, thresholds: list[int]) -> Iterator[Level]:
    """Probabilities of each order from those of the order below, whose back-off weights they give."""
    is_start = levels[0].word == 1
    prob_below = np.full(1, 1 / (words - 1))  # all words but <s>
    ngrams_below = np.zeros((1, 0), np.int32)
    is_kept_below = np.ones(1, bool)
    pending: Level | None = None  # the order below, which still needs its back-off weights
    for number, level in enumerate(levels):
        if number > 0:
            is_start = is_start[level.prefix]
        adjusted = _adjusted_counts(levels, number, is_start)
        is_kept = level.seen > (thresholds[number] if number > 0 else -1)
        steps = np.array([0.0, *_discounts(adjusted)])
        discount = np.where(is_kept, steps[np.minimum(adjusted, 3)], adjusted)
        size_below = len(prob_below)
        total = np.bincount(level.prefix, adjusted, size_below)
        freed = np.bincount(level.prefix, discount, size_below)
        backoff = np.divide(freed, total, out=np.ones(size_below), where=total > 0)
        prob = (adjusted - discount) / total[level.prefix] + backoff[level.prefix] * prob_below[level.suffix]
        if pending is not None:
            yield pending._replace(log10_backoff=np.log10(backoff)[is_kept_below])
        ngrams = np.column_stack([ngrams_below[level.prefix], level.word]).astype(np.int32)
        log10_prob = np.log10(prob)
        if number == 0:
            log10_prob[1] = IMPOSSIBLE
        pending = Level(ngrams[is_kept], log10_prob[is_kept], np.zeros(is_kept.sum()))
        prob_below, ngrams_below, is_kept_below = prob, ngrams, is_kept
    assert pending is not None
    yield pending


def _adjusted_counts(levels: list[_Counts], number: int, is_start: np.ndarray) -> np.ndarray:
    if number + 1 == len(levels):
        adjusted = levels[number].seen.copy()
    else:
        different_before = np.bincount(levels[number + 1].suffix, minlength=len(is_start))
        adjusted = np.where(is_start, levels[number].seen, different_before)
    if number == 0:
        adjusted[1] = 0  # no word is followed by a start
    return adjusted


def _discounts(adjusted: np.ndarray) -> tuple[float, float, float]:
    one, two, three, four = (int((adjusted == count).sum()) for count in (1, 2, 3, 4))
    if 0 in (one, two, three):
        return FALLBACK_DISCOUNTS
    y = one / (one + 2 * two)
    discounts = (1 - 2 * y * two / one, 2 - 3 * y * three / two, 3 - 4 * y * four / three)
    is_usable = all(0 < discount < count for count, discount in enumerate(discounts, 1))
    return discounts if is_usable else FALLBACK_DISCOUNTS


def read_sentences(paths: Iterable[Path], *, unit: Literal["word", "character"]) -> Iterator[list[str]]:
    """One sentence per line that is not empty, as words or as characters with a space as "|"."""
    for path in paths:
        for line in packings.lines_of(path):
            words = line.split()
            if words:
                yield words if unit == "word" else list(SPACE.join(words))


def output_of(path: Path) -> Path:
    """Where a model is written to: for "-", standard output."""
    return Path("/dev/stdout") if str(path) == "-" else path


def _check_apart(output: Path, read: Iterable[Path]) -> None:
    """Raises ValueError where a file that is read would be written to."""
    if output.is_file() and any(path.is_file() and path.samefile(output) for path in read):
        raise ValueError(f"{output} is read; expected another output")


@contextlib.contextmanager
def on_disk(paths: Iterable[Path]) -> Iterator[list[Path]]:
    """The paths of texts, of which pipes and "-", standard input, are kept in files meanwhile: they are read twice."""
    with tempfile.TemporaryDirectory() as folder:
        kept = []
        for number, path in enumerate(paths):
            if str(path) != "-" and not path.is_fifo():
                kept.append(path)
                continue
            kept.append(Path(folder) / str(number))
            if str(path) == "-" and sys.stdin is None:
                raise ValueError("standard input: it is closed; expected text")
            stream = contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb")
            with stream as text, kept[-1].open("wb") as file:
                shutil.copyfileobj(text, file)
        yield kept


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Errors that users can mend end a command in one line; those of the system say which file and why."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        told = str(error)
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            told = f"{os.fsdecode(error.filename)}: {error.strerror}"
        sys.exit(f"ctc.ngram: {told}")


def compile_command(arguments: Sequence[str]) -> None:
    """The command line of `compile`."""
    description = "Compilation of an ARPA file into a file that decoders map into memory."
    parser = argparse.ArgumentParser(prog="python -m ctc.ngram compile", description=description)
    parser.add_argument("arpa", type=Path, help="ARPA file, plain, .gz, .bz2 or .xz")
    written = "compiled model to write; - for standard output"
    parser.add_argument("-o", "--output", type=Path, required=True, help=written)
    options = parser.parse_args(arguments)
    options.output = output_of(options.output)
    _check_apart(options.output, [options.arpa])
    model = compile_model(read_arpa(options.arpa))
    write_model(options.output, model)
    size = f", {options.output.stat().st_size} bytes" if options.output.is_file() else ""  # a pipe has none
    n_grams = len(model.automaton.arc_word)
    print(f"{options.output}: {len(model.vocabulary)} words, {n_grams} n-grams{size}", file=sys.stderr)


@_reported()
def main() -> None:
    """The command line: reads text files, one sentence per line, and writes an ARPA model."""
    if sys.argv[1:2] == ["compile"]:
        compile_command(sys.argv[2:])
        return
    description = "Estimation of an n-gram language model; `python -m ctc.ngram compile --help` is about compiling one."
    parser = argparse.ArgumentParser(prog="python -m ctc.ngram", description=description)
    parser.add_argument("text", nargs="+", type=Path, help="text files, one sentence per line; - for standard input")
    written = "ARPA file to write, also .gz, .bz2 or .xz; - for standard output"
    parser.add_argument("-o", "--output", type=Path, required=True, help=written)
    parser.add_argument("--order", type=int, default=4, help="length of the longest n-grams (default 4)")
    parser.add_argument(
        "--unit", choices=("word", "character"), default="word", help="unit of the n-grams (default word)"
    )
    rare = "for each order, the count up to which n-grams are left out; the last also counts for higher orders"
    parser.add_argument("--prune", type=int, nargs="+", default=(), help=rare)
    options = parser.parse_args()
    options.output = output_of(options.output)
    _check_apart(options.output, options.text)
    with on_disk(options.text) as texts:
        model = estimate(read_sentences(texts, unit=options.unit), order=options.order, prune=options.prune)
    write_arpa(options.output, model)
    sizes = ", ".join(f"{len(level.words)} {order}-grams" for order, level in enumerate(model.levels, 1))
    print(f"{options.output}: {sizes}", file=sys.stderr)


if __name__ == "__main__":
    with EndedByTheUser():
        main()
