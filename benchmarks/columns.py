"""The tables of the README files, as columns.toml describes them."""

import re
import tomllib
from pathlib import Path
from typing import Any

from benchmarks.table import Table

HEADINGS = {"config": "model", "seconds_of_audio": "seconds", "processes": "GPUs", "frames": "T", "classes": "V"}
"""Headings of fields that are not headed by their names."""


def _table(name: str, keys: str, cells: str, **other: Any) -> Table:
    fields = (key.partition(": ") for key in keys.split(", "))
    shown = (cell.partition(" = ") for cell in re.split(r"; |\n", cells.strip()))
    return Table(
        source=other.pop("source", name),
        keys={field: heading or HEADINGS.get(field, field) for field, _, heading in fields},
        cells={heading: form for heading, _, form in shown},
        **{field: tuple(value) if isinstance(value, list) else value for field, value in other.items()},
    )


_DESCRIBED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TABLES = {name: _table(name, **described) for name, described in _DESCRIBED.items()}
