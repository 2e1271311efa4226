"""Recognition of audio while it comes: sessions, of which many share every step of the network.

    with asr.session(lookahead=6) as session:
        for samples in microphone:
            update = session.feed(samples)
            print(update.text, update.pending)
        print(session.finish().text)

Until something can be heard nothing is recognised, as in a recording without sound; pauses are cut as out of recordings
(`features.longest_pause`), by what has been loudest so far, and cost nothing. Audio is taken in steps of fixed
size, wherever the feeds end, so their sizes change nothing. What is kept of a stream has constant size. Models that are
made for it (`network.streaming.lookahead_of`) compute nothing twice; others encode chunks with context on both sides.

Every pool has one thread, which alone touches what its streams share. What may be called by anyone puts a message into
its inbox, and is given a future.

Shapes: B streams of a step, N samples, S encoder frames, C encoder width.
"""

import contextlib
import math
import queue
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from common.audio.silence import Cut
from common.recognition.output.transcripts import Word, text_of
from common.recognition.reading import gives
from common.recognition.sources.recordings import Recording
from common.text.pieces import word_groups
from fastconformer.hearing.greedy import CTCDecoding, DecodingState, TransducerDecoding
from fastconformer.hearing.searching import SearchDecoding
from fastconformer.hearing.streaming.frames import CachedFrames, ChunkedFrames, frames_of
from fastconformer.hearing.streaming.sessions import Coming, Feed, Session, Update, checked_samples
from fastconformer.hypotheses import NOTHING, PieceHypothesis, joined
from fastconformer.listening import Listener

BATCH = 64
"""Streams of a step of the network, at most."""
SETTLED_SECONDS = 1.0
"""Audio without a further piece after which a word is over, though no other has begun."""
MOST_OPEN = 64
"""Pieces of a word that is not over: of a longer one, all but the last are given."""
CLOSED = "this session is over, or of another pool; start one with session()"


class Pool:
    """Streams that share the steps of a network. `Recognizer.pool` makes it."""

    def __init__(
        self,
        asr: Listener,
        frames: CachedFrames | ChunkedFrames,
        *,
        greedy: TransducerDecoding | CTCDecoding,
        words: Callable[[PieceHypothesis, Recording], list[Word]],
        decoder: SearchDecoding | None = None,
        delay_seconds: float = 0.0,
        idle_seconds: float = math.inf,
    ) -> None:
        """`greedy`: what decodes without a `decoder`; `words`: those of a hypothesis, with their times in a recording.
        `delay_seconds`: how long a step that could be taken waits for those of other streams.
        `idle_seconds`: after which a session that is fed nothing is closed.

        Raises ValueError for a decoder that wants all frames at once, or gives several transcripts.
        """
        self.asr, self.frames, self.decoder, self.words = asr, frames, decoder, words
        self.delay_seconds, self.idle_seconds = delay_seconds, idle_seconds
        if decoder is not None and (decoder.in_parts is None or decoder.options.n_best > 1):
            wanted = "expected n_best = 1, and no thorough search; a search also needs the native library"
            raise ValueError(f"decoder: streams have one transcript: {wanted}")
        self.decoding = greedy if decoder is None or decoder.in_parts is None else decoder.in_parts
        self.held: dict[int, weakref.ref[Session]] = {}  # slots that streams have
        self._active: dict[Session, float] = {}  # those with feeds, and when their next step is due
        # Its `put` may be called wherever garbage is collected.
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(weakref.ref(self), self._inbox), name="streams", daemon=True).start()
        weakref.finalize(self, self._inbox.put, None).atexit = False

    def session(self, *, hot_words: Iterable[str] = ()) -> Session:
        """A new stream. `hot_words`: words or phrases to favour in it, where the pool has a decoder.

        Raises ConfigError for words that the pieces cannot spell, ValueError for words without a decoder.
        """
        words, scorer = tuple(hot_words), None
        if self.decoder is not None:
            scorer = self.decoder.scorer_with(words)
        elif words:
            raise ValueError("hot_words: expected a pool with a decoder")
        return Session(self, self.decoding.start(scorer))

    def feed(self, feeds: Iterable[tuple[Session, np.ndarray | Tensor]]) -> list[Coming]:
        """What samples of several sessions bring, as `Session.feed`; their steps are taken together.

        What is wrong with one of them is raised by its own update.
        """
        return self._put([Feed(session, samples, Coming()) for session, samples in feeds])

    def finish(self, sessions: Iterable[Session]) -> list[Coming]:
        """Ends several sessions, as `Session.finish`."""
        return self._put([Feed(session, None, Coming()) for session in sessions])

    def leave(self, session: Session) -> None:
        """Drops what is under way of a session."""
        self._inbox.put(weakref.ref(session))

    @property
    def bytes_per_stream(self) -> int:
        """Memory that is kept of a stream: of the encoder and of the decoder, its last samples apart."""
        return self.frames.bytes_per_stream + self.decoding.start().nbytes

    def _put(self, feeds: list[Feed]) -> list[Coming]:
        taken = []
        for session, samples, coming in feeds:
            coming.set_running_or_notify_cancel()  # samples that have been fed cannot be taken back
            try:
                samples_N = None if samples is None else checked_samples(samples)
                if session.pool is not self or session.has_ended:
                    raise ValueError(session.error or CLOSED)
            except ValueError as error:
                coming.set_exception(error)
                continue
            session.has_ended = samples_N is None
            taken.append(Feed(session, samples_N, coming))
        self._inbox.put(taken)
        return [feed.coming for feed in feeds]

    # From here on: in the thread of `_serve`.

    def _take(self, message: list[Feed] | weakref.ref[Session] | int) -> None:
        """Feeds, a session to close, or the slot of one that nobody refers to."""
        if isinstance(message, int):
            self._free(message)
        elif isinstance(message, list):
            for feed in message:
                if feed.session.is_over:
                    feed.coming.set_exception(ValueError(CLOSED))
                    continue
                feed.session.used = time.monotonic()
                feed.session.waiting.append(feed)
                if feed.session not in self._active:
                    self._begin(feed.session)
        elif (closed := message()) is not None:
            self._close(closed)

    def _begin(self, session: Session) -> None:
        """Takes the samples of the next feed that waits."""
        samples_N = session.waiting[0].samples_N
        if samples_N is None:
            samples_N, session.is_over = np.zeros(0, np.float32), True
        try:
            session.add(samples_N, last=session.is_over)
        except Exception as error:  # without memory, say: this thread goes on for the others
            session.error = f"the stream broke off: {error!r}"
        self._active[session] = time.monotonic()

    def _wait_seconds(self) -> float | None:
        """Until there is something to do, if no message comes; None for ever."""
        now = time.monotonic()
        if not self._active:
            used = [session.used for ref in self.held.values() if (session := ref()) is not None]
            return max(0.0, min(used) + self.idle_seconds - now) if used and self.idle_seconds < math.inf else None
        due = min(self._active.values())
        all_wait = len(self._active) >= min(BATCH, len(self.held))
        return 0.0 if all_wait or due > now else max(0.0, due + self.delay_seconds - now)

    def _work(self) -> None:
        """Updates that are complete, and a step of the streams that are due first, once one of them is."""
        self._answer()
        if self._active and self._wait_seconds() == 0.0:
            ready = sorted(self._active, key=self._active.__getitem__)[:BATCH]
            done = [session.done for session in ready]
            try:
                for session in ready:
                    self._open(session)
                self._step(ready)
            except Exception as error:
                for session in ready:
                    session.error = f"the stream broke off: {error!r}"
            for session, before in zip(ready, done, strict=True):
                # A feed of an hour is due second by second: streams in real time go before it.
                self._active[session] += self.asr.seconds_per_frame * (session.done - before)
            self._answer()
        if self.idle_seconds < math.inf:
            for ref in list(self.held.values()):
                idle = ref()
                if idle is not None and not idle.waiting and idle.used + self.idle_seconds <= time.monotonic():
                    idle.has_ended, idle.error = True, f"closed: nothing was fed for {self.idle_seconds:g} s"
                    self._close(idle)

    def _answer(self) -> None:
        """The updates of feeds whose steps have all been taken; then the next feeds of their streams are begun."""
        for session in list(self._active):
            while session in self._active and (session.error or not self.frames.is_ready(session)):
                feed = session.waiting.popleft()
                del self._active[session]
                session.samples_N = session.samples_N.copy()
                try:
                    update = self._update(session)
                except Exception as error:
                    session.error = f"the stream broke off: {error!r}"
                    update = Update([], "", "", session.error)
                if session.is_over:
                    self._close(session)
                elif session.waiting:
                    self._begin(session)
                feed.coming.set_result(update)

    def _close(self, session: Session) -> None:
        session.is_over = True
        self._active.pop(session, None)
        for feed in session.waiting:
            feed.coming.set_exception(ValueError(session.error or CLOSED))
        session.waiting.clear()
        self._free(session.slot)

    def _open(self, session: Session) -> None:
        """Gives the session the first slot that nobody has."""
        if session.slot < 0:
            session.slot = next(slot for slot in range(len(self.held) + 1) if slot not in self.held)
            self.held[session.slot] = weakref.ref(session)
            weakref.finalize(session, self._inbox.put, session.slot).atexit = False
            self.frames.open(session.slot)

    def _free(self, slot: int) -> None:
        """Once its session is over, or nobody refers to it."""
        owner = self.held.get(slot, lambda: None)()
        if slot in self.held and (owner is None or owner.is_over):
            del self.held[slot]
            with contextlib.suppress(RuntimeError):  # torch's, without memory for the smaller one beside the larger
                self.frames.shrink(max(self.held, default=-1) + 1)

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
                session.error = gives("NaN", self.asr.precision)
                encoded_SC.zero_()
        progress = [session.progress.copy() if session.error else session.progress for session in sessions]
        found = self.decoded(frames.encoded_BSC, frames.first, frames.end, progress)
        for session, own in zip(sessions, found, strict=True):
            if not session.error:
                session.heard = joined([session.heard, own], self.asr.pieces)
        progress, ahead = [own.copy() for own in progress], [NOTHING] * len(sessions)
        if frames.stop != frames.end:
            ahead = self.decoded(frames.encoded_BSC, frames.end, frames.stop, progress)
        for session, *parts in zip(sessions, ahead, self.decoding.end(progress), strict=True):
            session.ahead = NOTHING if session.error else joined(parts, self.asr.pieces)
            session.is_spelled = False

    def decoded(
        self, encoded_BSC: Tensor, first: Sequence[int], end: Sequence[int], progress: Sequence[DecodingState]
    ) -> list[PieceHypothesis]:
        """What is in the frames from `first` to `end` of each row, which follow those before."""
        parts = [encoded_SC[a:b] for encoded_SC, a, b in zip(encoded_BSC, first, end, strict=True)]
        return self.decoding(pad_sequence(parts, batch_first=True), [len(part) for part in parts], progress=progress)

    def _update(self, session: Session) -> Update:
        """The words that are over, the text that stays, and the rest."""
        pause = session.pauses.pause / self.asr.feature_config.sample_rate if session.pauses else 0.0
        if pause and frames_of(self.asr, session.samples) > session.done:
            pause = 0.0  # some of what was said before it waits for what follows
        is_settled = pause >= SETTLED_SECONDS and bool(session.heard.tokens)
        if session.is_spelled and not session.is_over and not is_settled:  # no step has been taken
            return Update([], "", session.pending, session.error)
        session.is_spelled = True
        pieces, heard, ahead = self.asr.pieces, session.heard, session.ahead
        if session.is_over:
            heard, ahead = joined([heard, *self.decoding.end([session.progress])], pieces), NOTHING
        delta = self._delta(session, heard.tokens)
        groups = word_groups(pieces, heard.tokens)
        cut = len(heard.tokens) if session.is_over else groups[-1].start if groups else 0
        if cut < len(heard.tokens):
            last = heard.frames[-1] + (heard.durations[-1] if heard.durations else 1)
            silent_seconds = pause + (session.done - session.unheard - last) * self.asr.seconds_per_frame
            if silent_seconds >= SETTLED_SECONDS and not ahead.tokens:
                cut = len(heard.tokens)
            elif len(heard.tokens) - cut > MOST_OPEN:
                cut = len(heard.tokens) - 1
            cut = pieces.whole(heard.tokens[:cut])
        session.heard = heard.part(cut, None)
        session.given -= cut
        words, following = self._words(session, heard.part(0, cut)), self._words(session, session.heard)
        if words and following and following[0].start > words[-1].start:
            words[-1] = words[-1]._replace(end=min(words[-1].end, following[0].start))
        session.pending = text_of(self._words(session, joined([session.heard, ahead], pieces)))
        return Update(words, text_of(words), session.pending, session.error, delta)

    def _delta(self, session: Session, tokens: Sequence[int]) -> str:
        """The text of pieces that no delta had. A space waits for what follows it."""
        whole = len(tokens) if session.is_over else self.asr.pieces.whole(tokens)
        text = (session.space or "") + self.asr.pieces.spelled(tokens[session.given : whole])
        session.given = whole
        text = re.sub(r"\s+", " ", text if session.space is not None else text.lstrip())
        if text:
            session.space = " " if text.endswith(" ") else ""
        return text.rstrip()

    def _words(self, session: Session, hypothesis: PieceHypothesis) -> list[Word]:
        before = session.unheard * self.asr.seconds_per_frame
        cuts = [Cut(0.0, 0.0), *(session.pauses.cuts if session.pauses else [])]
        own = tuple(Cut(cut.at - before, cut.before + before) for cut in cuts)
        seconds = session.fed / self.asr.feature_config.sample_rate
        return self.words(hypothesis, Recording("stream", session.samples_N, seconds, own))


def _serve(ref: "weakref.ref[Pool]", inbox: "queue.SimpleQueue[Any]") -> None:
    """Takes messages and does what they ask for, until nothing refers to the pool."""
    pool, wait = None, None
    while True:
        messages = []
        try:
            messages.append(inbox.get(timeout=wait))
            while True:
                messages.append(inbox.get_nowait())
        except queue.Empty:
            pass
        pool = ref()
        if pool is None:
            return
        for message in messages:
            pool._take(message)
        messages = message = None  # type: ignore[assignment]  # nothing of them is held while there is nothing to do
        pool._work()
        wait = pool._wait_seconds()
        if not pool._active:  # with feeds it is held: an update is awaited, though perhaps no session
            pool = None
