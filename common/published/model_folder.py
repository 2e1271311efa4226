"""Folders of Hugging Face's `transformers`: JSON descriptions, and weights in one file or several.

Nothing in them is executed: weights are safetensors, or pickles of tensors and plain values alone.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from common.files import file_types
from common.files.atomic import decoded
from common.files.json_text import parsed
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError

FILES = ("config.json", "model.safetensors", "pytorch_model.bin", "vocab.json", "tokenizer_config.json")


def folder_of(path: Path) -> Path | None:
    """The folder that `path` is, or that it names a file of; None for other files."""
    if path.is_dir():
        return path
    named = path.suffix == ".safetensors" or path.name in FILES or path.name.endswith(".index.json")
    return path.parent if named and (path.parent / "config.json").is_file() else None


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights in `folder` by their names. Raises CheckpointError."""
    for name, read in (("model.safetensors", read_safetensors), ("pytorch_model.bin", checkpoint.load)):
        if files := _parts(folder, name):
            return _unwrapped({key: value for file in files for key, value in read(file).items()})
    raise CheckpointError(f"{folder}: expected model.safetensors or pytorch_model.bin in it")


def _unwrapped(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights without what torch.compile and processes in parallel put before every name."""
    for prefix in ("_orig_mod.", "module.", "_orig_mod."):
        if weights and all(isinstance(name, str) and name.startswith(prefix) for name in weights):
            weights = {name.removeprefix(prefix): weight for name, weight in weights.items()}
    return weights


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file. Raises CheckpointError."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise CheckpointError(f"{path}: no such file, though {path.parent} names it")
    if (other := file_types.instead_of(path, "weights")) is not None:
        raise CheckpointError(f"{path}: {other}")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: damaged or not a safetensors file: {error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises CheckpointError."""
    try:
        value = parsed(decoded(path.read_bytes()))
    except FileNotFoundError:
        ours = sorted(path.parent.glob("*.pt"))[:1]
        instead = f", or the name of one checkpoint, such as {ours[0]}" if ours else ""
        # What a Trainer of transformers leaves, and what the hub keeps.
        for pattern in () if ours else (f"checkpoint-*/{path.name}", f"snapshots/*/{path.name}", f"*/{path.name}"):
            if deeper := sorted(path.parent.glob(pattern)):
                instead = f", or the name of a folder that has one, such as {deeper[-1].parent}"
                break
        raise CheckpointError(f"{path.parent}: expected a file {path.name} in it{instead}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected an object, found {type(value).__name__}")
    return value


def of_file(path: Path) -> dict[str, Any]:
    """What a file that need not be there holds. Raises CheckpointError."""
    return read_json(path) if path.is_file() else {}


def _parts(folder: Path, name: str) -> list[Path]:
    """The files that weights called `name` consist of; none if they are not there."""
    index = folder / f"{name}.index.json"
    if (folder / name).is_file() or not index.is_file():
        return [folder / name] if (folder / name).is_file() else []
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(n, str) and n == Path(n).name for n in names.values()):
        raise CheckpointError(f"{index}: expected a weight_map to names of files in this folder")
    return [folder / part for part in sorted(set(names.values()))]
