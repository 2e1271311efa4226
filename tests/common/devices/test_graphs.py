from typing import NamedTuple

import pytest
import torch
from torch import nn

from common.devices.graphs import GraphRunner, RecordedGraph


class Two(NamedTuple):
    double: torch.Tensor
    sizes: torch.Tensor


def record(network, arguments, memory):
    """Stands in for a GPU: what is replayed is the network as it was, into the same result."""
    result = network(*arguments)

    def replay():
        for own, new in zip(result, network(*arguments), strict=True):
            own.copy_(new)

    RECORDED.append([tuple(tensor.shape) for tensor in arguments])
    return RecordedGraph(replay, arguments, result)


RECORDED: list[list[tuple[int, ...]]] = []


@pytest.fixture
def runner():
    RECORDED.clear()
    module = nn.Linear(1, 1)
    return GraphRunner(lambda x, n: Two(x * module.weight[0, 0], n + 1), module, most=2, record=record)


def test_a_graph_is_recorded_once_for_shapes_and_types_and_gives_what_the_network_gives(runner):
    for length in (3, 3, 4, 3):
        x = torch.rand(2, length)
        found = runner(x, torch.tensor([1, 2]))
        assert isinstance(found, Two)
        assert torch.equal(found.double, x * runner.module.weight[0, 0])
        assert found.sizes.tolist() == [2, 3]
    runner(torch.rand(2, 3).double(), torch.tensor([1, 2]))
    assert RECORDED == [[(2, 3), (2,)], [(2, 4), (2,)], [(2, 3), (2,)]]


def test_what_a_call_returns_is_its_own(runner):
    first = runner(torch.ones(1, 2), torch.zeros(1))
    kept = first.double.clone()
    runner(torch.zeros(1, 2), torch.zeros(1))
    assert torch.equal(first.double, kept)


def test_of_many_shapes_those_not_used_for_longest_are_recorded_again(runner):
    for length in (1, 2, 1, 3, 1, 2):  # 3 takes the place of 2
        runner(torch.ones(1, length), torch.zeros(1))
    assert [shapes[0][1] for shapes in RECORDED] == [1, 2, 3, 2]


def test_weights_that_are_elsewhere_are_recorded_anew(runner):
    runner(torch.ones(1, 2), torch.zeros(1))
    runner.module.load_state_dict({"weight": torch.full((1, 1), 5.0), "bias": torch.zeros(1)}, assign=True)
    assert runner(torch.ones(1, 2), torch.zeros(1)).double.tolist() == [[5.0, 5.0]]
    assert len(RECORDED) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("index", [0, torch.cuda.device_count() - 1])
def test_a_graph_lives_on_the_device_of_its_arguments(index):
    module = nn.Linear(8, 8).eval().to(f"cuda:{index}")
    run = GraphRunner(lambda x: (module(x),), module)
    for _ in range(2):
        x = torch.rand(4, 8, device=f"cuda:{index}")
        torch.testing.assert_close(run(x)[0], module(x))
