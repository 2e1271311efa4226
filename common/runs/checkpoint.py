"""Checkpoints: one file each, whole or absent, checked bit by bit, loaded without executing anything.

A checkpoint is a dictionary of tensors and plain values. It appears under its name only when every byte is on disk,
so a process killed at any moment leaves the previous state readable. Ours end with a checksum of the whole file;
those of others have one for each of their records. Both are looked at whenever a checkpoint is loaded.
"""

import contextlib
import errno
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, Generic, NamedTuple, TypeVar, cast

import torch
from torch.overrides import TorchFunctionMode

from common.config import ConfigError
from common.convolution.weights.kept import owned
from common.files import atomic, file_types
from common.runs import checksum

_COUNTER = ".num_batches_tracked"
_EACH = 3  # weights up to which each is named
_STEP = re.compile(r"_step(\d+)\.pt$")


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, or holds what may not be loaded; the message names the file."""


# What an unusual or hostile description makes Python and torch raise when they are told to use it.
UNUSABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)

Configuration = TypeVar("Configuration")
Model = TypeVar("Model", bound=torch.nn.Module)


class Imported(NamedTuple, Generic[Configuration]):
    """What a checkpoint gives, whoever wrote it: weights under this repository's names, their moving average if there
    is one, and the configuration that they fit."""

    weights: dict[str, torch.Tensor]
    ema: dict[str, torch.Tensor] | None
    config: Configuration
    assumed: tuple[str, ...] = ()
    """What the checkpoint does not say, in lines for the user."""
    step: int | None = None
    """Optimiser step at which it was saved, if it says so."""

    def chosen(self, ema: bool | None, path: Path | str) -> dict[str, torch.Tensor]:
        """The averaged weights or, if `ema` is False, the others; None takes the averaged ones where there are any.

        Raises CheckpointError, which names `path`, where there are none.
        """
        check_averaged(ema, self.ema, path)
        return self.weights if self.ema is None or ema is False else self.ema


def check_averaged(wanted: bool | None, averaged: Any, path: Path | str) -> None:
    """Raises CheckpointError where averaged weights are wanted and there are none."""
    if wanted and averaged is None:
        raise CheckpointError(f"{path}: has no averaged (EMA) weights; load it with ema=False")


class UnreadableError(CheckpointError):
    """A checkpoint that cannot be read now, and may be whole: no permission, or a file system that is away."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Writes `state` to `path` atomically and sealed. Raises OSError."""
    with atomic.written_whole(path) as file:
        writer = checksum.SealWriter(file)
        torch.save(state, cast(IO[bytes], writer))
        writer.seal()


def load(path: Path) -> dict[str, Any]:
    """The dictionary saved at `path`, on the CPU. Raises CheckpointError; code inside the file is never executed."""
    state = _unpickled(path, "checkpoint")
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: expected a dictionary, found {type(state).__name__}")
    return state


def load_tensor(path: Path) -> torch.Tensor:
    """The tensor saved at `path`, on the CPU. Raises CheckpointError as `load` does."""
    tensor = _unpickled(path, "tensor")
    if not isinstance(tensor, torch.Tensor):
        raise CheckpointError(f"{path}: expected a tensor, found {type(tensor).__name__}")
    return tensor


def _unpickled(path: Path, kind: str) -> Any:
    if path.is_dir():
        inside = ", such as ".join(["one file", *sorted(found.name for found in path.glob("*.pt"))[:1]])
        raise CheckpointError(f"{path}: is a folder; expected a {kind}, which is {inside}")
    if not path.is_file():
        raise CheckpointError(f"{path}: no such {kind}")
    try:
        problem = checksum.damage(path)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of an offset that damage made impossible
            raise UnreadableError(f"{path}: cannot be read: {error.strerror or error}") from None
        problem = "an offset in it is impossible"
    if (other := file_types.instead_of(path, f"a {kind}")) is not None:
        raise CheckpointError(f"{path}: {other}")
    try:
        if problem:
            raise CheckpointError(f"{path}: damaged or not a {kind}: {problem}")
        return torch.load(path, map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    except UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        if found:
            raise CheckpointError(
                f"{path}: refused: it wants to run {found[1]}; a {kind} may hold only tensors and plain values"
            ) from None
        raise CheckpointError(f"{path}: damaged or not a {kind} of tensors and plain values") from None
    except Exception as error:  # bytes that are no pickle make its reader fail anywhere: IndexError, struct.error, ...
        problem = _first_line(error)
        is_told = "weights_only" not in problem and not isinstance(error, LookupError)  # torch says: run it; or a byte
        told = f": {problem}" if is_told else " of tensors and plain values"
        raise CheckpointError(f"{path}: damaged or not a {kind}{told}") from None


def step_path(folder: Path, name: str, step: int) -> Path:
    """Where the checkpoint of optimiser step `step` lies."""
    return folder / f"{name}_step{step:08d}.pt"


def saved_steps(folder: Path, name: str) -> list[tuple[int, Path]]:
    """(step, path) of the checkpoints in `folder`, oldest first. The best-so-far file is not among them."""
    found = [(int(m[1]), p) for p in folder.glob(f"{name}_step*.pt") if (m := _STEP.search(p.name))]
    return sorted(found)


def load_newest(folder: Path, name: str) -> tuple[dict[str, Any] | None, list[Path]]:
    """The newest whole checkpoint in `folder`, and the damaged ones that are newer; changes nothing.

    None if there is no checkpoint at all. If there are some and none is whole, CheckpointError: training never starts
    again from zero without being told to. UnreadableError if the newest may be whole and cannot be read now.
    """
    damaged: list[Path] = []
    problems: list[str] = []
    for _, path in reversed(saved_steps(folder, name)):
        try:
            return load(path), damaged
        except UnreadableError:
            raise
        except CheckpointError as error:
            damaged.append(path)
            problems.append(str(error))
    if problems:
        raise CheckpointError(f"{folder}: none of its {len(problems)} checkpoints can be read: {problems[0]}")
    return None, damaged


@contextlib.contextmanager
def usable(path: Path | str) -> Iterator[None]:
    """Around what makes a model of a checkpoint: whatever its contents make Python raise is a CheckpointError."""
    try:
        yield
    except CheckpointError:
        raise
    except UNUSABLE as error:
        problem = " ".join((str(error) or type(error).__name__).split())
        told = problem if problem.startswith(str(path)) else f"{path}: describes no model that is known: {problem}"
        raise CheckpointError(told[:600]) from None


@contextlib.contextmanager
def own_description(path: Path | str, *others: type[Exception]) -> Iterator[None]:
    """What a checkpoint of this repository lacks or misstates of itself is a CheckpointError; so are `others`."""
    unreadable: tuple[type[Exception], ...] = (KeyError, TypeError, ConfigError, *others)
    try:
        yield
    except unreadable as error:
        raise CheckpointError(f"{path}: its own description cannot be read: {error}") from None


class _Uninitialised(TorchFunctionMode):
    """Initialisers leave what they are given as it is. On torch's meta device some of them are written in Python, and
    import torch's compiler at their first call, which takes longer than to load a model.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init" or func is torch.Tensor.normal_:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextlib.contextmanager
def unfilled() -> Iterator[None]:
    """Models that are made inside have shapes and no weights, for `fill`: what a file brings is neither allocated nor
    initialised before.
    """
    with torch.device("meta"), _Uninitialised():
        yield


def made(build: Callable[[], Model], weights: Mapping[str, torch.Tensor], path: Path | str) -> Model:
    """What `build` makes, with the `weights` of the checkpoint at `path`, on the CPU in evaluation mode.

    Raises CheckpointError, also for whatever sizes in its configuration make Python raise.
    """
    with usable(path):
        with unfilled():
            model = build()
        fill(model, weights, path)
    return model.eval()


def fill(model: torch.nn.Module, weights: Mapping[str, torch.Tensor], path: Path | str) -> None:
    """Gives `model` the `weights`, all of them, in float32; counters of batches, which decide nothing, may be absent.

    Raises CheckpointError where they do not fit, or are no numbers.
    """
    for name, weight in weights.items():
        if not isinstance(weight, torch.Tensor) or weight.is_complex() or weight.layout != torch.strided:
            raise CheckpointError(f"{path}: {name} is no weight: expected a tensor, found {type(weight).__name__}")
    check_numbers(weights, path)
    own = {name: tensor.is_floating_point() for name, tensor in model.state_dict().items()}
    counters = {name: torch.tensor(0) for name in own if name.endswith(_COUNTER)}
    weights = counters | {name: full(name, weight) for name, weight in weights.items()}
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        problem = " ".join(str(error).split())
        raise CheckpointError(f"{path}: does not fit its configuration: {problem[:300]}") from None
    if wrong := [name for name, w in weights.items() if name in own and own[name] != w.is_floating_point()]:
        expected = "floating-point" if own[wrong[0]] else "whole"
        raise CheckpointError(f"{path}: {wrong[0]} is of {weights[wrong[0]].dtype}; expected {expected} numbers")
    owned(model)


def check_numbers(weights: Mapping[str, torch.Tensor], path: Path | str) -> None:
    """Raises CheckpointError that names the first weight with numbers that are NaN, infinite, or not in the file."""
    for name, weight in weights.items():
        if weight.nbytes > weight.untyped_storage().nbytes():  # as of an `expand`, which computing would write out
            held = weight.untyped_storage().nbytes()
            raise CheckpointError(f"{path}: {name} of shape {list(weight.shape)} repeats the {held} bytes that it has")
        # Their sum reads them once; of large numbers it may overflow.
        if not weight.sum().isfinite() and (count := int((~weight.isfinite()).sum())):
            raise CheckpointError(f"{path}: {name} is damaged: {count} of {weight.numel()} numbers are NaN or infinite")


def contents(state: Mapping[Any, Any]) -> str:
    """What a checkpoint holds that is none of the expected kind, for a message: its first keys, and its format."""
    held = f"it holds {', '.join(map(str, list(state)[:5])) or 'nothing'}"
    return f"{held}; its format is {state['format'][:60]!r}" if isinstance(state.get("format"), str) else held


def widened(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """`weights` with those of half precision, as small files have them, as `full` gives them."""
    half = (torch.float16, torch.bfloat16)
    return {n: full(n, w) if isinstance(w, torch.Tensor) and w.dtype in half else w for n, w in weights.items()}


def full(name: str, weight: torch.Tensor) -> torch.Tensor:
    """A weight of any precision in float32; counters, which may have been halved with the weights, in whole numbers."""
    if not weight.is_floating_point():
        return weight
    return weight.nan_to_num().long() if name.endswith("num_batches_tracked") else weight.float()


def load_matching(
    model: torch.nn.Module, weights: Mapping[str, torch.Tensor], source: Path | str, *, least: float = 0.0
) -> list[str]:
    """Loads every tensor whose name and shape fit `model`; tells which did not and why, those of a part together.

    Raises CheckpointError, which names `source`, where none fits, or less than the share `least` of their numbers.
    """
    own = {name: w for name, w in model.state_dict().items() if not name.endswith(_COUNTER)}  # it decides nothing
    weights = {name: w for name, w in weights.items() if isinstance(w, torch.Tensor) and not name.endswith(_COUNTER)}
    fitting = {name: w for name, w in weights.items() if name in own and own[name].shape == w.shape}
    if not any(own[name].ndim for name in fitting):  # scalars fit everywhere
        theirs = next((f"{name} {tuple(w.shape)}" for name, w in weights.items()), "nothing")
        ours = next((f"{name} {tuple(w.shape)}" for name, w in own.items()), "nothing")
        raise CheckpointError(
            f"{source}: of its {len(weights)} weights not one fits the {len(own)} of this model: it begins with "
            f"{theirs}, the model with {ours}"
        )
    check_numbers(fitting, source)
    others = [name for name in own if name in weights and name not in fitting]
    shapes = [f"{tuple(weights[name].shape)} in the checkpoint, {tuple(own[name].shape)} here" for name in others]
    told = [f"{name}: {shape}, starts anew" for name, shape in zip(others, shapes, strict=True)]
    if len(told) > _EACH:
        told = [f"{_grouped(others)}: of other shapes, such as {others[0]}, {shapes[0]}, start anew"]
    if absent := [name for name in own if name not in weights]:
        told.append(f"{_grouped(absent)}: not in the checkpoint, keeps its initial value")
    if unused := [name for name in weights if name not in own]:
        told.append(f"{_grouped(unused)}: in the checkpoint, not in this model, unused")
    share = sum(w.numel() for w in fitting.values()) / sum(w.numel() for w in weights.values())
    if share < least:
        raise CheckpointError(
            f"{source}: {share:.0%} of its numbers fit this model, expected at least {least:.0%}: {'; '.join(told)}"
        )
    model.load_state_dict(fitting, strict=False)
    return told


def _grouped(names: Sequence[str]) -> str:
    """`names`, or, where there are many, how many there are in each part of the model."""
    if len(names) <= _EACH:
        return ", ".join(names)
    parts = Counter(name.partition(".")[0] for name in names)
    return ", ".join(f"{part}.* ({count})" for part, count in parts.items())


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
