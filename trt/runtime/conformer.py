"""An exported FastConformer in use, without torch: its graph in ONNX Runtime, its decoder native or in numpy.

Recordings are encoded and decoded as `fastconformer.inference` does it: long ones in chunks with context on both sides,
the decoder going on with its state.

Shapes: B utterances, N samples, S encoder frames, X what a head makes of a frame, V pieces and the blank.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.recognition.cutting.chunks import padded
from common.recognition.decoding import DecodingOptions
from common.recognition.output.transcripts import Transcript, Word
from common.recognition.recognizer import OnError
from common.recognition.sources.recordings import Recording, Source, read_ahead
from common.text.pieces import Pieces
from common.text.vocabulary import Language
from fastconformer.hearing.greedy import TransducerDecoding
from fastconformer.hearing.long_audio import ChunkOptions, cut, recognised, whole_chunks
from fastconformer.hearing.searching import SearchDecoding, decode_parts, of_ctc, of_transducer
from fastconformer.hypotheses import DecodedLabels, PieceHypothesis, hypothesis_of, transcript_of, words_in
from fastconformer.transducer.decoder import Decoder
from fastconformer.transducer.weights import of_named
from trt.facts import ModelError, keeper_of, usable
from trt.runtime.recognizer import DECODED_INSIDE, Network, check_whole, paths_of
from trt.runtime.weights import WEIGHTS, weights_in

if TYPE_CHECKING:
    from common.text.language import Spelling


class PieceRecognizer:
    """A file of `trt.export` of a FastConformer, with the head that it was exported with."""

    def __init__(self, network: Network, *, threads: int = 0):
        """`threads`: of the decoder, 0 for one per core. Raises ModelError."""
        self.network, facts = network, network.facts
        check_whole(network)
        with usable(ModelError, network.path):
            self.sample_rate: int = facts["sample_rate"]
            self.languages: tuple[str, ...] = tuple(facts.get("languages", ()))
            self.samples_per_frame: int = facts["samples_per_frame"]
            self.seconds_per_frame: float = facts["seconds_per_frame"]
            self.chunk_seconds: float = facts["chunk_seconds"]
            self.pieces = Pieces(
                tuple(facts["labels"][:-1]),
                unknown=frozenset(facts["pieces"]["unknown"]),
                control=frozenset(facts["pieces"]["control"]),
            )
            self._decoder = None
            if facts["head"] == "transducer":
                self._decoder = TransducerDecoding(_decoder(network, threads), self.pieces)
            self.keep = keeper_of(facts)
            self.frames(0)  # which computes with the facts that are left

    def decoder(
        self, options: DecodingOptions | None = None, *, like: SearchDecoding | None = None
    ) -> SearchDecoding | None:
        """What `stream` decodes with, if not greedily by the network alone, as `fastconformer.Recognizer.decoder`.

        Raises ConfigError for words or files that cannot be used and for a thorough search of a transducer, ModelError
        for a file that gives labels.
        """
        options = options or DecodingOptions()
        if not options.searches:
            return None
        if self._decoder is not None:
            return of_transducer(self._decoder.decoder, self.pieces, options, like=like)
        if "log_probs_BSV" not in self.network.outputs:
            raise ModelError(f"{self.network.path}: {DECODED_INSIDE}")
        return of_ctc(lambda log_probs_BSV: log_probs_BSV, self.pieces, options, like=like)

    def spelling(self, language: Language | None = None) -> "Spelling":
        """What writes references and transcripts alike, as the model's own command does."""
        from common.text.language import Spelling  # which takes as long to import as all else

        return Spelling(None, language=language or "english", unknown_letters="latin")

    def transcribe(self, recordings: Iterable[Source], **options: Any) -> list[Transcript]:
        """As `stream`, whose options it takes, all at once."""
        return list(self.stream(recordings, **options))

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float | None = None,
        decoder: SearchDecoding | None = None,
        on_error: OnError = "stop",
    ) -> Iterator[Transcript]:
        """Transcripts in order. With on_error="skip" what cannot be read has its `error` set; otherwise it is raised.

        Recordings longer than `chunk_seconds` are recognised in chunks; by default as where the model is at home.
        `decoder`: see the method of that name; by default greedy.
        """
        options = ChunkOptions()
        if chunk_seconds is not None:
            options = ChunkOptions(chunk_seconds=chunk_seconds, whole_seconds=chunk_seconds)
        seconds, step = self.seconds_per_frame, self.network.facts["attention_step"]
        whole = options.whole_seconds / seconds
        lengths = whole_chunks(
            options.chunk_seconds, options.left_seconds, options.right_seconds, seconds_per_frame=seconds, step=step
        )
        for heard in recognised(
            read_ahead(recordings, self.sample_rate, keep=self.keep, on_error=on_error),
            cut=lambda samples: cut(
                samples, self.frames(samples), lengths, whole=whole, samples_per_frame=self.samples_per_frame
            ),
            encode=lambda samples: self._encode(samples, whole_rows=decoder is not None),
            decode=lambda frames_BSX, counts, _: self._decode(frames_BSX, counts, decoder),
            join=np.concatenate,
            decode_parts=lambda parts, _: self._decode_parts(parts, decoder),
            batch_size=batch_size,
        ):
            yield self._transcript(*heard)

    def frames(self, samples: int) -> int:
        """How many encoder frames there are of so many samples."""
        features, encoder = self.network.facts["features"], self.network.facts["configuration"]["encoder"]
        hop, counted = features["hop_samples"], features["frame_count"]
        frames: int = -(-samples // hop) if counted == "ceil" else samples // hop + (counted == "centered")
        for _ in range(encoder["subsampling"].bit_length() - 1):
            frames = frames // 2 + 1 if encoder["causal_subsampling"] and frames else (frames + 1) // 2
        return frames

    def _encode(self, samples: Sequence[np.ndarray], *, whole_rows: bool) -> np.ndarray:
        """[B, S, X]: encoder frames, or of CTC the best piece of each frame and the logarithm of its probability; those
        of all pieces with `whole_rows`."""
        audio_BN, samples_B = padded(samples)
        found = self.network.run(audio_BN=audio_BN, samples_B=samples_B)
        if "encoded_BSC" in found:
            return found["encoded_BSC"]
        if "labels_BS" in found:
            counts = [self.frames(int(count)) for count in samples_B]
            paths = paths_of(found, counts, self.pieces.blank)
            frames_BSX = np.zeros((len(paths), max(counts), 2))
            for row_SX, path_S2 in zip(frames_BSX, paths, strict=True):
                row_SX[: len(path_S2)] = path_S2
            return frames_BSX
        log_probs_BSV = found["log_probs_BSV"]
        if whole_rows:
            return log_probs_BSV
        return np.stack([log_probs_BSV.argmax(2).astype(np.float64), log_probs_BSV.max(2).astype(np.float64)], 2)

    def _decode(
        self, frames_BSX: np.ndarray, counts: Sequence[int], decoder: SearchDecoding | None
    ) -> list[PieceHypothesis]:
        if decoder is not None:
            return decoder(frames_BSX, counts)
        if self._decoder is None:
            return [_best_path(frames_SX[:n], self.pieces) for frames_SX, n in zip(frames_BSX, counts, strict=True)]
        return self._decoder(frames_BSX, counts)

    def _decode_parts(self, parts: Iterable[np.ndarray], decoder: SearchDecoding | None) -> PieceHypothesis:
        if decoder is None and self._decoder is None:
            return _best_path(np.concatenate([np.zeros((0, 2)), *parts]), self.pieces)
        return decode_parts(parts, self._decoder, decoder, self.pieces)

    def _transcript(self, recording: Recording, hypothesis: PieceHypothesis, is_nan: bool) -> Transcript:
        error = f"{recording.name}: the network gives NaN; its weights are damaged" if is_nan else recording.failure
        return transcript_of(recording, hypothesis, self._words, seconds_per_frame=self.seconds_per_frame, error=error)

    def _words(self, hypothesis: PieceHypothesis, recording: Recording) -> list[Word]:
        return words_in(
            hypothesis, hypothesis.confidence, self.pieces, recording, seconds_per_frame=self.seconds_per_frame
        )


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


def _best_path(path_S2: np.ndarray, pieces: Pieces) -> PieceHypothesis:
    """The pieces of the best path of CTC."""
    best_S, score_S = path_S2[:, 0].astype(int), path_S2[:, 1]
    first = np.flatnonzero(np.diff(best_S, prepend=-1))
    spans = [(int(a), int(b)) for a, b in zip(first, [*first[1:], len(best_S)], strict=True)]
    spans = [(start, end) for start, end in spans if best_S[start] != pieces.blank]
    decoded = DecodedLabels(
        [int(best_S[start]) for start, _ in spans],
        [start for start, _ in spans],
        [end - start for start, end in spans],
        [float(np.exp(score_S[start:end].mean())) for start, end in spans],
    )
    return hypothesis_of(decoded, pieces)
