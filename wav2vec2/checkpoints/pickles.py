"""Pickles of options of others' classes: read without executing anything.

Fairseq pickles its options as objects of classes that may not be there. Their names are allowed by list, and every one
is bound to a stand-in that keeps what it is given and does nothing: no code of a checkpoint ever runs. Anything that
is not on the list is refused.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError

# Classes that Fairseq's options consist of, and numbers as numpy pickles them.
ALLOWED = re.compile(
    r"(argparse\.Namespace|typing\.Any|pathlib\.\w*Path"
    r"|builtins\.(dict|list|tuple|set|int|float|str|bool|getattr)|numpy(\._?core)?\.(dtype|multiarray\.scalar)"
    r"|numpy\.dtypes\.\w+|(omegaconf|fairseq|enum)(\.\w+)+)"
)

# Those that are in nearly every checkpoint: each name found later means reading the file once more.
USUAL = (
    *("argparse.Namespace", "typing.Any", "builtins.dict", "builtins.list", "builtins.int"),
    *("omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig", "omegaconf.nodes.AnyNode"),
    *("omegaconf.base.ContainerMetadata", "omegaconf.base.Metadata", "numpy.core.multiarray.scalar", "numpy.dtype"),
)

MOST_NAMES = 100


def load_foreign(path: Path) -> dict[str, Any]:
    """As common.runs.checkpoint.load, for files with pickled options too, whose objects become stand-ins.

    A global of the pickle that ALLOWED does not name is refused; nothing in the file is executed. Raises
    CheckpointError.
    """
    allowed: list[tuple[Callable[..., Any], str]] = [(StandIn, name) for name in USUAL]
    allowed.append((empty_dict, "collections.defaultdict"))  # torch fills nothing but dictionaries
    while True:
        try:
            with torch.serialization.safe_globals(allowed):  # type: ignore[arg-type]
                return checkpoint.load(path)
        except CheckpointError as error:
            found = re.search(r"it wants to run ([\w.]+)", str(error))
            name = "" if found is None else found[1] if "." in found[1] else f"builtins.{found[1]}"
            if not ALLOWED.fullmatch(name) or (StandIn, name) in allowed or len(allowed) >= MOST_NAMES:
                raise
            allowed.append((StandIn, name))
        except (AttributeError, AssertionError, IndexError, RecursionError, TypeError) as error:
            raise CheckpointError(f"{path}: damaged or not a checkpoint: {error}") from None


class StandIn(dict[Any, Any]):
    """In place of an object whose class is not to be used: keeps arguments, state and items, and does nothing."""

    arguments: tuple[Any, ...] = ()

    def __new__(cls, *arguments: Any) -> "StandIn":
        """Keeps `arguments`."""
        self = super().__new__(cls)
        self.arguments = arguments
        return self

    def __init__(self, *arguments: Any):
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        """Keeps what the object's attributes were."""
        if isinstance(state, Mapping):
            self.update(state)


def empty_dict(*_: Any) -> dict[Any, Any]:
    """In place of collections.defaultdict and what it would call."""
    return {}


def plain(value: Any) -> Any:
    """Dictionaries, lists, strings and numbers in place of stand-ins for Namespaces, OmegaConf's nodes and enums."""
    if isinstance(value, StandIn):
        if "_content" in value:  # a DictConfig or ListConfig
            return plain(value["_content"])
        if "_val" in value:  # a node of OmegaConf with one value
            return plain(value["_val"])
        if not value and value.arguments:  # an enum: (value) or (class, name)
            return plain(value.arguments[-1])
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
