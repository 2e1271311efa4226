"""A trained model in use: audio in, encoder frames, labels and words with times and confidence out.

Shapes: B utterances or chunks, N samples, F mel bins, T feature frames, S encoder frames, C encoder width, V pieces and
the blank.
"""

import copy
import functools
import math
import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from common.devices import distributed
from common.devices.fastest import Choice, fastest, voice_like
from common.devices.precision import InferencePrecision
from common.features import LogMel, LogMelConfig
from common.recognition.cutting.tensors import padded, side_by_side
from common.recognition.decoding import DecodingOptions
from common.runs import checkpoint
from common.text.pieces import Pieces
from fastconformer.attending import AttentionRecognizer
from fastconformer.attention.config import DecoderPrecision
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.checkpoints.reading import read_model
from fastconformer.hearing.greedy import CTCDecoding, TransducerDecoding
from fastconformer.hearing.long_audio import ChunkOptions, attention_step
from fastconformer.hearing.recordings import Confidence, PieceRecognizer
from fastconformer.hearing.searching import SearchDecoding, of_ctc, of_transducer
from fastconformer.hearing.streaming.frames import CachedFrames, ChunkedFrames
from fastconformer.hearing.streaming.pool import Pool
from fastconformer.hearing.streaming.sessions import Session
from fastconformer.hypotheses import PieceHypothesis
from fastconformer.listening import Listener
from fastconformer.network.model import Model
from fastconformer.network.streaming import lookahead_of, no_such_lookahead
from fastconformer.transducer.decoder import Decoder, DecoderOptions
from fastconformer.transducer.weights import array_of

Head = Literal["auto", "transducer", "ctc", "attention"]
STREAM_CHUNK_SECONDS, STREAM_LOOKAHEAD_SECONDS = 2.0, 2.0  # of models that are not made for streaming


def has_head(model: Model, head: Head) -> bool:
    """Whether a model can decode so; "auto" is what it has."""
    parts = {"ctc": model.ctc, "transducer": model.prediction, "attention": model.attention}
    return head == "auto" or parts[head] is not None


class Recognizer(Listener, PieceRecognizer):
    """A `Listener` that transcribes by a transducer or CTC; `head` is what decodes by default.

    `confidence` of words is that of the probabilities of their pieces, or of the entropies of these. `lookaheads` are
    the numbers of frames that a streaming model may see after a frame, its first choice first; empty where any will do.
    A transducer emits at most `max_symbols` pieces without moving on.
    """

    def __init__(
        self,
        model: Model,
        features: LogMelConfig,
        pieces: Pieces,
        *,
        device: torch.device | str = "cpu",
        precision: InferencePrecision = "fp32",
        head: Head = "auto",
        confidence: Confidence = "probability",
        lookaheads: tuple[int, ...] = (),
        max_symbols: int = 10,
        normalize_seconds: float = 0.0,
    ):
        super().__init__(
            model, features, pieces, device=device, precision=precision, normalize_seconds=normalize_seconds
        )
        if head == "auto":
            head = "ctc" if model.prediction is None else "transducer"
        if not has_head(model, head):
            raise checkpoint.CheckpointError(f"head = {head}: this model has no such head")
        self.head, self.confidence, self.lookaheads, self.max_symbols = head, confidence, lookaheads, max_symbols
        self.attention_step = attention_step(model.cfg.encoder)
        if self.device.type == "cpu":
            self.several = side_by_side
        self._pools: weakref.WeakValueDictionary[tuple[object, ...], Pool] = weakref.WeakValueDictionary()
        self._pools_lock = threading.Lock()

    @torch.inference_mode()
    def decode(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor | Sequence[int],
        *,
        head: Head = "auto",
        decoder: SearchDecoding | None = None,
        hot_words: Sequence[Iterable[str]] | None = None,
    ) -> list[PieceHypothesis]:
        """What is said in frames of `encode`: by default greedily, exact. Raises ValueError.

        `head` is by default that of the recogniser. With a `decoder` (the method of that name, which has a head of its
        own) as its options say. `hot_words`: words or phrases to favour in each utterance.
        """
        if decoder is None and hot_words is None:
            return self.decoding(head)(encoded_BSC, frames_B)
        decoder = decoder or self.decoder(head=head)
        return decoder(encoded_BSC, frames_B, hot_words=hot_words)

    def decoder(
        self, options: DecodingOptions | None = None, *, head: Head = "auto", like: SearchDecoding | None = None
    ) -> SearchDecoding:
        """What `decode` and `transcribe` decode with, if not greedily by the network alone.

        A language model is of words, or of pieces where most of its words are pieces; that of `like`, a decoder of this
        method with the same one, is not read again. Raises ConfigError for words or files that cannot be used.
        """
        options = options or DecodingOptions()
        if (self.head if head == "auto" else head) == "ctc":
            log_probs = lambda encoded: array_of(self.ctc_log_probs(torch.as_tensor(encoded)))  # noqa: E731
            return of_ctc(log_probs, self.pieces, options, like=like)
        return of_transducer(self._decoder, self.pieces, options, like=like)

    def heard(self, samples: Sequence[np.ndarray]) -> Tensor:
        """encoded_BSC of recordings or chunks of these samples."""
        return self.encode(*self.features(*padded(samples, self.device))).encoded_BSC

    def frames(self, samples: int) -> int:
        """How many encoder frames there are of so many samples."""
        return self.model.encoder.output_frames(self.feature_config.frames(samples))

    def pool(
        self,
        *,
        lookahead: int | None = None,
        chunk_seconds: float = STREAM_CHUNK_SECONDS,
        left_seconds: float = ChunkOptions.left_seconds,
        decoder: SearchDecoding | None = None,
        delay_seconds: float = 0.0,
        idle_seconds: float = math.inf,
    ) -> Pool:
        """A pool of sessions (`session`) that share the steps of the network: hundreds of streams at once.

        Options are those of `session`; words to favour are of each `Pool.session`. A step that could be taken waits up
        to `delay_seconds` for those of other streams; a session that is fed nothing for `idle_seconds` is closed.
        """
        shared: dict[str, Any] = {"decoder": decoder, "greedy": self.decoding(), "words": self.words}
        shared |= {"delay_seconds": delay_seconds, "idle_seconds": idle_seconds}
        longest = lookahead_of(self.config.encoder, self.feature_config)
        if lookahead is not None and lookahead < 0:
            raise ValueError(f"lookahead = {lookahead}: expected a number of encoder frames, at least 0")
        if longest is not None:
            if lookahead and self.config.encoder.attention == "regular":
                raise ValueError(f"lookahead = {lookahead}: no frame of this model sees one after it; expected 0")
            if error := no_such_lookahead(lookahead, self.lookaheads):
                raise ValueError(error)
            cached = CachedFrames(self, longest if lookahead is None else lookahead)
            return Pool(self, cached, **shared)
        options = ChunkOptions(chunk_seconds=chunk_seconds, left_seconds=left_seconds)
        chunk, left, right = self.chunk_frames(options.chunk_seconds, options.left_seconds, STREAM_LOOKAHEAD_SECONDS)
        frames = ChunkedFrames(self, chunk=chunk, left=left, lookahead=right if lookahead is None else lookahead)
        return Pool(self, frames, **shared)

    def session(
        self,
        *,
        lookahead: int | None = None,
        chunk_seconds: float = STREAM_CHUNK_SECONDS,
        left_seconds: float = ChunkOptions.left_seconds,
        decoder: SearchDecoding | None = None,
        hot_words: Iterable[str] = (),
    ) -> Session:
        """A stream of audio to `feed` and to `finish`, recognised while it comes. Raises ValueError.

        `lookahead`: encoder frames after a frame that it is heard with. A streaming model takes what it was trained
        with, by default its first choice, in steps of lookahead + 1 frames, and computes nothing twice. Other models
        encode chunks of `chunk_seconds` with `left_seconds` before them, and by default 2 s after them. `decoder`: see
        the method of that name; with one transcript. `hot_words`: words or phrases to favour. Sessions of the same
        options share a pool.
        """
        words = tuple(hot_words)
        key = (lookahead, chunk_seconds, left_seconds, decoder, bool(words))
        with self._pools_lock:
            pool = self._pools.get(key)
            if pool is None:
                pool = self._pools[key] = self.pool(
                    lookahead=lookahead, chunk_seconds=chunk_seconds, left_seconds=left_seconds,
                    decoder=self.decoder() if words and decoder is None else decoder,
                )  # fmt: skip
        return pool.session(hot_words=words)

    def decoding(self, head: Head = "auto") -> TransducerDecoding | CTCDecoding:
        """Greedy decoding by `head`, by default that of the recogniser, also of frames that come in parts."""
        if (self.head if head == "auto" else head) == "ctc":
            return CTCDecoding(self.ctc_log_probs, self.pieces)
        return TransducerDecoding(self._decoder, self.pieces)

    @functools.cached_property
    def _decoder(self) -> Decoder:
        options = DecoderOptions(max_symbols=self.max_symbols, precision=self.precision)
        return Decoder(self.model.decoder_weights(), options)


def load(
    path: str | Path,
    *,
    device: str = "auto",
    precision: Choice | Literal["int8"] = "fp32",
    ema: bool | None = None,
    head: Head = "auto",
    confidence: Confidence = "probability",
    max_symbols: int = 10,
    lookahead: int | None = None,
    local_attention: tuple[int, int] | None = None,
    normalize_seconds: float = 0.0,
    noise_floor: float | None = None,
    decoder_precision: DecoderPrecision = "fp32",
) -> "Recognizer | AttentionRecognizer":
    """The recogniser at `path`: a .nemo archive, a folder of transformers, or a checkpoint of this repository.

    `ema`: of ours, take the averaged weights; None takes them where there are any. `head`: of hybrid models, what
    decodes; by default the transducer, or the attention decoder, with which it is an `AttentionRecognizer`.
    `confidence` of words: of the probabilities of their pieces, or of entropies.
    `max_symbols`: pieces that a transducer emits at one frame, at most.
    `lookahead`: of models whose attention is in chunks, how many frames after it a frame sees, at most; one of
    `Recognizer.lookaheads`.
    `local_attention`: of models whose attention sees all frames, how many before and after it a frame sees instead.
    `normalize_seconds`: of models whose features are normalised, over how many seconds around a frame; 0 for all that
    is encoded with it. For recordings of several voices, by models of single sentences.
    `noise_floor` in place of that of its features; 0 is the original without dither.
    `decoder_precision`: of the weights of attention decoders on a CPU, which "bf16" and "int8" round, and read faster.
    `precision`: "auto" measures (`common.devices.fastest`). Raises CheckpointError for what is missing, damaged or not
    known, and ConfigError for int8 where there is none (`fastconformer.network.fused.cast`).
    """
    chosen = distributed.pick_device(device)
    model, imported = read_model(Path(path), ema=ema)
    if noise_floor is not None:
        imported = imported._replace(features=replace(imported.features, noise_floor=noise_floor))
    if lookahead is not None:
        encoder = model.cfg.encoder
        if encoder.attention != "chunked" or lookahead < 0:
            raise checkpoint.CheckpointError(f"{path}: lookahead = {lookahead}: its attention is not in chunks")
        if error := no_such_lookahead(lookahead, imported.lookaheads):
            raise checkpoint.CheckpointError(f"{path}: {error}")
        model.encoder.cfg = replace(encoder, right_frames=lookahead)
    if local_attention is not None:
        encoder, (left, right) = model.cfg.encoder, local_attention
        if encoder.attention != "regular" or min(left, right) < 0:
            raise checkpoint.CheckpointError(
                f"{path}: local_attention = {left} {right}: expected frames before and after, and a model whose "
                "attention sees all"
            )
        model.encoder.cfg = replace(encoder, left_frames=left, right_frames=right)
    model.cfg = replace(model.cfg, encoder=model.encoder.cfg)

    if head == "auto" and model.attention is not None:
        head = "attention"

    def build(tried: InferencePrecision, network: Model) -> Recognizer | AttentionRecognizer:
        if head == "attention" and isinstance(imported.pieces, PromptedPieces):
            return AttentionRecognizer(
                network, imported.features, imported.pieces, device=chosen, precision=tried,
                normalize_seconds=normalize_seconds, aligner=imported.aligner, decoder_precision=decoder_precision,
            )  # fmt: skip
        return Recognizer(
            network, imported.features, imported.pieces, device=chosen, precision=tried, head=head,
            confidence=confidence, lookaheads=imported.lookaheads, max_symbols=max_symbols,
            normalize_seconds=normalize_seconds,
        )  # fmt: skip

    if precision == "auto":
        audio_BN = torch.from_numpy(voice_like(imported.features.sample_rate))[None]
        features = LogMel(imported.features).eval()(audio_BN, torch.tensor([audio_BN.shape[1]]))
        return fastest(
            lambda tried: build(tried, copy.deepcopy(model)), lambda asr: asr.encode(*features).encoded_BSC, chosen
        )
    return build(precision, model)
