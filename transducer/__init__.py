"""FastConformer with CTC, RNN-T, TDT and hybrid heads. See transducer/README.md."""

from transducer.losses import rnnt_loss, tdt_loss

__all__ = ["rnnt_loss", "tdt_loss"]
