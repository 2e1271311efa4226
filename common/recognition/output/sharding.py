"""One of several jobs that share a list of recordings: each writes its part, whole or not at all, and one joins them.

`--shard i/n` takes the i-th of n equal stretches of the list, in order, so that the parts one after the other are what
one job would have written. Any scheduler can start the jobs, in any order, and again where one was killed.
"""

import re
from pathlib import Path
from typing import NamedTuple

from common.config import ConfigError
from common.files.atomic import written_whole
from common.recognition.output.writing import Format, file_name, tell
from common.recognition.sources.inputs import FoundRecordings, InputRecording


class Shard(NamedTuple):
    """Job `number` of `total`, from 1."""

    number: int
    total: int

    def of(self, items: list[InputRecording]) -> list[InputRecording]:
        """Its stretch of the items."""
        first, end = ((k * len(items)) // self.total for k in (self.number - 1, self.number))
        return items[first:end]

    def part(self, path: Path) -> Path:
        """Where its part of the output goes."""
        return path.with_name(f"{path.name}.{self.number}-of-{self.total}")


def parsed(text: str) -> Shard:
    """The shard that 2/8 means. Raises ValueError."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"shard = {text!r}: expected i/n, the i-th of n jobs, such as 2/8")
    return Shard(int(match[1]), int(match[2]))


def check(shard: str | None, merge: bool, output: Path | None, output_dir: Path | None) -> None:
    """Raises ValueError for options that do not go together."""
    if output is not None and output_dir is not None:
        raise ValueError("output and output_dir: expected one of them, found both")
    if shard is not None:
        parsed(shard)
        if output is None and output_dir is None:
            raise ValueError("shard: expected --output or --output_dir; the parts of a terminal cannot be joined")
    if merge and (output is None or shard is not None):
        raise ValueError("merge: expected --output, whose parts are joined, and no --shard")


def left_to_do(
    found: FoundRecordings, shard: str | None, style: Format, output: Path | None, output_dir: Path | None
) -> FoundRecordings | None:
    """What a job has to do of `found`: its stretch, without what is there already; None where its part is.

    Without a shard it is all of it. What could not be found is told by the first job alone.
    """
    if shard is None:
        return found
    job = parsed(shard)
    items = job.of(found.items)
    if output is not None and job.part(output).exists():
        tell(f"{job.part(output)}: is there already; remove it to transcribe these again")
        return None
    if output_dir is not None:
        missing = [item for item in items if not (output_dir / file_name(item.name, style)).exists()]
        if len(missing) < len(items):
            tell(f"{output_dir}: {len(items) - len(missing)} of {len(items)} are there already")
        items = missing
    return FoundRecordings(items, found.problems if job.number == 1 else [])


def merge_parts(output: Path) -> None:
    """Joins the parts of `output` in order. Raises ConfigError where one is missing."""
    parts: dict[int, dict[int, Path]] = {}
    for path in output.parent.glob(f"{glob_escaped(output.name)}.*-of-*"):
        if match := re.fullmatch(r"(\d+)-of-(\d+)", path.name.removeprefix(f"{output.name}.")):
            parts.setdefault(int(match[2]), {})[int(match[1])] = path
    if len(parts) != 1:
        counts = ", ".join(f"of {count}" for count in sorted(parts)) or "none"
        raise ConfigError(f"{output}: expected the parts of one run, {output.name}.1-of-n and so on; found {counts}")
    ((count, own),) = parts.items()
    if missing := [number for number in range(1, count + 1) if number not in own]:
        names = ", ".join(Shard(number, count).part(output).name for number in missing[:5])
        raise ConfigError(f"{output}: {len(missing)} of {count} parts are missing: {names}; run those shards again")
    lines = 0
    with written_whole(output) as file:
        for number in range(1, count + 1):
            content = own[number].read_bytes()
            lines += content.count(b"\n")
            file.write(content)
    tell(f"{output}: {lines} lines of {count} parts")


def glob_escaped(name: str) -> str:
    """A name with nothing in it that `Path.glob` would read as a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", name)
