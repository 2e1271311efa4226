"""Recordings to texts after prompts: transcripts, translations, languages recognised. Needs no torch.

What computes frames and steps is another's: `fastconformer.attending` in torch, `trt.runtime.prompted` without.

Shapes: N samples, S encoder frames, V classes.
"""

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from common.config import ConfigError
from common.devices import memory
from common.recognition.chunks import WINDOW, by_length
from common.recognition.decoding import DecodingOptions, scorer_of
from common.recognition.pauses import SoundStretch, loud_windows, stretches
from common.recognition.recognizer import OnError
from common.recognition.recordings import Recording, Source, is_silent, read_ahead
from common.recognition.transcripts import Transcript
from common.text.pieces import word_groups
from fastconformer.attention.config import AttentionConfig, Times
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.attention.prompt import PromptFormat, Wanted, allowed
from fastconformer.attention.search import CachedToken, DecoderStep, SearchOptions, Wish, decode
from fastconformer.hearing.decoding import AttentionDecoding, CtcFrames, HeardFrames, Identified
from fastconformer.hearing.gaps import AT_ONCE, JudgedPart, judged, parts_of, united, without_sounds
from fastconformer.hearing.texts import (
    HeardPart,
    TextHypothesis,
    hypothesis_of,
    in_sound,
    spelled,
    transcript_of,
    with_ctc,
    word_times,
)

PREFERRED_SHARE = 6 / 7  # of the longest stretch, in the last pause before which one ends
SHORTEST_SECONDS = 1.0
OVERLAP_SECONDS = 1.0
"""What two stretches both hear around a seam that is in no pause, where words have times by which to join them."""
SPARE_TOKENS = 50
"""Tokens of prompt and text together, beyond one for each frame, after which a text ends."""
BEAM = 4
"""Sequences that a search keeps where options ask for one and not for how many."""
AUTO = "auto"


class _Stretch(NamedTuple):
    """Samples that are heard at once: of which recording, and what is to be written."""

    of: "_Open"
    sound: SoundStretch
    wanted: Wanted


@dataclass(eq=False)
class _Open:
    """A recording that is being heard."""

    recording: Recording
    wanted: Wanted
    coming: Iterator[SoundStretch]
    parts: list[JudgedPart] = field(default_factory=list)
    is_over: bool = False


class PromptedRecognizer(ABC):
    """A model that writes a text after a prompt, which says in which language.

    `network` says what the decoder is like. A class of it has `sample_rate`, `seconds_per_frame`, `_hear` and `_steps`,
    and reads recordings.
    """

    pieces: PromptedPieces
    most_samples: float = 2**19
    """Samples that go through the encoder at once: on a CPU half a minute, of 16 kHz. More at once are slower there."""

    def __init__(self, network: AttentionConfig, pieces: PromptedPieces) -> None:
        self.attention = network
        self.prompts = PromptFormat(network.prompt, pieces, network.language)

    @property
    @abstractmethod
    def sample_rate(self) -> int:
        """Samples a second of the arrays that it hears; files of any rate are resampled."""

    @property
    @abstractmethod
    def seconds_per_frame(self) -> float:
        """Seconds from one encoder frame to the next."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that it hears and writes."""
        return self.pieces.languages

    @property
    def chunk_seconds(self) -> float:
        """Longest stretch of a recording, in seconds, that is heard at once."""
        return self.attention.longest_seconds

    @property
    @abstractmethod
    def has_ctc(self) -> bool:
        """Whether there is a CTC head, which finds the times of words."""

    @property
    def assumed_language(self) -> str:
        """The language of recordings of which nothing is said: "auto" where it is identified, "" where it must be said.

        Models that Cohere trained do not identify any.
        """
        if len(self.languages) == 1:
            return self.languages[0]
        return "" if self.attention.prompt == "cohere" else AUTO

    @abstractmethod
    def _hear(self, samples: Sequence[np.ndarray]) -> HeardFrames:
        """What the decoder needs of some sounds."""

    @abstractmethod
    def _steps(self) -> DecoderStep:
        """The network of the decoder, with room for a search."""

    @abstractmethod
    def _read(self, source: Source) -> Recording:
        """A recording at the model's rate, or what is wrong with it."""

    def _by_aligner(self, samples: Sequence[np.ndarray]) -> CtcFrames:
        """What another model finds, that is beside this one. Raises ValueError where there is none."""
        raise ValueError("times = aligner: this model's file holds no CTC model besides")

    def prompt(
        self,
        source_language: str | None = None,
        target_language: str | None = None,
        punctuation: bool = True,
        *,
        timestamps: bool = False,
        itn: bool = False,
        diarize: bool = False,
        context: str = "",
    ) -> list[int]:
        """The tokens that ask for a text: in the language that is spoken, or for its translation to another one.

        Raises ValueError for a language that is not known, which lists those that are, and for what the model's prompts
        have no place for.
        """
        return self.prompt_for(
            Wanted(
                source_language=source_language, target_language=target_language, punctuation=punctuation,
                timestamps=timestamps, itn=itn, diarize=diarize, context=context,
            )
        )  # fmt: skip

    def prompt_for(self, wanted: Wanted) -> list[int]:
        """As `prompt`, of what is wanted; a source language that is not said is the model's default."""
        return self._with_room(self.prompts(wanted))

    def _with_room(self, prompt: Sequence[int]) -> list[int]:
        """The prompt, after which a text may have a token. Raises ValueError for a longer one."""
        if len(prompt) >= (most := self.attention.positions):
            raise ValueError(
                f"{len(prompt)} tokens before the text: expected fewer than {most}; give a shorter context"
            )
        return list(prompt)

    def decoder(
        self,
        options: DecodingOptions | None = None,
        *,
        length_penalty: float = 0.0,
        ctc_weight: float = 0.0,
        like: AttentionDecoding | None = None,
    ) -> AttentionDecoding:
        """What `transcribe` decodes with, if not greedily by the network alone.

        With `ctc_weight` the transcripts of a beam are ranked anew: their scores have so large a share of what a CTC
        head beside the decoder gives them. `like`: one of this method with the same language model, which is not read
        again. Raises ConfigError for words, files and options that cannot be used.
        """
        options = options or DecodingOptions()
        if options.thorough or options.internal_weight:
            named = "thorough" if options.thorough else "internal_weight"
            raise ConfigError(f"decoding.{named}: expected none, for this model is decoded by attention")
        if not 0 <= ctc_weight <= 1 or (ctc_weight and not self.has_ctc):
            expected = "0 to 1" if self.has_ctc else "0, for this model has no CTC head"
            raise ConfigError(f"ctc_weight = {ctc_weight}: expected {expected}")
        searches = options.n_best > 1 or options.knows_language or ctc_weight > 0
        beam = options.beam or (max(BEAM, options.n_best) if searches else 1)
        search = SearchOptions(beam=beam, n_best=options.n_best, length_penalty=length_penalty)
        scorer = scorer_of(self.pieces.labels, options, like=like)
        return AttentionDecoding(
            search=search, options=options, pieces=self.pieces, scorer=scorer, ctc_weight=ctc_weight
        )

    def transcribe(self, recordings: Iterable[Source], **options: Any) -> list[Transcript]:
        """Transcripts of files, of utterances of a manifest, or of float32 [N] at the model's sample rate, in order.

        `options` are those of `stream`.
        """
        return list(self.stream(recordings, **options))

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        punctuation: bool = True,
        itn: bool = False,
        diarize: bool = False,
        times: Times = "auto",
        context: str | int = "",
        beam: int = 1,
        length_penalty: float = 0.0,
        batch_size: int = 8,
        chunk_seconds: float | None = None,
        decoder: AttentionDecoding | None = None,
        hot_words: Iterable[Iterable[str]] | None = None,
        wanted: Iterable[Mapping[str, str]] | None = None,
        on_error: OnError = "stop",
    ) -> Iterator[Transcript]:
        """As `transcribe`, one after the other: memory holds only some stretches, and what is read ahead.

        `source_language`: the one that is spoken; "auto" identifies that of each recording; None is the model's own
        default. `target_language`: the one that is written; None for the one that is spoken. What `wanted` says of a
        recording, by NeMo's keys, or an utterance of a manifest (`Utterance.wanted`), comes first.
        `times` of words: "tokens" that the model writes, if it learned that; those of its CTC head, "ctc"; of the CTC
        model that some archives hold besides, "aligner"; or "none". "auto" is those of a CTC head, where there is one.
        Words of translations, and those that none of these has found, have the times of the stretch that they are in.
        `context`: a text before each recording, or how many of the last words each stretch of a long one is told.
        Recordings longer than `chunk_seconds`, by default the attribute of that name, are cut at pauses; stretches
        between which there is none overlap, and are joined by the times of words. `decoder` (the method of that name)
        takes the place of `beam` and `length_penalty`. `hot_words`: words or phrases to favour in each recording.
        With on_error="skip" a recording that cannot be read, or whose language is not known, gives a transcript with
        `error` set; otherwise AudioError and ValueError are raised.
        """
        chunk_seconds = self.chunk_seconds if chunk_seconds is None else chunk_seconds
        if batch_size < 1 or not 0 < chunk_seconds < float("inf"):
            raise ValueError(f"batch_size = {batch_size}, chunk_seconds = {chunk_seconds}: expected above 0")
        if decoder is None:
            search = SearchOptions(beam=beam, length_penalty=length_penalty)
            decoder = AttentionDecoding(search=search, options=DecodingOptions(), pieces=self.pieces)
        every = Wanted(
            source_language=source_language, target_language=target_language, punctuation=punctuation, itn=itn,
            diarize=diarize, timestamps=times == "tokens", context=context if isinstance(context, str) else "",
        )  # fmt: skip
        if source_language != AUTO:
            self.prompt_for(every)  # what cannot be asked for is told before anything is read
        if times == "ctc" and not self.has_ctc:
            raise ValueError("times = ctc: this model has no CTC head")
        if times == "aligner":
            self._by_aligner([])  # what it lacks is told before anything is heard
        if context and self.attention.prompt == "canary":
            raise ValueError("context: the prompts of this model have no place for it")
        given = iter(read_ahead(recordings, self._read, on_error=on_error))
        if hot_words is not None:
            given = (r._replace(hot_words=tuple(words)) for r, words in zip(given, hot_words, strict=True))
        if wanted is not None:
            given = (r._replace(wanted=tuple(own.items())) for r, own in zip(given, wanted, strict=True))
        opened = (self._opened(recording, every, chunk_seconds, times, on_error) for recording in given)
        handed = context if isinstance(context, int) else 0
        yield from self._in_rounds(opened, decoder, times, batch_size, chunk_seconds, handed)

    def identify(self, recordings: Iterable[Source], *, batch_size: int = 8) -> list[Identified]:
        """The language of each recording, by its first stretch, and the probability of it among `languages`.

        Of a model of one language it is that one, with probability 1; Cohere's models did not learn to tell. Raises
        AudioError.
        """
        found = []
        given = iter(read_ahead(recordings, self._read, on_error="stop"))
        while window := list(itertools.islice(given, batch_size)):
            found += self._identified(window)
        return found

    def _identified(self, window: Sequence[Recording]) -> list[Identified]:
        step, prompt = self._steps(), self.prompts.to_identify()
        numbers = [self.pieces.special(f"<|{language}|>") for language in self.languages]
        may_V = np.isin(np.arange(self._classes), numbers)
        found = []
        for heard in self._hear([self._first(recording) for recording in window]).heard:
            slots = step.take(len(prompt))
            tokens = [CachedToken(label, at, slots, heard) for at, label in enumerate(prompt)]
            (best,) = step(tokens, [len(tokens) - 1], len(numbers), [may_V])
            step.give(slots)
            shares = np.exp(np.array(best.log_probs) - best.log_probs[0])
            found.append(Identified(self.languages[numbers.index(best.labels[0])], round(float(1 / shares.sum()), 4)))
        return found

    def _first(self, recording: Recording) -> np.ndarray:
        rate = self.sample_rate
        longest = self.chunk_seconds
        for stretch in stretches(recording.samples_N, rate, preferred=PREFERRED_SHARE * longest, longest=longest):
            return _lengthened(stretch.samples_N, rate)
        return np.zeros(rate, np.float32)

    def _opened(
        self, recording: Recording, every: Wanted, chunk_seconds: float, times: Times, on_error: OnError
    ) -> _Open:
        """A recording, and what is wanted of it. Raises ValueError."""
        wanted = every
        try:
            wanted = self._of(recording, every)
            self.prompt_for(wanted)
        except ValueError as error:
            if on_error == "stop":
                raise ValueError(f"{recording.name}: {error}") from None
            recording = recording._replace(samples_N=recording.samples_N[:0], error=f"{recording.name}: {error}")
        coming = stretches(
            recording.samples_N,
            self.sample_rate,
            preferred=chunk_seconds * PREFERRED_SHARE,
            longest=chunk_seconds,
            overlap=self._overlap(times, wanted, chunk_seconds),
        )
        return _Open(recording, wanted, coming)

    def _of(self, recording: Recording, wanted: Wanted) -> Wanted:
        """What is wanted of a recording. Raises ValueError."""
        wanted = wanted.with_entry(dict(recording.wanted))
        if wanted.source_language == AUTO:
            (found,) = self._identified([recording]) if len(recording.samples_N) else (Identified("", 0.0),)
            wanted = replace(wanted, source_language=found.language or self.languages[0])
        return wanted

    def _overlap(self, times: Times, wanted: Wanted, chunk_seconds: float) -> float:
        """Seconds that two stretches both hear where they do not meet in a pause."""
        return min(OVERLAP_SECONDS, chunk_seconds / 4) if self._tells_times(times, wanted) else 0.0

    def _tells_times(self, times: Times, wanted: Wanted) -> bool:
        """Whether words have times of their own."""
        if wanted.is_translation:
            return False
        return self.has_ctc if times == "auto" else times != "none"

    def _in_rounds(
        self,
        opened: Iterator[_Open],
        decoder: AttentionDecoding,
        times: Times,
        batch_size: int,
        chunk_seconds: float,
        handed: int,
    ) -> Iterator[Transcript]:
        """The transcripts of recordings, of which so many stretches are heard in a round as fill a few batches.

        With words handed on, a round has one stretch of each recording, and as many recordings as a batch.
        """
        most_samples = batch_size * chunk_seconds * self.sample_rate
        live: deque[_Open] = deque()
        is_more = True
        while live or is_more:
            heard: list[_Stretch] = []
            samples = 0
            for at in itertools.count():
                if at == len(live) and is_more:
                    if (fresh := next(opened, None)) is not None:
                        live.append(fresh)
                    is_more = fresh is not None
                if at >= len(live):
                    break
                while not live[at].is_over and len(heard) < WINDOW * batch_size and samples < most_samples:
                    stretch = self._next(live[at], handed)
                    if stretch is not None:
                        heard.append(stretch)
                        samples += len(stretch.sound.samples_N)
                        if handed:
                            break
                if samples >= most_samples or len(heard) >= (batch_size if handed else WINDOW * batch_size):
                    break
            for one, parts in zip(heard, self._heard(heard, decoder, times, batch_size), strict=True):
                one.of.parts += parts
                without_sounds(one.of.parts, len(parts))
            if samples >= most_samples:
                memory.give_back()
            while live and live[0].is_over:
                done = live.popleft()
                self._mend_seams(done, decoder, times)
                language = done.wanted.target_language or done.wanted.source_language or self.attention.language
                yield transcript_of(
                    done.recording, [one.part for one in done.parts], self.pieces, language=language,
                    seconds_per_frame=self.seconds_per_frame,
                )  # fmt: skip

    def _next(self, one: _Open, handed: int) -> _Stretch | None:
        """The next stretch in which something can be heard."""
        for sound in one.coming:
            if not is_silent(sound.samples_N):
                return _Stretch(one, sound, self._after(one, handed))
        one.is_over = True
        return None

    def _after(self, one: _Open, handed: int) -> Wanted:
        """What is wanted of the next stretch, told so many of the last words: fewer where half of the positions would
        not be left for its text, or where pieces cannot write what the model wrote."""
        said = " ".join(own.part.hypothesis.text for own in one.parts[-handed:]).split()[-handed:] if handed else []
        while said:
            wanted = replace(one.wanted, context=" ".join(said))
            with contextlib.suppress(ValueError):
                if len(self.prompt_for(wanted)) <= self.attention.positions // 2:
                    return wanted
            said = said[(len(said) + 1) // 2 :]
        return one.wanted

    def _heard(
        self, spoken: Sequence[_Stretch], decoder: AttentionDecoding, times: Times, batch_size: int
    ) -> list[list[JudgedPart]]:
        """What is said in each stretch: in one part, or in several where one text for all of it would not do."""
        found = self._as_wholes(spoken, decoder, times, batch_size)
        return [self._in_parts(*one, decoder, times) for one in zip(spoken, found, strict=True)]

    def _mend_seams(self, done: _Open, decoder: AttentionDecoding, times: Times) -> None:
        """Hears what is doubtful with its neighbours as one, and takes that text where it is better."""
        parts, at = done.parts, 0
        while at + 1 < len(parts):
            for count in range(AT_ONCE, 1, -1):
                some = parts[at : at + count]
                if len(some) < count or (sound := united(some, self.chunk_seconds * self.sample_rate)) is None:
                    continue
                (found,) = self._as_wholes([_Stretch(done, sound, done.wanted)], decoder, times, 1)
                if found.doubt < sum(max(0.0, one.doubt) for one in some):
                    flags = itertools.chain(*(one.part.hypothesis.flags for one in some))
                    parts[at : at + count] = [found.flagged(tuple(flags))]
                    break
            at += 1

    def _in_parts(
        self, stretch: _Stretch, whole: JudgedPart, decoder: AttentionDecoding, times: Times
    ) -> list[JudgedPart]:
        if not whole.is_doubtful:
            return [whole]
        overlap = self._overlap(times, stretch.wanted, self.chunk_seconds)
        sounds = parts_of(stretch.sound, self.sample_rate, overlap, has_ctc=self.has_ctc)
        own = [stretch._replace(sound=sound) for sound in sounds if not is_silent(sound.samples_N)]
        wholes = self._as_wholes(own, decoder, times, len(own)) if own else []
        found = [one for each in zip(own, wholes, strict=True) for one in self._in_parts(*each, decoder, times)]
        if not found or sum(one.doubt_of_part for one in found) >= whole.doubt:
            return [whole]
        return [found[0].flagged(whole.part.hypothesis.flags), *found[1:]]

    def _as_wholes(
        self, spoken: Sequence[_Stretch], decoder: AttentionDecoding, times: Times, batch_size: int
    ) -> list[JudgedPart]:
        found: dict[int, JudgedPart] = {}
        rate = self.sample_rate
        for rows in by_length([len(stretch.sound.samples_N) for stretch in spoken], batch_size):
            samples = [_lengthened(spoken[row].sound.samples_N, rate) for row in rows]
            frames = self._together(samples)
            wanted = [spoken[row].wanted for row in rows]
            texts = self._decoded(
                frames,
                [self.prompt_for(one) for one in wanted],
                decoder,
                [spoken[row].of.recording.hot_words for row in rows],
                guard=True,
            )
            placed = self._timed(samples, frames, texts, wanted, times)
            by_ctc: list[np.ndarray | None] = [*frames.log_probs] or [None] * len(rows)
            for row, sound_N, text, own, log_probs_SV in zip(rows, samples, texts, placed, by_ctc, strict=True):
                start, heard_N, _, end = spoken[row].sound
                lead = (len(sound_N) - len(heard_N)) // 2 / rate
                part = HeardPart(start / rate, len(heard_N) / rate, text, lead, own, end / rate)
                is_translation = spoken[row].wanted.is_translation
                own_part = judged(part, heard_N, rate, log_probs_SV, self.pieces, is_translation=is_translation)
                found[row] = own_part._replace(sound=None if log_probs_SV is None else spoken[row].sound)
        return [found[row] for row in range(len(spoken))]

    def _together(self, samples: Sequence[np.ndarray]) -> HeardFrames:
        """What the decoder needs of some sounds, of which so many go through the encoder at once as are fast there."""
        longest = max(map(len, samples))
        most = max(1, int(min(len(samples), self.most_samples // longest)))
        parts = [self._hear(samples[at : at + most]) for at in range(0, len(samples), most)]
        heard, counts, log_probs = (list(itertools.chain(*own)) for own in zip(*parts, strict=True))
        return HeardFrames(heard, counts, log_probs)

    def _decoded(
        self,
        frames: HeardFrames,
        prompts: Sequence[Sequence[int]],
        decoder: AttentionDecoding,
        hot_words: Sequence[Iterable[str]],
        *,
        guard: bool,
    ) -> list[TextHypothesis]:
        wishes = []
        for heard, count, prompt, some in zip(frames.heard, frames.counts, prompts, hot_words, strict=True):
            room = min(self.attention.positions, count + SPARE_TOKENS) - len(self._with_room(prompt))
            wish = Wish(
                prompt=tuple(prompt),
                limit=max(1, room),
                allowed_V=np.array(allowed(self.pieces, prompt, self._classes)),
                end=self.pieces.end,
                scorer=decoder.with_words(tuple(some)),
                silent=self.pieces.control,
            )
            wishes.append((wish, heard))
        search, weight = decoder.search, decoder.ctc_weight
        kept = search.beam if weight else search.n_best
        found = decode(self._steps(), wishes, replace(search, guard=guard, n_best=kept))
        for row, log_probs_SV in enumerate(frames.log_probs if weight else ()):
            if not self.prompts.is_translation(prompts[row]):
                found[row] = with_ctc(found[row], log_probs_SV, self.pieces, weight)
        found = [result._replace(found=result.found[: search.n_best]) for result in found]
        return [hypothesis_of(one, self.pieces) for one in found]

    @property
    def _classes(self) -> int:
        return self.attention.classes or len(self.pieces.labels)

    def _timed(
        self,
        samples: Sequence[np.ndarray],
        frames: HeardFrames,
        texts: Sequence[TextHypothesis],
        asked: Sequence[Wanted],
        times: Times,
    ) -> list[list[tuple[float, float]]]:
        """Start and end of the words of each text by CTC, as far as they can be found; of translations none."""
        if times in ("tokens", "none") or (times == "auto" and not self.has_ctc):
            return [[] for _ in texts]
        own = CtcFrames(frames.log_probs, self.pieces, self.seconds_per_frame)
        log_probs, pieces, seconds_per_frame = self._by_aligner(samples) if times == "aligner" else own
        found = []
        for sound_N, log_probs_SV, text, wanted in zip(samples, log_probs, texts, asked, strict=True):
            if times == "aligner":
                words = spelled(text.text.split(), pieces)
            else:
                labels = [label for label in text.labels if label not in self.pieces.control]
                words = [[labels[i] for i in group] for group in word_groups(self.pieces, labels)]
            words = [] if wanted.is_translation else words
            own_times = word_times(words, log_probs_SV, pieces, seconds_per_frame)
            found.append(in_sound(own_times, loud_windows(sound_N, self.sample_rate)))
        return found


def _lengthened(samples_N: np.ndarray, rate: int) -> np.ndarray:
    """Samples of at least `SHORTEST_SECONDS`, with silence on both sides of shorter ones, as NeMo does."""
    missing = int(SHORTEST_SECONDS * rate) - len(samples_N)
    return np.pad(samples_N, (missing // 2, missing - missing // 2)) if missing > 0 else samples_N
