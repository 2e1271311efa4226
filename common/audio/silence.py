"""Silence: cut out of recordings, and put around and into utterances that a recogniser learns from.

Legend of shapes: N samples.
"""

import itertools
import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.audio.waveform import INAUDIBLE
from common.config import check_not_negative, check_shares

SILENCE_FRAME = 2048  # samples over which loudness is measured
SILENCE_HOP = 512  # samples between two measurements; divides SILENCE_FRAME
FRAMES_PER_SECOND = 100  # in which pauses are measured
SOUND_FRAMES = 4  # that are loud, one after the other, are a sound, and no click
DECAY_DB = 1.0  # per second: how much less a loud sound counts for what is far from it
MOST_DECAY_DB = 20.0
STEADY_FRAMES = 50  # in which noise hardly changes, and speech does
STEADY_DB = 6.0  # by which it changes at most
STEADY_BELOW_DB = 13.0  # the loudest sound; steady sounds that are louder may be fricatives and vowels
ONSET_DB = -40.0  # of full scale: what is louder is no noise before the first word, nor what rises by STEADY_BELOW_DB
ONSET_FRAMES = 30  # in which a first sound becomes no louder: the loudest of it has been heard
RISE_DB = 3.0  # by which it becomes louder
SILENT_FRAMES = 5  # one after the other are a silence; fewer may be the closure of a stop
SILENT_DB = 60.0  # below the loudest sound, from which on there is nothing worth keeping, as published trimming has it
NOISE_DB = (-80.0, -50.0)  # of full scale: noise that training hears in place of silence
INAUDIBLE_DB = 20 * math.log10(INAUDIBLE)
ALONE = 0.06  # share of the utterances that are nothing but silence, where training hears silences


@dataclass(frozen=True, kw_only=True)
class SilenceConfig:
    """Silence around and between the words of training utterances, as edits, telephones and codecs make it."""

    probability: float = 0.0
    """Share of the utterances with silences; 0 for none."""
    max_seconds: float = 0.3
    """Greatest length of a silence in seconds; longer than pauses are cut to, so that many are of that length."""

    def __post_init__(self) -> None:
        check_shares(self, "probability")
        check_not_negative(self, "max_seconds")


def with_silences(
    samples_N: np.ndarray,
    word_ends: Sequence[int],
    cfg: SilenceConfig,
    random: np.random.Generator,
    *,
    sample_rate: int,
) -> np.ndarray:
    """Float32 samples [N] with silences before and after, each in half of all cases, and after some of the words, which
    end at these samples; all of one level, as a recording has it."""
    level = silence_level(random)

    def drawn(low: float) -> np.ndarray:
        seconds = max(0.0, random.uniform(low, 1.0)) * cfg.max_seconds
        return silence(round(seconds * sample_rate), level, random)

    ends = np.array([end for end in word_ends[:-1] if 0 < end < len(samples_N)], np.int64)
    pieces = [drawn(-1.0)]
    for part_N in np.split(samples_N, ends[random.random(len(ends)) < random.random()]):
        pieces += [part_N, drawn(0.0)]
    return np.concatenate([*pieces[:-1], drawn(-1.0)])


def silence_level(random: np.random.Generator) -> float:
    """The deviation of a silence: zero in a third of all cases, or of noise of `NOISE_DB`."""
    return 0.0 if random.random() < 1 / 3 else 10 ** (random.uniform(*NOISE_DB) / 20)


def silence(samples: int, level: float, random: np.random.Generator) -> np.ndarray:
    """So many samples of white noise of that deviation, float32."""
    return random.standard_normal(samples, np.float32) * np.float32(level)


@dataclass(frozen=True)
class Cut:
    """From `at` seconds of what is kept of a recording on, `before` seconds of the recording are missing."""

    at: float
    before: float


def in_recording(cuts: Sequence[Cut], seconds: float, *, is_end: bool = False) -> float:
    """The time in a recording of a time in what is kept of it; an end where something was cut is before it."""
    found = (bisect_left if is_end else bisect_right)(cuts, seconds, key=lambda cut: cut.at)
    return seconds + (cuts[found - 1].before if found else 0.0)


def cuts_of(kept_K2: np.ndarray, sample_rate: int) -> tuple[Cut, ...]:
    """The cuts of a recording of which these samples are kept, first and end of each part; none for nothing cut."""
    at_K = np.cumsum(kept_K2[:, 1] - kept_K2[:, 0]) - (kept_K2[:, 1] - kept_K2[:, 0])
    parts = zip(at_K.tolist(), kept_K2[:, 0].tolist(), strict=True)
    return tuple(Cut(at / sample_rate, (first - at) / sample_rate) for at, first in parts if first > at)


Keep = Callable[[Iterable[np.ndarray]], np.ndarray]
"""What finds the samples [K, 2] to keep, first and end of each part, the last one maybe beyond the recording's, of all
samples of a recording in blocks."""


def keeper(sample_rate: int, *, longest_pause: float = 0.0, pause_db: float = 0.0, trim: bool = False) -> Keep | None:
    """What cuts pauses to `longest_pause` seconds, or, where that is 0, with `trim` the silence off the ends."""
    if longest_pause:
        return Pauses(sample_rate, longest_pause, pause_db)
    return loud_part if trim else None


def kept(samples_N: np.ndarray, kept_K2: np.ndarray) -> np.ndarray:
    """The samples of these parts; of a single one a view."""
    parts = [samples_N[first:end] for first, end in kept_K2]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class Pauses:
    """Cuts longer pauses to `longest` seconds, at the ends to half of it; calling it gives the samples that are kept.

    A pause is what is more than `top_db` below the loudest sound. That is one of at least `SOUND_FRAMES`, so that a
    click does not count; it counts for a quieter voice the less the farther it is away: by `DECAY_DB` a second, and by
    `MOST_DECAY_DB` at most. What stays within `STEADY_DB` for `STEADY_FRAMES` is noise: it is a pause however long it
    lasts, and from `STEADY_BELOW_DB` below the loudest sound on, since voices may be that quiet. Of a pause its
    beginning and its end are kept, so that quiet sounds there are. What is more than `SILENT_DB` below, digital zeros
    above all, goes as a whole, at the ends and where it is more than `SILENT_FRAMES` long.
    """

    sample_rate: int
    longest: float
    top_db: float

    def __call__(self, blocks: Iterable[np.ndarray]) -> np.ndarray:
        """The samples [K, 2] to keep of these blocks of all."""
        frame = self.sample_rate // FRAMES_PER_SECOND
        energy_T, rest = energies(blocks, frame)
        if len(rest):
            energy_T = np.append(energy_T, rest @ rest * frame / len(rest))
        level_T = decibels(energy_T / frame)
        lasting_T = sliding_minimum(level_T, SOUND_FRAMES)
        slope_T = np.arange(len(lasting_T)) * (DECAY_DB / FRAMES_PER_SECOND)
        after_T = np.maximum.accumulate(lasting_T + slope_T) - slope_T
        before_T = np.maximum.accumulate(lasting_T[::-1] + slope_T)[::-1] - slope_T[::-1]
        loudest_T = np.maximum(np.maximum(after_T, before_T), lasting_T.max(initial=-np.inf) - MOST_DECAY_DB)
        is_faint_T = level_T < lasting_T.max(initial=-np.inf) - STEADY_BELOW_DB
        is_pause_T = (level_T < loudest_T - self.top_db) | (_is_steady(level_T) & is_faint_T)
        pauses_P2, silences_P2 = _runs(is_pause_T), _runs(level_T < loudest_T - SILENT_DB)
        side, frames = side_frames(self.longest), len(level_T)
        is_kept_T = np.ones(frames, bool)
        for first, end in pauses_P2:
            is_kept_T[first + side if first else 0 : max(0, end - side) if end < frames else end] = False
        for first, end in silences_P2:
            is_kept_T[first:end] &= not (first == 0 or end == frames or end - first > SILENT_FRAMES)
        return _runs(is_kept_T) * frame if frames else np.zeros((1, 2), np.int64)


def _runs(is_T: np.ndarray) -> np.ndarray:
    """The first place and the end of each run of truths."""
    return np.flatnonzero(np.diff(is_T, prepend=False, append=False)).reshape(-1, 2)


def _is_steady(level_T: np.ndarray) -> np.ndarray:
    """Whether a level is among `STEADY_FRAMES` that differ by less than `STEADY_DB`."""
    if len(level_T) < STEADY_FRAMES:
        return np.zeros(len(level_T), bool)
    level_WT = np.lib.stride_tricks.sliding_window_view(level_T, STEADY_FRAMES)
    is_steady_W = np.pad(level_WT.max(-1) - level_WT.min(-1) < STEADY_DB, STEADY_FRAMES - 1)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(is_steady_W, STEADY_FRAMES).any(-1))


def side_frames(longest: float) -> int:
    """Frames that are kept of each side of a pause."""
    return max(1, round(longest * FRAMES_PER_SECOND / 2))


def decibels(power_T: np.ndarray) -> np.ndarray:
    """Levels of full scale, -120 at least."""
    return 10 * np.log10(np.maximum(power_T, 1e-12))


def sliding_minimum(level_T: np.ndarray, width: int) -> np.ndarray:
    """The least of each level and those before it, `width` in all; before the first all are as loud as it."""
    padded = np.concatenate([np.repeat(level_T[:1], width - 1), level_T])
    return np.lib.stride_tricks.sliding_window_view(padded, width).min(-1) if len(level_T) else level_T


class StreamPauses:
    """`Pauses` of a stream, of which only what has come so far is known; what nobody hears is a pause too.

    Its beginning waits until something has risen out of it, so that noise before the first word is a pause.
    """

    def __init__(self, pauses: Pauses) -> None:
        self.sample_rate, self._top_db = pauses.sample_rate, pauses.top_db
        self.frame, self._side = pauses.sample_rate // FRAMES_PER_SECOND, side_frames(pauses.longest)
        self.cuts: list[Cut] = []
        """What was cut out before and within the samples that were given out."""
        self._rest_N = np.zeros(0, np.float32)
        self._end: deque[np.ndarray] = deque(maxlen=self._side)  # of the pause: it is kept if something follows
        self._levels: deque[float] = deque(maxlen=STEADY_FRAMES)
        self._least = self._loudest = self._reference = INAUDIBLE_DB + pauses.top_db
        self._held: list[tuple[np.ndarray, float, bool]] | None = []  # of the beginning; None once it is over
        self._risen, self._waits = math.inf, ONSET_FRAMES
        self._given = self._missing = self._paused = 0
        self._silent: list[np.ndarray] = []  # what may be too short a silence to be cut
        self._silence = 0  # samples of the silence that the stream is in
        self._is_start = True

    @property
    def pause(self) -> int:
        """Samples of the pause that the stream is in."""
        return self._paused + self._silence

    def feed(self, samples_N: np.ndarray, *, last: bool = False) -> np.ndarray:
        """What is kept of samples, and of some that came before; all that is left with the last ones."""
        energy_T, rest_N = energies([self._rest_N, samples_N], self.frame)
        samples_N = np.concatenate([self._rest_N, samples_N])
        self._rest_N = rest_N
        if last and len(rest_N):
            energy_T = np.append(energy_T, rest_N @ rest_N * self.frame / len(rest_N))
        kept_N = [np.zeros(0, np.float32)]
        for t, level in enumerate(decibels(energy_T / self.frame).tolist()):
            kept_N += self._heard(samples_N[t * self.frame : (t + 1) * self.frame], level)
        return np.concatenate(kept_N + (self._begun() if last else []))

    def _heard(self, frame_N: np.ndarray, level: float) -> list[np.ndarray]:
        self._levels.append(level)
        lasting = min(itertools.islice(reversed(self._levels), SOUND_FRAMES))
        self._loudest = max(self._loudest, lasting)
        fallen = max(self._reference - DECAY_DB / FRAMES_PER_SECOND, self._loudest - MOST_DECAY_DB)
        self._reference = max(fallen, lasting, self._least)
        quietest = min(self._levels) if len(self._levels) == STEADY_FRAMES else -math.inf
        is_steady = max(self._levels) - quietest < STEADY_DB
        if self._held is None:
            return self._kept(frame_N, level, self._reference, is_steady=is_steady)
        self._held.append((frame_N, level, is_steady))
        audible = [each for each in self._levels if each >= INAUDIBLE_DB]
        has_risen = lasting >= ONSET_DB or (bool(audible) and max(audible) - min(audible) >= STEADY_BELOW_DB)
        if math.isinf(self._risen) and not has_risen:
            if len(self._held) > STEADY_FRAMES + self._side:
                passed = len(self._held.pop(0)[0])
                self._missing, self._paused = self._missing + passed, self._paused + passed
            return []
        self._waits -= 1
        if math.isinf(self._risen) or self._loudest >= self._risen + RISE_DB:
            self._risen, self._waits = self._loudest, ONSET_FRAMES
        return self._begun() if not self._waits else []

    def _begun(self) -> list[np.ndarray]:
        """What is kept of the beginning, now that something has risen out of it, or nothing more comes."""
        held, self._held, kept_N = self._held or [], None, list[np.ndarray]()
        for frame_N, level, is_steady in held:
            kept_N += self._kept(frame_N, level, self._loudest, is_steady=is_steady)
        return kept_N

    def _kept(self, frame_N: np.ndarray, level: float, reference: float, *, is_steady: bool) -> list[np.ndarray]:
        if level < max(reference - SILENT_DB, INAUDIBLE_DB):
            self._silence += len(frame_N)
            if len(self._silent) <= SILENT_FRAMES:
                self._silent.append(frame_N)
            return []
        kept_N = self._after_silence()
        self._is_start = False
        if level < reference - self._top_db or (is_steady and level < self._loudest - STEADY_BELOW_DB):
            return kept_N + self._of_pause(frame_N)
        if self._missing > (round(self.cuts[-1].before * self.sample_rate) if self.cuts else 0):
            self.cuts.append(Cut(self._given / self.sample_rate, self._missing / self.sample_rate))
        found_N = [*self._end, frame_N]
        self._end.clear()
        self._paused = 0
        self._given += sum(map(len, found_N))
        return kept_N + found_N

    def _after_silence(self) -> list[np.ndarray]:
        """What is kept of a silence that has ended."""
        silent_N, samples = self._silent, self._silence
        self._silent, self._silence = [], 0
        if not self._is_start and len(silent_N) <= SILENT_FRAMES:
            return [part_N for frame_N in silent_N for part_N in self._of_pause(frame_N)]
        self._missing += samples
        self._paused += samples
        for _ in range(min(self._side, samples // self.frame)):  # each has a place in the end of the pause
            self._to_end(np.zeros(0, np.float32))
        return []

    def _of_pause(self, frame_N: np.ndarray) -> list[np.ndarray]:
        self._paused += len(frame_N)
        if self._given and self._paused <= self._side * self.frame:
            self._given += len(frame_N)
            return [frame_N]
        self._to_end(frame_N)
        return []

    def _to_end(self, samples_N: np.ndarray) -> None:
        if len(self._end) == self._side:
            self._missing += len(self._end[0])
        self._end.append(samples_N)


class Trimmed(NamedTuple):
    """Sound without the silence at its ends: `samples` is a view of the whole, from its index `start`."""

    samples: np.ndarray
    start: int


def trim_silence(samples: np.ndarray, *, top_db: float = 60.0) -> Trimmed:
    """Cuts the ends of samples [N] that are more than `top_db` below the loudest frame.

    The same samples as `librosa.effects.trim` keeps: centred frames of 2048 every 512, floor -100 dB, so that
    digital silence as a whole is kept.
    """
    ((start, end),) = loud_part([samples], top_db=top_db)
    return Trimmed(samples[start:end], int(start))


def loud_part(blocks: Iterable[np.ndarray], *, top_db: float = 60.0) -> np.ndarray:
    """The samples [1, 2], maybe beyond the last one, that `trim_silence` keeps of these blocks of them."""
    level_db = 20 * np.log10(np.maximum(_frame_rms(blocks), 1e-5))
    loud = np.flatnonzero(level_db - level_db.max() > -top_db)
    return np.array([[loud[0], loud[-1] + 1]]) * SILENCE_HOP


def _frame_rms(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """Root mean square of each frame, centred at multiples of the hop; beyond the ends are zeros."""
    energy, rest = energies(blocks, SILENCE_HOP)
    parts_per_frame = SILENCE_FRAME // SILENCE_HOP
    before = np.zeros(parts_per_frame // 2, np.float32)
    after = np.zeros(parts_per_frame - 1 - len(before), np.float32)
    energy = np.concatenate([before, energy, np.atleast_1d(rest @ rest), after])
    return np.sqrt(np.lib.stride_tricks.sliding_window_view(energy, parts_per_frame).mean(axis=-1) / SILENCE_HOP)


def energies(blocks: Iterable[np.ndarray], hop: int) -> tuple[np.ndarray, np.ndarray]:
    """The energy of each `hop` samples, and the samples that are left at the end."""
    rest, found = np.zeros(0, np.float32), [np.zeros(0, np.float32)]
    for block in blocks:
        samples = np.concatenate([rest, block]) if len(rest) else block
        whole = len(samples) // hop
        parts, rest = samples[: whole * hop].reshape(whole, hop), samples[whole * hop :]
        found.append(np.einsum("bn,bn->b", parts, parts))
    return np.concatenate(found), rest
