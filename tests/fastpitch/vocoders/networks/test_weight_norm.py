import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from fastpitch.vocoders.networks.weight_norm import folded, unfolded


def layers(*, normalized: bool) -> nn.ModuleDict:
    torch.manual_seed(0)
    kinds = {"a": nn.Conv1d(3, 4, 5), "b": nn.ConvTranspose1d(4, 2, 4, 2), "c": nn.Conv2d(1, 3, (5, 1))}
    module = nn.ModuleDict(kinds | {"plain": nn.Conv1d(2, 2, 1)})
    if normalized:
        for name in kinds:
            weight_norm(module[name])
            module[name].parametrizations.weight.original0.data *= 1.7
    return module


def old_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    pairs = (("parametrizations.weight.original0", "weight_g"), ("parametrizations.weight.original1", "weight_v"))
    for new, old in pairs:
        weights = {name.replace(new, old): weight for name, weight in weights.items()}
    return weights


@pytest.mark.parametrize("notation", [dict, old_names])
def test_a_folded_weight_is_what_the_layer_computes_with(notation):
    module = layers(normalized=True)
    weights = folded(notation(module.state_dict()))
    assert weights.keys() == layers(normalized=False).state_dict().keys()
    for name in ("a", "b", "c"):
        assert torch.equal(weights[f"{name}.weight"], module[name].weight)
        direction = module[name].parametrizations.weight.original1
        by_hand = direction / direction.flatten(1).norm(dim=1).view(-1, *[1] * (direction.ndim - 1))
        by_hand = by_hand * module[name].parametrizations.weight.original0
        torch.testing.assert_close(weights[f"{name}.weight"], by_hand)
    assert torch.equal(weights["plain.weight"], module["plain"].weight)


@pytest.mark.parametrize("notation", [dict, old_names, folded])
def test_any_notation_becomes_that_of_a_module_in_training(notation):
    module, fresh = layers(normalized=True), layers(normalized=True)
    fresh.load_state_dict(unfolded(notation(module.state_dict()), fresh))
    for name in ("a", "b", "c", "plain"):
        torch.testing.assert_close(fresh[name].weight, module[name].weight)


def test_plain_weights_stay_plain_where_the_module_is_not_normalised():
    module = layers(normalized=False)
    weights = unfolded(module.state_dict(), module)
    assert weights.keys() == module.state_dict().keys()
    assert all(torch.equal(weights[name], weight) for name, weight in module.state_dict().items())
