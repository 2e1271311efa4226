"""Renders the tables of README files from benchmarks/results/*.jsonl.

    python benchmarks/tables.py [--check] [FILE...]

A table stands between `<!-- table:NAME -->` and `<!-- /table -->`; names are those of benchmarks/columns.toml. Of rows
that measure the same, the newest counts; rows of code that was not committed, rows whose repeats lie far apart, and
rows that a neighbour contradicts are left out, which is told on stderr. With --check nothing is written, and the exit
status is 1 if a table is not what its rows say.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.columns import TABLES
from benchmarks.summary import LINES, SummaryLine
from benchmarks.table import Table
from common.benchmark import RESULTS, newest, read_rows

ROOT = Path(__file__).resolve().parent.parent
BETWEEN = re.compile(r"<!-- table:(?P<name>\S+) -->\n(?P<text>.*?)<!-- /table -->", re.DOTALL)
OPENING = re.compile(r"<!-- table:(\S+) -->")
Row = Mapping[str, Any]
UNVERIFIED = " †"
"""Marks rows of a time when rows did not tell committed code from other: theirs is the commit that they came with."""


class TablesError(ValueError):
    """A marker that cannot be used; the message names file and line."""


GREATEST_SPREAD = 0.5
"""A row whose repeats lie further apart, as a part of the median, is noise."""
SLACK = 1.1
"""How far times of neighbours may contradict each other."""


def published(table: Table, rows: Iterable[Row]) -> list[Row]:
    """The rows that `table` shows: of code that is committed, the newest for each of its lines and columns, but those
    whose repeats lie too far apart, and those that a neighbour contradicts. What is left out is told on stderr."""
    rows = [row for row in rows if all(row.get(name) == value for name, value in table.where.items())]
    committed = [row for row in rows if not str(row.get("commit", "")).endswith(("-dirty", "unknown"))]
    found = newest(committed, _names(table))
    against = [[other for other in found if contradict(table, row, other)] for row in found]
    counts = {id(row): len(others) for row, others in zip(found, against, strict=True)}
    kept = []
    for row, others in zip(found, against, strict=True):
        reason = ""
        if _spread(row) > GREATEST_SPREAD:
            reason = f"its repeats lie {_spread(row):.0%} of their median apart"
        elif worst := next((other for other in others if counts[id(row)] >= counts[id(other)]), None):
            reason = f"that of {_told(table, worst)} contradicts it"
        if reason:
            tell(f"{table.source}: the row of {_told(table, row)} is left out: {reason}; measure it again")
        else:
            kept.append(row)
    return kept


def contradict(table: Table, row: Row, other: Row) -> bool:
    """Whether two rows that differ in one size alone cannot both be right: the smaller takes longer than the larger, or
    the larger longer than the square of their ratio allows, which is what attention takes."""
    differing = [name for name in _names(table) if row.get(name) != other.get(name)]
    if len(differing) != 1 or differing[0] not in table.sizes:
        return False
    small, large = sorted((row, other), key=lambda each: each[differing[0]])
    most = SLACK * (large[differing[0]] / small[differing[0]]) ** 2
    times = [name for name in row if name == "p50" or name.endswith("_p50")]
    return any(
        not 1 / SLACK <= large[name] / small[name] <= most for name in times if small.get(name) and large.get(name)
    )


def _spread(row: Row) -> float:
    """How far the repeats of a row lie apart; where it does not tell, what the slowest of ten calls suggests."""
    if "spread" in row or not {"p90", "p99"} <= row.keys():
        return row.get("spread") or 0.0
    return (row["p90"] / row["p50"] - 1) / 2


def _names(table: Table) -> list[str]:
    return [*table.keys, *filter(None, [table.spread])]


def _told(table: Table, row: Row) -> str:
    return ", ".join(str(row.get(name)) for name in _names(table))


@cache
def tell(line: str) -> None:
    """Once, however many tables show the row."""
    print(line, file=sys.stderr)


def rendered(table: Table, rows: Iterable[Row]) -> str:
    """The table as Markdown, a newline at its end; a sentence where there are no rows."""
    rows = published(table, rows)
    if not rows:
        return f"No rows yet in benchmarks/results/{table.source}.jsonl.\n"
    values = list(dict.fromkeys(row[table.spread] for row in rows)) if table.spread else [""]
    latest = {(_key(table, row), row.get(table.spread, "")): row for row in rows}
    heads = [*table.keys.values(), *(head.format(value) for value in values for head in table.cells)]
    lines = [heads, ["---"] * len(table.keys) + ["--:"] * (len(heads) - len(table.keys))]
    for key in sorted({key for key, _ in latest}):
        found = [latest.get((key, value), {}) for value in values]
        first, *others = map(str, key)
        names = [first + UNVERIFIED * any(row.get("unverified") for row in found), *others]
        lines.append([*names, *(_cell(shape, row) for row in found for shape in table.cells.values())])
    return _markdown(lines)


def machines(folder: Path) -> str:
    """The processors whose limits rows carry, and the best of what was measured of each."""
    best: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for row in read_rows(path.stem, folder=folder):
            if row.get("copy_gb_per_second"):
                known = best.setdefault(row["device"], {"flags": row.get("processor_flags")})
                for name in ("peak_gflops", "copy_gb_per_second"):
                    known[name] = max(row.get(name) or 0, known.get(name, 0))
    heads = ["device", "instructions", "multiply-adds, 10^9 operations/s", "copy, GB/s read and written"]
    lines = [heads, ["---", "---", "--:", "--:"]]
    for device, known in sorted(best.items()):
        lines.append(
            [device, known["flags"] or "–", f"{known['peak_gflops']:.0f}", f"{known['copy_gb_per_second']:.0f}"]
        )
    return _markdown(lines)


def updated(text: str, path: Path, folder: Path = RESULTS) -> str:
    """`text` of the file `path` with every table as its rows say. Raises TablesError."""
    whole = {match.start() for match in BETWEEN.finditer(text)}
    for opening in OPENING.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, opening.start()) + 1}: {opening[0]}"
        if opening[1] not in (*TABLES, *WHOLE):
            raise TablesError(f"{where}: no such table; known: {', '.join((*TABLES, *WHOLE))}")
        if opening.start() not in whole:
            raise TablesError(f"{where}: expected a line {'<!-- /table -->'} after it")

    def render(match: re.Match[str]) -> str:
        name = match["name"]
        if name in WHOLE:
            text = WHOLE[name](folder)
        else:
            text = rendered(TABLES[name], read_rows(TABLES[name].source, folder=folder))
        return f"<!-- table:{name} -->\n{text}<!-- /table -->"

    return BETWEEN.sub(render, text)


def summary(folder: Path) -> str:
    """The table of the first page: of every line the range over the machines that were measured, or a dash."""
    lines = [["what", "against", "faster", "on", "measured by"], ["---", "---", "--:", "---", "---"]]
    for line in LINES:
        table = TABLES[line.table]
        rows = published(table, read_rows(table.source, folder=folder))
        found = sorted(_ratios(line, rows), key=lambda each: each[1])
        least, most = (line.shape.format(found[i][1]) if found else "–" for i in (0, -1))
        shown = most if least == most else f"{least.rstrip('×')} to {most}"
        devices = dict.fromkeys(row["device"] + UNVERIFIED * row.get("unverified", False) for row, _ in found)
        lines.append([line.what, line.against, shown, "; ".join(devices) or "–", f"`{line.command}`"])
    return _markdown(lines)


def _ratios(line: SummaryLine, rows: Iterable[Row]) -> Iterator[tuple[Row, float]]:
    """The rows that are meant, one of each machine, and how many times as fast they are."""
    rows = list(rows)
    for row in rows:
        if any(row.get(name) != value for name, value in line.where.items()):
            continue
        if line.ratio:
            if row.get(line.ratio):
                yield row, row[line.ratio]
            continue
        same_run = line.where | {name: row[name] for name in ("date", "device")} | line.other
        for other in rows:
            if all(other.get(name) == value for name, value in same_run.items()):
                yield row, other["p50"] / row["p50"]


def _markdown(lines: Iterable[Iterable[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def documents() -> list[Path]:
    """The Markdown files of the repository that may hold tables."""
    return sorted(
        path for pattern in ("*.md", "[!.]*/README.md", "[!.]*/*/README.md", "docs/*.md") for path in ROOT.glob(pattern)
    )


WHOLE: dict[str, Callable[[Path], str]] = {"summary": summary, "machines": machines}
"""Tables of more than one file of rows."""


def main(paths: list[Path], *, check: bool, folder: Path = RESULTS) -> int:
    """Writes the tables into `paths`, or with `check` only tells which are stale; returns the exit status."""
    stale = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        new = updated(text, path, folder)
        if new == text:
            continue
        stale.append(path)
        if not check:
            path.write_text(new, encoding="utf-8")
    for path in stale if check else []:
        print(f"{path}: a table is not what benchmarks/results says; run python benchmarks/tables.py", file=sys.stderr)
    return 1 if check and stale else 0


def _key(table: Table, row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name, "") for name in table.keys)


def _cell(shape: str, row: Row) -> str:
    try:
        return shape.format(**row)
    except (KeyError, TypeError):  # not measured, or None
        return "–"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="pages to render (default: all README files and docs)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="nothing is written; the exit status says whether the tables are up to date",
    )
    arguments = parser.parse_args()
    try:
        sys.exit(main(arguments.files or documents(), check=arguments.check))
    except (TablesError, OSError) as error:
        sys.exit(f"error: {error}")
