"""Pitch by the harmonics that a spectrogram shows: the likeliest path through combs of all pitches.

PYIN asks whether a frame is like itself a period later. Where breath is as loud as the voice, as at the ends of sounds,
it is not: PYIN says that there is no voice, or one an octave away, although harmonics stand out in the mel frame. A
model that draws harmonics (`acoustic/harmonics.py`) needs to know where these are. So every frame is compared with the
combs that the model draws, PYIN's pitch is a hint, and what breath hides is on the likeliest path.

Legend: N samples, T frames, M mel bins, P pitches of the table, S steps from a frame's pitch to the next one's.
"""

import math
from functools import cache

import numpy as np
import torch

from common.features import LogMel, LogMelConfig
from fastpitch.acoustic.harmonics import HIGHEST_HZ, LOWEST_HZ, PITCHES, combs

BINS = 44  # the lowest mel bins, in which harmonics tell the pitch: up to 1.6 kHz
NEIGHBOURS = 13  # mel bins whose mean is taken from the one in their middle
QUIET, SOFTNESS = 5.0, 0.7  # nepers below the loudest bin of a frame, at which a bin counts half, and how sharply
SILENT = 7.0  # nepers below the loudest bin of a clip, at which a frame has no voice
STEPS, STEP_PENALTY = 14, 0.0625  # rows of the table that a pitch moves in a frame: 16 % at most
HINT, HINT_STEPS = 1.5, 3.0  # what a pitch near the other method's is worth, and how near it must be
LIKE, SAME = 0.4, 0.1  # correlation with the comb of a voiced frame; nepers from a voiced pitch that agrees with it
OUTSIDE = -10.0  # worth of pitches that are not looked for
COMPANY = 3  # voiced frames among five, without which one is not


def comb_pitch(
    samples_N: np.ndarray, hint_T: np.ndarray, features: LogMelConfig, lowest_hz: float, highest_hz: float
) -> np.ndarray:
    """f0_T, float32 in Hz, 0 where the frame is not voiced; `hint_T` is the same by another method."""
    audio_1N = torch.from_numpy(samples_N)[None]
    frames_1TM = LogMel(features).eval()(audio_1N, torch.tensor([len(samples_N)])).features_BFT.mT
    mel_TM = frames_1TM[0, : len(hint_T), : BINS + NEIGHBOURS // 2].double().numpy()
    likeness_TP, contrast_T = _likeness(mel_TM, _combs(features))
    loudest_T = mel_TM[:, :BINS].max(1)
    silent = loudest_T.max() - SILENT
    steps_per_neper = (PITCHES - 1) / math.log(HIGHEST_HZ / LOWEST_HZ)
    hertz_P = LOWEST_HZ * np.exp(np.arange(PITCHES) / steps_per_neper)
    worth_TP = likeness_TP / (1 + np.exp(silent + 1 - loudest_T))[:, None]
    worth_TP[:, (hertz_P < lowest_hz) | (hertz_P > highest_hz)] = OUTSIDE
    hinted_T = np.flatnonzero(hint_T)
    place_T1 = np.log(hint_T[hinted_T, None] / LOWEST_HZ) * steps_per_neper
    worth_TP[hinted_T] += HINT * np.exp(-0.5 * np.square((np.arange(PITCHES) - place_T1) / HINT_STEPS))
    path_T = _likeliest_path(worth_TP)
    row_T = np.arange(len(path_T))
    before_T, at_T, after_T = (likeness_TP[row_T, np.clip(path_T + i, 0, PITCHES - 1)] for i in (-1, 0, 1))
    bend_T = np.maximum(2 * at_T - before_T - after_T, 1e-6)
    shift_T = np.clip((after_T - before_T) / (2 * bend_T), -0.5, 0.5)
    pitch_T = LOWEST_HZ * np.exp((path_T + shift_T) / steps_per_neper)
    agrees_T = np.abs(np.log(np.maximum(hint_T, 1.0) / pitch_T)) < SAME
    voiced_T = ((at_T > LIKE * contrast_T) | agrees_T) & (loudest_T > silent)
    voiced_T &= np.convolve(voiced_T, np.ones(5))[2:-2] >= COMPANY
    return np.where(voiced_T, pitch_T, 0).astype(np.float32)


@cache
def _combs(features: LogMelConfig) -> np.ndarray:
    return combs(features)[:, :BINS].astype(np.float64)


def _likeness(mel_TM: np.ndarray, combs_PM: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[T, P] the fine structure of each frame along each comb, in nepers, and [T] how much of it there is at all."""
    half = NEIGHBOURS // 2
    around_TMS = np.lib.stride_tricks.sliding_window_view(
        np.pad(mel_TM, ((0, 0), (half, 0)), mode="edge"), NEIGHBOURS, 1
    )
    mel_TM = mel_TM[:, :BINS]
    fine_TM = mel_TM - around_TMS.mean(2)
    quiet_TM = mel_TM.max(1, keepdims=True) - QUIET - mel_TM
    weight_TM = 1 / (1 + np.exp(quiet_TM / SOFTNESS))
    along_TP = (weight_TM * fine_TM) @ combs_PM.T / np.sqrt(weight_TM @ np.square(combs_PM).T + 1e-6)
    return along_TP, np.sqrt((weight_TM * np.square(fine_TM)).sum(1)) + 1e-6


def _likeliest_path(worth_TP: np.ndarray) -> np.ndarray:
    """[T] the row of the table of each frame on the path of most worth, less a penalty for every step aside."""
    frames, pitches = worth_TP.shape
    penalty_S = STEP_PENALTY * np.abs(np.arange(-STEPS, STEPS + 1))
    best_P, came_TP = worth_TP[0], np.zeros((frames, pitches), np.int64)
    for t in range(1, frames):
        moves_PS = np.lib.stride_tricks.sliding_window_view(np.pad(best_P, STEPS, constant_values=-1e9), len(penalty_S))
        moves_PS = moves_PS - penalty_S
        came_TP[t] = moves_PS.argmax(1)
        best_P = moves_PS.max(1) + worth_TP[t]
    path_T = np.full(frames, best_P.argmax())
    for t in range(frames - 1, 0, -1):
        path_T[t - 1] = path_T[t] + came_TP[t, path_T[t]] - STEPS
    return path_T
