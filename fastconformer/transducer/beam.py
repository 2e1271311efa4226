"""Beam search for RNN-T and TDT: the most probable label sequences, with what is known of the language.

Every sequence is summed over its alignments, and equal ones are one; the sum is exact for those that cannot reach
`max_symbols` on a frame. On a CPU it is one native call for a batch
(`host_beam.py`, `csrc/decode_beam.cpp`), which other devices copy their frames to; without a compiler,
`reference.beam_search`.

Shapes: B utterances, S encoder frames, C encoder width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ctc import Scorer
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer import reference
from fastconformer.transducer._beam_library import beam_functions
from fastconformer.transducer._library import warn_slow
from fastconformer.transducer.host_beam import (
    BeamCandidate,
    BeamState,
    HostBeamSearch,
    TransducerBeamOptions,
    check,
    refuse_long_jumps,
)
from fastconformer.transducer.host_decoder import scorers_of_all
from fastconformer.transducer.weights import DecoderWeights, on_host

__all__ = ["BeamCandidate", "BeamSearch", "BeamState", "TransducerBeamOptions"]


class BeamSearch:
    """Prediction network and joint, made ready to search. Weights that change afterwards have no effect."""

    def __init__(self, weights: DecoderWeights, options: TransducerBeamOptions | None = None) -> None:
        self.options = options or TransducerBeamOptions()
        self.weights = on_host(weights)
        self._native = None
        refuse_long_jumps(self.weights)
        if beam_functions() is None:
            warn_slow("fastconformer.BeamSearch", "cpu")
        else:
            self._native = HostBeamSearch(self.weights, self.options)

    @property
    def is_native(self) -> bool:
        """Whether the native library searches, which frames that come in pieces need."""
        return self._native is not None

    def start(self, batch: int) -> BeamState:
        """The state of `batch` utterances before their first frames. Raises ValueError without the native library."""
        if self._native is None:
            raise ValueError("state: frames that come in pieces need the native library")
        return self._native.start(batch)

    @torch.no_grad()
    def __call__(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor | Sequence[int],
        *,
        max_symbols: int = 10,
        scorers: Scorer | Sequence[Scorer | None] | None = None,
        state: BeamState | None = None,
        is_over: bool = True,
    ) -> list[list[BeamCandidate]]:
        """For every utterance its best label sequences, best first; fewer than `n_best` where there are not as many.

        `frames_B`: how many of the S frames belong to each utterance. An alignment moves through them as greedy
        decoding does, also after `max_symbols` labels on a frame. `scorers`: one for all, or one for each utterance,
        over the labels and the blank. What an utterance gives does not depend on the others.

        With `state`, the utterances go on where they were, to their end if `is_over` says so; frames are numbered from
        the very first, and labels that were settled before this call are not given again. However the frames are cut,
        the labels, joined, are those of the whole.

        Raises ValueError for shapes and lengths that do not fit, for an utterance whose frames hold NaN, and for one
        that takes more than `options.memory`.
        """
        encoded_BSC = encoded_BSC.detach().float().cpu()
        if self._native is not None:
            self._native.threads = torch.get_num_threads()
            return self._native(
                encoded_BSC.numpy(), frames_B, max_symbols=max_symbols, scorers=scorers, state=state, is_over=is_over
            )
        counts_B = check(self.weights, encoded_BSC.shape, frames_B, max_symbols, state, is_over=is_over)
        each = scorers_of_all(scorers, len(encoded_BSC), self.weights.blank)
        return [
            [
                BeamCandidate(
                    DecodedLabels(*found[:5]), found.log_prob + found.external, found.log_prob, found.external
                )
                for found in reference.beam_search(
                    encoded_SC[:count],
                    self.weights,
                    beam=self.options.beam,
                    drop=self.options.drop,
                    max_symbols=max_symbols,
                    scorer=scorer,
                    internal_weight=self.options.internal_weight,
                )[: self.options.n_best]
            ]
            for encoded_SC, count, scorer in zip(encoded_BSC, counts_B.tolist(), each, strict=True)
        ]
