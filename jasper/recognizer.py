"""A trained model in use: audio files in, words with times and confidence out.

Shapes: B utterances or chunks, N samples, F mel bands, T feature frames, S output frames, V labels and the blank.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

import ctc
from common import audio, checkpoint, distributed
from common.audio import AudioError
from common.data.manifest import Utterance
from common.features import Features, LogMel
from common.precision import Precision, cast_for_inference, float32_math
from jasper import checkpoint_import, data
from jasper.config import Config
from jasper.fused import fuse
from jasper.model import Jasper

# Longer recordings are recognised in chunks of this length, because the memory that the network takes grows with it.
CHUNK_SECONDS = 60.0
READERS = 4  # threads that decode and resample files while the network is at work
INAUDIBLE = 1e-5  # -100 dB: a recording that never gets louder is silent

Source = str | Path | Utterance | np.ndarray
Read = TypeVar("Read")


class Word(NamedTuple):
    """A recognised word: seconds from the start of the recording, and how sure the model is (0 to 1)."""

    text: str
    start: float
    end: float
    confidence: float


class Transcript(NamedTuple):
    """What was recognised in one recording; `error` says why nothing could be, "" where all went well.

    `log_probs_SV` (if they were asked for) belong to frames of `seconds_per_frame`, the first at `first_frame_seconds`:
    silence before it was cut off.
    """

    audio: str
    text: str
    words: list[Word]
    seconds: float
    error: str = ""
    log_probs_SV: Tensor | None = None
    first_frame_seconds: float = 0.0
    seconds_per_frame: float = 0.0


class Recognizer:
    """A model with the features it was trained on and the labels it writes.

    `Recognizer.model` is fused: faster, and on a CPU its output for an utterance has the same bits in every batch.
    """

    def __init__(
        self, model: Jasper, cfg: Config, *, device: torch.device | str = "cpu", precision: Precision = "fp32"
    ):
        self.config, self.device, self.precision = cfg, torch.device(device), precision
        self.vocabulary = data.vocabulary_of(cfg)
        self.n_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.model = cast_for_inference(fuse(model).to(self.device), precision)
        self.log_mel = LogMel(cfg.features).to(self.device).eval()

    @property
    def samples_per_frame(self) -> int:
        """Samples of audio from one output frame to the next."""
        return self.config.features.hop_samples * self.model.stride

    def features(self, audio_BN: Tensor, samples_B: Tensor) -> Features:
        """Log-mel features of audio at config.features.sample_rate Hz, samples_B valid samples each."""
        with torch.no_grad():
            return self.log_mel(audio_BN.to(self.device), samples_B.to(self.device))

    def transcribe(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float = CHUNK_SECONDS,
        on_error: Literal["stop", "skip"] = "stop",
        keep_log_probs: bool = False,
    ) -> list[Transcript]:
        """Transcripts of files, of utterances of a manifest, or of float32 [N] at the model's sample rate, in order.

        Recordings longer than `chunk_seconds` are recognised in overlapping chunks. With on_error="skip" one that
        cannot be read gives a transcript with `error` set; otherwise its AudioError is raised.
        """
        options = {"batch_size": batch_size, "chunk_seconds": chunk_seconds, "keep_log_probs": keep_log_probs}
        return list(self.stream(recordings, on_error=on_error, **options))  # type: ignore[arg-type]

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float = CHUNK_SECONDS,
        on_error: Literal["stop", "skip"] = "stop",
        keep_log_probs: bool = False,
    ) -> Iterator[Transcript]:
        """As `transcribe`, one after the other: memory holds only the recordings of a few batches."""
        if isinstance(recordings, str | Path | Utterance | np.ndarray):
            raise TypeError(f"expected a list of recordings, found one {type(recordings).__name__}; put it in [ ]")
        waiting: list[_Recording] = []
        pieces: list[_Piece] = []
        for recording in _ahead(lambda source: self._read(source, on_error), recordings):
            pieces += self._pieces(recording.samples_N, len(waiting), chunk_seconds)
            waiting.append(recording)
            if max(len(pieces), len(waiting)) >= 4 * batch_size:  # enough for batches of similar lengths
                yield from self._recognized(waiting, pieces, batch_size, keep_log_probs)
                waiting, pieces = [], []
        yield from self._recognized(waiting, pieces, batch_size, keep_log_probs)

    def _read(self, source: Source, on_error: str) -> "_Recording":
        rate = self.config.features.sample_rate
        try:
            name, samples_N = _samples(source, rate)
        except AudioError as error:
            if on_error == "stop":
                raise
            return _Recording(_name(source), np.zeros(0, np.float32), 0.0, 0.0, str(error))
        seconds, first = len(samples_N) / rate, 0
        if self.config.data.trim_silence:
            samples_N, first = audio.trim_silence(samples_N)
        if np.abs(samples_N).max(initial=0.0) <= INAUDIBLE:
            samples_N = samples_N[:0]  # normalised, the rounding errors of silence would sound like anything
        return _Recording(name, samples_N, first / rate, seconds, "")

    def _pieces(self, samples_N: np.ndarray, recording: int, chunk_seconds: float) -> "list[_Piece]":
        """The recording in chunks of equal length, each with all the context that its frames depend on if that fits.

        What a chunk gives inside its context is then what the whole recording gives, if the features are not
        normalised. If they are, it is by the mean and deviation of the chunk, which follow changes of
        loudness and voice as they do in training, where an utterance is no longer than a chunk.
        """
        features, per_frame = self.config.features, self.samples_per_frame
        if len(samples_N) == 0:
            return []
        n_frames = -(-features.frames(len(samples_N)) // self.model.stride)
        longest = max(1, round(chunk_seconds * features.sample_rate / per_frame))
        if n_frames <= longest:
            return [_Piece(recording, samples_N, 0, n_frames)]
        blurred = -(-features.n_fft // 2 // per_frame) + 1  # frames whose window reaches beyond the end of the chunk
        context = min(self.model.context_frames + blurred, longest // 3)
        n_chunks = math.ceil(n_frames / (longest - 2 * context))
        pieces = []
        for i in range(n_chunks):
            first, end = i * n_frames // n_chunks, (i + 1) * n_frames // n_chunks
            start = max(0, first - context)
            piece_N = samples_N[start * per_frame : (end + context) * per_frame]
            pieces.append(_Piece(recording, piece_N, first - start, end - start))
        return pieces

    def _recognized(
        self, recordings: "list[_Recording]", pieces: "list[_Piece]", batch_size: int, keep_log_probs: bool
    ) -> Iterator[Transcript]:
        kept: list[Tensor | None] = [None] * len(pieces)
        by_length = sorted(range(len(pieces)), key=lambda i: len(pieces[i].samples_N))
        for first in range(0, len(by_length), batch_size):
            rows = by_length[first : first + batch_size]
            log_probs_BSV = self._log_probs([pieces[i].samples_N for i in rows]).cpu()
            for i, log_probs_SV in zip(rows, log_probs_BSV, strict=True):
                kept[i] = log_probs_SV[pieces[i].first : pieces[i].end]
        parts: list[list[Tensor]] = [[] for _ in recordings]
        for piece, log_probs_SV in zip(pieces, kept, strict=True):
            assert log_probs_SV is not None
            parts[piece.recording].append(log_probs_SV)
        for recording, part in zip(recordings, parts, strict=True):
            log_probs_SV = torch.cat(part) if part else torch.zeros(0, len(self.vocabulary))
            yield self._transcript(recording, log_probs_SV, keep_log_probs)

    @torch.inference_mode()
    def _log_probs(self, samples: Sequence[np.ndarray]) -> Tensor:
        samples_B = torch.tensor([len(samples_N) for samples_N in samples])
        audio_BN = torch.zeros(len(samples), int(samples_B.max()))
        for row, samples_N in zip(audio_BN.numpy(), samples, strict=True):
            row[: len(samples_N)] = samples_N
        with float32_math(self.precision):
            return self.model(*self.features(audio_BN, samples_B)).log_probs_BSV

    def _transcript(self, recording: "_Recording", log_probs_SV: Tensor, keep_log_probs: bool) -> Transcript:
        seconds_per_frame = self.samples_per_frame / self.config.features.sample_rate
        words, error = [], recording.error
        if log_probs_SV.isnan().any():
            advice = "take bf16 or fp32" if self.precision == "fp16" else "its weights are damaged"
            error = f"{recording.name}: the network gives NaN in {self.precision}; {advice}"
        elif len(log_probs_SV):
            words = self._words(log_probs_SV, recording, seconds_per_frame)
        return Transcript(
            audio=recording.name,
            text=" ".join(word.text for word in words),
            words=words,
            seconds=recording.seconds,
            error=error,
            log_probs_SV=log_probs_SV if keep_log_probs and not error else None,
            first_frame_seconds=recording.first_seconds,
            seconds_per_frame=seconds_per_frame,
        )

    def _words(self, log_probs_SV: Tensor, recording: "_Recording", seconds_per_frame: float) -> list[Word]:
        (decoded,) = ctc.greedy(log_probs_SV[None], [len(log_probs_SV)], blank=self.vocabulary.blank)
        words: list[Word] = []
        letters: list[_Letter] = []
        text = self.vocabulary.decode(decoded.labels)
        spoken = map(_Letter, text, decoded.start_frames, decoded.end_frames, decoded.confidence)
        for letter in [*spoken, _Letter(" ", 0, 0, 1.0)]:
            if letter.character != " ":
                letters.append(letter)
            elif letters:
                start, end = letters[0].start_frame * seconds_per_frame, letters[-1].end_frame * seconds_per_frame
                words.append(
                    Word(
                        text="".join(letter.character for letter in letters),
                        start=round(recording.first_seconds + start, 3),
                        end=round(min(recording.first_seconds + end, recording.seconds), 3),
                        confidence=round(math.prod(c.confidence for c in letters) ** (1 / len(letters)), 4),
                    )
                )
                letters = []
        return words


class _Recording(NamedTuple):
    name: str
    samples_N: np.ndarray
    first_seconds: float
    seconds: float
    error: str


class _Piece(NamedTuple):
    """Part of a recording with context on both sides; `first:end` are the output frames to keep."""

    recording: int
    samples_N: np.ndarray
    first: int
    end: int


class _Letter(NamedTuple):
    character: str
    start_frame: int
    end_frame: int
    confidence: float


def load(
    path: str | Path,
    *,
    device: str = "auto",
    precision: Precision = "fp32",
    ema: bool | None = None,
    configuration: Config | None = None,
) -> Recognizer:
    """The recogniser saved at `path`: a checkpoint of this repository or of DeepLearningExamples.

    `ema`: take the averaged weights; None takes them where there are any. `configuration` overrides what the
    checkpoint says of itself (ours) or what is read off its weights (DeepLearningExamples').
    Raises CheckpointError for a file that is missing, damaged, not such a checkpoint, or has no averaged weights.
    """
    chosen = distributed.pick_device(device)
    model, cfg = load_model(path, ema=ema, configuration=configuration)
    return Recognizer(model, cfg, device=chosen, precision=precision)


def load_model(
    path: str | Path, *, ema: bool | None = None, configuration: Config | None = None
) -> tuple[Jasper, Config]:
    """The bare model saved at `path`, on the CPU in evaluation mode, and its configuration; as `load` otherwise."""
    path = Path(path)
    imported = checkpoint_import.read(checkpoint.load(path), path, configuration=configuration)
    if ema and imported.ema is None:
        raise checkpoint.CheckpointError(f"{path}: has no averaged (EMA) weights; load it with ema=False")
    cfg = imported.config
    weights = imported.ema if imported.ema is not None and ema is not False else imported.weights
    with torch.device("meta"):  # the weights come from the file: do not initialise 333 million of them first
        model = Jasper(cfg.model, cfg.features.mel_bins)
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        problem = " ".join(str(error).split())
        raise checkpoint.CheckpointError(f"{path}: does not fit its configuration: {problem[:300]}") from None
    return model.eval(), cfg


def _samples(source: Source, rate: int) -> tuple[str, np.ndarray]:
    """Name and mono samples [N] of a recording at `rate` Hz. Raises AudioError."""
    name = _name(source)
    if isinstance(source, np.ndarray):
        if source.ndim != 1 or not len(source) or not np.isfinite(source).all():
            raise AudioError(f"array of shape {source.shape}: expected finite mono samples [N] at {rate} Hz")
        return name, source.astype(np.float32, copy=False)
    if isinstance(source, Utterance) and source.offset_seconds:
        piece = {"offset_seconds": source.offset_seconds, "seconds": source.seconds}
        return name, audio.read(source.audio, sample_rate=rate, **piece).samples
    return name, audio.read(source.audio if isinstance(source, Utterance) else source, sample_rate=rate).samples


def _name(source: Source) -> str:
    if isinstance(source, Utterance):
        return source.id
    return "array" if isinstance(source, np.ndarray) else str(source)


def _ahead(read: Callable[[Source], Read], sources: Iterable[Source]) -> Iterator[Read]:
    """`read` of every source, in order, by threads that are a few sources ahead."""
    pool = ThreadPoolExecutor(READERS)
    waiting: deque[Future[Read]] = deque()
    try:
        for source in sources:
            waiting.append(pool.submit(read, source))
            if len(waiting) > 2 * READERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
