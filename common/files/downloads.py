"""What a download from a hub that broke off has left out of its folder."""

import contextlib
import json
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

_PART = re.compile(r"(.*)-(\d+)-of-(\d{1,6})(\.\w+)")


def missing_files(folder: Path, patterns: Sequence[str] = ("*",)) -> list[str]:
    """Files of these patterns that there should be, as far as others tell: an index of weights, numbers in names such
    as 00001-of-00003 (weights count from 1, tables from 0), links."""
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    wanted = {path for path in files if path.is_symlink()}
    for index in folder.glob("*.index.json"):
        with contextlib.suppress(OSError, ValueError, LookupError, AttributeError, TypeError):
            wanted |= {folder / str(file) for file in json.loads(index.read_text("utf-8"))["weight_map"].values()}
    parts = [(path.parent, found) for path in files if (found := _PART.fullmatch(path.name))]
    for parent, before, digits, count, ending in {(parent, m[1], len(m[2]), m[3], m[4]) for parent, m in parts}:
        first = 0 if ending in (".parquet", ".arrow") else 1
        numbers = (str(first + i).zfill(digits) for i in range(int(count)))
        wanted |= {parent / f"{before}-{number}-of-{count}{ending}" for number in numbers}
    wanted = {path for path in wanted if path.is_relative_to(folder)}
    missing = [path for path in wanted if not path.is_file() and any(fnmatch(path.name, p) for p in patterns)]
    return sorted(str(path.relative_to(folder)) for path in missing)


def missing_by(error: BaseException) -> str:
    """The files that huggingface_hub's own error names, since version 2; "" for any other error."""
    told = re.search(r"is incomplete: .*missing \((.*?)\)\.", str(error))
    return told[1] if told else ""


def listed(files: Sequence[str]) -> str:
    """The first of some files, and how many more there are."""
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
