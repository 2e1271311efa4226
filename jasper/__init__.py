"""Jasper and QuartzNet: train, evaluate and use convolutional CTC speech recognisers. See jasper/README.md."""

from common.recognition.transcripts import Transcript, Word
from jasper.recognizer import Recognizer, load

__all__ = ["Recognizer", "Transcript", "Word", "load"]
