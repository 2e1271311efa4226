"""FastConformer with CTC, RNN-T, TDT and hybrid heads: train, evaluate and use them. See fastconformer/README.md."""

import common

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING

if not hasattr(common, "starting"):  # somebody else's, found before that of these packages
    raise SystemExit(f"error: {common.__file__} is in the way of the package `common`: rename it, or start elsewhere")

from fastconformer.hypotheses import PieceHypothesis

if TYPE_CHECKING:
    from common.recognition.output.transcripts import Transcript, Word
    from fastconformer.hearing.streaming.pool import Pool
    from fastconformer.hearing.streaming.sessions import Session, Update
    from fastconformer.recognizer import Recognizer, load
    from fastconformer.transducer.decoder import Decoder, DecoderOptions, DecoderState
    from fastconformer.transducer.loss.fused_loss import joint_loss
    from fastconformer.transducer.loss.losses import rnnt_loss, tdt_loss

_MODULES = {
    "common.recognition.output.transcripts": ("Transcript", "Word"),
    "fastconformer.transducer.decoder": ("Decoder", "DecoderOptions", "DecoderState"),
    "fastconformer.transducer.loss.fused_loss": ("joint_loss",),
    "fastconformer.transducer.loss.losses": ("rnnt_loss", "tdt_loss"),
    "fastconformer.recognizer": ("Recognizer", "load"),
    "fastconformer.hearing.streaming.sessions": ("Session", "Update"),
    "fastconformer.hearing.streaming.pool": ("Pool",),
}


def __getattr__(name: str) -> object:
    """What needs torch, imported when it is first asked for: exported models decode without it."""
    for module, names in _MODULES.items():
        if name in names:
            try:
                return getattr(import_module(module), name)
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                raise ImportError(f"{__name__}.{name} needs torch: pip install torch") from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")


__all__ = [
    "Decoder",
    "DecoderOptions",
    "DecoderState",
    "PieceHypothesis",
    "Pool",
    "Recognizer",
    "Session",
    "Transcript",
    "Update",
    "Word",
    "joint_loss",
    "load",
    "rnnt_loss",
    "tdt_loss",
]
