"""The model that Triton's Python back end runs: recordings of one batch in, transcripts out.

Triton copies nothing of this package: `paths.json` beside this file says where it is, and which recogniser to load. The
back end's stub ignores PYTHONPATH, and with numpy 2 its own way from arrays to tensors gives none of their bytes, so
tensors are handed over by DLPack, which knows no text: transcripts are JSON in UTF-8.

Legend: R requests of one batch, B recordings of one request, N samples or bytes.
"""

import itertools
import json
import sys
import threading
from pathlib import Path
from typing import Any

SETTINGS = json.loads(Path(__file__).with_name("paths.json").read_text(encoding="utf-8"))
sys.path[:0] = SETTINGS["paths"]

import numpy as np  # noqa: E402
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # noqa: E402

from trt.serving.models import load_ears  # noqa: E402
from trt.serving.triton.transcripts import content_of, rows_of  # noqa: E402


class TritonPythonModel:
    """A recogniser; recordings of more than one chunk are recognised beside the batches of short ones."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads it."""
        own = {key: SETTINGS[key] for key in ("batch_size", "threads", "device")}
        self.ears = load_ears(Path(SETTINGS["model"]), **own)
        self._longest = self.ears.chunk_seconds * self.ears.sample_rate
        self._one_long = threading.Lock()

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answers a batch; None for requests that are answered later, by a thread of their own."""
        heard_RBN = [np.from_dlpack(pb_utils.get_input_tensor_by_name(request, "audio")) for request in requests]
        answers: list[Any] = [None] * len(requests)
        short = [i for i, audio_BN in enumerate(heard_RBN) if audio_BN.shape[1] <= self._longest]
        for i, answer in zip(short, self._answers([heard_RBN[i] for i in short]), strict=True):
            answers[i] = answer
        for i in set(range(len(requests))) - set(short):
            sender, audio_BN = requests[i].get_response_sender(), heard_RBN[i].copy()
            threading.Thread(target=self._answer_later, args=(sender, audio_BN), daemon=True).start()
        return answers

    def _answer_later(self, sender: Any, audio_BN: np.ndarray) -> None:
        with self._one_long:
            (answer,) = self._answers([audio_BN])
        sender.send(answer, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _answers(self, requests_RBN: list[np.ndarray]) -> list[Any]:
        """One response per request, which holds a transcript per recording; spaces make them equally long."""
        if not requests_RBN:
            return []
        try:
            recordings = [samples_N for audio_BN in requests_RBN for samples_N in audio_BN]
            found = iter([content_of(transcript) for transcript in self.ears.transcribe(recordings)])
        except Exception as error:
            if len(requests_RBN) == 1:
                return [pb_utils.InferenceResponse([], pb_utils.TritonError(f"{type(error).__name__}: {error}"))]
            return [self._answers([audio_BN])[0] for audio_BN in requests_RBN]  # one does not spoil the others
        responses = []
        for audio_BN in requests_RBN:
            rows = rows_of(list(itertools.islice(found, len(audio_BN))))
            tensor = pb_utils.Tensor.from_dlpack("transcript", rows)
            responses.append(pb_utils.InferenceResponse([tensor]))
        return responses
