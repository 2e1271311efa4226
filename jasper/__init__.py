"""Jasper and QuartzNet: train, evaluate and use convolutional CTC speech recognisers. See jasper/README.md."""

import common

if not hasattr(common, "starting"):  # somebody else's, found before that of these packages
    raise SystemExit(f"error: {common.__file__} is in the way of the package `common`: rename it, or start elsewhere")

from common.recognition.output.transcripts import Transcript, Word
from jasper.recognizer import Recognizer, load

__all__ = ["Recognizer", "Transcript", "Word", "load"]
