"""Beam search of scores that come in chunks. S frames of a chunk, V labels."""

import ctypes
import math
from typing import TYPE_CHECKING

import numpy as np

from ctc import _library, _native
from ctc._inputs import UTTERANCE, host_scores
from ctc.beam import BeamOptions, Hypothesis, check_memory, hypotheses_of, native_options, search_python
from ctc.scorer import Scorer

if TYPE_CHECKING:  # arrays are searched without it
    from torch import Tensor


class BeamStream:
    """`ctc.beam_search` of one utterance that is still being spoken.

    `push` takes the frames as they come; `hypotheses` says at any time what `beam_search` would find if the utterance
    ended there. The state has a constant size, `memory` bytes, however long the utterance is.
    """

    def __init__(
        self, vocabulary: int, *, blank: int = 0, scorer: Scorer | None = None, options: BeamOptions | None = None
    ) -> None:
        """`vocabulary`: how many labels the scores have, blank among them. Raises ValueError for what does not fit."""
        if not 0 <= blank < vocabulary:
            raise ValueError(f"blank: expected a label in [0, {vocabulary}), found {blank}")
        if scorer is not None and len(scorer.labels) not in (vocabulary, vocabulary - (blank == vocabulary - 1)):
            raise ValueError(f"BeamStream: scorer: expected {vocabulary} labels, found {len(scorer.labels)}")
        self.options = options or BeamOptions()
        if self.options.thorough:
            raise ValueError("BeamStream: thorough: expected False, for a thorough search needs all frames at its end")
        self.frames = 0
        """How many frames were pushed."""
        self.memory = 0
        """Bytes of the state; 0 without the native library, where all frames are kept and searched anew."""
        self._vocabulary, self._blank, self._scorer = vocabulary, blank, scorer
        self._kept_SV: list[np.ndarray] = []
        self._library = _native.load()
        if self._library is None:
            _library.warn_slow("ctc.BeamStream")
            return
        self._native = native_options(blank, self.options)
        self._table = scorer.table() if scorer is not None else None
        self.memory = self._library.ctc_beam_stream_bytes(vocabulary, self._native)
        check_memory(self.memory, self.options)
        self._state = np.empty(self.memory, np.uint8)
        _native.call(
            self._library.ctc_beam_stream_start,
            vocabulary,
            self._table,
            self._native,
            self._state.ctypes.data,
            self.memory,
        )

    def push(self, log_probs_SV: "Tensor | np.ndarray") -> bool:
        """The next frames, log-probabilities or logits; whether anything can still be read."""
        scores_SV = host_scores(log_probs_SV, self._blank, name="BeamStream: log_probs_SV", axes=UTTERANCE)
        if scores_SV.shape[1] != self._vocabulary:
            raise ValueError(f"BeamStream: expected {self._vocabulary} labels, found {scores_SV.shape[1]}")
        self.frames += len(scores_SV)
        if self._library is None:
            self._kept_SV.append(scores_SV.astype(np.float64))
            return bool(self.hypotheses())
        is_over = ctypes.c_int32()
        arguments = (_native.scores(scores_SV[None]), self._table, self._native, self._state.ctypes.data, is_over)
        _native.call(self._library.ctc_beam_stream_push, *arguments)
        return not is_over.value

    def hypotheses(self) -> list[Hypothesis]:
        """The best hypotheses so far, best first; none where nothing can be read."""
        n_best = self.options.n_best
        if self._library is None:
            scores_BSV = np.concatenate([np.zeros((0, self._vocabulary)), *self._kept_SV])[None]
            return search_python(scores_BSV, np.array([self.frames]), self._blank, self._scorer, self.options)[0]
        labels_NS, start_NS, end_NS = np.empty((3, n_best, self.frames), np.int32)
        lengths_N, count = np.empty(n_best, np.int32), np.empty(1, np.int32)
        log_prob_N, external_N = np.full((2, n_best), math.nan)
        outputs = (labels_NS, lengths_N, log_prob_N, external_N, count, start_NS, end_NS)
        arguments = (self._vocabulary, self._table, self._native, self._state.ctypes.data, self.frames)
        _native.call(self._library.ctc_beam_stream_result, *arguments, *(array.ctypes.data for array in outputs))
        return hypotheses_of(int(count[0]), labels_NS, lengths_N, log_prob_N, external_N, start_NS, end_NS)
