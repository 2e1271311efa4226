"""An exported FastConformer in use, without torch: its graph in ONNX Runtime, its decoder native or in numpy.

Recordings are encoded and decoded as `fastconformer.inference` does it, by the same class.

Shapes: B recordings or chunks, N samples, S encoder frames, C what a head decodes of a frame, V pieces and the blank.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from common.recognition.cutting.chunks import padded
from common.recognition.decoding import DecodingOptions
from common.recognition.output.transcripts import Transcript
from common.recognition.sources.recordings import Source
from common.text.pieces import Pieces
from fastconformer.hearing.greedy import CTCDecoding, TransducerDecoding
from fastconformer.hearing.recordings import PieceRecognizer
from fastconformer.hearing.searching import SearchDecoding, of_ctc, of_transducer
from fastconformer.transducer.decoder import Decoder
from fastconformer.transducer.weights import of_named
from trt.facts import ModelError, keeper_of, usable
from trt.runtime.recognizer import DECODED_INSIDE, Network, check_whole, paths_of, spread
from trt.runtime.weights import WEIGHTS, weights_in


class ExportedPieces(PieceRecognizer):
    """A file of `trt.export` of a FastConformer, with the head that it was exported with."""

    def __init__(self, network: Network, *, threads: int = 0):
        """`threads`: of the decoder, 0 for one per core. Raises ModelError."""
        self.network, facts = network, network.facts
        check_whole(network)
        with usable(ModelError, network.path):
            self.sample_rate, self.precision = facts["sample_rate"], facts.get("precision", "fp32")
            self.languages, self.chunk_seconds = tuple(facts.get("languages", ())), facts["chunk_seconds"]
            self.samples_per_frame, self.seconds_per_frame = facts["samples_per_frame"], facts["seconds_per_frame"]
            self.attention_step = facts["attention_step"]
            self.pieces = Pieces(
                tuple(facts["labels"][:-1]),
                unknown=frozenset(facts["pieces"]["unknown"]),
                control=frozenset(facts["pieces"]["control"]),
            )
            self._decoder = _decoder(network, threads) if facts["head"] == "transducer" else None
            self.keep = keeper_of(facts)
            self.frames(0)  # which computes with the facts that are left

    def decoding(self) -> TransducerDecoding | CTCDecoding:
        """Greedy decoding, also of frames that come in parts."""
        if self._decoder is not None:
            return TransducerDecoding(self._decoder, self.pieces)
        return CTCDecoding(lambda log_probs_BSV: log_probs_BSV, self.pieces)

    def decoder(
        self, options: DecodingOptions | None = None, *, like: SearchDecoding | None = None
    ) -> SearchDecoding | None:
        """What `stream` decodes with, if not greedily by the network alone, as `fastconformer.Recognizer.decoder`.

        Raises ConfigError for words or files that cannot be used and for a thorough search of a transducer, ModelError
        for a file that gives labels.
        """
        if options is not None and not options.searches:
            return None
        options = options or DecodingOptions()
        if self._decoder is not None:
            return of_transducer(self._decoder, self.pieces, options, like=like)
        if "log_probs_BSV" not in self.network.outputs:
            raise ModelError(f"{self.network.path}: {DECODED_INSIDE}")
        return of_ctc(lambda log_probs_BSV: log_probs_BSV, self.pieces, options, like=like)

    def stream(
        self, recordings: Iterable[Source], *, chunk_seconds: float | None = None, **options: Any
    ) -> Iterator[Transcript]:
        """As `PieceRecognizer.stream`; longer recordings than `chunk_seconds` are heard in chunks, if it is given."""
        if chunk_seconds is not None:
            options |= {"chunk_seconds": chunk_seconds, "whole_seconds": chunk_seconds}
        return super().stream(recordings, **options)

    def frames(self, samples: int) -> int:
        """How many encoder frames there are of so many samples."""
        features, encoder = self.network.facts["features"], self.network.facts["configuration"]["encoder"]
        hop, counted = features["hop_samples"], features["frame_count"]
        frames: int = -(-samples // hop) if counted == "ceil" else samples // hop + (counted == "centered")
        for _ in range(encoder["subsampling"].bit_length() - 1):
            frames = frames // 2 + 1 if encoder["causal_subsampling"] and frames else (frames + 1) // 2
        return frames

    def heard(self, samples: Sequence[np.ndarray]) -> np.ndarray:
        """[B, S, C]: encoder frames, or log-probabilities of CTC."""
        audio_BN, samples_B = padded(samples)
        found = self.network.run(audio_BN=audio_BN, samples_B=samples_B)
        if "labels_BS" not in found:
            return found["encoded_BSC" if "encoded_BSC" in found else "log_probs_BSV"]
        counts = [self.frames(int(count)) for count in samples_B]
        log_probs_BSV = np.zeros((len(counts), max(counts), len(self.pieces)), np.float32)
        for row_SV, path_S2 in zip(log_probs_BSV, paths_of(found, counts, self.pieces.blank), strict=True):
            row_SV[: len(path_S2)] = spread(path_S2, len(self.pieces))
        return log_probs_BSV


def _decoder(network: Network, threads: int) -> Decoder:
    facts: dict[str, Any] = network.facts
    if network.path.suffix != ".onnx":
        raise ModelError(
            f"{network.path}: the weights of its decoder are in the ONNX file that it was built from; give that one, "
            "or export with --head ctc"
        )
    try:
        weights = of_named(
            weights_in(network.path, WEIGHTS), durations=tuple(facts["durations"]), activation=facts["activation"]
        )
    except (KeyError, ValueError) as error:
        raise ModelError(f"{network.path}: the weights of its decoder cannot be read: {error}") from None
    return Decoder(weights, threads=threads)
