"""A user's own readings: words as they are written, and units, in a file that the readers of texts take.

TOML: a table `[words]`, `SQL = "sequel"`, and a table `[units]`, `kn = "knot"`, names in the singular. JSON: the same
tables, or words alone, {"SQL": "sequel"}.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from common.files.atomic import decoded


class ReadingsError(ValueError):
    """A file of readings that cannot be used; the message names it and says why."""


@dataclass(frozen=True, kw_only=True)
class Readings:
    """How words and units are read that the tables do not have, or have otherwise."""

    words: Mapping[str, str] = field(default_factory=dict)
    """By the word as it is written, in its case: {"SQL": "sequel"}."""
    units: Mapping[str, str] = field(default_factory=dict)
    """By the unit's symbol, the name in the singular: {"kn": "knot"}."""


NONE = Readings()


@cache
def read_readings(path: Path) -> Readings:
    """The readings of a .toml or .json file. Raises ReadingsError."""
    try:
        text = decoded(path.read_bytes())
        table = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ReadingsError(f"{path}: cannot be read as readings ({error})") from None
    if isinstance(table, dict) and path.suffix == ".json" and not table.keys() & {"words", "units"}:
        table = {"words": table}
    if not isinstance(table, dict) or (unknown := table.keys() - {"words", "units"}):
        found = ", ".join(sorted(unknown)) if isinstance(table, dict) else "no table"
        raise ReadingsError(f"{path}: {found}; expected the tables words and units")
    for name, readings in table.items():
        if not isinstance(readings, dict) or not all(isinstance(said, str) for said in readings.values()):
            raise ReadingsError(f'{path}: {name}: expected a table of texts, such as SQL = "sequel"')
    return Readings(words=table.get("words", {}), units=table.get("units", {}))
