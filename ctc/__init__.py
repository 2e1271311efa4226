"""Connectionist temporal classification: loss, decoding, alignment. `ctc/README.md` is the tour."""

from ctc._library import SlowPathWarning
from ctc.align import Alignment, WordSpan, align, word_spans
from ctc.arpa import BackoffModel, read_arpa, write_arpa
from ctc.beam import BeamOptions, Hypothesis, beam_search
from ctc.greedy import Decoded, greedy
from ctc.loss import CTCLoss, ctc_loss
from ctc.memory import GradientPool
from ctc.monotonic import monotonic_alignment
from ctc.scorer import Scorer, ScorerOptions
from ctc.segment import Segment, SegmentOptions, segment

__all__ = [
    "Alignment",
    "BackoffModel",
    "BeamOptions",
    "CTCLoss",
    "Decoded",
    "GradientPool",
    "Hypothesis",
    "Scorer",
    "ScorerOptions",
    "Segment",
    "SegmentOptions",
    "SlowPathWarning",
    "WordSpan",
    "align",
    "beam_search",
    "ctc_loss",
    "greedy",
    "monotonic_alignment",
    "read_arpa",
    "segment",
    "word_spans",
    "write_arpa",
]
