"""Jasper and QuartzNet: train, evaluate and use convolutional CTC speech recognisers. See jasper/README.md."""

from jasper.recognizer import Recognizer, Transcript, Word, load

__all__ = ["Recognizer", "Transcript", "Word", "load"]
