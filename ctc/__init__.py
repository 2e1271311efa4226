"""Connectionist temporal classification: loss, decoding, alignment. `ctc/README.md` is the tour.

Decoders, `align` and `segment` work without torch, on arrays; what needs it, the loss and `monotonic_alignment`, is
imported when it is first asked for.
"""

from ctc import _interruption as _interruption

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING

from ctc.bindings._library import SlowPathWarning, include_dir, library_file

try:
    from ctc.alignment.align import Alignment, WordSpan, align, word_spans
    from ctc.alignment.segmentation import Segment, SegmentOptions, segment
    from ctc.decoding.beam import BeamOptions, Hypothesis, beam_search
    from ctc.decoding.greedy import Decoded, greedy
    from ctc.decoding.stream import BeamStream, Labels
    from ctc.language_models.arpa import SPACE, BackoffModel, read_arpa, write_arpa
    from ctc.language_models.compiled import NgramModel, compile_model, read_model, write_model
    from ctc.language_models.scorer import Scorer, ScorerOptions
    from ctc.language_models.spelling import label_texts
except ModuleNotFoundError as missing:  # where wheels are built, and for those who want the C library alone
    if missing.name != "numpy":
        raise

if TYPE_CHECKING:
    from ctc.alignment.monotonic import monotonic_alignment
    from ctc.loss import CTCLoss, GradientPool, ctc_loss

_OF_TORCH = {
    "loss": ("CTCLoss", "GradientPool", "ctc_loss"),
    "alignment.monotonic": ("monotonic_alignment",),
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
