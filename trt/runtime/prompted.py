"""An exported attention decoder in use, without torch: its encoder in ONNX Runtime, its decoder native or in numpy.

Recordings are heard as `fastconformer.inference` does it, by the same class.

Shapes: B stretches, N samples, S encoder frames, V pieces and the blank.
"""

import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np

from common import config
from common.recognition.cutting.chunks import padded
from common.recognition.sources.recordings import Recording
from fastconformer.attention.config import AttentionConfig, DecoderPrecision
from fastconformer.attention.host_step import HostDecoder, HostStep
from fastconformer.attention.pieces import of_description
from fastconformer.attention.search import AttentionMemory, DecoderStep
from fastconformer.hearing.prompted.decoding import HeardFrames
from fastconformer.hearing.prompted.recognizer import PromptedRecognizer
from trt.facts import ModelError, keeper_of, usable
from trt.runtime.recognizer import Network, OnnxModel, check_whole
from trt.runtime.weights import WEIGHTS, weights_in

KEYS_VALUES = "keys_values_BZ2HSD"


class ExportedAttention(PromptedRecognizer):
    """A file of `trt.export` of a FastConformer with an attention decoder."""

    def __init__(self, network: Network, *, threads: int = 0, decoder_precision: DecoderPrecision = "fp32"):
        """`threads`: of the decoder, 0 for one per core; `decoder_precision`: of its weights. Raises ModelError."""
        self.network, facts = network, network.facts
        check_whole(network)
        if network.path.suffix != ".onnx":
            raise ModelError(
                f"{network.path}: the weights of its decoder are in the ONNX file that it was built from; give that one"
            )
        with usable(ModelError, network.path):
            self.sample_rate, self.seconds_per_frame = facts["sample_rate"], facts["seconds_per_frame"]
            self.pieces = of_description(facts["labels"], facts["tokenizer"])
            described = config.build(AttentionConfig, facts["configuration"]["attention"], str(network.path))
            self._decoder = HostDecoder(
                described, weights_in(network.path, WEIGHTS), decoder_precision, threads=threads
            )
            self.keep, self.has_ctc = keeper_of(facts), "log_probs_BSV" in network.outputs
            super().__init__(described, self.pieces)

    def _hear(self, samples: Sequence[np.ndarray]) -> HeardFrames:
        audio_BN, samples_B = padded(samples)
        found = self.network.run(audio_BN=audio_BN, samples_B=samples_B)
        counts = found["output_frames_B"].tolist()
        rows = zip(found[KEYS_VALUES], counts, strict=True)
        log_probs = []
        if self.has_ctc:
            log_probs = [row[:count] for row, count in zip(found["log_probs_BSV"], counts, strict=True)]
        heard = [AttentionMemory(np.ascontiguousarray(row[:, :, :, :count])) for row, count in rows]
        return HeardFrames(heard, counts, log_probs)

    def _steps(self) -> AbstractContextManager[DecoderStep]:
        return nullcontext(HostStep(self._decoder))


def prompted_texts(heard: Sequence[Recording], content: bytes) -> list[str]:
    """What a file of these bytes writes of recordings, asked for as their manifest says, else in its own language."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "whole.onnx"
        path.write_bytes(content)
        asr = ExportedAttention(OnnxModel(path, threads=1), threads=1)
        language = asr.attention.language or asr.assumed_language or asr.prompts.spoken()[0]
        samples, wanted = [own.samples_N[:] for own in heard], [dict(own.wanted) for own in heard]
        return [own.text for own in asr.transcribe(samples, source_language=language, wanted=wanted, times="none")]
