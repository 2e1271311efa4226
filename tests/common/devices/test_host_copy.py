import torch

from common.devices.host_copy import HostCopy


def test_numbers_on_their_way_to_the_host_are_those_of_when_they_left():
    numbers = torch.ones(3)
    copy = HostCopy(numbers)
    numbers.zero_()
    assert copy.tolist() == [1, 1, 1]
    assert torch.equal(copy.tensor(), torch.ones(3))
