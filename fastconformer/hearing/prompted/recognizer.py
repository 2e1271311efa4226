"""Recordings to texts after prompts: transcripts, translations, languages recognised. Needs no torch.

What computes frames and steps is another's: `fastconformer.attending` in torch, `trt.runtime.prompted` without.

Shapes: N samples, S encoder frames, V classes.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from common.config import ConfigError
from common.recognition.cutting.pauses import stretches
from common.recognition.decoding import DecodingOptions, Scorers
from common.recognition.output.transcripts import Transcript
from common.recognition.recognizer import OnError, SpeechRecognizer
from common.recognition.sources.recordings import Recording, Source, read_ahead
from fastconformer.attention.config import Times
from fastconformer.attention.prompt import Wanted
from fastconformer.attention.search import CachedToken, SearchOptions
from fastconformer.hearing.prompted.decoding import BEAM, AttentionDecoding, Identified
from fastconformer.hearing.prompted.network import AUTO, PromptedNetwork
from fastconformer.hearing.prompted.rounds import PREFERRED_SHARE, Rounds, lengthened


class PromptedRecognizer(PromptedNetwork, SpeechRecognizer):
    """A network after prompts in use: transcripts, translations, languages recognised."""

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
        known = Scorers(self.pieces.labels, options, like=like and like.known)
        return AttentionDecoding(search=search, known=known, ctc_weight=ctc_weight)

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
            decoder = AttentionDecoding(search=search, known=Scorers(self.pieces.labels, DecodingOptions()))
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
        given = iter(read_ahead(recordings, self.sample_rate, keep=self.keep, on_error=on_error))
        if hot_words is not None:
            given = (r._replace(hot_words=tuple(words)) for r, words in zip(given, hot_words, strict=True))
        if wanted is not None:
            given = (r._replace(wanted=tuple(own.items())) for r, own in zip(given, wanted, strict=True))
        rounds = Rounds(
            network=self, decoder=decoder, times=times, batch_size=batch_size, chunk_seconds=chunk_seconds,
            handed=context if isinstance(context, int) else 0,
        )  # fmt: skip
        yield from rounds.transcripts(rounds.opened(*self._asked(one, every, on_error)) for one in given)

    def identify(self, recordings: Iterable[Source], *, batch_size: int = 8) -> list[Identified]:
        """The language of each recording, by its first stretch, and its probability among those that the model hears.

        These are those that it has learned to hear, where that is known, or else all `languages`. Of a model of one
        language it is that one, with probability 1; Cohere's models did not learn to tell. Raises AudioError.
        """
        found = []
        given = iter(read_ahead(recordings, self.sample_rate, keep=self.keep, on_error="stop"))
        while window := list(itertools.islice(given, batch_size)):
            found += self._identified(window)
        return found

    def _identified(self, window: Sequence[Recording]) -> list[Identified]:
        prompt, among = self.prompts.to_identify(), self.prompts.spoken()
        numbers = [self.pieces.special(f"<|{language}|>") for language in among]
        may_V = np.isin(np.arange(self._classes), numbers)
        found = []
        for heard in self._hear([self._first(recording) for recording in window]).heard:
            with self._steps() as step:
                slots = step.take(len(prompt))
                tokens = [CachedToken(label, at, slots, heard) for at, label in enumerate(prompt)]
                (best,) = step(tokens, [len(tokens) - 1], len(numbers), [may_V])
                step.give(slots)
            shares = np.exp(np.array(best.log_probs) - best.log_probs[0])
            found.append(Identified(among[numbers.index(best.labels[0])], round(float(1 / shares.sum()), 4)))
        return found

    def _first(self, recording: Recording) -> np.ndarray:
        rate = self.sample_rate
        longest = self.chunk_seconds
        for stretch in stretches(recording.samples_N, rate, preferred=PREFERRED_SHARE * longest, longest=longest):
            return lengthened(stretch.samples_N, rate)
        return np.zeros(rate, np.float32)

    def _asked(self, recording: Recording, every: Wanted, on_error: OnError) -> tuple[Recording, Wanted]:
        """A recording, and what is wanted of it. Raises ValueError."""
        wanted = every
        try:
            wanted = self._of(recording, every)
            self.prompt_for(wanted)
        except ValueError as error:
            if on_error == "stop":
                raise ValueError(f"{recording.name}: {error}") from None
            recording = recording._replace(samples_N=recording.samples_N[:0], error=f"{recording.name}: {error}")
        return recording, wanted

    def _of(self, recording: Recording, wanted: Wanted) -> Wanted:
        """What is wanted of a recording. Raises ValueError."""
        wanted = wanted.with_entry(dict(recording.wanted))
        if wanted.source_language == AUTO:
            (found,) = self._identified([recording]) if len(recording.samples_N) else (Identified("", 0.0),)
            wanted = replace(wanted, source_language=found.language or self.prompts.spoken()[0])
        return wanted
