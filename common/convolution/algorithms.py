"""Convolutions of a block of frames with fewer multiplications: y = A [(G w) * (B x)].

Both builders give three real matrices: B takes N frames of the input to P points, G takes the K taps there, and A takes
the products to M = N - K + 1 frames of the output. Channels are summed over at the points, where all the work is: P
products for M outputs of K taps each.

Legend: N frames of a block, M outputs of it, P points, K taps, E even and O odd parts of the block (E + O = N).
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LONGEST_BLOCK = 256  # what the kernels' buffers hold


class Halves(NamedTuple):
    """The same transforms in half of the work: over sums and differences of frames that mirror each other."""

    cosine_EE: Tensor
    sine_OE: Tensor
    output_MN: Tensor
    """The values of the E real parts, then of the O imaginary ones."""
    weight_NK: Tensor
    """The taps' spectrum: E real parts, then O imaginary ones."""


class Algorithm(NamedTuple):
    """Three matrices in float64; `halves` where the native library has something better than the first and the last.

    `in_pairs`: it keeps the taps' spectrum and makes the three products of a frequency of its two parts, when it
    multiplies: a third of the memory less, and more work for each of few blocks.
    """

    input_PN: Tensor
    weight_PK: Tensor
    output_MP: Tensor
    halves: Halves | None = None
    in_pairs: bool = False

    @property
    def points(self) -> int:
        """Products for a block."""
        return self.input_PN.shape[0]

    @property
    def stored(self) -> int:
        """Weights of a channel and a filter that the native library keeps."""
        return self.block if self.in_pairs else self.points

    @property
    def block(self) -> int:
        """Frames of the input that a block reads."""
        return self.input_PN.shape[1]

    @property
    def outputs(self) -> int:
        """Frames of the output that a block gives."""
        return self.output_MP.shape[0]


@functools.cache
def overlap_save(block: int, taps: int) -> Algorithm:
    """The discrete Fourier transform of `block` frames, of which those that wrap around are thrown away.

    A product of complex numbers is three real ones, and their sums are in the matrices: P is about 3 N / 2. The planes
    are the real parts of the E frequencies from zero on, the imaginary parts of the O others, and the sums of both.
    Raises ValueError if no output is left, or for more than LONGEST_BLOCK frames.
    """
    if not taps <= block <= LONGEST_BLOCK:
        raise ValueError(f"a block of {block} frames for {taps} taps: expected {taps} to {LONGEST_BLOCK}")
    odd = (block - 1) // 2
    even = block - odd
    angle_EN = 2 * math.pi / block * torch.arange(even).double()[:, None] * torch.arange(block).double()
    cosine_EN, sine_EN = angle_EN.cos(), -angle_EN.sin()
    cosine_ON, sine_ON = cosine_EN[1 : odd + 1], sine_EN[1 : odd + 1]
    input_PN = torch.cat([cosine_EN, sine_ON, cosine_ON + sine_ON])
    # The taps are conjugate, because they are not reversed: w = c - i s. With x = r + i q, the products are
    # r (-s - c), q (c - s) and (r + q) c; the real part of w x is the last less the second, the other the last + first.
    real_EK, real_OK, imaginary_OK = cosine_EN[:, :taps], cosine_ON[:, :taps], -sine_ON[:, :taps]
    inner_EK = real_EK.clone()
    inner_EK[1 : odd + 1] = imaginary_OK - real_OK
    weight_PK = torch.cat([inner_EK, imaginary_OK + real_OK, real_OK])
    outputs = block - taps + 1
    scale_E = torch.full((even,), 2.0 / block, dtype=torch.float64)
    scale_E[0] = 1.0 / block
    if block % 2 == 0:
        scale_E[-1] = 1.0 / block
    real_ME = cosine_EN[:, :outputs].T * scale_E
    imaginary_MO = sine_ON[:, :outputs].T * (2.0 / block)
    first_ME = real_ME.clone()
    first_ME[:, 1 : odd + 1] = imaginary_MO
    output_MP = torch.cat([first_ME, -real_ME[:, 1 : odd + 1], real_ME[:, 1 : odd + 1] + imaginary_MO], 1)
    sine_OE = sine_ON[:, :even].clone()
    if block % 2 == 0:
        sine_OE[:, -1] = 0.0
    spectrum_NK = torch.cat([real_EK, imaginary_OK])
    halves = Halves(cosine_EN[:, :even].contiguous(), sine_OE, torch.cat([real_ME, imaginary_MO], 1), spectrum_NK)
    return Algorithm(input_PN, weight_PK, output_MP, halves)


@functools.cache
def toom_cook(points: tuple[float, ...], taps: int) -> Algorithm:
    """Polynomials multiplied at `points` and at infinity (Toom 1963, Cook 1966; Winograd 1980 for its transposition).

    P = N = len(points) + 1. Digits are lost as points become more, or larger: up to 7 of 0, ±1, ±2, ±1/2 keep six.
    Raises ValueError for points that are equal, or too few for an output.
    """
    block = len(points) + 1
    if len(set(points)) < len(points) or block < taps:
        raise ValueError(f"points {points} for {taps} taps: expected at least {taps - 1}, each another")
    place_P = torch.tensor(points, dtype=torch.float64)

    def powers(count: int) -> Tensor:
        powers_PC = torch.zeros(block, count, dtype=torch.float64)
        powers_PC[:-1] = place_P[:, None] ** torch.arange(count)
        powers_PC[-1, -1] = 1.0  # infinity sees the highest power alone
        return powers_PC

    input_PN = torch.linalg.inv(powers(block)).T
    # Powers of two move between the rows of both, so that values at the points are about as large as the frames.
    balance_P1 = 2.0 ** input_PN.abs().amax(1, keepdim=True).log2().round()
    return Algorithm(input_PN / balance_P1, powers(taps) * balance_P1, powers(block - taps + 1).T.contiguous())


def in_float32(matrices: Sequence[Tensor]) -> Tensor:
    """The matrices one after the other, as the native library takes them."""
    return torch.cat([matrix.flatten() for matrix in matrices]).float()
