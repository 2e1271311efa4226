"""Utterances of a batch one after the other, as a long recording has them: functions of seed, epoch and utterances.

A recogniser that has only heard single utterances knows neither another loudness nor what follows the end of one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.config import check_not_negative, check_shares

QUIET_SECONDS = 0.025  # pauses are as loud as the quietest so many seconds of what they follow


@dataclass(frozen=True, kw_only=True)
class JoinConfig:
    """Utterances of a batch joined to longer recordings, each utterance once, with pauses and loudness of their own."""

    probability: float = 0.0
    """Share of the batches that are joined; 0 for none."""
    max_utterances: int = 4
    """Greatest number of utterances in a joined recording; every batch draws a number from 2 to this, all equally
    likely."""
    max_seconds: float = 25.0
    """Length in seconds from which on nothing more is joined to a recording."""
    max_pause_seconds: float = 0.5
    """Greatest pause between two utterances in seconds, filled with faint noise; half of the utterances follow without
    a pause."""
    gain_db: float = 0.0
    """Greatest change of an utterance's loudness in decibels, up or down; 0 for none."""
    single_epochs: int = 0
    """Epochs at the beginning in which nothing is joined."""

    def __post_init__(self) -> None:
        check_shares(self, "probability")
        check_not_negative(self, "max_seconds", "max_pause_seconds", "gain_db", "single_epochs")
        if self.max_utterances < 2:
            raise ValueError(f"max_utterances = {self.max_utterances}: expected at least 2")


def drawn(
    probability: float, *, seed: int, epoch: int, indices: Sequence[int], kind: int
) -> np.random.Generator | None:
    """What is drawn from for these utterances; None for those that stay as they are.

    `kind`: what it is for; the speed of an utterance and its perturbation, 1, have draws of their own.
    """
    if not probability or not len(indices):
        return None
    random = np.random.default_rng((seed, epoch, kind, *indices))
    return random if random.random() < probability else None


def groups(seconds: Sequence[float], cfg: JoinConfig, random: np.random.Generator) -> list[list[int]]:
    """Which utterances, of so many seconds, form a recording, in their order."""
    count = int(random.integers(2, cfg.max_utterances + 1))
    found: list[list[int]] = []
    length = math.inf
    for i in random.permutation(len(seconds)).tolist():
        pause = cfg.max_pause_seconds
        if not found or len(found[-1]) == count or length + pause + seconds[i] > cfg.max_seconds:
            found.append([])
            length = -pause
        found[-1].append(i)
        length += pause + seconds[i]
    return found


def one_after_the_other(
    parts: Sequence[np.ndarray], cfg: JoinConfig, random: np.random.Generator, *, sample_rate: int
) -> np.ndarray:
    """Float32 samples [N] of the parts, louder or softer, and of the pauses between them."""
    pieces: list[np.ndarray] = []
    for samples_N in parts:
        if pieces:
            pause = max(0.0, random.uniform(-1, 1)) * cfg.max_pause_seconds
            noise_N = random.standard_normal(round(pause * sample_rate), np.float32)
            pieces.append(noise_N * _quietest(pieces[-1], round(QUIET_SECONDS * sample_rate)))
        gain = np.float32(10 ** (random.uniform(-1, 1) * cfg.gain_db / 20)) if cfg.gain_db else None
        pieces.append(samples_N if gain is None else samples_N * gain)
    return np.concatenate(pieces)


def _quietest(samples_N: np.ndarray, length: int) -> np.float32:
    """The least root mean square of so many samples."""
    whole = len(samples_N) // length * length
    if not whole:
        return np.float32(0)
    return np.sqrt(np.square(samples_N[:whole].reshape(-1, length)).mean(1).min())
