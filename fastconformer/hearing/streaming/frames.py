"""Encoder frames of streams, step by step: of models that keep what they have computed, and of any other.

Shapes: B streams of a step, N samples, S encoder frames, C encoder width.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from common.devices.precision import float32_math
from common.recognition.cutting.tensors import padded
from fastconformer.hearing.streaming.sessions import Session
from fastconformer.listening import Listener
from fastconformer.network.streaming import UNKNOWN, EncoderStreams


class StepFrames(NamedTuple):
    """Encoder frames of a step, and which of them count: of each row those from `first` to `end`, and ahead of these
    until `stop` those that are encoded again with more of what follows."""

    encoded_BSC: Tensor
    first: list[int]
    end: list[int]
    stop: list[int]


class CachedFrames:
    """Frames of a model that keeps what it has computed."""

    def __init__(self, asr: Listener, lookahead: int) -> None:
        self.asr, self.streams = asr, EncoderStreams(asr.model.encoder, lookahead, asr.feature_config.mel_bins)
        features = asr.feature_config
        self.hop, self.size = features.hop_samples, asr.config.encoder.subsampling
        # Frames before a step that the transform and pre-emphasis reach into, and samples behind its last one.
        self.before = -(-(features.n_fft // 2 + 1) // self.hop)
        self.after = max(features.window_samples // 2 - self.hop, 0)

    def open(self, slot: int) -> None:
        """Makes the slot ready for a new stream."""
        if slot >= self.streams.slots:
            self.streams.resize(max(slot + 1, 2 * self.streams.slots))
        self.streams.clear(slot)

    def shrink(self, slots: int) -> None:
        """Frees what has room for many more than these."""
        if 4 * max(slots, 2) <= self.streams.slots:
            self.streams.resize(2 * max(slots, 2))

    def is_ready(self, session: Session) -> bool:
        """Whether the next step's samples are there."""
        if session.is_over:
            return session.done < frames_of(self.asr, session.samples)
        last_feature = self.size * (session.done + self.streams.frames - 1)
        return session.samples >= self.hop * (last_feature + 1) + self.after

    def step(self, sessions: Sequence[Session]) -> StepFrames:
        """The next frames of each, which must be ready."""
        length = (self.before + self.streams.feature_frames) * self.hop + self.after
        starts = [(self.size * (session.done - 1) + 1 - self.before) * self.hop for session in sessions]
        audio_BN = np.zeros((len(sessions), length), np.float32)
        for row, session, start in zip(audio_BN, sessions, starts, strict=True):
            samples_N = session.between(start, min(start + length, session.samples))
            row[: len(samples_N)] = samples_N
        samples = [min(length, max(0, s.samples - start)) for s, start in zip(sessions, starts, strict=True)]
        features_BFT, _ = self.asr.features(torch.from_numpy(audio_BN), torch.tensor(samples))
        features_BFT = features_BFT[:, :, self.before : self.before + self.streams.feature_frames]
        in_all = [self.asr.feature_config.frames(s.samples) if s.is_over else UNKNOWN for s in sessions]
        done = [session.done for session in sessions]
        with torch.inference_mode(), float32_math(self.asr.precision):
            encoded_BSC = self.streams.step(features_BFT, [s.slot for s in sessions], done, in_all).float()
        end = [
            min(self.streams.frames, frames_of(self.asr, s.samples) - s.done) if s.is_over else self.streams.frames
            for s in sessions
        ]
        for session, n, start in zip(sessions, end, starts, strict=True):
            session.done += n
            session.forget(start + self.streams.feature_frames * self.hop)
        return StepFrames(encoded_BSC, [0] * len(sessions), end, end)

    @property
    def bytes_per_stream(self) -> int:
        """Memory that is kept of a stream, its last samples apart."""
        return self.streams.bytes_per_stream


class ChunkedFrames:
    """Frames of any model: chunks, encoded with what was before them and a lookahead."""

    bytes_per_stream = 0

    def __init__(self, asr: Listener, *, chunk: int, left: int, lookahead: int) -> None:
        self.asr, self.chunk, self.left, self.lookahead = asr, chunk, left, lookahead
        self.size = asr.samples_per_frame

    def open(self, slot: int) -> None:
        """Nothing is kept of a stream but its samples."""

    def shrink(self, slots: int) -> None:
        """Nothing to free."""

    def is_ready(self, session: Session) -> bool:
        """Whether the next step's samples are there."""
        if self._ends(session):
            return session.done < frames_of(self.asr, session.samples)
        return session.samples >= self.size * (session.done + self.chunk + self.lookahead)

    def _ends(self, session: Session) -> bool:
        """Whether nothing follows what is kept: the stream is over, or pauses for longer than the lookahead."""
        pause = session.pauses.pause if session.pauses else 0
        return session.is_over or pause > self.size * self.lookahead

    def step(self, sessions: Sequence[Session]) -> StepFrames:
        """The next frames of each, which must be ready."""
        pieces, first, end, stop = [], [], [], []
        for session in sessions:
            last = frames_of(self.asr, session.samples) if self._ends(session) else UNKNOWN
            start = max(0, session.done - self.left)
            chunk_end = min(last, session.done + self.chunk)
            all_end = min(last, chunk_end + self.lookahead)
            pieces.append(session.between(self.size * start, min(session.samples, self.size * all_end)))
            first.append(session.done - start)
            end.append(chunk_end - start)
            stop.append(all_end - start)
            session.done = chunk_end
            session.forget(self.size * (chunk_end - self.left))
        encoded_BSC, _ = self.asr.encode(*self.asr.features(*padded(pieces, self.asr.device)))
        return StepFrames(encoded_BSC, first, end, stop)


def frames_of(asr: Listener, samples: int) -> int:
    """Encoder frames of so many samples."""
    return asr.model.encoder.output_frames(asr.feature_config.frames(samples))
