"""Recordings of any length to pieces and words: encoded whole, or in chunks with context on both sides, and decoded as
their frames come.

The decoder goes on with its state from chunk to chunk, so texts of chunks are never merged, and memory does not grow
with the length of a recording, its text apart. Needs no torch: what computes frames is another's,
`fastconformer.recognizer` in torch and `trt.runtime.conformer` without.

Shapes: B recordings or chunks, N samples, S encoder frames, C what a head decodes of a frame.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from common.audio.silence import Keep
from common.recognition.cutting.chunks import WINDOW, AudioChunk, by_length, long_batches
from common.recognition.decoding import DecodingOptions
from common.recognition.output.transcripts import Transcript, Word
from common.recognition.reading import gives
from common.recognition.recognizer import OnError, SpeechRecognizer
from common.recognition.sources.recordings import Recording, Source, read_ahead
from common.text.pieces import Pieces
from fastconformer.hearing.greedy import CTCDecoding, Frames, TransducerDecoding
from fastconformer.hearing.long_audio import ChunkOptions, windows
from fastconformer.hearing.searching import SearchDecoding, decode_parts
from fastconformer.hypotheses import NOTHING, PieceHypothesis, transcript_of, words_in

if TYPE_CHECKING:  # its module needs torch
    from common.devices.precision import InferencePrecision

Confidence = Literal["probability", "entropy"]


class PieceRecognizer(SpeechRecognizer):
    """A model of pieces that transcribes by a transducer or CTC."""

    pieces: Pieces
    precision: "InferencePrecision"
    """That of the encoder, which messages name."""
    keep: Keep | None
    """What cuts pauses out of recordings and streams."""
    samples_per_frame: int
    """Samples of audio from one encoder frame to the next."""
    seconds_per_frame: float
    """Seconds from one encoder frame to the next."""
    attention_step: int = 1
    """Frames of a chunk that attention sees at once, 1 where there are no chunks."""
    languages: tuple[str, ...] = ()
    """Languages that it writes, where the model says."""
    chunk_seconds: float = ChunkOptions.chunk_seconds
    """Length of the chunks, in seconds, that long recordings are heard in."""
    confidence: Confidence = "probability"
    """Whether words are as sure as the probabilities of their pieces, or as the entropies of these say."""
    several: Callable[..., Iterable[Any]] = map
    """As `map`, perhaps several at a time, of batches of short recordings."""

    @abstractmethod
    def frames(self, samples: int) -> int:
        """How many encoder frames there are of so many samples."""

    @abstractmethod
    def heard(self, samples: Sequence[np.ndarray]) -> Frames:
        """[B, S, C]: what is decoded of recordings or chunks of these samples."""

    @abstractmethod
    def decoding(self) -> TransducerDecoding | CTCDecoding:
        """Greedy decoding, also of frames that come in parts."""

    @abstractmethod
    def decoder(self, options: DecodingOptions | None = None, *, like: Any = None) -> SearchDecoding | None:
        """What decodes as options say, by default for words to favour; None where that is greedy decoding."""

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float = ChunkOptions.chunk_seconds,
        left_seconds: float = ChunkOptions.left_seconds,
        right_seconds: float = ChunkOptions.right_seconds,
        whole_seconds: float = ChunkOptions.whole_seconds,
        decoder: SearchDecoding | None = None,
        hot_words: Iterable[Iterable[str]] | None = None,
        on_error: OnError = "stop",
    ) -> Iterator[Transcript]:
        """Transcripts of files, of utterances of a manifest, or of float32 [N] at the model's sample rate, in order.

        Recordings longer than `whole_seconds` are encoded in chunks with context on both sides, and decoded in one go.
        `decoder`: see the method of that name; by default greedy. `hot_words`: words or phrases to favour in each
        recording. With on_error="skip" one that cannot be read gives a transcript with `error` set; otherwise its
        AudioError is raised. Memory holds only the recordings of a few batches. Raises ValueError for impossible
        lengths.
        """
        chunks = ChunkOptions(
            chunk_seconds=chunk_seconds, left_seconds=left_seconds, right_seconds=right_seconds,
            whole_seconds=whole_seconds,
        )  # fmt: skip
        if batch_size < 1:
            raise ValueError(f"batch_size = {batch_size}: expected at least 1")
        given = read_ahead(recordings, self.sample_rate, keep=self.keep, on_error=on_error)
        if hot_words is not None:
            decoder = decoder or self.decoder()
            given = (r._replace(hot_words=tuple(words)) for r, words in zip(given, hot_words, strict=True))
        short: list[tuple[Recording, AudioChunk | None]] = []
        for recording in given:
            pieces = self.cut(len(recording.samples_N), chunks)
            if len(pieces) < 2:
                short.append((recording, pieces[0] if pieces else None))
            if short and (len(pieces) > 1 or len(short) == WINDOW * batch_size):
                yield from self._short(short, decoder, batch_size)
                short = []
            if len(pieces) > 1:
                yield self._long(recording, pieces, decoder, batch_size)
        yield from self._short(short, decoder, batch_size)

    def cut(self, samples: int, chunks: ChunkOptions) -> list[AudioChunk]:
        """So many samples of a recording, whole or in chunks with context on both sides."""
        n_frames, size = self.frames(samples), self.samples_per_frame
        if n_frames <= chunks.whole_seconds / self.seconds_per_frame:
            return [AudioChunk(0, samples, 0, n_frames)] if n_frames else []
        chunk, left, right = self.chunk_frames(chunks.chunk_seconds, chunks.left_seconds, chunks.right_seconds)
        return [
            AudioChunk(start * size, min(samples, stop * size), first - start, end - start)
            for start, first, end, stop in windows(n_frames, chunk=chunk, left=left, right=right)
        ]

    def chunk_frames(self, chunk_seconds: float, *context_seconds: float) -> list[int]:
        """Encoder frames of a chunk, at least one, and of context, in whole chunks of attention."""
        counts = [round(seconds / self.seconds_per_frame) for seconds in (chunk_seconds, *context_seconds)]
        return [-(-count // self.attention_step) * self.attention_step for count in (max(1, counts[0]), *counts[1:])]

    def words(self, hypothesis: PieceHypothesis, recording: Recording) -> list[Word]:
        """The words of a hypothesis with their times in the recording. A piece of no duration lasts a frame."""
        sure = hypothesis.entropy_confidence if self.confidence == "entropy" else hypothesis.confidence
        return words_in(hypothesis, sure, self.pieces, recording, seconds_per_frame=self.seconds_per_frame)

    def _short(
        self, short: Sequence[tuple[Recording, AudioChunk | None]], decoder: SearchDecoding | None, batch_size: int
    ) -> Iterator[Transcript]:
        """Recordings of one piece or none, those of similar length together."""
        pieces = [(i, recording, piece) for i, (recording, piece) in enumerate(short) if piece is not None]

        def batch(rows: list[int]) -> list[tuple[int, PieceHypothesis, bool]]:
            own, recordings, chunks = zip(*(pieces[row] for row in rows), strict=True)
            frames_BSC = self.heard([c.of(r.samples_N) for r, c in zip(recordings, chunks, strict=True)])
            nan = [_has_nan(frames_SC[: c.end]) for frames_SC, c in zip(frames_BSC, chunks, strict=True)]
            counts = [0 if is_nan else c.end for is_nan, c in zip(nan, chunks, strict=True)]
            if decoder is None:
                found = self.decoding()(frames_BSC, counts)
            else:
                found = decoder(frames_BSC, counts, hot_words=[r.hot_words for r in recordings])
            return list(zip(own, found, nan, strict=True))

        found: dict[int, tuple[PieceHypothesis, bool]] = {}
        for heard in self.several(batch, list(by_length([piece.length for *_, piece in pieces], batch_size))):
            found |= {i: (said, is_nan) for i, said, is_nan in heard}
        for i, (recording, _) in enumerate(short):
            yield self._transcript(recording, *found.get(i, (NOTHING, False)))

    def _long(
        self, recording: Recording, pieces: Sequence[AudioChunk], decoder: SearchDecoding | None, batch_size: int
    ) -> Transcript:
        """A recording of several pieces, so many encoded at once."""
        is_nan = False

        def parts() -> Iterator[Frames]:
            nonlocal is_nan
            for batch, samples in long_batches(recording.samples_N, pieces, batch_size):
                for frames_SC, piece in zip(self.heard(samples), batch, strict=True):
                    is_nan = _has_nan(frames_SC[piece.first : piece.end])
                    if is_nan:
                        return
                    yield frames_SC[piece.first : piece.end]

        found = decode_parts(parts(), self.decoding(), decoder, self.pieces, hot_words=recording.hot_words)
        return self._transcript(recording, found, is_nan)

    def _transcript(self, recording: Recording, found: PieceHypothesis, is_nan: bool) -> Transcript:
        error = f"{recording.name}: {gives('NaN', self.precision)}" if is_nan else recording.failure
        own = NOTHING if is_nan else found
        return transcript_of(recording, own, self.words, seconds_per_frame=self.seconds_per_frame, error=error)


def _has_nan(frames_SC: Frames) -> bool:
    return bool((frames_SC != frames_SC).any())  # of tensors and arrays alike
