"""A trained model in use: audio in, representations, logits and words out.

Shapes: B utterances, N samples, S frames, C width of the representation, V labels.
"""

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from common.audio.waveform import AudioError
from common.devices import distributed
from common.devices.fastest import Choice, fastest, voice_like
from common.devices.precision import Precision, cast_for_inference, float32_math
from common.recognition.cutting.chunks import AudioChunk, chunks
from common.recognition.cutting.tensors import in_batches, padded
from common.recognition.decoding import CTCDecoder, DecodingOptions
from common.recognition.output.transcripts import Transcript
from common.recognition.reading import not_finite, transcripts
from common.recognition.recognizer import OnError, SpeechRecognizer
from common.recognition.sources.recordings import Source, read_ahead
from common.runs.checkpoint import CheckpointError
from common.text.language import Language, Spelling
from common.text.vocabulary import is_special
from common.threads import cores
from wav2vec2.checkpoints import reading
from wav2vec2.checkpoints.loading import Model, build
from wav2vec2.corpus.letters import Letters
from wav2vec2.network.extractor import n_frames
from wav2vec2.network.model import Wav2Vec2, Wav2Vec2ForCTC
from wav2vec2.run_config import SAMPLE_RATE

# The models were trained on utterances of up to 16 (Base) or 20 (Large) seconds and fine-tuned on up to 35; attention
# takes memory with the square of the length.
CHUNK_SECONDS = 35.0
STRIDE_SECONDS = 5.0


class Representations(NamedTuple):
    """Representations x_BSC, and frames_B, how many of the S frames each utterance has; 0 beyond them."""

    x_BSC: Tensor
    frames_B: Tensor


class Scored(NamedTuple):
    """Logits of the labels, and frames_B, how many of the S frames each utterance has."""

    logits_BSV: Tensor
    frames_B: Tensor


class Represented(NamedTuple):
    """Representations of one recording; `error` says why there are none, "" where all went well."""

    audio: str
    x_SC: Tensor
    seconds: float
    error: str = ""


class Recognizer(SpeechRecognizer):
    """A model on a device, in a precision, ready for use."""

    def __init__(
        self,
        model: Model,
        *,
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
        language: Language = "auto",
        assumed: tuple[str, ...] = (),
    ):
        self.device, self.precision = torch.device(device), precision
        self.language: Language = language
        self.languages = () if language in ("auto", "none") else (language,)
        self.sample_rate, self.chunk_seconds = SAMPLE_RATE, CHUNK_SECONDS
        self.assumed = assumed
        """What the checkpoint does not say, in lines for the user."""
        self.model = cast_for_inference(model.to(self.device), precision)
        self.backbone = model if isinstance(model, Wav2Vec2) else model.wav2vec2
        self.config = self.backbone.config

    def spelling(self, language: Language | None = None) -> Spelling:
        """What writes texts in the letters of the labels, by default in the model's language."""
        return Letters(self.config.labels).spelling(language=language or self.language)

    def encode(self, audio_BN: Tensor, samples_B: Tensor, *, layers: int | None = None) -> Representations:
        """Representations of audio_BN, float32 at 16 kHz, with samples_B valid samples each.

        With `layers` they are the output of that Transformer layer (0: its input). Raises AudioError where an
        utterance is too short for a frame or holds what is no number, ValueError for a layer that there is not.
        """
        if layers is not None and not 0 <= layers <= self.config.layers:
            raise ValueError(f"layers = {layers}: expected 0 to {self.config.layers}, or None for the whole model")
        audio_BN, samples_B, is_padded = self._checked(audio_BN, samples_B)
        with torch.inference_mode(), float32_math(self.precision):
            context = self.backbone(audio_BN, samples_B if is_padded else None, layers=layers)
        return Representations(context.x_BSD, n_frames(samples_B, self.config.conv_layers))

    def logits(self, audio_BN: Tensor, samples_B: Tensor) -> Scored:
        """Logits of the labels for audio as `encode` takes it. Raises AudioError; CheckpointError without a head."""
        model = self._with_head()
        audio_BN, samples_B, is_padded = self._checked(audio_BN, samples_B)
        with torch.inference_mode(), float32_math(self.precision):
            output = model(audio_BN, samples_B if is_padded else None)
        return Scored(output.logits_BSV, n_frames(samples_B, self.config.conv_layers))

    def decoder(self, options: DecodingOptions | None = None, *, like: CTCDecoder | None = None) -> CTCDecoder:
        """What `transcribe` decodes with. `like`: one with the same language model, which is not read again.

        Raises CheckpointError without a head or names of labels, ConfigError for words or files that cannot be used.
        """
        self._with_head()
        labels = self.config.labels
        if all(map(is_special, labels)):
            raise CheckpointError(
                f"the checkpoint does not say what its {len(labels)} labels are; name its dictionary (dict.ltr.txt) "
                "with --labels"
            )
        separator = Letters(labels).separator
        return CTCDecoder(labels, blank=self.config.blank, separator=separator, options=options, like=like)

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float = CHUNK_SECONDS,
        stride_seconds: float = STRIDE_SECONDS,
        decoder: CTCDecoder | None = None,
        on_error: OnError = "stop",
        keep_log_probs: bool = False,
    ) -> Iterator[Transcript]:
        """Transcripts of files, of utterances of a manifest, or of float32 [N] at 16 kHz, in order.

        Recordings longer than `chunk_seconds`, which may be infinite, are recognised in chunks of equal length, each
        with `stride_seconds` more on both sides that do not count. `decoder`: see the method of that name; by default
        the best path. With on_error="skip" a recording that cannot be read gives a transcript with `error` set;
        otherwise its AudioError is raised. Memory holds only the recordings of a few batches. Raises CheckpointError
        for a model without a CTC head, ValueError for a batch or chunks of no length.
        """
        decoder = decoder or self.decoder()
        found = in_batches(
            read_ahead(recordings, SAMPLE_RATE, shortest=self.config.shortest_audio, on_error=on_error),
            lambda samples: self.cut(samples, chunk_seconds, stride_seconds),
            lambda samples: self.logits(*padded(samples, self.device)).logits_BSV.float().log_softmax(2),
            batch_size=batch_size,
            device=self.device,
        )

        seconds = self.config.samples_per_frame / SAMPLE_RATE
        yield from transcripts(
            found, decoder, seconds_per_frame=seconds, precision=self.precision, threads=cores(),
            keep_log_probs=keep_log_probs,
        )  # fmt: skip

    def represent(
        self,
        recordings: Iterable[Source],
        *,
        layers: int | None = None,
        batch_size: int = 8,
        chunk_seconds: float = CHUNK_SECONDS,
        stride_seconds: float = STRIDE_SECONDS,
        on_error: OnError = "stop",
    ) -> Iterator[Represented]:
        """Representations of recordings as `transcribe` takes them, in order; `layers` as for `encode`.

        What the network makes infinite or NaN is an `error` of its recording in any case.
        """
        found = in_batches(
            read_ahead(recordings, SAMPLE_RATE, shortest=self.config.shortest_audio, on_error=on_error, silence=True),
            lambda samples: self.cut(samples, chunk_seconds, stride_seconds),
            lambda samples: self.encode(*padded(samples, self.device), layers=layers).x_BSC.float(),
            batch_size=batch_size,
            device=self.device,
        )
        for recording, parts in found:
            x_SC = torch.cat([torch.zeros(0, self.config.dim), *parts])
            error = recording.failure or not_finite(recording.name, x_SC, self.precision)
            yield Represented(recording.name, x_SC, recording.seconds, error)

    def cut(self, samples: int, chunk_seconds: float, stride_seconds: float) -> list[AudioChunk]:
        """So many samples in chunks; those of an hourglass start where one of its shortened frames does."""
        if not (chunk_seconds > 0 and stride_seconds >= 0):
            raise ValueError(
                f"chunk_seconds = {chunk_seconds}, stride_seconds = {stride_seconds}: expected above 0, and at least 0"
            )
        cfg, hourglass = self.config, self.config.shortening
        frames = n_frames(samples, cfg.conv_layers)
        longest, context = (
            round(min(frames, seconds * SAMPLE_RATE / cfg.samples_per_frame))
            for seconds in (chunk_seconds, stride_seconds)
        )
        multiple = hourglass.factor if hourglass else 1
        found = chunks(frames, longest=max(1, longest), context=context, multiple=multiple)
        pieces = []
        for start, first, end, stop in found:
            after = (stop - 1) * cfg.samples_per_frame + cfg.shortest_audio if stop < frames else samples
            pieces.append(AudioChunk(start * cfg.samples_per_frame, after, first - start, end - start))
        return pieces

    def _with_head(self) -> Wav2Vec2ForCTC:
        if not isinstance(self.model, Wav2Vec2ForCTC):
            raise CheckpointError("the model is pre-trained only and has no CTC head: fine-tune it first")
        return self.model

    def _checked(self, audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, Tensor, bool]:
        """Both on the device, and whether any of samples_B is less than N."""
        samples = samples_B.tolist()
        if not audio_BN.is_floating_point():
            raise AudioError(f"audio of {audio_BN.dtype}: expected floating-point samples from -1 to 1")
        if audio_BN.ndim != 2 or len(samples) != len(audio_BN) or max(samples, default=0) > audio_BN.shape[1]:
            raise AudioError(
                f"audio of shape {tuple(audio_BN.shape)} with {samples} samples: expected [B, N] and B numbers up to N"
            )
        if min(samples, default=0) < self.config.shortest_audio:
            raise AudioError(
                f"an utterance has {min(samples, default=0)} samples; the model needs {self.config.shortest_audio} "
                "for its first frame"
            )
        # Asked where the audio is, so that no device is waited for; what stands beyond an utterance may be anything.
        if not audio_BN.isfinite().all():
            for row, (audio_N, n_samples) in enumerate(zip(audio_BN, samples, strict=True)):
                if not audio_N[:n_samples].isfinite().all():
                    raise AudioError(f"utterance {row} of the batch has samples that are not finite")
        audio_BN, samples_B = (given.to(self.device, non_blocking=True) for given in (audio_BN, samples_B))
        return audio_BN, samples_B, min(samples) < audio_BN.shape[1]


def load(
    path: str | Path,
    *,
    device: str = "auto",
    precision: Choice = "fp32",
    labels: tuple[str, ...] = (),
    ema: bool | None = None,
    target_lang: str = "",
) -> Recognizer:
    """The model saved at `path`: a checkpoint of this repository, Fairseq or DeepLearningExamples, or a Hugging Face
    folder. `labels`, `ema` and `target_lang` as for reading.read; `precision`: "auto" measures
    (`common.devices.fastest`). Raises CheckpointError."""
    chosen = distributed.pick_device(device)
    imported = reading.read(Path(path), labels=labels, ema=ema, target_lang=target_lang)
    model = build(imported, Path(path))
    known: dict[str, Any] = {"language": imported.language, "assumed": imported.assumed}
    if precision == "auto":
        audio_BN = torch.from_numpy(voice_like(SAMPLE_RATE))[None]
        return fastest(
            lambda tried: Recognizer(copy.deepcopy(model), device=chosen, precision=tried, **known),
            lambda w: w.encode(audio_BN, torch.tensor([audio_BN.shape[1]])).x_BSC.float(),
            chosen,
        )
    return Recognizer(model, device=chosen, precision=precision, **known)
