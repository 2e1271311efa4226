"""FastConformer with CTC, RNN-T, TDT and hybrid heads: train, evaluate and use them. See transducer/README.md."""

from importlib import import_module
from typing import TYPE_CHECKING

import common  # noqa: F401  ends commands that are interrupted while they are imported
from transducer.hypotheses import Hypothesis

if TYPE_CHECKING:
    from common.recognition.transcripts import Transcript, Word
    from transducer.decoder import Decoder, DecoderOptions, DecoderState
    from transducer.fused_loss import joint_loss
    from transducer.losses import rnnt_loss, tdt_loss
    from transducer.recognizer import Recognizer, load
    from transducer.streaming import Pool, Session, Update

_MODULES = {
    "common.recognition.transcripts": ("Transcript", "Word"),
    "transducer.decoder": ("Decoder", "DecoderOptions", "DecoderState"),
    "transducer.fused_loss": ("joint_loss",),
    "transducer.losses": ("rnnt_loss", "tdt_loss"),
    "transducer.recognizer": ("Recognizer", "load"),
    "transducer.streaming": ("Pool", "Session", "Update"),
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
                raise ImportError(f"transducer.{name} needs torch: pip install torch") from None
    raise AttributeError(f"module 'transducer' has no attribute {name!r}")


__all__ = [
    "Decoder",
    "DecoderOptions",
    "DecoderState",
    "Hypothesis",
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
