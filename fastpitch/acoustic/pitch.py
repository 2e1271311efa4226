"""Pitch of speech: the fundamental frequency of every frame, by librosa's PYIN or, an order faster, by the same idea.

Both estimate YIN's periods (de Cheveigné and Kawahara 2002) under every threshold, weighted by how likely the threshold
is, and choose the likeliest path through the candidates (Mauch and Dixon 2014, "pYIN"). PYIN searches 1,202 states in
every frame. The fast method searches the candidates alone and one state that is not voiced, which leaves out only what
PYIN has no evidence for.

Legend: N samples, T frames, P periods in samples, K candidates of a frame, S thresholds.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from common.features import TTS, LogMelConfig
from fastpitch.acoustic.comb_pitch import comb_pitch

_FRAME_SECONDS = 1024 / 22_050  # of the published recipe


@dataclass(frozen=True, kw_only=True)
class PitchConfig:
    """How pitch is extracted. Samples per second and per frame must be those of the mel spectrogram."""

    method: Literal["fast", "pyin", "combs"] = "fast"
    """Method that finds the pitch. fast: ours; pyin: librosa's, as in the published recipe, more than ten times slower;
    combs: the fast one and then the harmonics that mel frames show, which have a pitch in breath too, where PYIN finds
    none."""
    sample_rate: int = 22_050
    """Sample rate of the audio, in Hz."""
    hop_samples: int = 256
    """Samples from one frame to the next."""
    lowest_hz: float = 65.40639
    """Lowest pitch that is looked for, in Hz (C2, as published)."""
    highest_hz: float = 2_093.0045
    """Highest pitch that is looked for, in Hz (C7, as published); 500 is enough for most speakers and mistakes fewer
    overtones."""

    def __post_init__(self) -> None:
        longest_hz = self.sample_rate / (self.frame_samples - 1)
        if not longest_hz < self.lowest_hz < self.highest_hz <= self.sample_rate / 2:
            raise ValueError(
                f"PitchConfig: pitch from {self.lowest_hz:g} to {self.highest_hz:g} Hz; expected "
                f"{longest_hz:.1f} < lowest_hz < highest_hz <= {self.sample_rate / 2:g}, half of the sample rate"
            )
        if self.hop_samples < 1:
            raise ValueError(f"PitchConfig: hop_samples = {self.hop_samples}: expected at least 1")

    @property
    def frame_samples(self) -> int:
        """Length of the piece of audio that a pitch is estimated from: 1,024 samples at 22,050 Hz."""
        return 2 * round(_FRAME_SECONDS * self.sample_rate / 2)

    def check_framing(self, features: LogMelConfig) -> None:
        """Raises ValueError unless pitch has the frames that mel spectrograms of `features` have."""
        if (features.sample_rate, features.hop_samples) != (self.sample_rate, self.hop_samples):
            raise ValueError(
                f"pitch.sample_rate = {self.sample_rate}, pitch.hop_samples = {self.hop_samples}: expected "
                f"{features.sample_rate} and {features.hop_samples}, those of features"
            )

    def frames(self, samples: int) -> int:
        """How many frames there are: every one whose centre lies inside the audio."""
        return 1 + samples // self.hop_samples


def extract_pitch(samples: np.ndarray, config: PitchConfig | None = None) -> np.ndarray:
    """f0_T, float32 in Hz, 0 where the frame is not voiced, for samples [N] in [-1, 1]; T = 1 + N // hop.

    Frame t is centred at sample t * hop; beyond its ends the audio is silent. Raises ValueError for audio that is not
    one-dimensional, empty or not finite.
    """
    config = config or PitchConfig()
    samples = np.asarray(samples, np.float32)
    if samples.ndim != 1 or not len(samples):
        raise ValueError(f"pitch of audio of shape {samples.shape}; expected one dimension, not empty")
    if not np.isfinite(samples).all():
        raise ValueError("pitch of audio with samples that are NaN or infinite")
    if config.method == "pyin":
        return _pyin(samples, config)
    f0_T = _fast(samples, config)
    if config.method == "fast":
        return f0_T
    rate, size = config.sample_rate, config.frame_samples
    features = replace(
        TTS, sample_rate=rate, hop_samples=config.hop_samples, window_samples=size, n_fft=size,
        highest_hz=min(TTS.highest_hz, rate / 2),
    )  # fmt: skip
    return comb_pitch(samples, f0_T, features, config.lowest_hz, config.highest_hz)


class PitchStatistics(NamedTuple):
    """Mean and standard deviation over voiced frames, in Hz, and how many frames they are of."""

    mean: float
    std: float
    frames: int


def pitch_statistics(pitches: Iterable[np.ndarray]) -> PitchStatistics:
    """Mean and deviation of all voiced frames (> 0) of all f0_T. Raises ValueError where there are fewer than two."""
    sums = np.zeros(3)
    for f0_T in pitches:
        voiced = f0_T[f0_T > 0].astype(np.float64)
        sums += len(voiced), voiced.sum(), np.square(voiced).sum()
    count, total, squares = sums
    if count < 2:
        raise ValueError(f"pitch statistics of {int(count)} voiced frames; expected two at least")
    mean = total / count
    return PitchStatistics(mean, math.sqrt(max(0.0, squares / count - mean**2)), int(count))


def _pyin(samples: np.ndarray, config: PitchConfig) -> np.ndarray:
    import librosa

    f0_T, _, _ = librosa.pyin(
        samples, fmin=config.lowest_hz, fmax=config.highest_hz, sr=config.sample_rate,
        frame_length=config.frame_samples, hop_length=config.hop_samples, fill_na=0.0,
    )  # fmt: skip
    return f0_T.astype(np.float32)


# ---------------------------------------------------------------------------------------------------------------------
# The fast method

# The constants of pYIN and of librosa's defaults.
_THRESHOLDS, _BETA, _BOLTZMANN, _NO_TROUGH = 100, (2, 18), 2.0, 0.01
_SEMITONES_PER_SECOND, _SWITCH, _BINS_PER_SEMITONE = 35.92 * 12, 0.01, 10
_LIKELY_THRESHOLDS = 60  # of 100: those above have together a probability of 1e-8
_CANDIDATES = 12
_BLOCK = 512  # frames whose periods are estimated at once, for the cache


class _Candidates(NamedTuple):
    """Pitches in Hz and their probabilities; where there is no candidate the probability is 0."""

    f0_TK: np.ndarray
    probability_TK: np.ndarray


def _fast(samples: np.ndarray, config: PitchConfig) -> np.ndarray:
    frame, hop = config.frame_samples, config.hop_samples
    padded = np.pad(samples, frame // 2)
    frames_TN = np.lib.stride_tricks.sliding_window_view(padded, frame)[::hop]
    blocks = [_candidates(frames_TN[start : start + _BLOCK], config) for start in range(0, len(frames_TN), _BLOCK)]
    candidates = _Candidates(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))
    return _likeliest_path(candidates, config)


def _candidates(frames_TN: np.ndarray, config: PitchConfig) -> _Candidates:
    shortest = math.floor(config.sample_rate / config.highest_hz)
    longest = min(math.ceil(config.sample_rate / config.lowest_hz), config.frame_samples - 1)
    difference_TP = _normalized_difference(frames_TN, shortest, longest)
    trough_TK, height_TK = _lowest_troughs(difference_TP)
    shift_TK = _parabolic_shift(difference_TP, trough_TK)
    f0_TK = (config.sample_rate / (shortest + trough_TK + shift_TK)).astype(np.float32)
    return _Candidates(f0_TK, _trough_probabilities(height_TK))


def _normalized_difference(frames_TN: np.ndarray, shortest: int, longest: int) -> np.ndarray:
    """[T, P] YIN's cumulative mean normalised difference function of periods from shortest to longest (equation 8)."""
    n = frames_TN.shape[1]
    power = 2 ** math.ceil(math.log2(n + longest))
    size = 3 * power // 4 if 3 * power // 4 >= n + longest else power
    spectrum_TF = np.fft.rfft(frames_TN, size)
    correlation_TP = np.fft.irfft(spectrum_TF.real**2 + spectrum_TF.imag**2, size)[:, : longest + 1].astype(np.float32)
    energy_TP = np.cumsum(np.square(frames_TN[:, :longest]), axis=1)
    difference_TP = 2 * (correlation_TP[:, :1] - correlation_TP[:, 1:]) - energy_TP
    mean_TP = np.cumsum(difference_TP, axis=1) / np.arange(1, longest + 1, dtype=np.float32)
    tiny = np.finfo(np.float32).tiny
    return difference_TP[:, shortest - 1 :] / (mean_TP[:, shortest - 1 :] + tiny)


def _lowest_troughs(difference_TP: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[T, K] positions and heights of the deepest local minima, in the order of their period; height inf for none."""
    left_TP = np.pad(difference_TP[:, :-1], ((0, 0), (1, 0)), constant_values=np.inf)
    right_TP = np.pad(difference_TP[:, 1:], ((0, 0), (0, 1)), constant_values=np.inf)
    is_trough_TP = (difference_TP < left_TP) & (difference_TP <= right_TP)
    is_trough_TP[:, 0] = difference_TP[:, 0] < difference_TP[:, 1]
    height_TP = np.where(is_trough_TP, difference_TP, np.inf)
    n_candidates = min(_CANDIDATES, height_TP.shape[1] - 1)
    deepest_TK = np.sort(np.argpartition(height_TP, n_candidates, axis=1)[:, :n_candidates], axis=1)
    return deepest_TK, np.take_along_axis(height_TP, deepest_TK, axis=1)


def _parabolic_shift(difference_TP: np.ndarray, trough_TK: np.ndarray) -> np.ndarray:
    """[T, K] how far beside a trough, in samples, the parabola through it and its neighbours is lowest."""
    inside_TK = trough_TK.clip(1, difference_TP.shape[1] - 2)
    left, middle, right = (np.take_along_axis(difference_TP, inside_TK + step, axis=1) for step in (-1, 0, 1))
    curvature, slope = left + right - 2 * middle, (right - left) / 2
    is_inside = (np.abs(slope) < np.abs(curvature)) & (inside_TK == trough_TK)
    return np.where(is_inside, -slope / np.where(curvature == 0, 1, curvature), 0)


def _trough_probabilities(height_TK: np.ndarray) -> np.ndarray:
    """[T, K] probability that a trough is the period: under each threshold earlier troughs are likelier than later."""
    probability_S = _threshold_probabilities()[:_LIKELY_THRESHOLDS]
    threshold_S = np.arange(1, _LIKELY_THRESHOLDS + 1, dtype=np.float32) / _THRESHOLDS
    is_below_TKS = height_TK[:, :, None] < threshold_S
    place_TKS = np.cumsum(is_below_TKS, axis=1, dtype=np.int8)
    count_T1S = place_TKS[:, -1:]
    decay_K = np.exp(-_BOLTZMANN * np.arange(-1, height_TK.shape[1])).astype(np.float32)
    # Norms of a Boltzmann distribution that is cut off after 1, 2, … candidates.
    norm_K = (1 - math.exp(-_BOLTZMANN)) / (1 - np.exp(-_BOLTZMANN * np.arange(1, height_TK.shape[1] + 1)))
    weight_K = np.concatenate([[0], norm_K]).astype(np.float32)
    prior_TKS = decay_K[place_TKS] * weight_K[count_T1S] * is_below_TKS
    probability_TK = prior_TKS @ probability_S
    lowest_T = height_TK.argmin(axis=1)
    rows = np.arange(len(height_TK))
    no_trough_T = np.where(is_below_TKS[rows, lowest_T], 0, probability_S).sum(axis=1)
    probability_TK[rows, lowest_T] += _NO_TROUGH * no_trough_T * np.isfinite(height_TK[rows, lowest_T])
    return probability_TK


def _threshold_probabilities() -> np.ndarray:
    """[S] of a beta distribution with whole-numbered parameters, whose cumulative distribution is binomial."""
    a, b = _BETA
    x = np.linspace(0, 1, _THRESHOLDS + 1)
    n = a + b - 1
    cumulative = sum(math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1))
    return np.diff(cumulative).astype(np.float32)


class _Moves(NamedTuple):
    """Logarithms of how likely pitch moves from bin to bin from one frame to the next: a triangle of D steps.

    It is cut off at the ends of the range; edge_B makes up for that, by the bin that is left. B counts the bins and,
    on both sides of them, as many as a step reaches, which are never entered.
    """

    step_D: np.ndarray
    edge_B: np.ndarray
    reach: int
    by_distance: np.ndarray  # the same by the bins between, -inf beyond the reach; a negative index is a step down


class _Scores(NamedTuple):
    """Scores of the best path to every candidate, voiced, and to every bin, not voiced."""

    voiced_TK: np.ndarray
    unvoiced_TB: np.ndarray


_STAY, _CHANGE = math.log(1 - _SWITCH), math.log(_SWITCH)  # voiced or not, as before or otherwise


def _likeliest_path(candidates: _Candidates, config: PitchConfig) -> np.ndarray:
    """f0_T of the likeliest path (Viterbi) through the candidates and, for frames that are not voiced, all bins.

    A pitch that is not heard still moves from bin to bin, which is why a voiced frame far from those before it is
    unlikely. Scores are logarithms.
    """
    f0_TK, probability_TK = candidates
    moves, n_bins = _moves(config)
    bin_TK = np.rint(12 * _BINS_PER_SEMITONE * np.log2(f0_TK / config.lowest_hz)).astype(np.int64)
    bin_TK = bin_TK.clip(0, n_bins - 1) + moves.reach
    with np.errstate(divide="ignore"):
        voiced_TK = np.log(probability_TK)
        unvoiced_T = np.log((1 - probability_TK.sum(axis=1)).clip(1e-12) / n_bins)
    scores = _forward(bin_TK, voiced_TK, unvoiced_T, moves)
    return _backward(scores, f0_TK, bin_TK, moves)


def _moves(config: PitchConfig) -> tuple[_Moves, int]:
    n_bins = math.floor(12 * _BINS_PER_SEMITONE * math.log2(config.highest_hz / config.lowest_hz)) + 1
    semitones = round(_SEMITONES_PER_SECOND * config.hop_samples / config.sample_rate)
    reach = semitones * _BINS_PER_SEMITONE // 2
    triangle_D = (reach + 1 - np.abs(np.arange(-reach, reach + 1))) / (reach + 1) ** 2
    kept_B = np.convolve(np.ones(n_bins), triangle_D)[reach : reach + n_bins]
    edge_B = np.full(n_bins + 2 * reach, -np.inf, np.float32)
    edge_B[reach : reach + n_bins] = -np.log(kept_B)
    step_D = np.log(triangle_D).astype(np.float32)
    by_distance = np.full(2 * max(n_bins, reach) + 1, -np.inf, np.float32)
    by_distance[np.arange(-reach, reach + 1)] = step_D
    return _Moves(step_D, edge_B, reach, by_distance), n_bins


def _forward(bin_TK: np.ndarray, voiced_TK: np.ndarray, unvoiced_T: np.ndarray, moves: _Moves) -> _Scores:
    reach, n_bins = moves.reach, len(moves.edge_B) - 2 * moves.reach
    inside = slice(reach, reach + n_bins)
    step_TKK = moves.by_distance[bin_TK[1:, :, None] - bin_TK[:-1, None, :]] + _STAY
    window_TKD = bin_TK[:, :, None] + np.arange(-reach, reach + 1)
    edge_TK = moves.edge_B[bin_TK]
    scores = _Scores(voiced_TK.copy(), np.full((len(bin_TK), len(moves.edge_B)), -np.inf, np.float32))
    scores.unvoiced_TB[0, inside] = unvoiced_T[0]
    left_B = np.empty_like(moves.edge_B)
    windows_DB = np.lib.stride_tricks.sliding_window_view(left_B, n_bins)
    reached_DB = np.empty(windows_DB.shape, np.float32)
    for t in range(1, len(bin_TK)):
        np.add(scores.unvoiced_TB[t - 1], moves.edge_B, out=left_B)
        left_K = scores.voiced_TK[t - 1] + edge_TK[t - 1]
        from_voiced_K = (step_TKK[t - 1] + left_K).max(axis=1)
        from_unvoiced_K = (left_B[window_TKD[t]] + moves.step_D).max(axis=1) + _CHANGE
        scores.voiced_TK[t] += np.maximum(from_voiced_K, from_unvoiced_K)
        np.maximum.at(left_B, bin_TK[t - 1], left_K + (_CHANGE - _STAY))
        np.add(windows_DB, moves.step_D[:, None], out=reached_DB)
        np.add(reached_DB.max(axis=0), _STAY + unvoiced_T[t], out=scores.unvoiced_TB[t, inside])
    return scores


def _backward(scores: _Scores, f0_TK: np.ndarray, bin_TK: np.ndarray, moves: _Moves) -> np.ndarray:
    """f0_T along the best path, which is found again from its end: cheaper than to note every decision."""
    f0_T = np.zeros(len(f0_TK), np.float32)
    voiced_K, unvoiced_D, first_bin = scores.voiced_TK[-1], scores.unvoiced_TB[-1], 0
    for t in range(len(f0_TK) - 1, -1, -1):
        is_voiced = voiced_K.max() > unvoiced_D.max()
        place = int(voiced_K.argmax()) if is_voiced else 0
        bin = int(bin_TK[t, place]) if is_voiced else first_bin + int(unvoiced_D.argmax())
        f0_T[t] = f0_TK[t, place] if is_voiced else 0
        first_bin = bin - moves.reach
        near = slice(first_bin, bin + moves.reach + 1)
        unvoiced_D = scores.unvoiced_TB[t - 1, near] + moves.edge_B[near] + moves.step_D
        voiced_K = scores.voiced_TK[t - 1] + moves.edge_B[bin_TK[t - 1]] + moves.by_distance[bin_TK[t - 1] - bin]
        unvoiced_D += _CHANGE if is_voiced else _STAY
        voiced_K += _STAY if is_voiced else _CHANGE
    return f0_T
