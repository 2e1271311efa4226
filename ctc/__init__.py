"""Connectionist temporal classification: loss, decoding, alignment. `ctc/README.md` is the tour."""

from ctc._library import SlowPathWarning
from ctc.align import Alignment, align
from ctc.greedy import Decoded, greedy
from ctc.loss import CTCLoss, ctc_loss

__all__ = ["Alignment", "CTCLoss", "Decoded", "SlowPathWarning", "align", "ctc_loss", "greedy"]
