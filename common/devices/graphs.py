"""Networks recorded as CUDA graphs and replayed, so that no time goes to launching kernels."""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import ctc

MOST_GRAPHS = 64  # kept at once; each holds its arguments and results


class RecordedGraph(NamedTuple):
    """A graph: what replays it, the arguments that it reads, the result that it writes."""

    replay: Callable[[], None]
    arguments: list[Tensor]
    result: Any


class GraphRunner:
    """A network replayed as a CUDA graph, recorded once for each combination of shapes and types of its arguments.

    The graphs that were not used for longest are dropped beyond `most`. All share their memory, so keep to one stream.
    What a call returns, a tensor or a tuple of tensors, is its own. `module` is whose weights the network reads: graphs
    are recorded anew when these are elsewhere, as after `.to()` or `load_state_dict(assign=True)`.
    """

    def __init__(
        self,
        network: Callable[..., Any],
        module: nn.Module,
        *,
        most: int = MOST_GRAPHS,
        record: Callable[..., RecordedGraph] | None = None,
    ):
        """`record` takes the network, its arguments and what they share memory through; by default `recorded`."""
        self.network, self.module, self.most = network, module, most
        self._record = record or recorded
        self._recordings: OrderedDict[tuple[Any, ...], RecordedGraph] = OrderedDict()
        self._memory: Any = None
        self._weights: list[int] = []

    @torch.inference_mode()
    def __call__(self, *arguments: Tensor) -> Any:
        """As the network, for tensors on its device."""
        weights = [tensor.data_ptr() for tensor in (*self.module.parameters(), *self.module.buffers())]
        if weights != self._weights:
            self._recordings.clear()
            self._weights, self._memory = weights, None
        key = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in arguments)
        if key not in self._recordings:
            if len(self._recordings) >= self.most:
                self._recordings.popitem(last=False)
            if self._memory is None and arguments[0].is_cuda:
                with torch.cuda.device(arguments[0].device):
                    self._memory = torch.cuda.graph_pool_handle()
            own = [tensor.clone() for tensor in arguments]
            self._recordings[key] = self._record(self.network, own, self._memory)
        self._recordings.move_to_end(key)
        recording = self._recordings[key]
        for own_tensor, tensor in zip(recording.arguments, arguments, strict=True):
            own_tensor.copy_(tensor)
        recording.replay()
        return _copied(recording.result)


def recorded(network: Callable[..., Any], arguments: list[Tensor], memory: Any) -> RecordedGraph:
    """The graph of `network` on the device of `arguments`, which need not be the current one."""
    device = arguments[0].device
    with torch.cuda.device(device):
        beside, current = torch.cuda.Stream(device), torch.cuda.current_stream(device)
        beside.wait_stream(current)
        with torch.cuda.stream(beside):  # libraries choose algorithms and allocate at their first calls
            for _ in range(3):
                network(*arguments)
        current.wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        # Other threads go on using the device.
        with torch.cuda.graph(graph, pool=memory, stream=beside, capture_error_mode="thread_local"):
            result = network(*arguments)

    def replay() -> None:
        with torch.cuda.device(device):
            graph.replay()

    return RecordedGraph(replay, arguments, result)


def warn_refused(what: str, error: RuntimeError) -> None:
    """Says in a line that `what` launches its kernels one by one, since recording them failed with `error`."""
    why = str(error).partition("\n")[0]
    told = f"{what} launches each kernel by itself, which is slower: CUDA graphs are refused ({why})"
    warnings.warn(told, ctc.SlowPathWarning, stacklevel=4)


def _copied(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.clone()
    copies = [_copied(part) for part in result]
    return type(result)(*copies) if hasattr(result, "_fields") else tuple(copies)
