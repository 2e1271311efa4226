"""FastConformer with CTC, RNN-T, TDT and hybrid heads: train, evaluate and use them. See transducer/README.md."""

from common.recognition.transcripts import Transcript, Word
from transducer.decoder import Decoder, DecoderOptions, DecoderState
from transducer.fused_loss import joint_loss
from transducer.greedy import Hypothesis
from transducer.losses import rnnt_loss, tdt_loss
from transducer.recognizer import Recognizer, load
from transducer.streaming import Pool, Session, Update

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
