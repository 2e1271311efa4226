"""A detector of the buzz of vocoders, which listeners hear at once and distances between spectra do not show.

Two numbers, of samples alone, without a reference:

- `hum_db`: how far a comb of harmonics stands above the valleys between them in what should be silence. A vocoder that
  goes on humming between words has it; a recording has what its room has.
- `coherence`: how much of the envelope above 3 kHz repeats with the period of the voice, up to 1. The pulses of a voice
  arrive there blurred by breath and room; a vocoder with all phases alike, a pulse train, is too regular, and one whose
  phases do not fit each other, which sounds hoarse, not regular enough. It is judged beside that of the recordings.

Shapes: N samples, T frames, K frequencies, L lags.
"""

from typing import NamedTuple

import numpy as np
from scipy import signal

SILENCE_DB = 35.0  # below the loud frames a frame counts as silent
SHORTEST_SILENCE = 8  # silent frames without which there is nothing to judge
WINDOW_SECONDS, HOP_SECONDS = 0.064, 0.016
HUM_HZ = (50.0, 400.0)
HARMONICS_UP_TO_HZ = 4000.0
HIGH_BAND_HZ = (3000.0, 7000.0)
PERIODS_SECONDS = (1 / 400, 1 / 70)
ENVELOPE_RATE = 4000


class Buzz(NamedTuple):
    """What is heard of a buzz; NaN where a clip has no silence, or no voice, to judge it by."""

    hum_db: float
    coherence: float


def buzz(samples_N: np.ndarray, sample_rate: int) -> Buzz:
    """Both measures of mono samples at `sample_rate`."""
    return Buzz(hum_db(samples_N, sample_rate), coherence(samples_N, sample_rate))


def hum_db(samples_N: np.ndarray, sample_rate: int) -> float:
    """Mean level of the best comb of harmonics in the silent frames, in dB above the frequencies midway between."""
    size = 1 << round(WINDOW_SECONDS * sample_rate).bit_length()
    frames_TN = _frames(samples_N, size, round(HOP_SECONDS * sample_rate))
    power_T = np.square(frames_TN).mean(1)
    loud = np.percentile(power_T, 90)
    silent_T = (power_T < loud * 10 ** (-SILENCE_DB / 10)) & (power_T > 0)
    if silent_T.sum() < SHORTEST_SILENCE:
        return float("nan")
    spectrum_TK = np.abs(np.fft.rfft(frames_TN[silent_T] * np.hanning(size), n=4 * size))
    level_K = 10 * np.log10(np.square(spectrum_TK).mean(0) + 1e-14)
    hz_per_bin = sample_rate / (4 * size)
    combs = []
    for fundamental in np.arange(HUM_HZ[0], HUM_HZ[1], 0.5):
        count = int(HARMONICS_UP_TO_HZ / fundamental)
        numbers = np.arange(1, count + 1)
        teeth, gaps = (np.rint(fundamental * at / hz_per_bin).astype(int) for at in (numbers, numbers + 0.5))
        combs.append(np.mean(level_K[teeth] - level_K[gaps]))
    return float(max(combs))


def coherence(samples_N: np.ndarray, sample_rate: int) -> float:
    """Mean over voiced frames of the greatest autocorrelation of the high band's envelope at a period of a voice."""
    high = min(HIGH_BAND_HZ[1], 0.45 * sample_rate)
    band = signal.butter(4, [HIGH_BAND_HZ[0], high], "bandpass", fs=sample_rate, output="sos")
    envelope_N = np.abs(signal.hilbert(signal.sosfiltfilt(band, samples_N)))
    envelope_N = signal.resample_poly(envelope_N, ENVELOPE_RATE, sample_rate)
    low = signal.butter(4, 1000.0, "lowpass", fs=sample_rate, output="sos")
    voice_N = signal.resample_poly(signal.sosfiltfilt(low, samples_N), ENVELOPE_RATE, sample_rate)
    size, hop = round(0.040 * ENVELOPE_RATE), round(HOP_SECONDS * ENVELOPE_RATE)
    voice_TL, envelope_TL = (_autocorrelation(_frames(x, size, hop)) for x in (voice_N, envelope_N))
    power_T = np.square(_frames(voice_N, size, hop)).mean(1)
    is_voiced_T = (power_T > np.percentile(power_T, 90) * 1e-2) & (voice_TL.max(1) > 0.7)
    if not is_voiced_T.any():
        return float("nan")
    # At the period that the low band has, and a sample to either side.
    at_T = voice_TL[is_voiced_T].argmax(1)
    near_T3 = np.clip(at_T[:, None] + np.arange(-1, 2), 0, envelope_TL.shape[1] - 1)
    return float(np.take_along_axis(envelope_TL[is_voiced_T], near_T3, 1).max(1).mean())


def _autocorrelation(frames_TN: np.ndarray) -> np.ndarray:
    """[T, L]: of each frame less its mean, normalised by the energies of both pieces, at the periods of a voice."""
    x_TN = frames_TN - frames_TN.mean(1, keepdims=True)
    first, last = (round(seconds * ENVELOPE_RATE) for seconds in PERIODS_SECONDS)
    columns = []
    for lag in range(first, last + 1):
        a_TN, b_TN = x_TN[:, lag:], x_TN[:, :-lag]
        energy_T = np.sqrt(np.square(a_TN).sum(1) * np.square(b_TN).sum(1))
        columns.append((a_TN * b_TN).sum(1) / np.maximum(energy_T, 1e-12))
    return np.stack(columns, 1)


def _frames(samples_N: np.ndarray, size: int, hop: int) -> np.ndarray:
    padded_N = np.pad(samples_N, (0, max(0, size - len(samples_N))))
    return np.lib.stride_tricks.sliding_window_view(padded_N, size)[::hop]
