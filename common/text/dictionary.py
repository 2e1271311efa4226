"""Dictionaries of a recogniser's labels, in Fairseq's format: dict.ltr.txt, a line `symbol count` each."""

from collections.abc import Mapping
from pathlib import Path

from common.config import ConfigError
from common.files import atomic

WORD_END = "|"  # stands for the space in such files


def read_symbols(path: Path) -> tuple[str, ...]:
    """The symbols in the order of the file. Raises ConfigError."""
    try:
        text = atomic.decoded(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a dictionary: {error}") from None
    return parse_symbols(text, str(path))


def parse_symbols(text: str, source: str) -> tuple[str, ...]:
    """The symbols of the text of a dictionary; `source` is named in the messages of ConfigError."""
    symbols = []
    for number, line in enumerate(text.split("\n"), start=1):
        match line.split():
            case [symbol, count] if count.isdecimal():
                symbols.append(symbol)
            case [_, *_]:
                raise ConfigError(f"{source}:{number}: found {line[:60]!r}; expected a symbol and how often it occurs")
    if not symbols or len(set(symbols)) < len(symbols):
        raise ConfigError(
            f"{source}: {len(symbols)} symbols, {len(set(symbols))} of them different; expected some, once"
        )
    return tuple(symbols)


def write_symbols(path: Path, counts: Mapping[str, int], *, overwrite: bool = False) -> None:
    """Writes symbols with their numbers, the most frequent first. Raises ConfigError.

    A file with other symbols stays as it is, unless `overwrite`: models have learned its numbers.
    """
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if path.exists() and not overwrite and (before := read_symbols(path)) != tuple(symbol for symbol, _ in ordered):
        raise ConfigError(
            f"{path}: has {len(before)} symbols already, which are not the {len(ordered)} of these texts in their "
            "order, and models learn its numbers: write to another file, or replace it with --overwrite"
        )
    atomic.write_text(path, "".join(f"{symbol} {count}\n" for symbol, count in ordered))
