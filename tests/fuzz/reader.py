"""What a reader is to the fuzzer."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Reader(NamedTuple):
    """Files that are read well, by the suffix of their names; how one is read; the errors that refuse one."""

    seeds: list[tuple[str, bytes]]
    read: Callable[[Path], object]
    errors: tuple[type[Exception], ...]
