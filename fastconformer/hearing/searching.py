"""Decoding that knows more than the network: a beam, a language model, words to favour; n-best.

Needs no torch: frames are arrays, or tensors, which are taken as arrays.

Shapes: B utterances, S encoder frames, C encoder width, V pieces and the blank.
"""

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import ctc
from common.config import ConfigError
from common.recognition.decoding import DecodingOptions, refuse_internal_weight, scorer_of, spelled_by
from common.text.pieces import Pieces
from fastconformer.hearing.greedy import BeamDecoding, TransducerDecoding
from fastconformer.hypotheses import NOTHING, DecodedLabels, PieceHypothesis, hypothesis_of, joined
from fastconformer.transducer.beam import BeamSearch, TransducerBeamOptions
from fastconformer.transducer.decoder import Decoder
from fastconformer.transducer.decoder_state import DecodingState
from fastconformer.transducer.weights import array_of

Frames = Any
"""[B, S, C] or what a head makes of them: a tensor or an array."""
MOST_KEPT = 256
"""Sets of words to favour whose tables are kept for the next recording that has them."""
OPEN_FRAMES = 250
"""Frames whose label sequences there is room for in a search by CTC of frames that come in parts."""
INTERNAL_SHARE = 1 / 3
"""Default weight of the internal language model in parts of that of a language model of pieces (chosen in
docs/log/transducers.md)."""
BEAM = 4
"""Label sequences that a search keeps where options ask for several transcripts and for no beam."""


@dataclass(kw_only=True, slots=True)
class GatheredFrames:
    """Frames [S, C] of utterances that come in parts: a thorough search wants all of them."""

    frames: list[int]
    parts: list[list[np.ndarray]]


class SearchDecoding:
    """Decoding as options say, made once, since a language model takes time to read."""

    def __init__(
        self,
        decoding: "TransducerDecoding | BeamDecoding | CTCBeamDecoding",
        options: DecodingOptions,
        scorer: ctc.Scorer | None,
        *,
        is_gradual: bool = True,
    ) -> None:
        """`scorer`: what `scorer_of` makes of the options. `is_gradual`: whether it decodes frames as they come."""
        self.whole, self.pieces, self.options, self.scorer = decoding.whole, decoding.pieces, options, scorer
        self.in_parts = decoding if is_gradual else None
        """What decodes frames as they come, with `scorer_with`; None where all of them are needed."""
        self._with_words: dict[tuple[str, ...], ctc.Scorer] = {}
        self._lock = threading.Lock()  # batches are decoded in several threads

    def start(self, batch: int) -> GatheredFrames:
        """`batch` utterances before their first frames."""
        return GatheredFrames(frames=[0] * batch, parts=[[] for _ in range(batch)])

    def end(
        self, progress: GatheredFrames, *, hot_words: Sequence[Iterable[str]] | None = None
    ) -> list[PieceHypothesis]:
        """What is in the utterances, all of whose frames have come."""
        longest = max(progress.frames, default=0)
        if not longest:
            return [NOTHING for _ in progress.parts]
        width = next(part.shape[1] for parts in progress.parts for part in parts)
        encoded_BSC = np.zeros((len(progress.parts), longest, width), np.float32)
        for row_SC, parts, count in zip(encoded_BSC, progress.parts, progress.frames, strict=True):
            np.concatenate([row_SC[:0], *parts], out=row_SC[:count])
        return self(encoded_BSC, progress.frames, hot_words=hot_words)

    def __call__(
        self,
        encoded_BSC: Frames,
        frames_B: Any,
        *,
        progress: GatheredFrames | None = None,
        hot_words: Sequence[Iterable[str]] | None = None,
    ) -> list[PieceHypothesis]:
        """The best hypothesis of every utterance, with the others as its `alternatives`; with `progress`, at its `end`.

        `hot_words`: words or phrases of each utterance, besides those of the options. Raises ConfigError for words that
        the pieces cannot spell, and ValueError for lengths that do not fit.
        """
        counts = [int(count) for count in frames_B]
        if progress is not None:
            for b, (encoded_SC, count) in enumerate(zip(encoded_BSC, counts, strict=True)):
                progress.parts[b].append(array_of(encoded_SC[:count]))
                progress.frames[b] += count
            return [NOTHING for _ in counts]
        words = [()] * len(counts) if hot_words is None else [tuple(own) for own in hot_words]
        if len(words) != len(counts):
            raise ValueError(f"hot_words: expected some for each of {len(counts)} utterances, found {len(words)}")
        found = self.whole(encoded_BSC, counts, [self.scorer_with(own) for own in words])
        return [own[0]._replace(alternatives=tuple(own[1:])) if own else NOTHING for own in found]

    def spelled(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those of `words` that the pieces can spell."""
        return spelled_by(self.scorer, self.pieces.labels, words)

    def scorer_with(self, hot_words: tuple[str, ...]) -> ctc.Scorer | None:
        """What is known besides the network, with more words to favour. Raises ConfigError for other letters."""
        if not hot_words:
            return self.scorer
        with self._lock:
            found = self._with_words.get(hot_words)
            if found is None:
                found = self._with_words[hot_words] = self._made_with(hot_words)
            if len(self._with_words) > MOST_KEPT:
                del self._with_words[next(iter(self._with_words))]
        return found

    def _made_with(self, hot_words: tuple[str, ...]) -> ctc.Scorer:
        boosts = dict.fromkeys((*self.options.hot_words, *hot_words), self.options.hot_word_boost)
        try:
            return (self.scorer or ctc.Scorer(self.pieces.labels)).with_hot_words(boosts)
        except ValueError as error:
            raise ConfigError(f"decoding: {error}") from None


def internal_weight_of(options: DecodingOptions, scorer: ctc.Scorer | None) -> float:
    """How much of a transducer's internal language model is taken off, where `scorer` has one that takes its place."""
    if scorer is None or scorer.ngram is None:
        return 0.0
    if options.internal_weight is not None:
        return options.internal_weight
    return INTERNAL_SHARE * options.weight if scorer.options.unit == "token" else 0.0


def of_transducer(
    decoder: Decoder,
    pieces: Pieces,
    options: DecodingOptions,
    *,
    like: SearchDecoding | None = None,
) -> SearchDecoding:
    """By a transducer: a beam search, on the CPU, or greedily where there is no beam and one transcript is wanted.

    `decoder`: that of the network, which is there once for all options; `like`: as for `scorer_of`. Raises ConfigError
    for words or files that cannot be used, and for a thorough search, which is one by CTC.
    """
    if options.thorough:
        raise ConfigError("decoding.thorough: expected False, for this model is decoded by its transducer, not by CTC")
    scorer = scorer_of(pieces.labels, options, like=like)
    internal_weight = internal_weight_of(options, scorer)
    if not options.beam and options.n_best == 1:
        own = decoder.with_options(replace(decoder.options, internal_weight=internal_weight))
        return SearchDecoding(TransducerDecoding(own, pieces), options, scorer)
    beam = options.beam or max(BEAM, options.n_best)
    how = TransducerBeamOptions(
        beam=beam, n_best=options.n_best, max_symbols=decoder.options.max_symbols, internal_weight=internal_weight
    )
    search = BeamSearch(decoder.weights, how, threads=decoder.threads, network=decoder.native, device=decoder.on_device)
    return SearchDecoding(BeamDecoding(search, pieces), options, scorer, is_gradual=search.is_native)


def of_ctc(
    log_probs: Callable[[Frames], np.ndarray],
    pieces: Pieces,
    options: DecodingOptions,
    *,
    like: SearchDecoding | None = None,
) -> SearchDecoding:
    """By CTC: a beam search, thorough only if asked for: frames that come in parts are to give what the whole gives.

    `log_probs` makes log_probs_BSV of frames; `like`: as for `scorer_of`. Raises ConfigError for words, files and
    options that cannot be used.
    """
    refuse_internal_weight(options)
    scorer = scorer_of(pieces.labels, options, like=like)
    beam = ctc.BeamOptions(beam=options.width, n_best=options.n_best, thorough=bool(options.thorough))

    return SearchDecoding(CTCBeamDecoding(log_probs, pieces, beam), options, scorer, is_gradual=not beam.thorough)


class CTCBeamDecoding:
    """A beam search by CTC: pieces are given once all paths that are kept have them."""

    def __init__(self, log_probs: Callable[[Frames], np.ndarray], pieces: Pieces, options: ctc.BeamOptions) -> None:
        """`log_probs` makes log_probs_BSV of encoded_BSC."""
        self.log_probs, self.pieces, self.options = log_probs, pieces, options

    def start(self, batch: int, scorer: ctc.Scorer | None = None) -> DecodingState:
        """`batch` utterances before their first frames, and what is known of all of them besides the network."""
        streams = [
            ctc.BeamStream(
                len(self.pieces), blank=self.pieces.blank, scorer=scorer, options=self.options, frames=OPEN_FRAMES
            )
            for _ in range(batch)
        ]
        return DecodingState(frames=[0] * batch, streams=streams, scorers=[scorer] * batch)

    def whole(
        self, encoded_BSC: Frames, counts: list[int], scorers: list[ctc.Scorer | None]
    ) -> list[list[PieceHypothesis]]:
        """The best hypotheses of every utterance, best first."""
        found: list[list[PieceHypothesis]] = []
        for log_probs_SV, count, scorer in zip(self.log_probs(encoded_BSC), counts, scorers, strict=True):
            how: dict[str, Any] = {"blank": self.pieces.blank, "scorer": scorer, "options": self.options}
            (hypotheses,) = ctc.beam_search(log_probs_SV[None, :count], [count], **how)
            found.append([_of_ctc(one, log_probs_SV[:count], self.pieces) for one in hypotheses])
        return found

    def end(self, progress: DecodingState) -> list[PieceHypothesis]:
        """What has not been given yet of utterances that end here, with its score and alternatives."""
        ends = []
        for stream in progress.streams:
            best, *others = [
                self._hypothesis(labels)._replace(score=found.score) for found, labels in stream.readings()
            ] or [NOTHING]
            ends.append(best._replace(alternatives=tuple(others)))
        return ends

    def __call__(self, encoded_BSC: Frames, frames_B: Any, *, progress: DecodingState) -> list[PieceHypothesis]:
        """What these frames, after those before, have settled; they are numbered from the very first."""
        counts = [int(count) for count in frames_B]
        log_probs_BSV = self.log_probs(encoded_BSC) if any(counts) else np.zeros((len(counts), 0, len(self.pieces)))
        progress.frames = [n + count for n, count in zip(progress.frames, counts, strict=True)]
        rows = zip(progress.streams, log_probs_BSV, counts, strict=True)
        return [self._hypothesis(stream.settle(own_SV[:count])) for stream, own_SV, count in rows]

    def _hypothesis(self, found: ctc.Labels) -> PieceHypothesis:
        lengths = [end - start for start, end in zip(found.start_frames, found.end_frames, strict=True)]
        decoded = DecodedLabels(
            found.labels,
            found.start_frames,
            lengths,
            [math.exp(log_prob / n) for log_prob, n in zip(found.log_probs, lengths, strict=True)],
            [entropy / n for entropy, n in zip(found.entropies, lengths, strict=True)],
        )
        return hypothesis_of(decoded, self.pieces)


def _of_ctc(found: ctc.Hypothesis, log_probs_SV: np.ndarray, pieces: Pieces) -> PieceHypothesis:
    spans = list(zip(found.labels, found.start_frames, found.end_frames, strict=True))
    finite_SV = np.maximum(log_probs_SV, np.finfo(np.float32).min)  # 0 times the logarithm of 0 is to be 0
    entropy_S = -(np.exp(finite_SV) * finite_SV).sum(1)
    decoded = DecodedLabels(
        found.labels,
        found.start_frames,
        [end - start for _, start, end in spans],
        [math.exp(float(log_probs_SV[start:end, label].mean())) for label, start, end in spans],
        [float(entropy_S[start:end].mean()) for _, start, end in spans],
    )
    return hypothesis_of(decoded, pieces)._replace(score=found.score)


def decode_parts(
    parts: Iterable[Frames],
    greedy: Any,
    decoder: SearchDecoding | None,
    pieces: Pieces,
    *,
    hot_words: tuple[str, ...] = (),
) -> PieceHypothesis:
    """What is in one utterance whose frames [S, C] come in parts, by `decoder`; where there is none, by `greedy`.

    In little memory however many there are, unless the decoder wants all of them.
    """
    if decoder is not None and decoder.in_parts is None:
        kept = decoder.start(1)
        for frames_SC in parts:
            decoder(frames_SC[None], [len(frames_SC)], progress=kept)
        return decoder.end(kept, hot_words=[hot_words])[0]
    decoding, scorer = greedy, None
    if decoder is not None:
        decoding, scorer = decoder.in_parts, decoder.scorer_with(hot_words)
    progress = decoding.start(1, scorer)
    found = [decoding(frames_SC[None], [len(frames_SC)], progress=progress)[0] for frames_SC in parts]
    return joined([*found, *decoding.end(progress)], pieces)
