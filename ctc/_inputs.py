"""What every decoder of this package checks about its inputs, in one place, with one wording. Needs no torch.

B utterances, S frames, V labels (blank among them), U labels of a transcript.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

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


def score_tensor(scores: "Tensor | np.ndarray", blank: int, *, name: str, axes: Sequence[str] = BATCH) -> "Tensor":
    """`scores`, checked, as a tensor: of an array the same memory, unless it cannot be written to or lies apart."""
    check_scores(scores, blank, name=name, axes=axes)
    if is_tensor(scores):
        return scores
    import torch

    return torch.from_numpy(np.require(scores, requirements=("C", "W")))


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


def length_tensor(values: "Tensor | np.ndarray | Sequence[int]", batch: int, *, name: str) -> "Tensor":
    """`values` as int64 [batch] on the device where they are, so that no device is waited for."""
    import torch

    _check_given(values, batch, name)
    lengths_B = torch.as_tensor(values)
    _check_integers(lengths_B, batch, name)
    return lengths_B.long()


def check_lengths(lengths: Sequence[int], maximum: int, *, name: str) -> None:
    """Raises ValueError that names the first item whose length is not in [0, maximum]."""
    for item, length in enumerate(lengths):
        if not 0 <= length <= maximum:
            raise ValueError(f"{name}: item {item}: expected at least 0 and at most {maximum}, found {length}")


def host_lengths(values: "Tensor | np.ndarray | Sequence[int]", batch: int, maximum: int, *, name: str) -> np.ndarray:
    """`values` as an int64 array [batch], each checked to be in [0, maximum]."""
    _check_given(values, batch, name)
    lengths_B = values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)
    _check_integers(lengths_B, batch, name)
    check_lengths(lengths_B.tolist(), maximum, name=name)
    return np.ascontiguousarray(lengths_B, np.int64)


def _check_given(values: object, batch: int, name: str) -> None:
    if values is None:
        raise TypeError(f"{name}: expected {batch} integers, one per utterance, found None")


def _check_integers(lengths_B: "Tensor | np.ndarray", batch: int, name: str) -> None:
    if tuple(lengths_B.shape) != (batch,) or ("float" in str(lengths_B.dtype) and batch > 0):
        found = f"{lengths_B.dtype} of shape {tuple(lengths_B.shape)}"
        raise ValueError(f"{name}: expected {batch} integers, one per utterance, found {found}")
