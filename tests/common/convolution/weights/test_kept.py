import torch
from torch import nn

from common.convolution.weights.kept import Kept


def test_what_is_made_of_weights_is_kept_until_they_change():
    kept, weight, made = Kept(), nn.Parameter(torch.ones(3)), []

    def make() -> int:
        made.append(weight.sum().item())
        return len(made)

    assert [kept.of((weight,), make) for _ in range(3)] == [1, 1, 1]
    with torch.no_grad():
        weight.mul_(2)
    assert kept.of((weight,), make) == 2
    assert kept.of((nn.Parameter(torch.ones(3)),), make) == 3
    kept.forget()
    assert kept.of((weight,), make) == 4


def test_of_weights_that_were_made_in_inference_mode_nothing_is_kept():
    kept, made = Kept(), []
    with torch.inference_mode():
        weight = torch.ones(3)
    for _ in range(2):
        kept.of((weight,), lambda: made.append(1))
    assert len(made) == 2


def test_what_is_kept_may_be_forgotten_while_it_is_looked_up():
    """As by another thread, here in the midst of a comparison."""
    kept = Kept()

    class Version(int):
        def __eq__(self, other):
            kept.forget()
            return int(self) == other

        __hash__ = int.__hash__

    class Weight:
        _version = property(lambda self: Version(0))

        def is_inference(self):
            return False

        def data_ptr(self):
            return 1

    assert [kept.of([Weight()], lambda: 7) for _ in range(3)] == [7, 7, 7]
