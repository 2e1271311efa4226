"""Renders the tables of README files from benchmarks/results/*.jsonl.

    python benchmarks/tables.py [--check] [FILE...]

A table stands between `<!-- table:NAME -->` and `<!-- /table -->`; names are the keys of TABLES in
benchmarks/columns.py. Of rows that measure the same, the newest counts. With --check nothing is written, and the exit
status is 1 if a table is not what its rows say.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.columns import TABLES
from benchmarks.summary import summary
from benchmarks.table import Table
from common.benchmark import RESULTS, newest, read_rows

ROOT = Path(__file__).resolve().parent.parent
BETWEEN = re.compile(r"<!-- table:(?P<name>\S+) -->\n(?P<text>.*?)<!-- /table -->", re.DOTALL)
OPENING = re.compile(r"<!-- table:(\S+) -->")
Row = Mapping[str, Any]


class TablesError(ValueError):
    """A marker that cannot be used; the message names file and line."""


def rendered(table: Table, rows: Iterable[Row]) -> str:
    """The table as Markdown, a newline at its end; a sentence where there are no rows."""
    rows = [row for row in rows if all(row.get(name) == value for name, value in table.where.items())]
    if not rows:
        return f"No rows yet in benchmarks/results/{table.source}.jsonl.\n"
    values = list(dict.fromkeys(row[table.spread] for row in rows)) if table.spread else [""]
    latest = {
        (_key(table, row), row.get(table.spread, "")): row for row in newest(rows, [*table.keys, table.spread or ""])
    }
    heads = [*table.keys.values(), *(head.format(value) for value in values for head in table.cells)]
    lines = [heads, ["---"] * len(table.keys) + ["--:"] * (len(heads) - len(table.keys))]
    for key in sorted({key for key, _ in latest}):
        found = [latest.get((key, value), {}) for value in values]
        lines.append([*map(str, key), *(_cell(shape, row) for row in found for shape in table.cells.values())])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def updated(text: str, path: Path, folder: Path = RESULTS) -> str:
    """`text` of the file `path` with every table as its rows say. Raises TablesError."""
    whole = {match.start() for match in BETWEEN.finditer(text)}
    for opening in OPENING.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, opening.start()) + 1}: {opening[0]}"
        if opening[1] not in (*TABLES, "summary"):
            raise TablesError(f"{where}: no such table; known: {', '.join((*TABLES, 'summary'))}")
        if opening.start() not in whole:
            raise TablesError(f"{where}: expected a line {'<!-- /table -->'} after it")

    def render(match: re.Match[str]) -> str:
        name = match["name"]
        if name == "summary":
            text = summary(folder)
        else:
            text = rendered(TABLES[name], read_rows(TABLES[name].source, folder=folder))
        return f"<!-- table:{name} -->\n{text}<!-- /table -->"

    return BETWEEN.sub(render, text)


def documents() -> list[Path]:
    """The Markdown files of the repository that may hold tables."""
    return sorted(
        path for pattern in ("*.md", "[!.]*/README.md", "[!.]*/*/README.md", "docs/*.md") for path in ROOT.glob(pattern)
    )


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
