"""The CTC loss, the operator behind it, the memory of its gradient, and its definition."""

from ctc.loss.function import CTCLoss, ctc_loss
from ctc.loss.memory import GradientPool

__all__ = ["CTCLoss", "GradientPool", "ctc_loss"]
