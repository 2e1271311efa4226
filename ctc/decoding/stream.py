"""Beam search of scores that come in chunks. S frames of a chunk, V labels."""

import copy
import ctypes
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctc.bindings import _library, _native
from ctc.decoding.beam import BeamOptions, Hypothesis, check_memory, hypotheses_of, native_options
from ctc.inputs import UTTERANCE, host_scores
from ctc.language_models.scorer import Scorer

if TYPE_CHECKING:  # arrays are searched without it
    from torch import Tensor

MOST_FRAMES = 3000
"""What a stream has room for where it is not said."""


class Labels(NamedTuple):
    """Labels on their most probable path, with the frames of each, counted from the very first."""

    labels: list[int]
    start_frames: list[int]
    end_frames: list[int]
    log_probs: list[float]
    """Sums over the frames of each label of its log-probability."""
    entropies: list[float]
    """Sums over the frames of each label of the entropy of all labels."""


class BeamStream:
    """`ctc.beam_search` of one utterance that is still being spoken.

    `push` takes the frames as they come; `hypotheses` says at any time what `beam_search` would find if the utterance
    ended there. The state has a constant size, `memory` bytes, however long the utterance is.

    Of an utterance without end `settle` takes the frames instead, and gives the labels that no later frame will change;
    `hypotheses` and `readings` are then of the labels behind these.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        blank: int = 0,
        scorer: Scorer | None = None,
        options: BeamOptions | None = None,
        frames: int = MOST_FRAMES,
    ) -> None:
        """`vocabulary`: how many labels the scores have, blank among them. `frames`: whose prefixes there is room for.

        Raises ValueError for what does not fit, and without the native library.
        """
        if not 0 <= blank < vocabulary:
            raise ValueError(f"blank: expected a label in [0, {vocabulary}), found {blank}")
        if scorer is not None and len(scorer.labels) not in (vocabulary, vocabulary - (blank == vocabulary - 1)):
            raise ValueError(f"BeamStream: scorer: expected {vocabulary} labels, found {len(scorer.labels)}")
        if not 8 <= frames <= MOST_FRAMES:
            raise ValueError(f"BeamStream: frames: expected room for 8 to {MOST_FRAMES}, found {frames}")
        self.options = options or BeamOptions()
        if self.options.thorough:
            raise ValueError("BeamStream: thorough: expected False, for a thorough search needs all frames at its end")
        if (library := _native.load()) is None:
            raise ValueError(f"BeamStream: it needs the native library; `{_library.LIBRARY.command}` makes it")
        self.frames = 0
        """How many frames were pushed."""
        self._vocabulary, self._blank, self._library = vocabulary, blank, library
        self._settled_end, self._most_open = 0, 1 + frames * self.options.beam
        self._native = native_options(blank, self.options)
        self._native.stream_frames = frames
        self._table = scorer.table() if scorer is not None else None
        self.memory: int = library.ctc_beam_stream_bytes(vocabulary, self._native)
        """Bytes of the state."""
        check_memory(self.memory, self.options)
        self.stream_state = np.empty(self.memory, np.uint8)
        arguments = (vocabulary, self._table, self._native, self.stream_state, self.memory)
        library.ctc_beam_stream_start(*arguments)

    @staticmethod
    def is_available() -> bool:
        """Whether there is the native library, which it needs."""
        return _native.load() is not None

    def copy(self) -> "BeamStream":
        """Another one that goes on from here, for frames that may yet change."""
        other = copy.copy(self)
        other.stream_state = self.stream_state.copy()
        return other

    def push(self, log_probs_SV: "Tensor | np.ndarray") -> bool:
        """The next frames, log-probabilities or logits; whether anything can still be read."""
        scores_SV = self._taken(log_probs_SV)
        is_over = ctypes.c_int32()
        arguments = (_native.scores(scores_SV[None]), self._table, self._native, self.stream_state, is_over)
        self._library.ctc_beam_stream_push(*arguments)
        return not is_over.value

    def settle(self, log_probs_SV: "Tensor | np.ndarray") -> Labels:
        """The next frames, as `push`; the labels that are settled now, behind those that were.

        However the frames are cut, what is found is the same. Where labels differ for longer than there is room for,
        the most probable path settles them.
        """
        scores_SV = self._taken(log_probs_SV)
        most = self._open() + len(scores_SV)
        labels_S, start_S, end_S = np.empty((3, most), np.int32)
        log_prob_S, entropy_S = np.empty((2, most), np.float32)
        outputs = (labels_S, start_S, end_S, log_prob_S, entropy_S)
        count, is_over = ctypes.c_int64(), ctypes.c_int32()
        arguments = (_native.scores(scores_SV[None]), self._table, self._native, self.stream_state, most)
        self._library.ctc_beam_stream_settle(*arguments, *outputs, count, is_over)
        settled = [array[: count.value].tolist() for array in outputs]
        if count.value:
            self._settled_end = settled[2][-1]
        return Labels(*settled)

    def hypotheses(self) -> list[Hypothesis]:
        """The best hypotheses so far, best first; none where nothing can be read."""
        return [hypothesis for hypothesis, _ in self.readings()]

    def readings(self) -> list[tuple[Hypothesis, Labels]]:
        """The best hypotheses so far, best first, each with the sums over its frames, of streams that `settle`."""
        n_best, most = self.options.n_best, self._open()
        labels_NS, start_NS, end_NS = np.empty((3, n_best, most), np.int32)
        lengths_N, count = np.empty(n_best, np.int32), np.empty(1, np.int32)
        log_prob_N, external_N = np.full((2, n_best), math.nan)
        log_prob_NS, entropy_NS = np.empty((2, n_best, most), np.float32)
        outputs = (labels_NS, lengths_N, log_prob_N, external_N, count, start_NS, end_NS, log_prob_NS, entropy_NS)
        arguments = (self._vocabulary, self._table, self._native, self.stream_state, most)
        self._library.ctc_beam_stream_result(*arguments, *outputs)
        found = hypotheses_of(int(count[0]), labels_NS, lengths_N, log_prob_N, external_N, start_NS, end_NS)
        rows = zip(found, log_prob_NS, entropy_NS, strict=False)
        return [
            (h, Labels(h.labels, h.start_frames, h.end_frames, log_prob_S[:n].tolist(), entropy_S[:n].tolist()))
            for h, log_prob_S, entropy_S in rows
            for n in [len(h.labels)]
        ]

    def _taken(self, log_probs_SV: "Tensor | np.ndarray") -> np.ndarray:
        scores_SV = host_scores(log_probs_SV, self._blank, name="BeamStream: log_probs_SV", axes=UTTERANCE)
        if scores_SV.shape[1] != self._vocabulary:
            raise ValueError(f"BeamStream: expected {self._vocabulary} labels, found {scores_SV.shape[1]}")
        self.frames += len(scores_SV)
        return scores_SV

    def _open(self) -> int:
        """Labels that are not settled, at most."""
        return min(self.frames - self._settled_end, self._most_open)
