"""CUDA graphs: the kernels of a network, recorded for every shape of its arguments and replayed in one launch.

At the lengths of speech a GPU computes faster than the host can tell it what to do, so that a latency is mostly
launching. Memory of graphs is not in `torch.cuda.max_memory_allocated`, but in `max_memory_reserved`.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

Result = TypeVar("Result", bound="Tensor | tuple[Tensor, ...]")
MOST_GRAPHS = 64
WARM_UPS = 3  # calls in which libraries choose algorithms and allocate


class _Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    arguments: list[Tensor]
    result: Any


class Graphed(Generic[Result]):
    """A network replayed as a CUDA graph, recorded once for each combination of shapes and types of its arguments.

    `call` is what is recorded, of `network`, whose weights it reads: where they have moved (`.to`, or a checkpoint
    loaded with assign=True) it is recorded again. At most `most` graphs are kept, the least recently used goes. They
    share their memory, so keep to one stream. What a call returns is its own.
    """

    def __init__(self, call: Callable[..., Result], network: nn.Module, *, most: int = MOST_GRAPHS):
        self.call, self.network, self.most = call, network, most
        self._recorded: OrderedDict[tuple[Any, ...], _Recording] = OrderedDict()
        self._weights: tuple[Any, ...] = ()
        self._memory: Any = None

    @torch.inference_mode()
    def __call__(self, *arguments: Tensor) -> Result:
        """As `call`, for tensors on the device of the network."""
        with torch.cuda.device(arguments[0].device):
            recording = self._recording(arguments)
            for own, argument in zip(recording.arguments, arguments, strict=True):
                own.copy_(argument)
            recording.graph.replay()
            return _copied(recording.result)

    def _recording(self, arguments: tuple[Tensor, ...]) -> _Recording:
        weight = next(self.network.parameters())
        weights = (weight.data_ptr(), weight.dtype, weight.device)
        if weights != self._weights:
            self._recorded.clear()
            self._weights, self._memory = weights, torch.cuda.graph_pool_handle()
        key = tuple((argument.shape, argument.dtype) for argument in arguments)
        if key not in self._recorded:
            if len(self._recorded) >= self.most:
                self._recorded.popitem(last=False)
            self._recorded[key] = self._record([argument.clone() for argument in arguments])
        self._recorded.move_to_end(key)
        return self._recorded[key]

    def _record(self, arguments: list[Tensor]) -> _Recording:
        device = arguments[0].device
        beside = torch.cuda.Stream(device)  # torch's own stream for captures is of the device that it first met
        beside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(beside):
            for _ in range(WARM_UPS):
                self.call(*arguments)
        torch.cuda.current_stream(device).wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory, stream=beside):
            result = self.call(*arguments)
        return _Recording(graph, arguments, result)


def _copied(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.clone()
    copies = [part.clone() for part in result]
    return type(result)(*copies) if hasattr(result, "_fields") else tuple(copies)
