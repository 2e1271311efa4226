"""Connectionist temporal classification: loss, decoding, alignment. `ctc/README.md` is the tour."""

from ctc._library import SlowPathWarning
from ctc.loss import CTCLoss, ctc_loss

__all__ = ["CTCLoss", "SlowPathWarning", "ctc_loss"]
