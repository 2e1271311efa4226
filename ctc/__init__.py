"""Connectionist temporal classification: loss, decoding, alignment. `ctc/README.md` is the tour.

Without torch there are the C library and its headers alone: `library_file()` and `include_dir()`.
"""

from importlib.util import find_spec

from ctc._library import SlowPathWarning, include_dir, library_file

if find_spec("torch") is not None:
    from ctc.align import Alignment, WordSpan, align, word_spans
    from ctc.arpa import SPACE, BackoffModel, read_arpa, write_arpa
    from ctc.beam import BeamOptions, Hypothesis, beam_search
    from ctc.compiled import NgramModel, compile_model, read_model, write_model
    from ctc.greedy import Decoded, greedy
    from ctc.loss import CTCLoss, ctc_loss
    from ctc.memory import GradientPool
    from ctc.monotonic import monotonic_alignment
    from ctc.scorer import Scorer, ScorerOptions
    from ctc.segment import Segment, SegmentOptions, segment
    from ctc.spelling import label_texts
    from ctc.stream import BeamStream
else:

    def __getattr__(name: str) -> object:
        if name in __all__:
            raise ImportError(f"ctc.{name} needs torch (pip install torch); without it, ctc serves its C library alone")
        raise AttributeError(f"module 'ctc' has no attribute {name!r}")


__all__ = [
    "SPACE",
    "Alignment",
    "BackoffModel",
    "BeamOptions",
    "BeamStream",
    "CTCLoss",
    "Decoded",
    "GradientPool",
    "Hypothesis",
    "NgramModel",
    "Scorer",
    "ScorerOptions",
    "Segment",
    "SegmentOptions",
    "SlowPathWarning",
    "WordSpan",
    "align",
    "beam_search",
    "compile_model",
    "ctc_loss",
    "greedy",
    "include_dir",
    "label_texts",
    "library_file",
    "monotonic_alignment",
    "read_arpa",
    "read_model",
    "segment",
    "word_spans",
    "write_arpa",
    "write_model",
]
