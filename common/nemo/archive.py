"""What a .nemo archive holds, read in place: nothing is unpacked, and nothing that it says is executed.

The archive is a tar, compressed or not, of plain files in one folder: a YAML description, weights, a tokenizer.
"""

import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import torch
from torch import Tensor

from common.checkpoint import CheckpointError

CONFIG, WEIGHTS = "model_config.yaml", "model_weights.ckpt"
MOST_CONFIG_BYTES = 2**23  # of 16,384 pieces, named three times, are 1 MB
MOST_TOKENIZER_BYTES = 2**27
MOST_VALUES = 500_000  # in the description, counted where they are used
MOST_DEPTH = 64  # collections within each other in the description
MOST_GROWTH = 4  # weights do not shrink to a quarter; what does is no weights


class Archive:
    """An open .nemo archive. Raises CheckpointError for what is no such archive, or holds more than plain files."""

    def __init__(self, path: Path, tar: tarfile.TarFile):
        self.path, self._tar = path, tar
        self._members: dict[str, tarfile.TarInfo] = {}
        for member in tar:
            name = member.name.removeprefix("./")
            if member.isdir() and name in ("", "."):
                continue
            if not member.isfile() or "/" in name or "\\" in name or name in ("", ".", ".."):
                kind = "a link or device" if not (member.isfile() or member.isdir()) else "not a file of its one folder"
                raise CheckpointError(f"{path}: refused: {member.name!r} in it is {kind}")
            self._members[name] = member

    def config(self) -> dict[str, Any]:
        """The description of the model: plain values. Raises CheckpointError."""
        text = self.read(CONFIG, at_most=MOST_CONFIG_BYTES)
        yaml = _yaml()
        # Safe loaders make plain values only, and refuse tags that name anything of Python. The one of libyaml, where
        # PyYAML has it, takes a tenth of the time.
        safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            if _depth(yaml.parse(text, Loader=safe_loader)) > MOST_DEPTH:  # the recursion of the one in C has no limit
                raise RecursionError
            described = safe_loader(text).get_single_data()
            n_values = _count(described, MOST_VALUES)
        except yaml.constructor.ConstructorError as error:
            raise CheckpointError(
                f"{self.path}: refused: its {CONFIG} wants more than values: {error.problem}"
            ) from None
        except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
            raise CheckpointError(
                f"{self.path}: its {CONFIG} is no YAML: {' '.join(str(error).split())[:200]}"
            ) from None
        except RecursionError:
            raise CheckpointError(f"{self.path}: refused: its {CONFIG} is nested too deeply") from None
        if n_values > MOST_VALUES:
            raise CheckpointError(f"{self.path}: refused: its {CONFIG} has more than {MOST_VALUES} values")
        if not isinstance(described, dict):
            raise CheckpointError(f"{self.path}: expected sections in its {CONFIG}, found {type(described).__name__}")
        return described

    def weights(self) -> dict[str, Tensor]:
        """The tensors by their names. Raises CheckpointError."""
        size = self.path.stat().st_size
        member = self._member(WEIGHTS)
        if member.size > MOST_GROWTH * size + 2**20:
            raise CheckpointError(f"{self.path}: refused: {WEIGHTS} of {member.size} bytes in a file of {size}")
        with self._tells_damage():
            file = self._tar.extractfile(member)
            assert file is not None
            state = _unpickled(file, member.size, self.path)
        if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
            raise CheckpointError(f"{self.path}: expected tensors by name in its {WEIGHTS}")
        return state

    def read(self, name: str, *, at_most: int) -> bytes:
        """The bytes of one file. Raises CheckpointError if it is absent or longer than `at_most`."""
        member = self._member(name)
        if member.size > at_most:
            raise CheckpointError(f"{self.path}: refused: {name} of {member.size} bytes; expected {at_most} at most")
        with self._tells_damage():
            file = self._tar.extractfile(member)
            assert file is not None
            return file.read()

    def _member(self, name: str) -> tarfile.TarInfo:
        if name not in self._members:
            found = ", ".join(list(self._members)[:5]) or "nothing"
            raise CheckpointError(f"{self.path}: expected {name} in it, found {found}")
        return self._members[name]

    @contextmanager
    def _tells_damage(self) -> Iterator[None]:
        with tells_damage(self.path):
            yield


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """The archive at `path`. Raises CheckpointError."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint")
    with tells_damage(path), tarfile.open(path) as tar:
        archive = Archive(path, tar)
        yield archive


@contextmanager
def tells_damage(path: Path) -> Iterator[None]:
    """What goes wrong in reading a tar is a CheckpointError."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        problem = (str(error) or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path}: damaged or not a .nemo archive: {problem}") from None


def _unpickled(file: IO[bytes], size: int, path: Path) -> Any:
    try:
        if zipfile.is_zipfile(file):
            held = sum(entry.file_size for entry in zipfile.ZipFile(file).infolist())
            if held > MOST_GROWTH * size + 2**20:
                raise CheckpointError(f"{path}: refused: {WEIGHTS} of {size} bytes unpacks to {held}")
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    except UnpicklingError as error:
        line = " ".join(str(error).split())
        wanted = line.partition("GLOBAL ")[2].split(" ")[0]
        what = f"it wants to run {wanted}" if wanted else "it holds more than tensors and plain values"
        raise CheckpointError(f"{path}: refused: {WEIGHTS}: {what}") from None
    except Exception as error:  # bytes that are no pickle make its reader fail anywhere
        problem = (str(error) or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path}: {WEIGHTS} in it is damaged: {problem}") from None


def _count(value: Any, most: int) -> int:
    """How many values there are, every mention of a shared one counted; stops beyond `most`."""
    total, open_values = 0, [value]
    while open_values and total <= most:
        value = open_values.pop()
        total += 1
        if isinstance(value, dict):
            open_values += value.values()
        elif isinstance(value, list):
            open_values += value
    return total


def _depth(events: Iterable[Any]) -> int:
    """How many collections are within each other at most, by a YAML parser's events; stops beyond MOST_DEPTH."""
    depth = deepest = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith(("SequenceStartEvent", "MappingStartEvent"))
        depth -= name.endswith(("SequenceEndEvent", "MappingEndEvent"))
        deepest = max(deepest, depth)
        if deepest > MOST_DEPTH:
            break
    return deepest


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise CheckpointError(".nemo archives need the package PyYAML: pip install pyyaml") from None
    return yaml
