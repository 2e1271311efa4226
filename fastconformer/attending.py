"""A trained attention decoder in use: transcripts and translations, languages recognised, texts scored.

Shapes: B utterances or stretches, N samples, S encoder frames, C their width, L tokens, V classes.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

import ctc
from common.config import ConfigError
from common.devices.precision import Precision
from common.features import LogMelConfig
from common.recognition.chunks import WINDOW, by_length
from common.recognition.decoding import DecodingOptions, scorer_of
from common.recognition.pauses import stretches
from common.recognition.recordings import Recording, Source, is_silent, read_ahead
from common.recognition.tensors import padded
from common.recognition.transcripts import Transcript
from common.runs.checkpoint import CheckpointError
from common.text.pieces import word_groups
from fastconformer.attention.objective import smoothed_cross_entropy
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.attention.prompt import PromptFormat, Wanted, allowed
from fastconformer.attention.search import SearchOptions, Wish, decode
from fastconformer.attention.step import DecoderPrecision, TorchStep, Weights
from fastconformer.checkpoints.reading import read_aligner
from fastconformer.hearing.texts import (
    HeardPart,
    TextHypothesis,
    hypothesis_of,
    spelled,
    transcript_of,
    with_ctc,
    word_times,
)
from fastconformer.listening import Listener
from fastconformer.network.encoder import EncodedFrames
from fastconformer.network.model import Model

Times = Literal["auto", "tokens", "ctc", "aligner", "none"]
LONGEST_SECONDS, PREFERRED_SECONDS, SHORTEST_SECONDS = 35.0, 30.0, 1.0
SPARE_TOKENS = 50
"""Tokens of prompt and text together, beyond one for each frame, after which a text ends."""
BEAM = 4
"""Sequences that a search keeps where options ask for one and not for how many."""
AUTO = "auto"


class Identified(NamedTuple):
    """A language and its probability among those that the model knows."""

    language: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class AttentionDecoding:
    """How texts are found, made once, since a language model takes time to read."""

    search: SearchOptions
    options: DecodingOptions
    pieces: PromptedPieces
    scorer: ctc.Scorer | None = None
    ctc_weight: float = 0.0
    """Share of the CTC head's log-probability in the scores of transcripts that a beam has found."""

    @functools.lru_cache(maxsize=64)  # noqa: B019  a decoding lives as long as what it decodes
    def with_words(self, hot_words: tuple[str, ...]) -> ctc.Scorer | None:
        """What is known besides the network, with more words to favour. Raises ConfigError for other letters."""
        if not hot_words:
            return self.scorer
        boosts = dict.fromkeys((*self.options.hot_words, *hot_words), self.options.hot_word_boost)
        try:
            return (self.scorer or ctc.Scorer(self.pieces.labels)).with_hot_words(boosts)
        except ValueError as error:
            raise ConfigError(f"decoding: {error}") from None


class _Stretch(NamedTuple):
    """Samples that are heard at once: of which recording, from which second on, and what is to be written."""

    recording: int
    start: float
    samples_N: np.ndarray
    wanted: Wanted


class AttentionRecognizer(Listener):
    """A `Listener` that transcribes and translates by an attention decoder.

    `decoder_precision` is that of the decoder's weights on a CPU, from which most of its time goes to reading them.
    """

    pieces: PromptedPieces

    def __init__(
        self,
        model: Model,
        features: LogMelConfig,
        pieces: PromptedPieces,
        *,
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
        normalize_seconds: float = 0.0,
        aligner: Path | None = None,
        decoder_precision: DecoderPrecision = "fp32",
    ):
        super().__init__(
            model, features, pieces, device=device, precision=precision, normalize_seconds=normalize_seconds
        )
        assert self.model.attention is not None
        self.decoder_precision: DecoderPrecision = decoder_precision
        self.network, self.head, self.aligner = self.model.attention, "attention", aligner
        self._format = PromptFormat(self.network.cfg.prompt, pieces, self.network.cfg.language)

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that it hears and writes."""
        return self.pieces.languages

    @property
    def chunk_seconds(self) -> float:
        """Longest stretch of a recording, in seconds, that is heard at once."""
        return LONGEST_SECONDS

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
        return self._format(wanted)

    @torch.inference_mode()
    def attention_log_probs(
        self, encoded_BSC: Tensor, frames_B: Tensor, tokens_BL: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """log_probs_BLV, float32, of what follows each of tokens_BL, of which `lengths_B` are an utterance's own.

        `encoded_BSC` are frames of `encode`. Raises ValueError for tokens that are no classes, and for too many.
        """
        return self._logits(encoded_BSC, frames_B, tokens_BL, lengths_B).log_softmax(-1)

    def attention_loss(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor,
        tokens_BL: Tensor,
        lengths_B: Tensor,
        prompt_lengths_B: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Tensor:
        """Mean cross-entropy of tokens_BL (prompt, text and end), given those before them, by NeMo's formula.

        Tokens of the prompt do not count, of which there are `prompt_lengths_B`; without them all but the first do.
        A share of `smoothing` goes to the classes other than the target.
        """
        tokens_BL, lengths_B = tokens_BL.to(self.device), lengths_B.to(self.device)
        logits_BLV = self._logits(encoded_BSC, frames_B, tokens_BL[:, :-1], lengths_B - 1)
        masked = None if prompt_lengths_B is None else prompt_lengths_B.to(self.device)
        return smoothed_cross_entropy(logits_BLV, tokens_BL, lengths_B, masked, smoothing)

    @torch.inference_mode()
    def decode(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor | Sequence[int],
        *,
        prompt: Sequence[int] | Sequence[Sequence[int]],
        beam: int = 1,
        length_penalty: float = 0.0,
        ctc_weight: float = 0.0,
        n_best: int = 1,
        guard: bool = False,
        decoder: AttentionDecoding | None = None,
        hot_words: Sequence[Iterable[str]] | None = None,
    ) -> list[TextHypothesis]:
        """The text of each utterance after a prompt, or after one of its own; frames are those of `encode`.

        A text has at most as many tokens as its utterance has frames, and `SPARE_TOKENS` less those of the prompt. With
        `guard` a text that repeats itself is decoded again without. With `ctc_weight` the texts of a beam are ranked
        anew: their scores have so large a share of what a CTC head beside the decoder gives them, if they are no
        translations. `decoder` (the method of that name) takes the place of `beam`, `length_penalty`, `ctc_weight` and
        `n_best`. Raises ValueError.
        """
        counts = [int(count) for count in frames_B]
        given: Any = prompt
        own: list[list[int]] = [list(given)] * len(counts) if _is_one(given) else [list(one) for one in given]
        words: list[tuple[str, ...]] = [()] * len(counts)
        if hot_words is not None:
            words = [tuple(some) for some in hot_words]
        if not len(counts) == len(own) == len(words) == len(encoded_BSC):
            raise ValueError(f"{len(own)} prompts: expected one for each of {len(encoded_BSC)} utterances")
        if decoder is None:
            search = SearchOptions(beam=beam, length_penalty=length_penalty, n_best=n_best)
            decoder = self._decoding(search, DecodingOptions(), None, ctc_weight)
        weights = self._weights
        step = TorchStep(weights)
        wishes = []
        for encoded_SC, count, tokens, some in zip(encoded_BSC, counts, own, words, strict=True):
            room = min(self.network.cfg.positions, count + SPARE_TOKENS) - len(tokens)
            heard = step.hear(encoded_SC[:count].to(self.device))
            wishes.append((self._wish(tuple(tokens), max(1, room), decoder.with_words(some)), heard))
        kept = decoder.search.beam if decoder.ctc_weight else decoder.search.n_best
        found = decode(step, wishes, replace(decoder.search, guard=guard, n_best=kept))
        if decoder.ctc_weight:
            log_probs_BSV = self.ctc_log_probs(encoded_BSC).cpu()
            for row, tokens in enumerate(own):
                result = found[row]
                if not self._format.is_translation(tokens):
                    by_ctc = functools.partial(self._heard_by_ctc, log_probs_BSV[row, : counts[row]])
                    result = with_ctc(result, by_ctc, self.pieces, decoder.ctc_weight)
                found[row] = result._replace(found=result.found[: decoder.search.n_best])
        return [hypothesis_of(one, self.pieces) for one in found]

    def decoder(
        self, options: DecodingOptions | None = None, *, length_penalty: float = 0.0, ctc_weight: float = 0.0
    ) -> AttentionDecoding:
        """What `decode` and `transcribe` decode with, if not greedily by the network alone.

        Raises ConfigError for words, files and options that cannot be used.
        """
        options = options or DecodingOptions()
        if options.thorough or options.internal_weight:
            named = "thorough" if options.thorough else "internal_weight"
            raise ConfigError(f"decoding.{named}: expected none, for this model is decoded by attention")
        searches = options.n_best > 1 or options.knows_language or ctc_weight > 0
        beam = options.beam or (max(BEAM, options.n_best) if searches else 1)
        search = SearchOptions(beam=beam, n_best=options.n_best, length_penalty=length_penalty)
        scorer = scorer_of(self.pieces.labels, options) if options.knows_language else None
        return self._decoding(search, options, scorer, ctc_weight)

    def _decoding(
        self, search: SearchOptions, options: DecodingOptions, scorer: ctc.Scorer | None, ctc_weight: float
    ) -> AttentionDecoding:
        if not 0 <= ctc_weight <= 1:
            raise ConfigError(f"ctc_weight = {ctc_weight}: expected 0 to 1")
        if ctc_weight and self.model.ctc is None:
            raise ConfigError(f"ctc_weight = {ctc_weight}: this model has no CTC head; expected 0")
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
        chunk_seconds: float = LONGEST_SECONDS,
        decoder: AttentionDecoding | None = None,
        hot_words: Iterable[Iterable[str]] | None = None,
        on_error: Literal["stop", "skip"] = "stop",
    ) -> Iterator[Transcript]:
        """As `transcribe`, one after the other: memory holds only the recordings of a few batches.

        `source_language`: the one that is spoken; "auto" identifies that of each recording; None is the model's own
        default. `target_language`: the one that is written; None for the one that is spoken. What an utterance of a
        manifest says of this (`Utterance.wanted`) comes first.
        `times` of words: "tokens" that the model writes, if it learned that; those of its CTC head, "ctc"; of the CTC
        model that some archives hold besides, "aligner"; or "none". "auto" is those of a CTC head, where there is one.
        Words of translations, and those that none of these has found, have the times of the stretch that they are in.
        `context`: a text before each recording, or how many of the last words each stretch
        of a long one is told. Recordings longer than `chunk_seconds` are cut at pauses. `decoder` (the method of that
        name) takes the place of `beam` and `length_penalty`. `hot_words`: words or phrases to favour in each recording.
        With on_error="skip" a recording that cannot be read, or whose language is not known, gives a transcript with
        `error` set; otherwise AudioError and ValueError are raised.
        """
        if batch_size < 1 or not 0 < chunk_seconds < float("inf"):
            raise ValueError(f"batch_size = {batch_size}, chunk_seconds = {chunk_seconds}: expected above 0")
        if decoder is None:
            search = SearchOptions(beam=beam, length_penalty=length_penalty)
            decoder = AttentionDecoding(search=search, options=DecodingOptions(), pieces=self.pieces)
        wanted = Wanted(
            source_language=source_language, target_language=target_language, punctuation=punctuation, itn=itn,
            diarize=diarize, timestamps=times == "tokens", context=context if isinstance(context, str) else "",
        )  # fmt: skip
        if source_language != AUTO:
            self.prompt_for(wanted)  # what cannot be asked for is told before anything is read
        given = iter(read_ahead(recordings, self._read, on_error=on_error))
        if hot_words is not None:
            given = (r._replace(hot_words=tuple(words)) for r, words in zip(given, hot_words, strict=True))
        handed = context if isinstance(context, int) else 0
        if times == "ctc" and self.model.ctc is None:
            raise ValueError("times = ctc: this model has no CTC head")
        if times == "aligner":
            _ = self._aligner  # what it lacks is told before anything is heard
        while window := list(itertools.islice(given, WINDOW * batch_size)):
            yield from self._window(window, wanted, decoder, times, batch_size, chunk_seconds, handed, on_error)

    def identify(self, recordings: Iterable[Source], *, batch_size: int = 8) -> list[Identified]:
        """The language of each recording, by its first stretch, and the probability of it among `languages`.

        Raises AudioError, and ValueError for a model of one language.
        """
        found = []
        given = iter(read_ahead(recordings, self._read, on_error="stop"))
        while window := list(itertools.islice(given, batch_size)):
            found += self._identified(window)
        return found

    def _identified(self, window: Sequence[Recording]) -> list[Identified]:
        samples = [self._first(recording) for recording in window]
        encoded_BSC, frames_B = self.encode(*self.features(*padded(samples, self.device)))
        prompt = self._format.to_identify()
        numbers = [self.pieces.special(f"<|{language}|>") for language in self.languages]
        tokens_BL = torch.tensor([prompt] * len(window))
        lengths_B = torch.full((len(window),), len(prompt))
        log_probs_BLV = self.attention_log_probs(encoded_BSC, frames_B, tokens_BL, lengths_B)
        shares = log_probs_BLV[:, -1, numbers].softmax(-1)
        best = shares.max(-1)
        return [
            Identified(self.languages[i], round(p, 4))
            for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _first(self, recording: Recording) -> np.ndarray:
        rate = self.sample_rate
        for stretch in stretches(recording.samples_N, rate, preferred=PREFERRED_SECONDS, longest=LONGEST_SECONDS):
            return _lengthened(stretch.samples_N, rate)
        return np.zeros(rate, np.float32)

    def _window(
        self,
        window: Sequence[Recording],
        wanted: Wanted,
        decoder: AttentionDecoding,
        times: Times,
        batch_size: int,
        chunk_seconds: float,
        handed: int,
        on_error: str,
    ) -> Iterator[Transcript]:
        """The transcripts of some recordings, stretches of all of which are in one batch, or go on from each other."""
        own: list[Wanted] = []
        window = list(window)
        for i, recording in enumerate(window):
            try:
                own.append(self._of(recording, wanted))
                self.prompt_for(own[-1])
            except ValueError as error:
                if on_error == "stop":
                    raise ValueError(f"{recording.name}: {error}") from None
                own[i:] = [wanted]
                window[i] = recording._replace(samples_N=recording.samples_N[:0], error=f"{recording.name}: {error}")
        preferred = chunk_seconds * PREFERRED_SECONDS / LONGEST_SECONDS
        coming = [
            stretches(recording.samples_N, self.sample_rate, preferred=preferred, longest=chunk_seconds)
            for recording in window
        ]
        parts: list[list[HeardPart]] = [[] for _ in window]
        while True:
            # With words handed on, one stretch of each recording at a time; without, some batches of them.
            heard: list[_Stretch] = []
            for i, cut in enumerate(coming):
                for stretch in itertools.islice(cut, 1 if handed else WINDOW * batch_size):
                    if not is_silent(stretch.samples_N):
                        said = " ".join(part.hypothesis.text for part in parts[i]).split()[-handed:] if handed else []
                        ask = replace(own[i], context=" ".join(said)) if said else own[i]
                        heard.append(_Stretch(i, stretch.start / self.sample_rate, stretch.samples_N, ask))
                    else:
                        heard.append(_Stretch(i, 0.0, stretch.samples_N[:0], own[i]))
            if not heard:
                break
            spoken = [one for one in heard if len(one.samples_N)]
            for one, part in zip(spoken, self._heard(spoken, window, decoder, times, batch_size), strict=True):
                parts[one.recording].append(part)
        for recording, found, ask in zip(window, parts, own, strict=True):
            language = ask.target_language or ask.source_language or ""
            yield transcript_of(
                recording, found, self.pieces, language=language, seconds_per_frame=self.seconds_per_frame
            )

    def _heard(
        self,
        spoken: Sequence[_Stretch],
        window: Sequence[Recording],
        decoder: AttentionDecoding,
        times: Times,
        batch_size: int,
    ) -> list[HeardPart]:
        found: dict[int, HeardPart] = {}
        for rows in by_length([len(stretch.samples_N) for stretch in spoken], batch_size):
            samples = [_lengthened(spoken[row].samples_N, self.sample_rate) for row in rows]
            encoded = self.encode(*self.features(*padded(samples, self.device)))
            texts = self.decode(
                *encoded,
                prompt=[self.prompt_for(spoken[row].wanted) for row in rows],
                guard=True,
                decoder=decoder,
                hot_words=[window[spoken[row].recording].hot_words for row in rows],
            )
            placed = self._timed(samples, encoded, texts, [spoken[row].wanted for row in rows], times)
            for row, sound_N, text, own in zip(rows, samples, texts, placed, strict=True):
                length = len(spoken[row].samples_N)
                lead = (len(sound_N) - length) // 2 / self.sample_rate
                found[row] = HeardPart(spoken[row].start, length / self.sample_rate, text, lead, own)
        return [found[row] for row in range(len(spoken))]

    def _timed(
        self,
        samples: Sequence[np.ndarray],
        encoded: EncodedFrames,
        texts: Sequence[TextHypothesis],
        asked: Sequence[Wanted],
        times: Times,
    ) -> list[list[tuple[float, float]]]:
        """Start and end of the words of each text by CTC, as far as they can be found; of translations none."""
        if times in ("tokens", "none") or (times == "auto" and self.model.ctc is None):
            return [[] for _ in texts]
        listener: Listener = self
        if times == "aligner":
            listener, encoded = self._aligner, self._aligner.encode(*self._aligner.features(*padded(samples)))
        log_probs_BSV = listener.ctc_log_probs(encoded.encoded_BSC).cpu().numpy()
        found = []
        for log_probs_SV, count, text, wanted in zip(
            log_probs_BSV, encoded.frames_B.tolist(), texts, asked, strict=True
        ):
            if times == "aligner":
                words = spelled(text.text.split(), listener.pieces)
            else:
                labels = [label for label in text.labels if label not in self.pieces.control]
                words = [[labels[i] for i in group] for group in word_groups(self.pieces, labels)]
            words = [] if wanted.is_translation else words
            found.append(word_times(words, log_probs_SV[:count], listener.pieces, listener.seconds_per_frame))
        return found

    def _of(self, recording: Recording, wanted: Wanted) -> Wanted:
        """What is wanted of a recording. Raises ValueError."""
        wanted = wanted.with_entry(dict(recording.wanted))
        if wanted.source_language == AUTO:
            (found,) = self._identified([recording]) if len(recording.samples_N) else (Identified("", 0.0),)
            wanted = replace(wanted, source_language=found.language or self.languages[0])
        return wanted

    @functools.cached_property
    def _aligner(self) -> Listener:
        """The CTC model of the archive, read when times are first asked for: it may be larger than this model."""
        if self.aligner is None:
            raise CheckpointError("times = aligner: this model's file holds no CTC model besides")
        model, imported = read_aligner(self.aligner)
        return Listener(model, imported.features, imported.pieces, device=self.device)

    @functools.cached_property
    def _weights(self) -> Weights:
        return Weights(self.network, self.decoder_precision)

    def _heard_by_ctc(self, log_probs_SV: Tensor, labels: list[int]) -> float:
        """Log-probability of labels; of those that do not fit the frames minus infinity."""
        loss = ctc.ctc_loss(
            log_probs_SV[None], torch.tensor([labels]), torch.tensor([len(log_probs_SV)]), torch.tensor([len(labels)]),
            blank=self.pieces.blank, reduction="none", batch_first=True,
        )  # fmt: skip
        return -float(loss)

    def _wish(self, prompt: tuple[int, ...], limit: int, scorer: ctc.Scorer | None) -> Wish:
        return Wish(
            prompt=prompt,
            limit=limit,
            allowed_V=np.array(allowed(self.pieces, prompt, len(self.network.bias))),
            end=self.pieces.end,
            scorer=scorer,
            silent=self.pieces.control,
        )

    def _logits(self, encoded_BSC: Tensor, frames_B: Tensor, tokens_BL: Tensor, lengths_B: Tensor) -> Tensor:
        tokens_BL = tokens_BL.to(self.device)
        classes = len(self.network.bias)
        own_BL = torch.arange(tokens_BL.shape[1], device=self.device) < lengths_B.to(self.device)[:, None]
        tokens_BL = torch.where(own_BL, tokens_BL, self.pieces.pad)
        if tokens_BL.numel() and not 0 <= int(tokens_BL.min()) <= int(tokens_BL.max()) < classes:
            raise ValueError(
                f"tokens from {int(tokens_BL.min())} to {int(tokens_BL.max())}: expected 0 to {classes - 1}"
            )
        return self.network(encoded_BSC.to(self.device), frames_B.to(self.device), tokens_BL).float()


def _is_one(prompt: Sequence[Any]) -> bool:
    return all(isinstance(token, int | np.integer) for token in prompt)


def _lengthened(samples_N: np.ndarray, rate: int) -> np.ndarray:
    """Samples of at least `SHORTEST_SECONDS`, with silence on both sides of shorter ones, as NeMo does."""
    missing = int(SHORTEST_SECONDS * rate) - len(samples_N)
    return np.pad(samples_N, (missing // 2, missing - missing // 2)) if missing > 0 else samples_N
