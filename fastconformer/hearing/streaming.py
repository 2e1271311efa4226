"""Recognition of audio while it comes: sessions, of which many share every step of the network.

    session = asr.session(lookahead=6)
    for samples in microphone:
        update = session.feed(samples)
        print(update.text, update.pending)
    print(session.finish().text)

Until something can be heard nothing is recognised, as in a recording without sound; pauses are cut as out of recordings
(`features.longest_pause`), by what has been loudest so far, and cost nothing. Audio is taken in steps of fixed
size, wherever the feeds end, so their sizes change nothing. What is kept of a stream has constant size. Models that are
made for it (`network.streaming.lookahead_of`) compute nothing twice; others encode chunks with context on both sides.

Shapes: B streams of a step, N samples, S encoder frames, C encoder width.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from common.audio.silence import Cut, Pauses, StreamPauses
from common.audio.waveform import INAUDIBLE, AudioError
from common.devices.precision import float32_math
from common.recognition.recordings import Recording, is_silent
from common.recognition.tensors import padded
from common.recognition.transcripts import Word
from common.text.pieces import word_groups
from fastconformer.hearing.searching import SearchDecoding
from fastconformer.hypotheses import NOTHING, Hypothesis, joined
from fastconformer.network.streaming import UNKNOWN, EncoderStreams
from fastconformer.transducer.decoder_state import DecodingState

if TYPE_CHECKING:
    from fastconformer.recognizer import Recognizer

BATCH = 64
"""Streams of a step of the network, at most."""


class Update(NamedTuple):
    """What a feed brings: words that are final, with times from the start of the stream, and what may still change."""

    words: list[Word]
    text: str
    """The new words. Texts of all updates, with spaces between them, are the transcript."""
    pending: str
    """The word that is not over yet, what is heard in the lookahead, and what a beam search has not settled."""
    error: str = ""
    """Why this stream gives no words any more."""


class Session:
    """A stream of audio. `Pool.session` and `Recognizer.session` make it."""

    def __init__(self, pool: "Pool", slot: int, progress: DecodingState) -> None:
        self.pool, self.slot, self.progress = pool, slot, progress
        keep = pool.asr.keep
        self.pauses = StreamPauses(keep) if isinstance(keep, Pauses) else None
        self.fed = 0  # samples
        self.samples_N = np.zeros(0, np.float32)
        self.first_sample = 0  # of samples_N, counted from the start of what is kept of the stream
        self.done = 0  # encoder frames
        self.unheard = 0  # of these, that came before anything could be heard, and were not decoded
        self.first_heard: int | None = None  # sample
        self.is_over = False
        self.heard = NOTHING  # of the word that is not over yet
        self.ahead = NOTHING  # of the lookahead
        self.error = ""

    @property
    def samples(self) -> int:
        """Samples kept so far."""
        return self.first_sample + len(self.samples_N)

    def feed(self, samples: np.ndarray | Tensor) -> Update:
        """Takes float samples [N] from -1 to 1 at the model's sample rate, and gives what is new.

        Raises AudioError for other arrays, ValueError after `finish`.
        """
        return self.pool.feed([(self, samples)])[0]

    def finish(self) -> Update:
        """Ends the stream, and gives what is left. Raises ValueError if it has ended before."""
        return self.pool.finish([self])[0]

    def add(self, samples_N: np.ndarray, *, last: bool = False) -> None:
        """Keeps samples of them, or all."""
        self.fed += len(samples_N)
        if self.pauses:
            samples_N = self.pauses.feed(samples_N, last=last)
        if self.first_heard is None and not is_silent(samples_N):
            self.first_heard = self.samples + int((np.abs(samples_N) > INAUDIBLE).argmax())
        if not self.error:
            self.samples_N = np.concatenate([self.samples_N, samples_N])

    def between(self, start: int, stop: int) -> np.ndarray:
        """Samples from `start` to `stop`, zeros before the first."""
        before = np.zeros(max(0, -start), np.float32)
        return np.concatenate([before, self.samples_N[max(0, start) - self.first_sample : stop - self.first_sample]])

    def forget(self, until: int) -> None:
        """Drops the samples before `until`; their memory goes when `Pool` copies what is left, once a feed."""
        n = min(max(0, until - self.first_sample), len(self.samples_N))
        self.samples_N, self.first_sample = self.samples_N[n:], self.first_sample + n


class StepFrames(NamedTuple):
    """Encoder frames of a step, and which of them count: of each row those from `first` to `end`, and ahead of these
    until `stop` those that are encoded again with more of what follows."""

    encoded_BSC: Tensor
    first: list[int]
    end: list[int]
    stop: list[int]


class CachedFrames:
    """Frames of a model that keeps what it has computed."""

    def __init__(self, asr: "Recognizer", lookahead: int) -> None:
        self.asr, self.streams = asr, EncoderStreams(asr.model.encoder, lookahead, asr.feature_config.mel_bins)
        features = asr.feature_config
        self.hop, self.size = features.hop_samples, asr.config.encoder.subsampling
        # Frames before a step that the transform and pre-emphasis reach into, and samples behind its last one.
        self.before = -(-(features.n_fft // 2 + 1) // self.hop)
        self.after = max(features.window_samples // 2 - self.hop, 0)

    def open(self, slot: int) -> None:
        """Makes the slot ready for a new stream."""
        if slot >= self.streams.slots:
            self.streams.grow(max(slot + 1, 2 * self.streams.slots))
        self.streams.clear(slot)

    def is_ready(self, session: Session) -> bool:
        """Whether the next step's samples are there."""
        if session.is_over:
            return session.done < _frames(self.asr, session.samples)
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
            min(self.streams.frames, _frames(self.asr, s.samples) - s.done) if s.is_over else self.streams.frames
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

    def __init__(self, asr: "Recognizer", *, chunk: int, left: int, lookahead: int) -> None:
        self.asr, self.chunk, self.left, self.lookahead = asr, chunk, left, lookahead
        self.size = asr.samples_per_frame

    def open(self, slot: int) -> None:
        """Nothing is kept of a stream but its samples."""

    def is_ready(self, session: Session) -> bool:
        """Whether the next step's samples are there."""
        if self._ends(session):
            return session.done < _frames(self.asr, session.samples)
        return session.samples >= self.size * (session.done + self.chunk + self.lookahead)

    def _ends(self, session: Session) -> bool:
        """Whether nothing follows what is kept: the stream is over, or pauses for longer than the lookahead."""
        pause = session.pauses.pause if session.pauses else 0
        return session.is_over or pause > self.size * self.lookahead

    def step(self, sessions: Sequence[Session]) -> StepFrames:
        """The next frames of each, which must be ready."""
        pieces, first, end, stop = [], [], [], []
        for session in sessions:
            last = _frames(self.asr, session.samples) if self._ends(session) else UNKNOWN
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


class Pool:
    """Streams that share the steps of a network. `Recognizer.pool` makes it."""

    def __init__(
        self,
        asr: "Recognizer",
        frames: CachedFrames | ChunkedFrames,
        *,
        max_symbols: int,
        decoder: SearchDecoding | None = None,
    ) -> None:
        """Raises ValueError for a decoder that wants all frames at once, or gives several transcripts."""
        self.asr, self.frames, self.max_symbols, self.decoder = asr, frames, max_symbols, decoder
        if decoder is not None and (decoder.in_parts is None or decoder.options.n_best > 1):
            raise ValueError("decoder: streams have one transcript: expected n_best = 1, and no thorough search")
        self.decoding = asr.decoding() if decoder is None or decoder.in_parts is None else decoder.in_parts
        self._free: list[int] = []
        self._slots = 0

    def session(self, *, hot_words: Iterable[str] = ()) -> Session:
        """A new stream. `hot_words`: words or phrases to favour in it, where the pool has a decoder.

        Raises ConfigError for words that the pieces cannot spell, ValueError for words without a decoder.
        """
        words, scorer = tuple(hot_words), None
        if self.decoder is not None:
            scorer = self.decoder.scorer_with(words)
        elif words:
            raise ValueError("hot_words: expected a pool with a decoder")
        progress = self.decoding.start(1, scorer)
        if not self._free:
            self._free.append(self._slots)
            self._slots += 1
        slot = self._free.pop()
        self.frames.open(slot)
        return Session(self, slot, progress)

    def feed(self, feeds: Iterable[tuple[Session, np.ndarray | Tensor]]) -> list[Update]:
        """What samples of several sessions bring, as `Session.feed`; their steps are taken together."""
        taken = [(session, _samples(samples)) for session, samples in feeds]
        self._check([session for session, _ in taken])
        for session, samples_N in taken:
            session.add(samples_N)
        return self._updates([session for session, _ in taken])

    def finish(self, sessions: Iterable[Session]) -> list[Update]:
        """Ends several sessions, as `Session.finish`."""
        ending = list(sessions)
        self._check(ending, once=True)
        for session in ending:
            session.add(np.zeros(0, np.float32), last=True)
            session.is_over = True
        updates = self._updates(ending)
        self._free += [session.slot for session in ending]
        return updates

    @property
    def bytes_per_stream(self) -> int:
        """Memory that is kept of a stream: of the encoder and of the decoder, its last samples apart."""
        return self.frames.bytes_per_stream + self.decoding.start(1).nbytes

    def _check(self, sessions: Sequence[Session], *, once: bool = False) -> None:
        is_twice = once and len(set(sessions)) < len(sessions)
        if is_twice or any(session.pool is not self or session.is_over for session in sessions):
            raise ValueError("this session is over, or of another pool; start one with session()")

    def _updates(self, sessions: Sequence[Session]) -> list[Update]:
        while ready := [s for s in dict.fromkeys(sessions) if not s.error and self.frames.is_ready(s)]:
            for first in range(0, len(ready), BATCH):
                self._step(ready[first : first + BATCH])
        for session in sessions:
            session.samples_N = session.samples_N.copy()
        return [self._update(session) for session in sessions]

    @torch.inference_mode()
    def _step(self, sessions: Sequence[Session]) -> None:
        frames = self.frames.step(sessions)
        for row, session in enumerate(sessions):
            until = self.asr.samples_per_frame * (session.done + frames.stop[row] - frames.end[row])
            if session.first_heard is None or session.first_heard >= until:
                session.unheard = session.done
                frames.first[row] = frames.end[row] = frames.stop[row] = 0
        bounds = zip(frames.encoded_BSC, frames.first, frames.end, frames.stop, strict=True)
        for session, (encoded_SC, first, _, stop) in zip(sessions, bounds, strict=True):
            if bool(encoded_SC[first:stop].isnan().any()):
                advice = "take bf16 or fp32" if self.asr.precision == "fp16" else "its weights are damaged"
                session.error = f"the network gives NaN in {self.asr.precision}; {advice}"
                encoded_SC.zero_()
        progress = DecodingState.of([session.progress for session in sessions])
        found = self._decoded(frames.encoded_BSC, frames.first, frames.end, progress)
        for row, session in enumerate(sessions):
            if not session.error:
                session.progress = progress.row(row)
                session.heard = joined([session.heard, found[row]], self.asr.pieces)
        ahead = [NOTHING] * len(sessions)
        if frames.stop != frames.end:
            ahead = self._decoded(frames.encoded_BSC, frames.end, frames.stop, progress)
        for session, *parts in zip(sessions, ahead, self.decoding.end(progress), strict=True):
            session.ahead = NOTHING if session.error else joined(parts, self.asr.pieces)

    def _decoded(
        self, encoded_BSC: Tensor, first: Sequence[int], end: Sequence[int], progress: DecodingState
    ) -> list[Hypothesis]:
        parts = [encoded_SC[a:b] for encoded_SC, a, b in zip(encoded_BSC, first, end, strict=True)]
        return self.decoding(
            pad_sequence(parts, batch_first=True),
            [len(part) for part in parts],
            progress=progress,
            max_symbols=self.max_symbols,
        )

    def _update(self, session: Session) -> Update:
        """The words that no further piece can belong to, and the others. A word is over when the next one starts."""
        pieces, heard, ahead = self.asr.pieces, session.heard, session.ahead
        if session.is_over:
            heard, ahead = joined([heard, *self.decoding.end(session.progress)], pieces), NOTHING
        groups = word_groups(pieces, heard.tokens)
        cut = len(heard.tokens) if session.is_over else groups[-1].start if groups else 0
        session.heard = heard.part(cut, None)
        words = self._words(session, heard)
        n_open = len(self._words(session, session.heard))
        pending = self._words(session, joined([session.heard, ahead], pieces))
        words = words[: len(words) - n_open]
        return Update(words, _text(words), _text(pending), session.error)

    def _words(self, session: Session, hypothesis: Hypothesis) -> list[Word]:
        before = session.unheard * self.asr.seconds_per_frame
        cuts = [Cut(0.0, 0.0), *(session.pauses.cuts if session.pauses else [])]
        own = tuple(Cut(cut.at - before, cut.before + before) for cut in cuts)
        seconds = session.fed / self.asr.feature_config.sample_rate
        return self.asr.words(hypothesis, Recording("stream", session.samples_N, seconds, own))


def _text(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)


def _frames(asr: "Recognizer", samples: int) -> int:
    """Encoder frames of so many samples."""
    return asr.model.encoder.output_frames(asr.feature_config.frames(samples))


def _samples(samples: np.ndarray | Tensor) -> np.ndarray:
    if isinstance(samples, Tensor):  # NumPy has no bfloat16
        samples = (samples.float() if samples.is_floating_point() else samples).detach().cpu().numpy()
    samples_N = np.asarray(samples)
    if samples_N.dtype.kind != "f" or samples_N.ndim != 1 or not np.isfinite(samples_N).all():
        raise AudioError(
            f"array of {samples_N.dtype}, shape {samples_N.shape}: expected finite floating-point samples [N], mono, "
            "from -1 to 1"
        )
    return samples_N.astype(np.float32, copy=False)
