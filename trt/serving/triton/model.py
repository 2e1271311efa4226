"""What Triton's Python back end runs: one of `trt.serving.triton.steps`, inputs by name in, outputs out.

Triton copies nothing of this package: `paths.json` beside this file says where it is, and which step this is. The back
end's stub ignores PYTHONPATH, and with numpy 2 its own way from arrays to tensors gives none of their bytes, so
tensors are handed over by DLPack, which knows no text: transcripts are JSON in UTF-8.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

SETTINGS = json.loads(Path(__file__).with_name("paths.json").read_text(encoding="utf-8"))
sys.path[:0] = SETTINGS["paths"]

import numpy as np  # noqa: E402
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # noqa: E402

from trt.serving.triton.steps import STEPS, Tensors  # noqa: E402


class TritonPythonModel:
    """The step that paths.json names; requests that take long are answered beside the batches of others."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads what it needs."""
        self._step = STEPS[SETTINGS["step"]](SETTINGS, Path(__file__).parent)
        self._one_long = threading.Lock()

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answers a batch; None for requests that are answered later, by a thread of their own."""
        inputs = [{tensor.name(): np.from_dlpack(tensor) for tensor in request.inputs()} for request in requests]
        answers: list[Any] = [None] * len(requests)
        short = [i for i, own in enumerate(inputs) if not self._step.takes_long(own)]
        for i, answer in zip(short, self._answers([inputs[i] for i in short]), strict=True):
            answers[i] = answer
        for i in set(range(len(requests))) - set(short):
            sender, own = requests[i].get_response_sender(), {name: value.copy() for name, value in inputs[i].items()}
            threading.Thread(target=self._answer_later, args=(sender, own), daemon=True).start()
        return answers

    def _answer_later(self, sender: Any, request: Tensors) -> None:
        with self._one_long:
            (answer,) = self._answers([request])
        sender.send(answer, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _answers(self, requests: list[Tensors]) -> list[Any]:
        """One response per request."""
        try:
            found = self._step(requests) if requests else []
        except Exception as error:
            if len(requests) == 1:
                return [_refusal(error)]
            return [self._answers([request])[0] for request in requests]  # one does not spoil the others
        return [_refusal(own) if isinstance(own, Exception) else _response(own) for own in found]


def _response(outputs: Tensors) -> Any:
    own = {name: np.require(value, requirements=["C", "W"]) for name, value in outputs.items()}
    return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack(name, value) for name, value in own.items()])


def _refusal(error: Exception) -> Any:
    """A ValueError is the fault of the request."""
    kinds, is_invalid = pb_utils.TritonError, isinstance(error, ValueError)
    told = str(error) if is_invalid else f"{type(error).__name__}: {error}"
    return pb_utils.InferenceResponse([], kinds(told, kinds.INVALID_ARG if is_invalid else kinds.INTERNAL))
