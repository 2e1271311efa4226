"""What a table of the README files shows: which rows, which of their fields, under which headings."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Table:
    """How rows of one results file are shown."""

    source: str
    """Name of the file, without .jsonl."""
    keys: dict[str, str]
    """Field -> heading. Together they name a line; lines are in their order."""
    cells: dict[str, str]
    """Heading -> format of what a row says. With `spread`, one format under the heading "{}"."""
    where: dict[str, Any] = field(default_factory=dict)
    """Values that rows must have to be shown."""
    sizes: tuple[str, ...] = ("seconds_of_audio", "batch", "frames", "labels", "classes")
    """Fields of which more takes longer."""
    spread: str = ""
    """A field with a column for each of its values."""
