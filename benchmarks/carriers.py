"""Phrases that teach the English reader, made of carriers, sentences with gaps, and of what may fill these.

benchmarks/phrases/taught/carriers.tsv has lists of fillers (their readings behind them, where they are read otherwise
than they are written) and carriers: how many phrases to make of one, the sentence, and its reading. A gap {name} is
filled from a list or from the reader's own tables: a unit, an abbreviation of a kind. {n} is a number. The fillers of a
gap follow each other in steps, so that each carrier has others, and the same on every machine.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from common.text.engine.choose import read_table
from common.text.english.say import TABLES
from common.text.english.words import is_word_too
from common.text.numbers import cardinal, plural

CARRIERS = Path(__file__).resolve().parent / "phrases" / "taught" / "carriers.tsv"
_NUMBERS = (
    "2", "3", "4", "5", "6", "7", "8", "9", "10", "12", "15", "18", "20", "25", "36", "40", "48", "60", "75", "80",
    "95", "110", "150", "240", "350", "500", "1,200", "2,500", "0.5", "1.5", "2.4", "3.75", "6.2", "29.92", "0.35",
)  # fmt: skip
_KINDS = ("title", "street", "abbreviation")
_STEP = 37  # from one filler to the next


def carried() -> Iterator[tuple[str, str]]:
    """The phrases, written and said."""
    fillers = _of_tables()
    places = count()
    for first, *rest in read_table(CARRIERS):
        if first == "list":
            name, written, *said = rest
            said_so = (said or [written.lower()])[0].split("|")
            several = map(plural, said_so) if name == "short" else said_so
            fillers[name] = list(zip(written.split("|"), said_so, several, strict=True))
            continue
        for _ in range(int(first)):
            yield _filled(*rest, fillers, places)


def _filled(
    carrier: str, said: str, fillers: dict[str, list[tuple[str, str, str]]], places: Iterator[int]
) -> tuple[str, str]:
    """A carrier whose gaps are filled, and its reading; {one} and {several} of it are the names of its units."""
    chosen: dict[str, list[tuple[str, str, str]]] = {}

    def fill(gap: re.Match[str]) -> str:
        found = fillers[gap[1]]
        filler = found[next(places) * _STEP % len(found)]
        chosen.setdefault(gap[1], []).append(filler)
        return filler[0]

    written = re.sub(r"\{(\w+)\}", fill, carrier)
    used: Counter[str] = Counter()

    def say(gap: re.Match[str]) -> str:
        name = gap[1] if gap[1] not in ("one", "several") else "short" if "short" in chosen else "unit"
        used[name] += 1
        return chosen[name][used[name] - 1][2 if gap[1] == "several" else 1]

    return written, re.sub(r"\{(\w+)\}", say, said)


def _of_tables() -> dict[str, list[tuple[str, str, str]]]:
    """Numbers, and what the reader's tables have that can be read in one way."""
    fillers = {"n": [(n, cardinal(n), cardinal(n)) for n in _NUMBERS]}
    rows = [row for row in read_table(TABLES / "units.tsv") if row[3] == "unit" and row[0] not in ("in", "yo", "cd")]
    often = Counter(row[0] for row in rows)
    fillers["unit"] = [
        (row[0], row[1], row[2]) for row in rows if often[row[0]] == 1 and row[0].isalpha() and len(row[0]) > 1
    ]
    rows = read_table(TABLES / "abbreviations.tsv")
    often = Counter(row[0].lower() for row in rows)
    for kind in _KINDS:
        fillers[kind] = [
            (row[0] if kind == "abbreviation" else row[0].capitalize(), row[1], row[1]) for row in rows
            if row[2] == kind and often[row[0].lower()] == 1 and row[0].isalpha() and not is_word_too(row[0])
        ]  # fmt: skip
    fillers["both"] = [
        (row[0], row[1], row[1])
        for row in rows
        if row[2] == "abbreviation" and often[row[0].lower()] == 1 and row[0].islower() and is_word_too(row[0])
    ]
    return fillers
