"""Learns which frames belong to which symbol, from text and speech alone (Badlani et al. 2021, arXiv:2108.10447).

Symbols and frames are projected into one space. How near they are, with a prior for the diagonal, gives a
log-probability of every symbol at every frame; the forward-sum loss makes their alignments probable, and the most
probable monotonic one gives the durations. All of it is batched and stays on the device.

Legend: B utterances, L symbols, T frames, C channels of a symbol, M channels of the space, by default the mel bins.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ctc
from common.devices.precision import float32_math
from common.lengths import inside

TEMPERATURE = 0.0005  # of the published models: their keys and queries are large
BLANK_LOGIT = -1.0  # of the published forward-sum loss, next to the logits of the symbols
PRIOR_FLOOR = 1e-8
LEAST_PROBABILITY = 1e-12  # in the binarisation loss


class SoftAlignment(NamedTuple):
    """log_probs_BTL of symbols at frames, -inf beyond an utterance's symbols; logits_BTL, the same up to a constant per
    frame that counts in the forward-sum loss; durations_BL (int64), whose sum is the number of frames; and symbol_BT,
    the symbol that each frame belongs to. An alignment that was given has nothing to learn: `is_learned` is False."""

    log_probs_BTL: Tensor
    logits_BTL: Tensor
    durations_BL: Tensor
    symbol_BT: Tensor
    is_learned: bool = True


class Aligner(nn.Module):
    """Log-probabilities of symbols at frames, and the alignment they make most probable."""

    def __init__(self, channels: int, mel_bins: int, space: int = 0):
        """`space`: channels of the space that both are projected into, 0 for as many as mel bins."""
        super().__init__()
        space = space or mel_bins
        self.key_wide = nn.Conv1d(channels, 2 * channels, 3, padding=1)
        self.key_out = nn.Conv1d(2 * channels, space, 1)
        self.query_wide = nn.Conv1d(mel_bins, 2 * mel_bins, 3, padding=1)
        self.query_middle = nn.Conv1d(2 * mel_bins, mel_bins, 1)
        self.query_out = nn.Conv1d(mel_bins, space, 1)
        # Numbers that published checkpoints hold and nothing uses; with them, parameters map one to one.
        self.unused = nn.Conv2d(space, 1, 1).requires_grad_(False)
        relu = nn.init.calculate_gain("relu")
        for convolution, gain in (
            (self.key_wide, relu),
            (self.key_out, 1.0),
            (self.query_wide, relu),
            (self.query_middle, 1.0),
            (self.query_out, 1.0),
        ):
            nn.init.xavier_uniform_(convolution.weight, gain)

    def forward(self, symbols_BLC: Tensor, lengths_B: Tensor, mel_BMT: Tensor, frames_B: Tensor) -> SoftAlignment:
        """From embedded symbols and mel frames, both zero in their padding. In float32, whatever autocast says.

        Nor in TF32: distances are small differences of large numbers.
        """
        with torch.autocast(mel_BMT.device.type, enabled=False), float32_math("fp32"):
            key_BML = self.key_out(F.relu(self.key_wide(symbols_BLC.float().mT)))
            query_BMT = F.relu(self.query_wide(mel_BMT.float()))
            query_BMT = self.query_out(F.relu(self.query_middle(query_BMT)))
            is_symbol_BL = inside(lengths_B, key_BML.shape[2])
            logits_BTL = nearness(query_BMT, key_BML).masked_fill(~is_symbol_BL[:, None], -torch.inf)
            prior_BTL = beta_binomial(frames_B, lengths_B, query_BMT.shape[2], key_BML.shape[2])
            logits_BTL = logits_BTL.log_softmax(2) + (prior_BTL + PRIOR_FLOOR).log()
            log_probs_BTL = logits_BTL.log_softmax(2)
            durations_BL = ctc.monotonic_alignment(log_probs_BTL.detach(), frames_B, lengths_B)
        return SoftAlignment(
            log_probs_BTL, logits_BTL, durations_BL, symbol_of_frames(durations_BL, query_BMT.shape[2])
        )


def given_alignment(durations_BL: Tensor, longest_frames: int) -> SoftAlignment:
    """The alignment of durations (int64, frames) that are known before; symbols without a frame are passed over."""
    symbol_BT = symbol_of_frames(durations_BL, longest_frames)
    is_own_BTL = symbol_BT[:, :, None] == torch.arange(durations_BL.shape[1], device=symbol_BT.device)
    log_probs_BTL = torch.zeros_like(is_own_BTL, dtype=torch.float32).masked_fill_(~is_own_BTL, -torch.inf)
    return SoftAlignment(log_probs_BTL, log_probs_BTL, durations_BL, symbol_BT, is_learned=False)


def nearness(query_BMT: Tensor, key_BML: Tensor) -> Tensor:
    """[B, T, L] minus the squared distances, times the temperature, from (q - k)² = q² - 2 q k + k²."""
    query_BT1, key_B1L = query_BMT.square().sum(1)[:, :, None], key_BML.square().sum(1)[:, None]
    return -TEMPERATURE * torch.baddbmm(query_BT1 + key_B1L, query_BMT.mT, key_BML, alpha=-2)


def beta_binomial(frames_B: Tensor, lengths_B: Tensor, longest_frames: int, longest_symbols: int) -> Tensor:
    """[B, T, L] float32: the probability of symbol l at frame t (from 0), the published prior for the diagonal.

    It is the beta-binomial distribution of l in 0 … n, for n = the number of symbols, with a = t + 1 and b = the number
    of frames - t; zero beyond frames and symbols. All its gamma functions are factorials, and those are looked up.
    """
    device = frames_B.device
    log_factorial = torch.arange(longest_frames + longest_symbols + 1, device=device, dtype=torch.float64)
    log_factorial = (log_factorial + 1).lgamma()
    n_B11, frames_B11 = lengths_B[:, None, None], frames_B[:, None, None]
    l_BL = torch.arange(longest_symbols, device=device).expand(len(lengths_B), -1)
    t_BT = torch.arange(longest_frames, device=device).expand(len(lengths_B), -1)
    rest_BL, left_BT = (lengths_B[:, None] - l_BL).clamp(min=0), (frames_B[:, None] - 1 - t_BT).clamp(min=0)

    def log(factorial_of: Tensor) -> Tensor:
        return log_factorial.take(factorial_of)

    # log n! / (l! (n-l)!)  +  log B(l + a, n - l + b) / B(a, b)
    of_symbol_BL = log(lengths_B)[:, None] - log(l_BL) - log(rest_BL)
    of_frame_BT = log(frames_B)[:, None] - log(t_BT) - log(left_BT)
    both_BTL = log(t_BT[:, :, None] + l_BL[:, None]) + log(left_BT[:, :, None] + rest_BL[:, None])
    both_BTL -= log(n_B11 + frames_B11)
    both_BTL += of_symbol_BL[:, None]
    both_BTL += of_frame_BT[:, :, None]
    is_inside_BTL = (l_BL < lengths_B[:, None])[:, None] & (t_BT < frames_B[:, None])[:, :, None]
    return both_BTL.masked_fill_(~is_inside_BTL, -torch.inf).float().exp()


def symbol_of_frames(durations_BL: Tensor, longest_frames: int) -> Tensor:
    """[B, T] int64: the symbol that a frame belongs to; the last one beyond all of them."""
    ends_BL = durations_BL.cumsum(1)
    frame_BT = torch.arange(longest_frames, device=ends_BL.device).expand(len(ends_BL), -1).contiguous()
    return torch.searchsorted(ends_BL, frame_BT, right=True).clamp(max=ends_BL.shape[1] - 1)


def forward_sum_losses(alignment: SoftAlignment, frames_B: Tensor, lengths_B: Tensor) -> Tensor:
    """[B] minus the log-probability of all monotonic alignments, per symbol: a CTC loss whose labels are 1, 2 … L.

    Zero of an alignment that was given.
    """
    if not alignment.is_learned:
        return torch.zeros_like(lengths_B, dtype=torch.float32)
    logits_BTV = F.pad(alignment.logits_BTL.float(), (1, 0), value=BLANK_LOGIT)
    labels_BL = torch.arange(1, logits_BTV.shape[2], device=frames_B.device).expand(len(lengths_B), -1)
    losses_B = ctc.ctc_loss(
        logits_BTV, labels_BL, frames_B, lengths_B, blank=0, reduction="none", zero_infinity=True, batch_first=True
    )
    return losses_B / lengths_B


def binarisation_losses(alignment: SoftAlignment) -> Tensor:
    """[B, T] minus the log-probability of the symbol that each frame is aligned to; its padding counts for nothing."""
    log_probs_BT = alignment.log_probs_BTL.gather(2, alignment.symbol_BT[:, :, None])[:, :, 0]
    return -log_probs_BT.clamp(min=math.log(LEAST_PROBABILITY))


@torch.no_grad()
def entropies(alignment: SoftAlignment) -> Tensor:
    """[B, T] how undecided the alignment is between the symbols of each frame, in nats."""
    return torch.special.entr(alignment.log_probs_BTL.exp()).sum(2)


def mean_over_symbols(values_BT: Tensor, durations_BL: Tensor) -> Tensor:
    """[B, L] the mean of values_BT over those frames of each symbol where it is not zero; zero where it is everywhere.

    Zero is what pitch is in unvoiced frames.
    """
    ends_BL = durations_BL.cumsum(1)
    sums_BL, counts_BL = (
        F.pad(x_BT.double().cumsum(1), (1, 0)).gather(1, ends_BL)
        - F.pad(x_BT.double().cumsum(1), (1, 0)).gather(1, ends_BL - durations_BL)
        for x_BT in (values_BT, values_BT != 0)
    )
    return (sums_BL / counts_BL.clamp(min=1)).float()
