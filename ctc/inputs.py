"""What every decoder of this package checks about its inputs, in one place, with one wording. Needs no torch.

B utterances, S frames, V labels (blank among them), U labels of a transcript.
"""

import reprlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:  # decoders of arrays work without it
    from torch import Tensor

BATCH, UTTERANCE = ("utterance", "frame", "label"), ("frame", "label")
FLOAT_TYPES = {"float64", "float32", "float16", "bfloat16"}


def is_tensor(value: object) -> "TypeGuard[Tensor]":
    """Whether it is a tensor of torch, which is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def type_name(values: "Tensor | np.ndarray") -> str:
    """As in "float32", of tensors too."""
    return str(values.dtype).removeprefix("torch.")


def check_scores(scores: "Tensor | np.ndarray", blank: int, *, name: str, axes: Sequence[str] = BATCH) -> None:
    """Raises ValueError unless they are scores of labels, `blank` among them, TypeError for no tensor or array."""
    if not isinstance(scores, np.ndarray) and not is_tensor(scores):
        found = type(scores)
        raise TypeError(
            f"{name}: expected a torch.Tensor or a numpy.ndarray, found {found.__module__}.{found.__qualname__}"
        )
    if scores.ndim != len(axes):
        raise ValueError(f"{name}: expected ({', '.join(axes)}), found shape {tuple(scores.shape)}")
    if type_name(scores) not in FLOAT_TYPES:
        raise ValueError(f"{name}: expected a floating-point type, found {scores.dtype}")
    if not 0 <= blank < scores.shape[-1]:
        raise ValueError(f"blank: expected a label in [0, {scores.shape[-1]}), found {blank}")


def host_scores(scores: "Tensor | np.ndarray", blank: int, *, name: str, axes: Sequence[str] = BATCH) -> np.ndarray:
    """`scores`, checked, as the kernels take them (see `on_host`)."""
    check_scores(scores, blank, name=name, axes=axes)
    return on_host(scores)


def on_host(scores: "Tensor | np.ndarray") -> np.ndarray:
    """As an array, fp32 or fp64, with the numbers of the last axis adjacent; a copy only where one is needed."""
    if is_tensor(scores):
        tensor = scores.detach()
        wide = tensor if type_name(tensor) in ("float32", "float64") else tensor.float()
        array: np.ndarray = wide.cpu().resolve_neg().numpy()
    else:
        array = np.asarray(scores)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32)
    are_whole = array.flags.aligned and all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)
    return array if are_whole and array.strides[-1] == array.itemsize else np.ascontiguousarray(array)


def integer_tensor(values: Any, *, name: str, expected: str = "integers") -> "Tensor":
    """`values`, a tensor or what one is made of, as a tensor of integers, of any shape. Raises TypeError for others."""
    import torch

    try:
        numbers = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):  # no numbers, or rows of different lengths
        raise TypeError(f"{name}: expected {expected}, found {reprlib.repr(values)}") from None
    _check_integers(numbers, name, expected, TypeError)
    return numbers


def integer_array(
    values: Any, *, name: str, expected: str = "integers", error: type[Exception] = TypeError
) -> np.ndarray:
    """The same as an array; `error` for numbers of another type."""
    if is_tensor(values):
        _check_integers(values, name, expected, error)
        return np.asarray(values.detach().cpu())
    try:
        numbers = np.asarray(values)
    except (TypeError, ValueError):
        numbers = np.array(None)
    if numbers.dtype.kind not in "biufc":
        raise TypeError(f"{name}: expected {expected}, found {reprlib.repr(values)}")
    _check_integers(numbers, name, expected, error)
    return numbers


def integer_list(values: Any, *, name: str) -> list[int]:
    """Integers in a row, of a tensor of any device, an array or a sequence. Raises TypeError for others."""
    numbers = integer_array(values, name=name)
    if numbers.ndim != 1:
        raise TypeError(f"{name}: expected integers in a row, found {reprlib.repr(values)}")
    found: list[int] = numbers.tolist()
    return found


def length_tensor(values: "Tensor | np.ndarray | Sequence[int]", batch: int, *, name: str) -> "Tensor":
    """`values` as int64 [batch] on the device where they are, so that no device is waited for."""
    lengths_B = integer_tensor(values, name=name, expected=_one_each(batch))
    _check_count(lengths_B, batch, name)
    return lengths_B.long()


def check_lengths(lengths: Sequence[int], maximum: int, *, name: str) -> None:
    """Raises ValueError that names the first item whose length is not in [0, maximum]."""
    for item, length in enumerate(lengths):
        if not 0 <= length <= maximum:
            raise ValueError(f"{name}: item {item}: expected at least 0 and at most {maximum}, found {length}")


def host_lengths(values: "Tensor | np.ndarray | Sequence[int]", batch: int, maximum: int, *, name: str) -> np.ndarray:
    """`values` as an int64 array [batch], each checked to be in [0, maximum]."""
    lengths_B = integer_array(values, name=name, expected=_one_each(batch), error=ValueError)
    _check_count(lengths_B, batch, name)
    check_lengths(lengths_B.tolist(), maximum, name=name)
    return np.ascontiguousarray(lengths_B, np.int64)


def _check_count(lengths_B: "Tensor | np.ndarray", batch: int, name: str) -> None:
    if tuple(lengths_B.shape) != (batch,):
        found = f"{lengths_B.dtype} of shape {tuple(lengths_B.shape)}"
        raise ValueError(f"{name}: expected {_one_each(batch)}, found {found}")


def _check_integers(numbers: "Tensor | np.ndarray", name: str, expected: str, error: type[Exception]) -> None:
    is_empty = 0 in numbers.shape  # which is of floats where no type is given
    if not (is_empty or type_name(numbers).startswith(("int", "uint"))):
        raise error(f"{name}: expected {expected}, found {numbers.dtype} of shape {tuple(numbers.shape)}")


def _one_each(batch: int) -> str:
    return f"{batch} integers, one per utterance"
