import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from common.runs.checkpoint import CheckpointError
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


@pytest.mark.parametrize("notation", [dict, old_names])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g, v: (g.flatten()[:1], v), r"magnitude of shape \(1,\) for .* of \(4, 3, 5\); expected \(4, 1, 1\)"),
        (lambda g, v: (g.flatten()[:0], v), r"magnitude of shape \(0,\)"),
        (lambda g, v: (g, v[:0]), r"magnitude of shape \(4, 1, 1\) for a direction of \(0, 3, 5\)"),
        (lambda g, v: (g, v.sum()), r"for a direction of \(\); expected \(\)"),
        (lambda g, v: (g.double(), v), "a magnitude of torch.float64 .* for a direction of torch.float32"),
        (lambda g, v: (g.long(), v.long()), "expected floating-point numbers of one type, strided"),
        (lambda g, v: (g, v.to_sparse()), "torch.sparse_coo"),
        (lambda g, v: (g, [1.0]), "a magnitude without its direction"),
        (lambda g, v: (g, None), "a magnitude without its direction"),
        (lambda g, v: (None, v), "a direction without its magnitude"),
    ],
)
def test_a_magnitude_that_does_not_belong_to_its_direction_is_an_error_that_names_the_layer(notation, change, message):
    weights = layers(normalized=True).state_dict()
    names = [f"a.parametrizations.weight.original{i}" for i in (0, 1)]
    weights |= dict(zip(names, change(*(weights[name] for name in names)), strict=True))
    weights = {name: weight for name, weight in weights.items() if weight is not None}
    with pytest.raises(CheckpointError, match=f"^a.weight: .*{message}"):
        folded(notation(weights))


def test_a_plain_weight_that_is_a_number_stays_so_that_loading_can_name_it():
    module = layers(normalized=True)
    weights = unfolded(folded(module.state_dict()) | {"a.weight": torch.ones(())}, module)
    assert weights["a.weight"].shape == ()
