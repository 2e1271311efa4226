"""A trained model in use: audio files in, words with times and confidence out.

Shapes: B utterances or chunks, N samples, F mel bands, T feature frames, S output frames, V labels and the blank.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from common.audio.silence import Keep
from common.devices import distributed
from common.devices.fastest import Choice, fastest, voice_like
from common.devices.precision import InferencePrecision, cast_for_inference, float32_math
from common.features import Features, LogMel, LogMelConfig
from common.recognition.cutting.chunks import AudioChunk, chunks
from common.recognition.cutting.tensors import in_batches, padded
from common.recognition.decoding import CTCDecoder, DecodingOptions
from common.recognition.output.transcripts import Transcript
from common.recognition.reading import transcripts
from common.recognition.recognizer import OnError, SpeechRecognizer
from common.recognition.sources.recordings import Source, read_ahead
from common.text.language import Language, Spelling
from common.threads import cores
from jasper import data
from jasper.checkpoints import reading
from jasper.config import Config
from jasper.network.fused import fuse
from jasper.network.model import Jasper

# Longer recordings are recognised in chunks of this length, because the memory that the network takes grows with it.
CHUNK_SECONDS = 60.0
BLANK = "<blank>"


class Recognizer(SpeechRecognizer):
    """A model with the features it was trained on and the labels it writes.

    `Recognizer.model` is fused: faster, and on a CPU its output for an utterance has the same bits in every batch.
    """

    def __init__(
        self,
        model: Jasper,
        cfg: Config,
        *,
        device: torch.device | str = "cpu",
        precision: InferencePrecision = "fp32",
        assumed: tuple[str, ...] = (),
        origin: str = "",
    ):
        self.config, self.device, self.precision = cfg, torch.device(device), precision
        self.sample_rate, self.chunk_seconds = cfg.features.sample_rate, CHUNK_SECONDS
        self.languages = () if cfg.data.language in ("auto", "none") else (cfg.data.language,)
        self.assumed = assumed
        """What the checkpoint does not say, in lines for the user."""
        self.origin = origin
        """The checkpoint, its step if it says so, and which of its weights were taken."""
        self.vocabulary = data.vocabulary_of(cfg)
        self.n_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.model = cast_for_inference(fuse(model).to(self.device), precision)
        self.log_mel = LogMel(cfg.features).to(self.device).eval()

    @property
    def keep(self) -> Keep | None:
        """What cuts pauses out of recordings, or silence off their ends."""
        return self.config.features.keeper(trim=self.config.data.trim_silence)

    def spelling(self, language: Language | None = None) -> Spelling:
        """What writes texts as the model's are written, by default in its language."""
        own = self.config.data
        return data.spelling_of(replace(self.config, data=replace(own, language=language or own.language)))

    @property
    def samples_per_frame(self) -> int:
        """Samples of audio from one output frame to the next."""
        return self.config.features.hop_samples * self.model.stride

    def features(self, audio_BN: Tensor, samples_B: Tensor) -> Features:
        """Log-mel features of audio at config.features.sample_rate Hz, samples_B valid samples each."""
        with torch.no_grad():
            return self.log_mel(*(given.to(self.device, non_blocking=True) for given in (audio_BN, samples_B)))

    def decoder(self, options: DecodingOptions | None = None, *, like: CTCDecoder | None = None) -> CTCDecoder:
        """What `transcribe` decodes with. `like`: one with the same language model, which is not read again.

        Raises ConfigError for words or files that cannot be used.
        """
        labels = (*self.vocabulary.labels, BLANK)
        return CTCDecoder(labels, blank=self.vocabulary.blank, options=options, like=like)

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float = CHUNK_SECONDS,
        decoder: CTCDecoder | None = None,
        on_error: OnError = "stop",
        keep_log_probs: bool = False,
    ) -> Iterator[Transcript]:
        """Transcripts of files, of utterances of a manifest, or of float32 [N] at the model's sample rate, in order.

        Recordings longer than `chunk_seconds` are recognised in overlapping chunks. `decoder`: see the method of that
        name; by default the best path. With on_error="skip" one that cannot be read gives a transcript with `error`
        set; otherwise its AudioError is raised. Memory holds only the recordings of a few batches.
        """
        found = in_batches(
            read_ahead(recordings, self.sample_rate, keep=self.keep, on_error=on_error),
            lambda samples: self.cut(samples, chunk_seconds),
            self.log_probs,
            batch_size=batch_size,
            device=self.device,
        )
        seconds = self.samples_per_frame / self.config.features.sample_rate
        yield from transcripts(
            found,
            decoder or self.decoder(),
            seconds_per_frame=seconds,
            precision=self.precision,
            threads=cores(),
            keep_log_probs=keep_log_probs,
        )

    def cut(self, samples: int, chunk_seconds: float) -> list[AudioChunk]:
        """So many samples in chunks of equal length, each with all the context that its frames depend on if that fits.

        What a chunk gives inside its context is then what the whole recording gives, if the features are not
        normalised. If they are, it is by the mean and deviation of the chunk, which follow changes of
        loudness and voice as they do in training, where an utterance is no longer than a chunk.
        """
        features, per_frame = self.config.features, self.samples_per_frame
        if samples == 0:
            return []
        n_frames = -(-features.frames(samples) // self.model.stride)
        longest = max(1, round(chunk_seconds * features.sample_rate / per_frame))
        context = self.model.context_frames + blurred_frames(features, per_frame)
        return [
            AudioChunk(start * per_frame, min(samples, stop * per_frame), first - start, end - start)
            for start, first, end, stop in chunks(n_frames, longest=longest, context=context)
        ]

    @torch.inference_mode()
    def log_probs(self, samples: Sequence[np.ndarray]) -> Tensor:
        """log_probs_BSV of recordings [N], in the precision of the network."""
        with float32_math(self.precision):
            return self.model(*self.features(*padded(samples, self.device))).log_probs_BSV


def blurred_frames(features: LogMelConfig, samples_per_frame: int) -> int:
    """Output frames at an end of a chunk whose window reaches beyond it."""
    return -(-features.n_fft // 2 // samples_per_frame) + 1


def load(
    path: str | Path,
    *,
    device: str = "auto",
    precision: Choice | Literal["int8"] = "fp32",
    ema: bool | None = None,
    configuration: Config | None = None,
    noise_floor: float | None = None,
) -> Recognizer:
    """The recogniser saved at `path`: of this repository, of DeepLearningExamples, a .nemo, or a name of the hub.

    `ema`: take the averaged weights; None takes them where there are any. `configuration` overrides what the
    checkpoint says of itself (ours) or what is read off its weights (DeepLearningExamples'). `precision`: "auto"
    measures (`common.devices.fastest`). `noise_floor` in place of that of its features; 0 is the original without
    dither. Raises CheckpointError for a file that is missing, damaged, not such a checkpoint, or has no averaged
    weights, and ConfigError for int8 where there is none (`cast_for_inference`).
    """
    chosen = distributed.pick_device(device)
    model, imported = reading.read_model(path, ema=ema, configuration=configuration)
    cfg, step = imported.config, "" if imported.step is None else f", step {imported.step:,}"
    is_averaged = imported.ema is not None and ema is not False
    origin = f"{path}{step}, {'averaged' if is_averaged else 'raw'} weights"
    if noise_floor is not None:
        cfg = replace(cfg, features=replace(cfg.features, noise_floor=noise_floor))

    def build(tried: InferencePrecision, network: Jasper) -> Recognizer:
        return Recognizer(network, cfg, device=chosen, precision=tried, assumed=imported.assumed, origin=origin)

    if precision == "auto":
        sound_N = voice_like(cfg.features.sample_rate)
        return fastest(lambda tried: build(tried, copy.deepcopy(model)), lambda asr: asr.log_probs([sound_N]), chosen)
    return build(precision, model)
