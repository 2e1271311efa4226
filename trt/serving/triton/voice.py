"""The voice that Triton's Python back end runs: sentences of one batch in, their sound out.

As `model.py`, it is copied to where Triton looks for models, and `paths.json` beside it says what to load.

Legend: L symbols, E = 6 controls of each symbol in the order of `fastpitch.front.control.Edits`.
"""

import json
import sys
from pathlib import Path
from typing import Any

SETTINGS = json.loads(Path(__file__).with_name("paths.json").read_text(encoding="utf-8"))
sys.path[:0] = SETTINGS["paths"]

import numpy as np  # noqa: E402
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # noqa: E402

from trt.serving.models import load_voice  # noqa: E402
from trt.serving.triton.sentences import piece_of  # noqa: E402


class TritonPythonModel:
    """FastPitch and a vocoder; each sentence sounds as it would alone."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads them."""
        own = {key: SETTINGS[key] for key in ("threads", "device")}
        self.voice = load_voice(Path(SETTINGS["tts"]), Path(SETTINGS["vocoder"]), **own)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answers a batch of requests with one sentence each; what cannot be said is an argument that is invalid."""
        given = []
        for request in requests:
            tensors = (pb_utils.get_input_tensor_by_name(request, name) for name in ("tokens", "edits", "speaker"))
            given.append([np.from_dlpack(tensor) for tensor in tensors])
        answers: list[Any] = []
        for sound in self._sounds(given):
            if isinstance(sound, Exception):
                error = pb_utils.TritonError
                code = error.INVALID_ARG if isinstance(sound, ValueError) else error.INTERNAL
                answers.append(pb_utils.InferenceResponse([], error(str(sound), code)))
            else:
                rows = np.ascontiguousarray(sound[None], np.float32)
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("sound", rows)]))
        return answers

    def _sounds(self, given: list[list[np.ndarray]]) -> list[Any]:
        """A sound or the reason why there is none; what fails together is tried alone."""
        try:
            return self.voice.whole([[piece_of(*arrays, speakers=self.voice.speakers)] for arrays in given])
        except Exception as error:
            if len(given) == 1:
                return [error]
            return [self._sounds([arrays])[0] for arrays in given]
