"""FastConformer with CTC, RNN-T, TDT and hybrid heads. See transducer/README.md."""

from transducer.decoder import Decoder, DecoderOptions, DecoderState
from transducer.losses import rnnt_loss, tdt_loss

__all__ = ["Decoder", "DecoderOptions", "DecoderState", "rnnt_loss", "tdt_loss"]
