import pytest
import torch
from torch.nn import functional as F

from common.convolution.products import left_to_torch
from common.training.layers.dropout import SMALL, dropout

SHAPE = (4, 128, 101)  # more values than SMALL, and no multiple of four of a row


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_so_many_values_are_zero_and_the_others_grow_by_what_is_lost(probability):
    torch.manual_seed(0)
    x = torch.ones(SHAPE)
    assert x.numel() > SMALL
    found = dropout(x, probability, training=True)
    assert (found == 0).float().mean().item() == pytest.approx(probability, abs=0.005)
    assert found[found != 0].unique().tolist() == [pytest.approx(1 / (1 - probability), rel=1e-4)]
    assert found.mean().item() == pytest.approx(1.0, abs=0.01)
    by_row = (found == 0).float().mean((0, 2))
    assert by_row.std().item() < 2 * (probability * (1 - probability) / (4 * 101)) ** 0.5


def test_the_seed_of_torch_decides_and_two_calls_differ():
    x, drawn = torch.randn(SHAPE), []
    for _ in range(2):
        torch.manual_seed(7)
        drawn += [dropout(x, 0.3, training=True), dropout(x, 0.3, training=True)]
    assert torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[1], drawn[3])
    assert not torch.equal(drawn[0], drawn[1])


def test_the_gradient_passes_where_values_do():
    x = torch.randn(SHAPE, requires_grad=True)
    y = dropout(x, 0.25, training=True)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient * x, y)


@pytest.mark.parametrize("probability", [0.0, 1e-6, 1.0])
def test_what_leaves_all_or_nothing_is_as_in_torch(probability):
    x = torch.randn(SHAPE)
    torch.manual_seed(0)
    expected = F.dropout(x, probability, True)
    torch.manual_seed(0)
    assert torch.equal(dropout(x, probability, training=True), expected)


def test_small_tensors_evaluation_and_what_is_left_to_torch_are_those_of_torch():
    small, large = torch.randn(3, 5), torch.randn(SHAPE)
    assert dropout(large, 0.5, training=False) is large or torch.equal(dropout(large, 0.5, training=False), large)
    torch.manual_seed(0)
    expected = F.dropout(small, 0.5, True), F.dropout(large, 0.5, True)
    torch.manual_seed(0)
    with left_to_torch():
        assert torch.equal(dropout(small, 0.5, training=True), expected[0])
        assert torch.equal(dropout(large, 0.5, training=True), expected[1])
    with pytest.raises(ValueError, match="dropout probability"):
        dropout(large, 1.5, training=True)
