"""FastConformer with CTC, RNN-T, TDT and hybrid heads: train, evaluate and use them. See transducer/README.md."""

from importlib.util import find_spec

if find_spec("torch") is not None:
    from common.recognition.transcripts import Transcript, Word
    from transducer.decoder import Decoder, DecoderOptions, DecoderState
    from transducer.fused_loss import joint_loss
    from transducer.hypotheses import Hypothesis
    from transducer.losses import rnnt_loss, tdt_loss
    from transducer.recognizer import Recognizer, load
    from transducer.streaming import Pool, Session, Update
else:  # exported models decode without it, by `host_decoder`

    def __getattr__(name: str) -> object:
        if name in __all__:
            raise ImportError(f"transducer.{name} needs torch: pip install torch")
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
