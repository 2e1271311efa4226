"""A trained attention decoder in use, in torch: transcripts and translations, texts scored.

Shapes: B utterances or stretches, N samples, S encoder frames, C their width, L tokens, V classes.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from common.devices.precision import InferencePrecision
from common.features import LogMelConfig
from common.recognition.cutting.tensors import padded
from common.runs.checkpoint import CheckpointError
from fastconformer.attention.config import DecoderPrecision
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.attention.search import DecoderStep, SearchOptions
from fastconformer.attention.step import Steps
from fastconformer.attention.training.objective import smoothed_cross_entropy
from fastconformer.checkpoints.reading import read_aligner
from fastconformer.hearing.prompted.decoding import AttentionDecoding, CtcFrames, HeardFrames
from fastconformer.hearing.prompted.recognizer import PromptedRecognizer
from fastconformer.hearing.prompted.texts import TextHypothesis
from fastconformer.listening import Listener
from fastconformer.network.model import Model


class AttentionRecognizer(Listener, PromptedRecognizer):
    """A `Listener` that transcribes and translates by an attention decoder.

    `decoder_precision` is that of the decoder's weights on a CPU, from which most of its time goes to reading them.
    """

    pieces: PromptedPieces

    def __init__(
        self,
        model: Model,
        features: LogMelConfig,
        pieces: PromptedPieces,
        *,
        device: torch.device | str = "cpu",
        precision: InferencePrecision = "fp32",
        normalize_seconds: float = 0.0,
        aligner: Path | None = None,
        decoder_precision: DecoderPrecision = "fp32",
    ):
        Listener.__init__(
            self, model, features, pieces, device=device, precision=precision, normalize_seconds=normalize_seconds
        )
        assert self.model.attention is not None
        self.decoder_precision: DecoderPrecision = decoder_precision
        self.network, self.head, self.aligner = self.model.attention, "attention", aligner
        self.has_ctc = self.model.ctc is not None
        PromptedRecognizer.__init__(self, self.network.cfg, pieces)
        if self.device.type != "cpu":
            self.most_samples = math.inf

    @torch.inference_mode()
    def attention_log_probs(
        self, encoded_BSC: Tensor, frames_B: Tensor, tokens_BL: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """log_probs_BLV, float32, of what follows each of tokens_BL, of which `lengths_B` are an utterance's own.

        `encoded_BSC` are frames of `encode`. Raises ValueError for tokens that are no classes, and for too many.
        """
        return self._logits(encoded_BSC, frames_B, tokens_BL, lengths_B).log_softmax(-1)

    def attention_loss(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor,
        tokens_BL: Tensor,
        lengths_B: Tensor,
        prompt_lengths_B: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Tensor:
        """Mean cross-entropy of tokens_BL (prompt, text and end), given those before them, by NeMo's formula.

        Tokens of the prompt do not count, of which there are `prompt_lengths_B`; without them all but the first do.
        A share of `smoothing` goes to the classes other than the target.
        """
        tokens_BL, lengths_B = tokens_BL.to(self.device), lengths_B.to(self.device)
        logits_BLV = self._logits(encoded_BSC, frames_B, tokens_BL[:, :-1], lengths_B - 1)
        masked = None if prompt_lengths_B is None else prompt_lengths_B.to(self.device)
        return smoothed_cross_entropy(logits_BLV, tokens_BL, lengths_B, masked, smoothing)

    @torch.inference_mode()
    def decode(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor | Sequence[int],
        *,
        prompt: Sequence[int] | Sequence[Sequence[int]],
        beam: int = 1,
        length_penalty: float = 0.0,
        ctc_weight: float = 0.0,
        n_best: int = 1,
        guard: bool = False,
        decoder: AttentionDecoding | None = None,
        hot_words: Sequence[Iterable[str]] | None = None,
    ) -> list[TextHypothesis]:
        """The text of each utterance after a prompt, or after one of its own; frames are those of `encode`.

        A text has at most as many tokens as its utterance has frames, and `SPARE_TOKENS` less those of the prompt. With
        `guard` a text that repeats itself is decoded again without. `ctc_weight` is that of `decoder` (the method of
        that name), which takes the place of `beam`, `length_penalty`, `ctc_weight` and `n_best`. Raises ValueError.
        """
        counts = [int(count) for count in frames_B]
        given: Any = prompt
        own: list[list[int]] = [list(given)] * len(counts) if _is_one(given) else [list(one) for one in given]
        words = [()] * len(counts) if hot_words is None else [tuple(some) for some in hot_words]
        if not len(counts) == len(own) == len(words) == len(encoded_BSC):
            raise ValueError(f"{len(own)} prompts: expected one for each of {len(encoded_BSC)} utterances")
        if decoder is None:
            search = SearchOptions(beam=beam, length_penalty=length_penalty, n_best=n_best)
            decoder = replace(self.decoder(ctc_weight=ctc_weight), search=search)
        frames = self._keys_values(encoded_BSC, counts)
        if decoder.ctc_weight:
            frames = frames._replace(log_probs=_rows(self.ctc_log_probs(encoded_BSC), counts))
        return self._decoded(frames, own, decoder, words, guard=guard)

    @torch.inference_mode()
    def _hear(self, samples: Sequence[np.ndarray]) -> HeardFrames:
        encoded_BSC, frames_B = self.encode(*self.features(*padded(samples, self.device)))
        counts = frames_B.tolist()
        heard = self._keys_values(encoded_BSC, counts)
        return heard._replace(log_probs=_rows(self.ctc_log_probs(encoded_BSC), counts)) if self.has_ctc else heard

    def _keys_values(self, encoded_BSC: Tensor, counts: list[int]) -> HeardFrames:
        rows = zip(encoded_BSC.to(self.device), counts, strict=True)
        return HeardFrames([self._decoder.hear(row_SC[:count]) for row_SC, count in rows], counts, [])

    def _steps(self) -> AbstractContextManager[DecoderStep]:
        return self._decoder.lent()

    @functools.cached_property
    def _decoder(self) -> Steps:
        return Steps(self.network, self.decoder_precision, self.precision)

    @torch.inference_mode()
    def _by_aligner(self, samples: Sequence[np.ndarray]) -> CtcFrames:
        listener, found = self._aligner, list[np.ndarray]()
        if samples:
            encoded_BSC, frames_B = listener.encode(*listener.features(*padded(samples)))
            found = _rows(listener.ctc_log_probs(encoded_BSC), frames_B.tolist())
        return CtcFrames(found, listener.pieces, listener.seconds_per_frame)

    @functools.cached_property
    def _aligner(self) -> Listener:
        """The CTC model of the archive, read when times are first asked for: it may be larger than this model."""
        if self.aligner is None:
            raise CheckpointError("times = aligner: this model's file holds no CTC model besides")
        model, imported = read_aligner(self.aligner)
        return Listener(model, imported.features, imported.pieces, device=self.device)

    def _logits(self, encoded_BSC: Tensor, frames_B: Tensor, tokens_BL: Tensor, lengths_B: Tensor) -> Tensor:
        tokens_BL = tokens_BL.to(self.device)
        classes = len(self.network.bias)
        own_BL = torch.arange(tokens_BL.shape[1], device=self.device) < lengths_B.to(self.device)[:, None]
        tokens_BL = torch.where(own_BL, tokens_BL, self.pieces.pad)
        if tokens_BL.numel() and not 0 <= int(tokens_BL.min()) <= int(tokens_BL.max()) < classes:
            raise ValueError(
                f"tokens from {int(tokens_BL.min())} to {int(tokens_BL.max())}: expected 0 to {classes - 1}"
            )
        return self.network(encoded_BSC.to(self.device), frames_B.to(self.device), tokens_BL).float()


def _rows(log_probs_BSV: Tensor, counts: Sequence[int]) -> list[np.ndarray]:
    """What is of each utterance."""
    return [row_SV[:count] for row_SV, count in zip(log_probs_BSV.cpu().numpy(), counts, strict=True)]


def _is_one(prompt: Sequence[Any]) -> bool:
    return all(isinstance(token, int | np.integer) for token in prompt)
