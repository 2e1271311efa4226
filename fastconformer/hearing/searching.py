"""Decoding that knows more than the network: a beam, a language model, words to favour; n-best.

Needs no torch: frames are arrays, or tensors, which are taken as arrays.

Shapes: B utterances, S encoder frames, C encoder width, V pieces and the blank.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import ctc
from common.config import ConfigError
from common.recognition.decoding import DecodingOptions, Scorers, refuse_internal_weight
from common.text.pieces import Pieces
from fastconformer.hearing.greedy import DecodingState, Frames, TransducerDecoding, entropies, of_ctc_labels
from fastconformer.hypotheses import NOTHING, PieceHypothesis, hypothesis_of, joined
from fastconformer.transducer.beam import BeamCandidate, BeamSearch, BeamState, TransducerBeamOptions, ranked
from fastconformer.transducer.decoder import Decoder
from fastconformer.transducer.weights import array_of

OPEN_FRAMES = 250
"""Frames whose label sequences there is room for in a search by CTC of frames that come in parts."""
INTERNAL_SHARE = 1 / 3
"""Default weight of the internal language model in parts of that of a language model of pieces (chosen in
docs/log/transducers.md)."""
BEAM = 4
"""Label sequences that a search keeps where options ask for several transcripts and for no beam."""


class SearchDecoding(Scorers):
    """Decoding as options say, by what `make` makes of their scorer."""

    def __init__(
        self,
        pieces: Pieces,
        options: DecodingOptions,
        make: "Callable[[ctc.Scorer | None], TransducerDecoding | BeamDecoding | CTCBeamDecoding]",
        *,
        like: "SearchDecoding | None" = None,
    ) -> None:
        super().__init__(pieces.labels, options, like=like)
        decoding = make(self.scorer)
        self.whole, self.in_parts = decoding.whole, decoding if decoding.is_gradual else None
        """`in_parts` decodes frames as they come, with `scorer_with`; None where all of them are needed."""

    def __call__(
        self, encoded_BSC: Frames, frames_B: Any, *, hot_words: Sequence[Iterable[str]] | None = None
    ) -> list[PieceHypothesis]:
        """The best hypothesis of every utterance, with the others as its `alternatives`.

        `hot_words`: words or phrases of each utterance, besides those of the options. Raises ConfigError for words that
        the pieces cannot spell, and ValueError for lengths that do not fit.
        """
        counts = [int(count) for count in frames_B]
        words = [()] * len(counts) if hot_words is None else [tuple(own) for own in hot_words]
        if len(words) != len(counts):
            raise ValueError(f"hot_words: expected some for each of {len(counts)} utterances, found {len(words)}")
        found = self.whole(encoded_BSC, counts, [self.scorer_with(own) for own in words])
        return [own[0]._replace(alternatives=tuple(own[1:])) if own else NOTHING for own in found]


def internal_weight_of(options: DecodingOptions, scorer: ctc.Scorer | None) -> float:
    """How much of a transducer's internal language model is taken off, where `scorer` has one that takes its place."""
    if scorer is None or scorer.ngram is None:
        return 0.0
    if options.internal_weight is not None:
        return options.internal_weight
    return INTERNAL_SHARE * options.weight if scorer.options.unit == "token" else 0.0


def of_transducer(
    decoder: Decoder, pieces: Pieces, options: DecodingOptions, *, like: SearchDecoding | None = None
) -> SearchDecoding:
    """By a transducer: a beam search, on the CPU, or greedily where there is no beam and one transcript is wanted.

    `decoder`: that of the network, which is there once for all options; `like`: as for `scorer_of`. Raises ConfigError
    for words or files that cannot be used, and for a thorough search, which is one by CTC.
    """
    if options.thorough:
        raise ConfigError("decoding.thorough: expected False, for this model is decoded by its transducer, not by CTC")

    def made(scorer: ctc.Scorer | None) -> TransducerDecoding | BeamDecoding:
        weight = internal_weight_of(options, scorer)
        if not options.beam and options.n_best == 1:
            own = decoder.with_options(replace(decoder.options, internal_weight=weight))
            return TransducerDecoding(own, pieces)
        beam, n_best = options.beam or max(BEAM, options.n_best), options.n_best
        how = TransducerBeamOptions(
            beam=beam, n_best=n_best, max_symbols=decoder.options.max_symbols, internal_weight=weight
        )
        threads, device = decoder.threads, decoder.on_device
        return BeamDecoding(
            BeamSearch(decoder.weights, how, threads=threads, network=decoder.native, device=device), pieces
        )

    return SearchDecoding(pieces, options, made, like=like)


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
    beam = ctc.BeamOptions(beam=options.width, n_best=options.n_best, thorough=bool(options.thorough))
    return SearchDecoding(pieces, options, lambda _: CTCBeamDecoding(log_probs, pieces, beam), like=like)


class BeamDecoding:
    """A beam search by a transducer: pieces are given once all sequences that are kept have them."""

    def __init__(self, search: BeamSearch, pieces: Pieces) -> None:
        self.search, self.pieces, self.is_gradual = search, pieces, search.is_native

    def start(self, scorer: ctc.Scorer | None = None) -> DecodingState:
        """An utterance before its first frames, and what is known of it besides the network."""
        return DecodingState(state=self.search.start(1), scorer=scorer)

    def whole(
        self, encoded_BSC: Frames, counts: list[int], scorers: list[ctc.Scorer | None]
    ) -> list[list[PieceHypothesis]]:
        """The best hypotheses of every utterance, best first."""
        found = self.search(encoded_BSC, counts, scorers=scorers)
        return [[hypothesis_of(c.decoded, self.pieces)._replace(score=c.score) for c in own] for own in found]

    def end(self, progress: Sequence[DecodingState]) -> list[PieceHypothesis]:
        """What has not been given yet of utterances that end here, with its score and alternatives."""
        nothing_BSC = np.zeros((len(progress), 0, self.search.weights.encoder_weight.shape[1]), np.float32)
        found = self._found(nothing_BSC, [0] * len(progress), progress, is_over=True)
        return [ranked(own, self.pieces) for own in found]

    def __call__(
        self, encoded_BSC: Frames, frames_B: Any, *, progress: Sequence[DecodingState]
    ) -> list[PieceHypothesis]:
        """What these frames, after those before, have settled; they are numbered from the very first."""
        found = self._found(encoded_BSC, frames_B, progress, is_over=False)
        DecodingState.advance(progress, frames_B)
        return [hypothesis_of(own[0].decoded, self.pieces).part(0, own[0].settled) for own in found]

    def _found(
        self, encoded_BSC: Frames, frames_B: Any, progress: Sequence[DecodingState], *, is_over: bool
    ) -> list[list[BeamCandidate]]:
        states = [own.state for own in progress if isinstance(own.state, BeamState)]
        state = BeamState(utterances=[one for own in states for one in own.utterances])  # theirs, which change with it
        scorers = [own.scorer for own in progress]
        return self.search(encoded_BSC, frames_B, scorers=scorers, state=state, is_over=is_over)


class CTCBeamDecoding:
    """A beam search by CTC: pieces are given once all paths that are kept have them."""

    def __init__(self, log_probs: Callable[[Frames], np.ndarray], pieces: Pieces, options: ctc.BeamOptions) -> None:
        """`log_probs` makes log_probs_BSV of encoded_BSC."""
        self.log_probs, self.pieces, self.options = log_probs, pieces, options
        self.is_gradual = not options.thorough and ctc.BeamStream.is_available()

    def start(self, scorer: ctc.Scorer | None = None) -> DecodingState:
        """An utterance before its first frames, and what is known of it besides the network."""
        how: dict[str, Any] = {"blank": self.pieces.blank, "options": self.options, "frames": OPEN_FRAMES}
        return DecodingState(state=ctc.BeamStream(len(self.pieces), scorer=scorer, **how), scorer=scorer)

    def whole(
        self, encoded_BSC: Frames, counts: list[int], scorers: list[ctc.Scorer | None]
    ) -> list[list[PieceHypothesis]]:
        """The best hypotheses of every utterance, best first."""
        found: list[list[PieceHypothesis]] = []
        for log_probs_SV, count, scorer in zip(self.log_probs(encoded_BSC), counts, scorers, strict=True):
            how: dict[str, Any] = {"blank": self.pieces.blank, "scorer": scorer, "options": self.options}
            (hypotheses,) = ctc.beam_search(log_probs_SV[None, :count], [count], **how)
            entropy_S = entropies(log_probs_SV[:count])
            found.append([])
            for one in hypotheses:
                spans = list(zip(one.labels, one.start_frames, one.end_frames, strict=True))
                log_probs = [float(log_probs_SV[start:end, label].sum()) for label, start, end in spans]
                sums = (log_probs, [float(entropy_S[start:end].sum()) for _, start, end in spans])
                labels = ctc.Labels(one.labels, one.start_frames, one.end_frames, *sums)
                found[-1].append(of_ctc_labels(labels, self.pieces)._replace(score=one.score))
        return found

    def end(self, progress: Sequence[DecodingState]) -> list[PieceHypothesis]:
        """What has not been given yet of utterances that end here, with its score and alternatives."""
        ends = []
        for stream in _streams(progress):
            best, *others = [
                of_ctc_labels(labels, self.pieces)._replace(score=found.score) for found, labels in stream.readings()
            ] or [NOTHING]
            ends.append(best._replace(alternatives=tuple(others)))
        return ends

    def __call__(
        self, encoded_BSC: Frames, frames_B: Any, *, progress: Sequence[DecodingState]
    ) -> list[PieceHypothesis]:
        """What these frames, after those before, have settled; they are numbered from the very first."""
        counts = [int(count) for count in frames_B]
        log_probs_BSV = self.log_probs(encoded_BSC) if any(counts) else np.zeros((len(counts), 0, len(self.pieces)))
        DecodingState.advance(progress, counts)
        rows = zip(_streams(progress), log_probs_BSV, counts, strict=True)
        return [of_ctc_labels(stream.settle(own_SV[:count]), self.pieces) for stream, own_SV, count in rows]


def _streams(progress: Sequence[DecodingState]) -> list[ctc.BeamStream]:
    return [own.state for own in progress if isinstance(own.state, ctc.BeamStream)]


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
        whole = [array_of(frames_SC) for frames_SC in parts]
        if not whole:
            return NOTHING
        whole_1SC = np.concatenate(whole)[None]
        return decoder(whole_1SC, [whole_1SC.shape[1]], hot_words=[hot_words])[0]
    decoding, scorer = greedy, None
    if decoder is not None:
        decoding, scorer = decoder.in_parts, decoder.scorer_with(hot_words)
    progress = [decoding.start(scorer)]
    found = [decoding(frames_SC[None], [len(frames_SC)], progress=progress)[0] for frames_SC in parts]
    return joined([*found, *decoding.end(progress)], pieces)
