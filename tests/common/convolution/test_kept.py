import torch
from torch import nn

from common.convolution import Kept


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
