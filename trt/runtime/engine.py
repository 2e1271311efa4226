"""An engine of TensorRT in use on a GPU, in the place of an ONNX file. torch holds its memory.

Nothing here has run on a device yet: there was none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trt.engines.building import EngineError, check, check_shape, installed, logger_of


class Engine:
    """A built engine: arrays in by name, arrays out by name, and the facts that its model states of itself."""

    def __init__(self, path: Path, described: Mapping[str, Any], library: Any, logger: Any):
        """`described`: what `trt.engines.building.check` found beside it. Raises EngineError."""
        self.path, self.described, self.library = path, described, library
        self.facts: dict[str, Any] = described["metadata"]
        self._logger, self._runtime = logger, library.Runtime(logger)
        self._engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self._engine is None:
            said = logger.said[-1] if logger.said else "the library does not say why"
            raise EngineError(f"{path}: cannot be loaded on this device: {said}")
        self._context = self._engine.create_execution_context()
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        is_input = {name: self._engine.get_tensor_mode(name) == library.TensorIOMode.INPUT for name in names}
        self.inputs = [name for name in names if is_input[name]]
        self.outputs = [name for name in names if not is_input[name]]

    def run(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs by name. Raises EngineError for a shape that the engine was not built for."""
        import torch

        held = {}
        for name, value in inputs.items():
            check_shape(self.described, name, value.shape)
            held[name] = torch.from_numpy(np.ascontiguousarray(value)).cuda()
            self._context.set_input_shape(name, tuple(value.shape))
        for name in self.outputs:
            dtype = getattr(torch, str(np.dtype(self.library.nptype(self._engine.get_tensor_dtype(name)))))
            held[name] = torch.empty(tuple(self._context.get_tensor_shape(name)), dtype=dtype, device="cuda")
        for name, tensor in held.items():
            self._context.set_tensor_address(name, tensor.data_ptr())
        stream = torch.cuda.current_stream()
        if not self._context.execute_async_v3(stream.cuda_stream):
            said = self._logger.said[-1] if self._logger.said else "the library does not say why"
            raise EngineError(f"{self.path}: did not run: {said}")
        stream.synchronize()
        return {name: held[name].cpu().numpy() for name in self.outputs}


def load(path: Path) -> Engine:
    """The engine at `path` on the device that is here. Raises EngineError."""
    try:
        import torch
    except ImportError:
        raise EngineError(f"{path}: an engine runs with torch, which is not installed here") from None
    if not torch.cuda.is_available():
        raise EngineError(
            f"{path}: an engine of TensorRT runs on a GPU, and there is none here; give the ONNX file that it was "
            "built from"
        )
    name, library = installed()
    major, minor = torch.cuda.get_device_capability()
    described = check(path, capability=f"{major}.{minor}", library=name, version=library.__version__)
    return Engine(path, described, library, logger_of(library))
