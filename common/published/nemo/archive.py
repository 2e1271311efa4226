"""What a .nemo archive holds, read in place: nothing is unpacked, and nothing that it says is executed.

The archive is a tar, compressed or not, of plain files in one folder: a YAML description, weights, a tokenizer.
"""

import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import torch
from torch import Tensor

from common.files import file_types
from common.runs import checksum
from common.runs.checkpoint import CheckpointError

CONFIG, WEIGHTS = "model_config.yaml", "model_weights.ckpt"
MOST_CONFIG_BYTES = 2**23  # of 16,384 pieces, named three times, are 1 MB
MOST_TOKENIZER_BYTES = 2**27
MOST_VALUES = 500_000  # in the description, counted where they are used
MOST_REFERENCES = 8  # from one to the next, in the description
MOST_DEPTH = 64  # collections within each other in the description
MOST_GROWTH = 4  # weights do not shrink to a quarter; what does is no weights


class Archive:
    """An open .nemo archive, or the folder that one was unpacked to: plain files by their names, with their sizes."""

    def __init__(self, path: Path, sizes: Mapping[str, int], open_file: Callable[[str], IO[bytes]]):
        self.path, self._sizes, self._open = path, sizes, open_file

    def named(self, end: str) -> str | None:
        """The one file whose name ends so; None where there is none, or several."""
        found = [name for name in self._sizes if name.endswith(end)]
        return found[0] if len(found) == 1 else None

    def config(self, name: str = CONFIG) -> dict[str, Any]:
        """The description of the model: plain values. Raises CheckpointError."""
        text = self.read(name, at_most=MOST_CONFIG_BYTES)
        yaml = _yaml()
        # Safe loaders make plain values only, and refuse tags that name anything of Python. The one of libyaml, where
        # PyYAML has it, takes a tenth of the time.
        safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            if _depth(yaml.parse(text, Loader=safe_loader)) > MOST_DEPTH:  # the recursion of the one in C has no limit
                raise RecursionError
            described = _resolved(safe_loader(text).get_single_data())
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
        whole = described.get("model")  # of a training's configuration
        return whole if isinstance(whole, dict) and "encoder" in whole and "encoder" not in described else described

    def weights(self, name: str = WEIGHTS) -> dict[str, Tensor]:
        """The tensors by their names. Raises CheckpointError."""
        size = self._size(name)
        with self._tells_damage(), self._open(name) as file:
            state = _unpickled(file, size, self.path)
        if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
            raise CheckpointError(f"{self.path}: expected tensors by name in its {WEIGHTS}")
        return state

    def read(self, name: str, *, at_most: int) -> bytes:
        """The bytes of one file. Raises CheckpointError if it is absent or longer than `at_most`."""
        size = self._size(name)
        if size > at_most:
            raise CheckpointError(f"{self.path}: refused: {name} of {size} bytes; expected {at_most} at most")
        with self._tells_damage(), self._open(name) as file:
            return file.read()

    def _size(self, name: str) -> int:
        if name not in self._sizes:
            found = ", ".join(list(self._sizes)[:5]) or "nothing"
            raise CheckpointError(f"{self.path}: expected {name} in it, found {found}")
        return self._sizes[name]

    @contextmanager
    def _tells_damage(self) -> Iterator[None]:
        with tells_damage(self.path):
            yield


def folder_of(path: Path) -> Path | None:
    """The folder of an unpacked archive that `path` is, or that it names a file of; None for others."""
    folder = path.parent if path.name in (CONFIG, WEIGHTS) else path
    return folder if (folder / CONFIG).is_file() else None


def is_archive(path: Path) -> bool:
    """Whether there is one, packed or unpacked, or should be by its name. Raises OSError."""
    if path.suffix == ".nemo" or folder_of(path) is not None:
        return True
    try:
        return path.is_file() and tarfile.is_tarfile(path)
    except EOFError:  # what is packed ends early, which its reader tells
        return True


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """The archive at `path`. Raises CheckpointError, also for one that holds more than plain files."""
    if (folder := folder_of(path)) is not None:
        sizes = {file.name: file.stat().st_size for file in folder.iterdir() if file.is_file()}
        yield Archive(folder, sizes, lambda name: (folder / name).open("rb"))
        return
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint")
    if (other := file_types.instead_of(path, "a checkpoint or a .nemo archive")) is not None:
        raise CheckpointError(f"{path}: {other}")
    with tells_damage(path), tarfile.open(path) as tar:
        members = _members(path, tar)

        def open_file(name: str) -> IO[bytes]:
            file = tar.extractfile(members[name])
            assert file is not None
            return file

        yield Archive(path, {name: member.size for name, member in members.items()}, open_file)


def _members(path: Path, tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """The files by their names, which may be in a folder, all in the same one. Raises CheckpointError."""
    named, held, packed = [], 0, path.stat().st_size
    for member in tar:  # whose header is read before what it holds is unpacked
        named.append((member.name.removeprefix("./"), member))
        held += member.size
        if held > MOST_GROWTH * packed + 2**24:
            raise CheckpointError(f"{path}: refused: {named[-1][0]} of {member.size} bytes in a file of {packed}")
    named = [(name, member) for name, member in named if not _is_of_the_system(name)]
    folder = next((name.partition("/")[0] for name, _ in named if name.endswith(f"/{CONFIG}")), "")
    if folder and all(name in ("", ".", folder) or name.startswith(f"{folder}/") for name, _ in named):
        named = [(name.removeprefix(folder).removeprefix("/"), member) for name, member in named]
    members = {}
    for name, member in named:
        if member.isdir() and name in ("", "."):
            continue
        if not member.isfile() or "/" in name or "\\" in name or name in ("", ".", ".."):
            kind = "a link or device" if not (member.isfile() or member.isdir()) else "not a file of its one folder"
            raise CheckpointError(f"{path}: refused: {member.name!r} in it is {kind}")
        members[name] = member
    return members


def _is_of_the_system(name: str) -> bool:
    """Whether macOS has added it to what a user packed."""
    *_, last = parts = name.split("/")
    return "__MACOSX" in parts or last.startswith("._") or last == ".DS_Store"


@contextmanager
def tells_damage(path: Path) -> Iterator[None]:
    """What goes wrong in reading a tar is a CheckpointError."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        problem = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
        raise CheckpointError(f"{path}: damaged or not a .nemo archive: {problem}") from None


def _unpickled(file: IO[bytes], size: int, path: Path) -> Any:
    try:
        if zipfile.is_zipfile(file) and (problem := checksum.unpacked(zipfile.ZipFile(file), size)):
            raise CheckpointError(f"{path}: refused: {WEIGHTS}: {problem}")
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


def _resolved(described: Any) -> Any:
    """The description with what "${labels}" and "${model.sample_rate}" refer to in their place."""
    if not isinstance(described, dict):
        return described

    def found(text: str) -> Any:
        value: Any = text
        for _ in range(MOST_REFERENCES):
            reference = re.fullmatch(r"\$\{([\w.]+)\}", value) if isinstance(value, str) else None
            if reference is None:
                break
            keys = reference[1].split(".")
            value = described
            for key in keys[1:] if keys[0] == "model" and "model" not in described else keys:
                value = value.get(key) if isinstance(value, dict) else None
        return text if value is None else value

    open_values: list[Any] = [described]
    seen: set[int] = set()
    while open_values:
        value = open_values.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        places = list(value.items() if isinstance(value, dict) else enumerate(value))
        for key, item in places:
            if isinstance(item, str):
                value[key] = found(item)
            elif isinstance(item, dict | list):
                open_values.append(item)
    return described


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
