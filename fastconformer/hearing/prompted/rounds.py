"""Recordings of any length in stretches, of which those of several recordings are heard in a round. Needs no torch.

Shapes: N samples.
"""

import contextlib
import functools
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from common.devices import memory
from common.recognition.cutting.chunks import WINDOW, by_length
from common.recognition.cutting.pauses import SoundStretch, stretches
from common.recognition.output.transcripts import Transcript
from common.recognition.sources.recordings import Recording, is_silent
from fastconformer.attention.config import Times
from fastconformer.attention.prompt import Wanted
from fastconformer.hearing.prompted.decoding import BEAM, AttentionDecoding, HeardFrames
from fastconformer.hearing.prompted.gaps import (
    AT_ONCE,
    CTC_WEIGHT,
    JudgedPart,
    is_better,
    judged,
    parts_of,
    united,
    without_sounds,
)
from fastconformer.hearing.prompted.network import PromptedNetwork
from fastconformer.hearing.prompted.texts import HeardPart, transcript_of

PREFERRED_SHARE = 6 / 7  # of the longest stretch: after half of this it ends in the longest pause
SHORTEST_SECONDS = 1.0
MOST_WASTED = 2.1
"""How often a recording is heard again, at most, without texts that are much less doubtful: all of it may be noise."""
OVERLAP_SECONDS = 1.0
"""What two stretches both hear around a seam that is in no pause, where words have times by which to join them."""


class AskedStretch(NamedTuple):
    """Samples that are heard at once: of which recording, and what is to be written."""

    of: "OpenRecording"
    sound: SoundStretch
    wanted: Wanted


@dataclass(eq=False)
class OpenRecording:
    """A recording that is being heard."""

    recording: Recording
    wanted: Wanted
    coming: Iterator[SoundStretch]
    parts: list[JudgedPart] = field(default_factory=list)
    is_over: bool = False
    heard: int = 0
    """Samples of its stretches."""
    wasted: int = 0
    """Samples that were heard again, or are, and gave no text that was said and of which half as much is doubtful, or
    which is more probable than an unsure one."""
    unspoken: int = 0
    """Samples of stretches in which nothing that was said is heard, in parts neither."""


@dataclass(kw_only=True)
class Rounds:
    """How recordings are heard, by a network."""

    network: PromptedNetwork
    decoder: AttentionDecoding
    times: Times
    batch_size: int
    chunk_seconds: float
    handed: int = 0
    """Last words of a recording's text that its next stretch is told."""

    def opened(self, recording: Recording, wanted: Wanted) -> OpenRecording:
        """A recording, of which this is wanted."""
        longest = self.chunk_seconds
        coming = stretches(
            recording.samples_N,
            self.network.sample_rate,
            preferred=longest * PREFERRED_SHARE,
            longest=longest,
            overlap=self._overlap(wanted, longest),
        )
        return OpenRecording(recording, wanted, coming)

    def transcripts(self, opened: Iterator[OpenRecording]) -> Iterator[Transcript]:
        """The transcripts of recordings, of which so many stretches are heard in a round as fill a few batches.

        With words handed on, a round has one stretch of each recording, and as many recordings as a batch.
        """
        network, batch_size = self.network, self.batch_size
        most_samples = batch_size * self.chunk_seconds * network.sample_rate
        live: deque[OpenRecording] = deque()
        is_more = True
        while live or is_more:
            heard: list[AskedStretch] = []
            samples = 0
            for at in itertools.count():
                if at == len(live) and is_more:
                    if (fresh := next(opened, None)) is not None:
                        live.append(fresh)
                    is_more = fresh is not None
                if at >= len(live):
                    break
                while not live[at].is_over and len(heard) < WINDOW * batch_size and samples < most_samples:
                    stretch = self._next(live[at])
                    if stretch is not None:
                        heard.append(stretch)
                        samples += len(stretch.sound.samples_N)
                        if self.handed:
                            break
                if samples >= most_samples or len(heard) >= (batch_size if self.handed else WINDOW * batch_size):
                    break
            for one, parts in zip(heard, self.heard(heard), strict=True):
                one.of.parts += parts
                without_sounds(one.of.parts, len(parts))
            if samples >= most_samples:
                memory.give_back()
            while live and live[0].is_over:
                done = live.popleft()
                self._mend_seams(done)
                language = done.wanted.target_language or done.wanted.source_language or network.attention.language
                yield transcript_of(
                    done.recording, [one.written for one in done.parts], network.pieces, language=language,
                    seconds_per_frame=network.seconds_per_frame,
                )  # fmt: skip

    def heard(self, spoken: Sequence[AskedStretch]) -> list[list[JudgedPart]]:
        """What is said in each stretch: in one part, or in several where one text for all of it would not do."""
        found = []
        for stretch, whole in zip(spoken, self._as_wholes(spoken, self.batch_size), strict=True):
            stretch.of.heard += len(stretch.sound.samples_N)
            found.append(self._in_parts(stretch, whole))
            is_unspoken = all(part.is_invented for part in found[-1])
            stretch.of.unspoken += len(stretch.sound.samples_N) if is_unspoken else 0
        return found

    def _overlap(self, wanted: Wanted, longest: float) -> float:
        """Seconds that two stretches both hear where they do not meet in a pause."""
        return min(OVERLAP_SECONDS, longest / 4) if self.network._tells_times(self.times, wanted) else 0.0

    def _next(self, one: OpenRecording) -> AskedStretch | None:
        """The next stretch in which something can be heard."""
        for sound in one.coming:
            if not is_silent(sound.samples_N):
                return AskedStretch(one, sound, self._after(one))
        one.is_over = True
        return None

    def _after(self, one: OpenRecording) -> Wanted:
        """What is wanted of the next stretch, told so many of the last words: fewer where half of the positions would
        not be left for its text, or where pieces cannot write what the model wrote."""
        handed, network = self.handed, self.network
        said = " ".join(own.written.hypothesis.text for own in one.parts[-handed:]).split()[-handed:] if handed else []
        while said:
            wanted = replace(one.wanted, context=" ".join(said))
            with contextlib.suppress(ValueError):
                if len(network.prompt_for(wanted)) <= network.attention.positions // 2:
                    return wanted
            said = said[(len(said) + 1) // 2 :]
        return one.wanted

    def _mend_seams(self, done: OpenRecording) -> None:
        """Hears what is doubtful with its neighbours as one, and takes that text where it is better."""
        parts, at = done.parts, 0
        most = self.network.chunk_seconds * self.network.sample_rate
        while at + 1 < len(parts):
            for count in range(AT_ONCE, 1, -1):
                some = parts[at : at + count]
                sound = united(some, most) if len(some) == count else None
                if sound is None or not self._affords(done, len(sound.samples_N)):
                    continue
                (found,) = self._as_wholes([AskedStretch(done, sound, done.wanted)], 1)
                doubt = sum(max(0.0, one.doubt) for one in some)
                done.wasted += len(sound.samples_N) if 2 * found.doubt > doubt or found.is_invented else 0
                if found.doubt < doubt:
                    flags = itertools.chain(*(one.part.hypothesis.flags for one in some))
                    parts[at : at + count] = [found.flagged(tuple(flags))]
                    break
            at += 1

    def _affords(self, one: OpenRecording, samples: int) -> bool:
        """Whether so many samples may be heard again: one long stretch more than is wasted of a whole recording."""
        most = MOST_WASTED * one.heard + self.chunk_seconds * self.network.sample_rate
        return one.wasted + samples <= most

    def _in_parts(self, stretch: AskedStretch, whole: JudgedPart) -> list[JudgedPart]:
        if not whole.is_heard_again:
            return [whole]
        overlap = self._overlap(stretch.wanted, self.network.chunk_seconds)
        sounds = parts_of(stretch.sound, self.network.sample_rate, overlap, has_ctc=self.network.has_ctc)
        cost, of = sum(len(sound.samples_N) for sound in sounds), stretch.of
        if not self._affords(of, cost + of.unspoken):
            return [whole]
        of.wasted += cost
        own = [stretch._replace(sound=sound) for sound in sounds if not is_silent(sound.samples_N)]
        wholes = self._as_wholes(own, len(own)) if own else []
        found = [one for each in zip(own, wholes, strict=True) for one in self._in_parts(*each)]
        if not found:
            return [whole]
        if whole.is_doubtful:
            doubt = sum(one.doubt_of_part for one in found)
            gains, pays = doubt < whole.doubt, 2 * doubt <= whole.doubt
        else:
            gains = pays = is_better(found, whole)
        of.wasted -= cost if pays and not all(one.is_invented for one in found) else 0
        if not gains:
            return [whole]
        flags = whole.part.hypothesis.flags
        return [found[0].flagged(flags), *found[1:]] if flags or whole.is_doubtful else found

    def _as_wholes(self, spoken: Sequence[AskedStretch], batch_size: int) -> list[JudgedPart]:
        """One text for each stretch. What CTC doubts is searched again by both."""
        found: dict[int, JudgedPart] = {}
        network, rate = self.network, self.network.sample_rate
        for rows in by_length([len(stretch.sound.samples_N) for stretch in spoken], batch_size):
            own = [spoken[row] for row in rows]
            samples = [lengthened(stretch.sound.samples_N, rate) for stretch in own]
            frames = network._together(samples)
            parts = self._texts(own, samples, frames, self.decoder)
            doubtful = [i for i, part in enumerate(parts) if part.is_heard_again and not own[i].wanted.is_translation]
            if doubtful and network.has_ctc and not self.decoder.ctc_weight:
                few = frames.some(doubtful)
                jointly = self._texts([own[i] for i in doubtful], [samples[i] for i in doubtful], few, self._jointly)
                for i, part in zip(doubtful, jointly, strict=True):
                    if is_better([part], parts[i]):
                        flags = parts[i].part.hypothesis.flags
                        parts[i] = part.flagged(flags) if parts[i].is_doubtful else part
            found |= zip(rows, parts, strict=True)
        return [found[row] for row in range(len(spoken))]

    @functools.cached_property
    def _jointly(self) -> AttentionDecoding:
        search = replace(self.decoder.search, beam=max(BEAM, self.decoder.search.beam))
        return replace(self.decoder, search=search, ctc_weight=CTC_WEIGHT)

    def _texts(
        self,
        spoken: Sequence[AskedStretch],
        samples: Sequence[np.ndarray],
        frames: HeardFrames,
        decoder: AttentionDecoding,
    ) -> list[JudgedPart]:
        network, rate = self.network, self.network.sample_rate
        wanted = [stretch.wanted for stretch in spoken]
        prompts = [network.prompt_for(one) for one in wanted]
        hot_words = [stretch.of.recording.hot_words for stretch in spoken]
        texts = network._decoded(frames, prompts, decoder, hot_words, guard=True)
        placed = network._timed(samples, frames, texts, wanted, self.times)
        by_ctc: list[np.ndarray | None] = [*frames.log_probs] or [None] * len(spoken)
        found = []
        for stretch, sound_N, text, own, log_probs_SV in zip(spoken, samples, texts, placed, by_ctc, strict=True):
            start, heard_N, _, end = stretch.sound
            lead = (len(sound_N) - len(heard_N)) // 2 / rate
            part = HeardPart(start / rate, len(heard_N) / rate, text, lead, own, end / rate)
            is_translation = stretch.wanted.is_translation
            one = judged(part, heard_N, rate, log_probs_SV, network.pieces, is_translation=is_translation)
            if decoder.known.scorer is not None or stretch.of.recording.hot_words:
                one = one._replace(is_unsure=False)  # labels that others ask for are improbable
            found.append(one._replace(sound=None if log_probs_SV is None else stretch.sound))
        return found


def lengthened(samples_N: np.ndarray, rate: int) -> np.ndarray:
    """Samples of at least `SHORTEST_SECONDS`, with silence on both sides of shorter ones, as NeMo does."""
    missing = int(SHORTEST_SECONDS * rate) - len(samples_N)
    return np.pad(samples_N, (missing // 2, missing - missing // 2)) if missing > 0 else samples_N
