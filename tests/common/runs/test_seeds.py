import torch

from common.runs.seeds import begin, mixed


def test_seeds_depend_on_every_part():
    assert len({mixed(1, 2, 3), mixed(1, 3, 2), mixed(0, 2, 3), mixed(1, 2)}) == 4


def test_dropout_begins_where_torch_would():
    torch.manual_seed(2**62 - 1)
    wanted = torch.rand(3)
    begin(2**62 - 1, torch.device("cpu"))
    assert torch.equal(torch.rand(3), wanted)
