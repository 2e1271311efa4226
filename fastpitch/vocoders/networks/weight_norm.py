"""Weight normalisation in state dictionaries: w = g v / ||v||, one norm per index of dimension 0 (Salimans, Kingma).

Three notations of the same layer `x` occur: `x.weight` (folded), `x.weight_g` and `x.weight_v` (published checkpoints),
and `x.parametrizations.weight.original0` and `…original1` (torch.nn.utils.parametrizations, used in training here).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from common.runs.checkpoint import CheckpointError

_MAGNITUDE, _DIRECTION = "parametrizations.weight.original0", "parametrizations.weight.original1"


def folded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same layers with plain weights, whatever the notation.

    Raises CheckpointError for a magnitude or direction without the other, or of shapes that do not belong together:
    torch's kernel would read beyond their ends.
    """
    named = _parametrized_names(weights)
    result = {}
    for key, tensor in named.items():
        if key.endswith(_MAGNITUDE):
            stem = key.removesuffix(_MAGNITUDE)
            direction = named.get(stem + _DIRECTION)
            result[f"{stem}weight"] = _product(f"{stem}weight", tensor, direction)
        elif not key.endswith(_DIRECTION):
            result[key] = tensor
        elif key.removesuffix(_DIRECTION) + _MAGNITUDE not in named:
            raise CheckpointError(f"{key.removesuffix(_DIRECTION)}weight: a direction without its magnitude")
    return result


def unfolded(weights: Mapping[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """`weights` as `module` names them: plain weights of layers it has normalised become magnitude and direction."""
    normalized = {key.removesuffix(_MAGNITUDE) for key in module.state_dict() if key.endswith(_MAGNITUDE)}
    result = {}
    for key, tensor in _parametrized_names(weights).items():
        stem = key.removesuffix("weight")
        if stem in normalized and key == f"{stem}weight" and tensor.ndim:
            norms = torch.linalg.vector_norm(tensor.flatten(1), dim=1)
            result[stem + _MAGNITUDE] = norms.view(-1, *[1] * (tensor.ndim - 1))
            result[stem + _DIRECTION] = tensor
        else:
            result[key] = tensor
    return result


def _product(name: str, magnitude: object, direction: object) -> Tensor:
    """The plain weight; CheckpointError unless the two belong together."""
    if not isinstance(magnitude, Tensor) or not isinstance(direction, Tensor):
        raise CheckpointError(f"{name}: a magnitude without its direction")
    expected = (*direction.shape[:1], *[1] * (direction.ndim - 1))
    if not direction.ndim or magnitude.shape != expected:
        raise CheckpointError(
            f"{name}: a magnitude of shape {tuple(magnitude.shape)} for a direction of {tuple(direction.shape)}; "
            f"expected {expected}"
        )
    kinds = {(tensor.dtype, tensor.layout) for tensor in (magnitude, direction)}
    if len(kinds) > 1 or not direction.is_floating_point() or direction.layout is not torch.strided:
        raise CheckpointError(
            f"{name}: a magnitude of {magnitude.dtype} ({magnitude.layout}) for a direction of {direction.dtype} "
            f"({direction.layout}); expected floating-point numbers of one type, strided"
        )
    return torch._weight_norm(direction, magnitude, 0)


def _parametrized_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    renamed = (("weight_g", _MAGNITUDE), ("weight_v", _DIRECTION))
    result = {}
    for key, tensor in weights.items():
        for old, new in renamed:
            key = key.removesuffix(old) + new if key.endswith(f".{old}") else key
        result[key] = tensor
    return result
