"""Connectionist temporal classification: loss, decoding, alignment. `ctc/README.md` is the tour.

Decoders, `align` and `segment` work without torch, on arrays; what needs it, the loss and `monotonic_alignment`, is
imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ctc import _interruption as _interruption
from ctc._library import SlowPathWarning, include_dir, library_file

try:
    from ctc.alignment import Alignment, WordSpan, align, word_spans
    from ctc.arpa import SPACE, BackoffModel, read_arpa, write_arpa
    from ctc.beam import BeamOptions, Hypothesis, beam_search
    from ctc.compiled import NgramModel, compile_model, read_model, write_model
    from ctc.greedy import Decoded, greedy
    from ctc.scorer import Scorer, ScorerOptions
    from ctc.segmentation import Segment, SegmentOptions, segment
    from ctc.spelling import label_texts
    from ctc.stream import BeamStream, Labels
except ModuleNotFoundError as missing:  # where wheels are built, and for those who want the C library alone
    if missing.name != "numpy":
        raise

if TYPE_CHECKING:
    from ctc.loss import CTCLoss, ctc_loss
    from ctc.memory import GradientPool
    from ctc.monotonic import monotonic_alignment

_OF_TORCH = {
    "loss": ("CTCLoss", "ctc_loss"),
    "memory": ("GradientPool",),
    "monotonic": ("monotonic_alignment",),
}


def __getattr__(name: str) -> object:
    for module, names in _OF_TORCH.items():
        if name not in (module, *names):
            continue
        try:
            found = import_module(f"ctc.{module}")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError(
                f"ctc.{name} needs torch (pip install torch); without it there are decoding, `align` and `segment`"
            ) from None
        globals().update({each: getattr(found, each) for each in names})
        return globals()[name]
    if name in __all__:
        raise ImportError(f"ctc.{name} needs numpy (pip install numpy); without it there is the C library")
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
    "Labels",
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
