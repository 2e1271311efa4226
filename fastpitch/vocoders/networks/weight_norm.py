"""Weight normalisation in state dictionaries: w = g v / ||v||, one norm per index of dimension 0 (Salimans, Kingma).

Three notations of the same layer `x` occur: `x.weight` (folded), `x.weight_g` and `x.weight_v` (published checkpoints),
and `x.parametrizations.weight.original0` and `…original1` (torch.nn.utils.parametrizations, used in training here).
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

_MAGNITUDE, _DIRECTION = "parametrizations.weight.original0", "parametrizations.weight.original1"


def folded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same layers with plain weights, whatever the notation."""
    named = _parametrized_names(weights)
    result = {}
    for key, tensor in named.items():
        if key.endswith(_MAGNITUDE):
            stem = key.removesuffix(_MAGNITUDE)
            result[f"{stem}weight"] = torch._weight_norm(named[stem + _DIRECTION], tensor, 0)
        elif not key.endswith(_DIRECTION):
            result[key] = tensor
    return result


def unfolded(weights: Mapping[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """`weights` as `module` names them: plain weights of layers it has normalised become magnitude and direction."""
    normalized = {key.removesuffix(_MAGNITUDE) for key in module.state_dict() if key.endswith(_MAGNITUDE)}
    result = {}
    for key, tensor in _parametrized_names(weights).items():
        stem = key.removesuffix("weight")
        if stem in normalized and key == f"{stem}weight":
            norms = torch.linalg.vector_norm(tensor.flatten(1), dim=1)
            result[stem + _MAGNITUDE] = norms.view(-1, *[1] * (tensor.ndim - 1))
            result[stem + _DIRECTION] = tensor
        else:
            result[key] = tensor
    return result


def _parametrized_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    renamed = (("weight_g", _MAGNITUDE), ("weight_v", _DIRECTION))
    result = {}
    for key, tensor in weights.items():
        for old, new in renamed:
            key = key.removesuffix(old) + new if key.endswith(f".{old}") else key
        result[key] = tensor
    return result
