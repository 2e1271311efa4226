"""Without a GPU: the calls that are made of torch.cuda. What they do, the tests marked `gpu` of the models show."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from common.graphs import Graphed


class Two(NamedTuple):
    first: Tensor
    second: Tensor


class Cuda:
    """Takes the place of torch.cuda's graphs: a graph is the call it was recorded from, done again into its result."""

    def __init__(self) -> None:
        self.devices: list[Any] = []  # of streams, of captures and of launches
        self.current: Any = None
        self.recorded: list[Any] = []

    @contextlib.contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        self.current = device
        yield
        self.current = None

    def Stream(self, device: torch.device) -> "Cuda":
        self.devices.append(("stream", device))
        return self

    def current_stream(self, device: torch.device) -> "Cuda":
        return self

    def wait_stream(self, other: "Cuda") -> None:
        pass

    def stream(self, stream: "Cuda") -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def CUDAGraph(self) -> "Graph":
        return Graph(self)

    @contextlib.contextmanager
    def graph(self, graph: "Graph", *, pool: object, stream: "Cuda") -> Iterator[None]:
        assert stream is self
        assert pool is not None
        self.devices.append(("capture", self.current))
        self.recorded.append(graph)
        yield

    def graph_pool_handle(self) -> object:
        return object()


class Graph:
    def __init__(self, cuda: Cuda):
        self.cuda = cuda

    def replay(self) -> None:
        self.cuda.devices.append(("replay", self.cuda.current))


@pytest.fixture
def cuda(monkeypatch) -> Cuda:
    fake = Cuda()
    for name in ("device", "Stream", "current_stream", "stream", "CUDAGraph", "graph", "graph_pool_handle"):
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    return fake


def test_streams_captures_and_launches_are_of_the_device_of_the_arguments(cuda):
    device = torch.device("meta")  # stands for cuda:1
    network = nn.Linear(3, 2, device=device)
    run = Graphed(network.forward, network)
    for _ in range(2):
        run(torch.zeros(4, 3, device=device))
    assert [what for what, _ in cuda.devices] == ["stream", "capture", "replay", "replay"]
    assert {where for _, where in cuda.devices} == {device}


def test_each_shape_and_type_is_recorded_once_and_the_least_recently_used_goes(cuda):
    network = nn.Linear(3, 2)
    run = Graphed(lambda x: x.sum(), network, most=2)
    a, b, c = torch.zeros(1, 3), torch.zeros(2, 3), torch.zeros(1, 3, dtype=torch.int64)
    for arguments, recorded in ((a, 1), (b, 2), (a, 2), (c, 3), (a, 3), (b, 4)):
        run(arguments)
        assert len(cuda.recorded) == recorded


@pytest.mark.parametrize(
    "move",
    [
        lambda network: network.double(),
        lambda network: network.load_state_dict({n: w.clone() for n, w in network.state_dict().items()}, assign=True),
    ],
)
def test_weights_that_have_moved_are_recorded_again(cuda, move):
    network = nn.Linear(3, 2)
    run = Graphed(lambda x: network.weight.sum() + x, network)
    run(torch.zeros(1))
    kept = [weight.data for weight in network.parameters()]  # so that no memory comes to lie where it lay
    move(network)
    run(torch.zeros(1))
    run(torch.zeros(1))
    assert len(cuda.recorded) == 2
    assert kept


def test_a_result_is_the_callers_own_and_keeps_its_names(cuda):
    network = nn.Linear(3, 2)
    run = Graphed(lambda x: Two(x + 1, x + 2), network)
    found = run(torch.zeros(2))
    assert found.second.tolist() == [2.0, 2.0]
    with torch.inference_mode():
        found.second.zero_()
    assert run(torch.zeros(2)).second.tolist() == [2.0, 2.0]
    assert Graphed(lambda x: (x, x), network)(torch.ones(1)) == (torch.ones(1), torch.ones(1))
