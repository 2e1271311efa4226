"""A model that writes texts after prompts: what it is, and what it makes of sounds. Needs no torch.

Shapes: N samples, S encoder frames, V classes.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np

from common.audio.silence import Keep
from common.recognition.cutting.pauses import loud_windows
from common.text.pieces import word_groups
from fastconformer.attention.config import AttentionConfig, Times
from fastconformer.attention.joint import CtcPrefixes, JointScorer
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.attention.prompt import PromptFormat, Wanted, allowed
from fastconformer.attention.search import DecoderStep, TextScorer, Wish, decode
from fastconformer.hearing.prompted.decoding import AttentionDecoding, CtcFrames, HeardFrames
from fastconformer.hearing.prompted.texts import TextHypothesis, hypothesis_of, in_sound, spelled, word_times

AUTO = "auto"
SPARE_TOKENS = 50
"""Tokens of prompt and text together, beyond one for each frame, after which a text ends."""


class PromptedNetwork(ABC):
    """A model that writes a text after a prompt, which says in which language.

    `network` says what the decoder is like. A class of it sets what is declared here, and has `_hear` and `_steps`.
    """

    pieces: PromptedPieces
    sample_rate: int
    """Samples a second of the arrays that it hears; files of any rate are resampled."""
    keep: Keep | None
    """What cuts pauses out of recordings."""
    seconds_per_frame: float
    """Seconds from one encoder frame to the next."""
    has_ctc: bool
    """Whether there is a CTC head, which finds the times of words."""
    most_samples: float = 2**19
    """Samples that go through the encoder at once: on a CPU half a minute, of 16 kHz. More at once are slower there."""

    def __init__(self, network: AttentionConfig, pieces: PromptedPieces) -> None:
        self.attention = network
        self.languages, self.chunk_seconds = pieces.languages, network.longest_seconds
        """Codes of the languages that it hears and writes; the longest stretch that is heard at once."""
        self.prompts = PromptFormat(network.prompt, pieces, network.language, network.directions)

    @property
    def assumed_language(self) -> str:
        """The language of recordings of which nothing is said: "auto" where it is identified, "" where it must be said.

        Models that Cohere trained do not identify any.
        """
        if len(spoken := self.prompts.spoken()) == 1:
            return spoken[0]
        return "" if self.attention.prompt == "cohere" else AUTO

    @abstractmethod
    def _hear(self, samples: Sequence[np.ndarray]) -> HeardFrames:
        """What the decoder needs of some sounds."""

    @abstractmethod
    def _steps(self) -> AbstractContextManager[DecoderStep]:
        """The network of the decoder, with room for a search, whose own it is until it is over."""

    def _by_aligner(self, samples: Sequence[np.ndarray]) -> CtcFrames:
        """What another model finds, that is beside this one. Raises ValueError where there is none."""
        raise ValueError("times = aligner: this model's file holds no CTC model besides")

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
        wishes, weight = [], decoder.ctc_weight
        for row, (heard, count, prompt, some) in enumerate(
            zip(frames.heard, frames.counts, prompts, hot_words, strict=True)
        ):
            room = min(self.attention.positions, count + SPARE_TOKENS) - len(self._with_room(prompt))
            scorer: TextScorer | None = decoder.known.scorer_with(tuple(some))
            is_joint = weight > 0 and not self.prompts.is_translation(prompt)
            if is_joint:
                scorer = JointScorer(CtcPrefixes(frames.log_probs[row], self.pieces.blank), weight, scorer)
            wish = Wish(
                prompt=tuple(prompt),
                limit=max(1, room),
                allowed_V=np.array(allowed(self.pieces, prompt, self._classes)),
                end=self.pieces.end,
                scorer=scorer,
                share=1 - weight if is_joint else 1.0,
                silent=self.pieces.control,
            )
            wishes.append((wish, heard))
        with self._steps() as step:
            found = decode(step, wishes, replace(decoder.search, guard=guard))
        return [hypothesis_of(one, self.pieces) for one in found]

    def _tells_times(self, times: Times, wanted: Wanted) -> bool:
        """Whether words have times of their own."""
        if wanted.is_translation:
            return False
        return self.has_ctc if times == "auto" else times != "none"

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
