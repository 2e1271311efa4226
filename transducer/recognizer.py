"""A trained model in use: audio in, encoder frames, labels and words with times and confidence out.

Shapes: B utterances or chunks, N samples, F mel bins, T feature frames, S encoder frames, C encoder width, V pieces and
the blank.
"""

import copy
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import ctc
from common import checkpoint, distributed
from common.fastest import Choice, fastest, voice_like
from common.features import Features, LogMel, LogMelConfig
from common.precision import Precision, cast_for_inference, float32_math
from common.recognition.chunks import Piece, chunks
from common.recognition.recordings import Recording, Source, is_silent, read, read_ahead
from common.recognition.tensors import in_batches, padded
from common.recognition.transcripts import Letter, Transcript, Word, words_of_pieces
from common.text.pieces import Pieces
from transducer.checkpoints.reading import read_model
from transducer.decoder import Decoder
from transducer.network.encoder import Encoded
from transducer.network.fused import fuse
from transducer.network.model import Model

CHUNK_SECONDS = 60.0  # longer recordings are encoded in chunks: the memory of attention grows with the square
CONTEXT_SECONDS = 10.0  # on both sides of a chunk, encoded with it and not counted

Head = Literal["auto", "transducer", "ctc"]


class Hypothesis(NamedTuple):
    """What was recognised in one utterance: pieces, and the encoder frame that each was emitted at.

    `durations` are frames: those that TDT gives, those that a piece of CTC lasts, None for RNN-T. `confidence` is the
    probability of each piece (of CTC, of its most probable frame).
    """

    tokens: list[int]
    frames: list[int]
    durations: list[int] | None
    text: str
    confidence: list[float]


class Recognizer:
    """A model with the features that it hears and the pieces that it writes; `head` is what decodes by default.

    `Recognizer.model` is prepared for inference. The encoder computes in `precision`, heads in float32.
    """

    def __init__(
        self,
        model: Model,
        features: LogMelConfig,
        pieces: Pieces,
        *,
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
        head: Head = "auto",
    ):
        self.device, self.precision, self.pieces = torch.device(device), precision, pieces
        self.config, self.feature_config = model.cfg, features
        self.n_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.model = fuse(model).to(self.device)
        self.model.encoder = cast_for_inference(self.model.encoder, precision)
        self.log_mel = LogMel(features).to(self.device).eval()
        if head == "auto":
            head = "ctc" if model.prediction is None else "transducer"
        if (head == "ctc" and model.ctc is None) or (head == "transducer" and model.prediction is None):
            raise checkpoint.CheckpointError(f"head = {head}: this model has no such head")
        self.head = head

    @property
    def samples_per_frame(self) -> int:
        """Samples of audio from one encoder frame to the next."""
        return self.feature_config.hop_samples * self.config.encoder.subsampling

    @property
    def seconds_per_frame(self) -> float:
        """Seconds from one encoder frame to the next."""
        return self.samples_per_frame / self.feature_config.sample_rate

    def features(self, audio_BN: Tensor, samples_B: Tensor) -> Features:
        """Log-mel features, float32, of audio at feature_config.sample_rate Hz, samples_B valid samples each."""
        with torch.no_grad():
            return self.log_mel(audio_BN.to(self.device), samples_B.to(self.device))

    @torch.inference_mode()
    def encode(self, features_BFT: Tensor, frames_B: Tensor) -> Encoded:
        """encoded_BSC in float32 of features with frames_B valid frames each, and how many S frames those are."""
        with float32_math(self.precision):
            encoded_BSC, frames_B = self.model(features_BFT.to(self.device), frames_B.to(self.device))
        return Encoded(encoded_BSC.float(), frames_B)

    @torch.inference_mode()
    def decode(
        self, encoded_BSC: Tensor, frames_B: Tensor | Sequence[int], *, max_symbols: int = 10, head: Head = "auto"
    ) -> list[Hypothesis]:
        """Greedy, exact: of RNN-T and TDT at most `max_symbols` pieces without moving on. Raises ValueError.

        `head` is by default that of the recogniser.
        """
        if (self.head if head == "auto" else head) == "ctc":
            found = ctc.greedy(self.ctc_log_probs(encoded_BSC), frames_B, blank=self.pieces.blank)
            return [
                Hypothesis(
                    d.labels,
                    d.start_frames,
                    [end - start for start, end in zip(d.start_frames, d.end_frames, strict=True)],
                    self.pieces.decode(d.labels),
                    d.confidence,
                )
                for d in found
            ]
        return [
            Hypothesis(d.tokens, d.frames, d.durations, self.pieces.decode(d.tokens), d.confidence)
            for d in self._decoder(encoded_BSC, frames_B, max_symbols=max_symbols)
        ]

    @torch.inference_mode()
    def ctc_log_probs(self, encoded_BSC: Tensor) -> Tensor:
        """log_probs_BSV of pieces and blank, float32. Raises ValueError for a model without CTC head."""
        if self.model.ctc is None:
            raise ValueError("this model has no CTC head: decode with its transducer")
        return self.model.ctc(encoded_BSC.to(self.device)).log_softmax(-1)

    def transcribe(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float = CHUNK_SECONDS,
        max_symbols: int = 10,
        on_error: Literal["stop", "skip"] = "stop",
    ) -> list[Transcript]:
        """Transcripts of files, of utterances of a manifest, or of float32 [N] at the model's sample rate, in order.

        Recordings longer than `chunk_seconds` are encoded in overlapping chunks, and decoded in one go. With
        on_error="skip" one that cannot be read gives a transcript with `error` set; otherwise its AudioError is raised.
        """
        options = {"batch_size": batch_size, "chunk_seconds": chunk_seconds, "max_symbols": max_symbols}
        return list(self.stream(recordings, on_error=on_error, **options))  # type: ignore[arg-type]

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float = CHUNK_SECONDS,
        max_symbols: int = 10,
        on_error: Literal["stop", "skip"] = "stop",
    ) -> Iterator[Transcript]:
        """As `transcribe`, one after the other: memory holds only the recordings of a few batches."""
        read_in = read_ahead(recordings, self._read, on_error=on_error)
        found = in_batches(
            read_in, lambda samples_N: self._pieces(samples_N, chunk_seconds), self._encoded, batch_size=batch_size
        )
        group: list[tuple[Recording, Tensor]] = []
        for recording, encoded_SC in found:
            group.append((recording, self._nothing if encoded_SC is None else encoded_SC))
            if len(group) == batch_size:
                yield from self._transcripts(group, max_symbols)
                group = []
        yield from self._transcripts(group, max_symbols)

    @functools.cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.model.decoder_weights())

    @functools.cached_property
    def _nothing(self) -> Tensor:
        return torch.zeros(0, self.config.encoder.width)

    def _read(self, source: Source) -> Recording:
        recording = read(source, self.feature_config.sample_rate)
        return recording._replace(samples_N=recording.samples_N[:0]) if is_silent(recording.samples_N) else recording

    def _pieces(self, samples_N: np.ndarray, chunk_seconds: float) -> list[Piece]:
        """The recording in chunks of equal length with context on both sides."""
        n_frames = self.model.encoder.output_frames(self.feature_config.frames(len(samples_N)))
        longest, context = (max(1, round(s / self.seconds_per_frame)) for s in (chunk_seconds, CONTEXT_SECONDS))
        return [
            Piece(samples_N[start * self.samples_per_frame : stop * self.samples_per_frame], first - start, end - start)
            for start, first, end, stop in chunks(n_frames, longest=longest, context=context)
        ]

    def _encoded(self, samples: Sequence[np.ndarray]) -> Tensor:
        return self.encode(*self.features(*padded(samples))).encoded_BSC

    def _transcripts(self, group: Sequence[tuple[Recording, Tensor]], max_symbols: int) -> Iterator[Transcript]:
        broken = [bool(encoded_SC.isnan().any()) for _, encoded_SC in group]
        frames = [0 if nan else len(encoded_SC) for nan, (_, encoded_SC) in zip(broken, group, strict=True)]
        found: list[Hypothesis] = []
        if any(frames):
            encoded_BSC = pad_sequence([encoded_SC[:n] for n, (_, encoded_SC) in zip(frames, group, strict=True)], True)
            found = self.decode(encoded_BSC.to(self.device), torch.tensor(frames), max_symbols=max_symbols)
        found = found or [Hypothesis([], [], None, "", []) for _ in group]
        for nan, (recording, _), hypothesis in zip(broken, group, found, strict=True):
            error = recording.error
            if nan:
                advice = "take bf16 or fp32" if self.precision == "fp16" else "its weights are damaged"
                error = f"{recording.name}: the network gives NaN in {self.precision}; {advice}"
            words = self.words(hypothesis, recording)
            yield Transcript(
                audio=recording.name,
                text=" ".join(word.text for word in words),
                words=words,
                seconds=recording.seconds,
                error=error,
                first_frame_seconds=recording.first_seconds,
                seconds_per_frame=self.seconds_per_frame,
            )

    def words(self, hypothesis: Hypothesis, recording: Recording) -> list[Word]:
        """The words of a hypothesis with their times in the recording. A piece of no duration lasts a frame."""
        durations = hypothesis.durations or [1] * len(hypothesis.tokens)
        spans = [
            Letter("", frame, frame + max(1, duration), confidence)
            for frame, duration, confidence in zip(hypothesis.frames, durations, hypothesis.confidence, strict=True)
        ]
        return words_of_pieces(
            self.pieces,
            hypothesis.tokens,
            spans,
            first_seconds=recording.first_seconds,
            seconds_per_frame=self.seconds_per_frame,
            seconds=recording.seconds,
        )


def load(
    path: str | Path,
    *,
    device: str = "auto",
    precision: Choice = "fp32",
    ema: bool | None = None,
    head: Head = "auto",
) -> Recognizer:
    """The recogniser at `path`: a .nemo archive, a folder of transformers, or a checkpoint of this repository.

    `ema`: of ours, take the averaged weights; None takes them where there are any. `head`: of hybrid models, what
    decodes; by default the transducer. `precision`: "auto" measures (`common.fastest`). Raises CheckpointError for
    what is missing, damaged or not known.
    """
    chosen = distributed.pick_device(device)
    model, imported = read_model(Path(path), ema=ema)
    if precision == "auto":
        sound_N = voice_like(imported.features.sample_rate)
        return fastest(
            lambda tried: Recognizer(
                copy.deepcopy(model), imported.features, imported.pieces, device=chosen, precision=tried, head=head
            ),
            lambda asr: asr._encoded([sound_N]),
            chosen,
        )
    return Recognizer(model, imported.features, imported.pieces, device=chosen, precision=precision, head=head)
