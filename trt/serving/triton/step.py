"""A step of a recogniser in Triton's Python back end: its inputs by name in, its outputs out.

Triton copies nothing of this package: `paths.json` beside this file says where it is, and which step this is. The back
end's stub ignores PYTHONPATH; tensors are handed over by DLPack (see model.py).
"""

import json
import sys
from pathlib import Path
from typing import Any

SETTINGS = json.loads(Path(__file__).with_name("paths.json").read_text(encoding="utf-8"))
sys.path[:0] = SETTINGS["paths"]

import numpy as np  # noqa: E402
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # noqa: E402

from trt.serving.triton.steps import STEPS  # noqa: E402


class TritonPythonModel:
    """The step that paths.json names."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads what it needs."""
        self.step: Any = STEPS[SETTINGS["step"]](SETTINGS, Path(__file__).parent)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answers a batch of requests."""
        inputs = [{tensor.name(): np.from_dlpack(tensor) for tensor in request.inputs()} for request in requests]
        try:
            return [_response(outputs) for outputs in self.step(inputs)]
        except Exception as error:
            if len(requests) == 1:
                return [pb_utils.InferenceResponse([], pb_utils.TritonError(f"{type(error).__name__}: {error}"))]
            return [self.execute([request])[0] for request in requests]  # one does not spoil the others


def _response(outputs: dict[str, np.ndarray]) -> Any:
    own = {name: np.require(value, requirements=["C", "W"]) for name, value in outputs.items()}
    return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack(name, value) for name, value in own.items()])
