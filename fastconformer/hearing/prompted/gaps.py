"""Stretches whose text leaves out some of what is said, or goes round in it: heard again in parts. Needs no torch.

Attention decoders end a text too early, above all where a stretch is longer than what they learned from.

Shapes: N samples, S encoder frames, V pieces and the blank.
"""

import difflib
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common.recognition.cutting.pauses import WINDOW_SECONDS, SoundStretch, loud_windows, stretches
from common.text.pieces import Pieces, is_spaceless, is_spoken
from fastconformer.attention.joint import log_likelihood
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.attention.search import BAD
from fastconformer.hearing.prompted.texts import GAP, HeardPart, TextHypothesis

AT_ONCE = 4  # neighbours, at most, that are heard as one
SHORTEST_PART, SHORTEST_UNKNOWN = 2.0, 5.0  # seconds, with a CTC head and without one
CTC_WEIGHT = 0.3
"""Share of CTC in the scores of a text, the rest of which is the decoder's."""
WORD_NATS = 8.0
UNSURE, UNSURE_OF_LABEL = 0.5, 2.3
"""Nats by both for all of a stretch and its least probable label, and by the decoder for that label alone, beyond which
other texts are heard."""
UNLIKELY = 5.0  # nats that a text may be less probable than the best path of CTC: a word more or less costs more
PER_FRAME = 10.0  # nats, at most
LEAST_EVIDENCE = 4.0  # nats for each label of a doubtful text but punctuation, by which CTC prefers it to silence
FASTEST = 40.0  # letters in a second; fast speech has 25, and very fast speech 33
LEAST_OF_TRANSLATED = 0.4  # of the letters that a CTC head hears
SLOWEST = 8.0  # letters in a second of sound; slow speech has 12
WIDE, PER_WIDE = 0x2E80, 3  # from this character on scripts have characters that stand for syllables and words


class JudgedPart(NamedTuple):
    """What a stretch says in one part, and how far that is from what should be heard in it."""

    part: HeardPart
    is_doubtful: bool
    doubt: float
    """In nats or letters: of a text for all of a stretch."""
    doubt_of_part: float
    """Likewise, of one of several."""
    sound: SoundStretch | None = None
    """What it was heard in, where there is a CTC head, and this part or a neighbour is doubtful."""

    unsure: float = 0.0
    """Nats by which its text is improbable to the decoder, its end too: a word that is left out would cost nothing."""

    is_unsure: bool = False
    """Whether the decoder doubts it though CTC need not, as where it was overruled."""

    is_invented: bool = False
    """Whether nobody can have said it: so fast, or with so little that CTC hears."""

    @property
    def is_heard_again(self) -> bool:
        """Whether others are to be heard in its place."""
        return self.is_doubtful or self.is_unsure

    @property
    def written(self) -> HeardPart:
        """The part as the transcript has it, without what is invented."""
        text = self.part.hypothesis
        if not self.is_invented:
            return self.part
        flags = tuple(dict.fromkeys((*text.flags, GAP)))
        return self.part._replace(hypothesis=TextHypothesis([], "", [], 0.0, flags), times=())

    def flagged(self, flags: Sequence[str]) -> "JudgedPart":
        """As something that was heard again, in place of what had these flags."""
        text = self.part.hypothesis
        text = text._replace(flags=tuple(dict.fromkeys((*flags, GAP, *text.flags))))
        return self._replace(part=self.part._replace(hypothesis=text))


def judged(
    part: HeardPart,
    sound_N: np.ndarray,
    rate: int,
    log_probs_SV: np.ndarray | None,
    pieces: PromptedPieces,
    *,
    is_translation: bool,
) -> JudgedPart:
    """By a CTC head, where there is one: how much less probable a transcript is than what CTC hears best.

    Translations, and where there is no such head, by their lengths. Without the head an empty text is taken for right,
    and a short one is no proof that parts of it say more: what is loud need not be speech, and decoders invent words.
    """
    text = part.hypothesis
    said = letters(text.text)
    is_bad = bool(BAD & {*text.flags})
    is_invented = not is_bad and said > FASTEST * len(sound_N) / rate  # what did not end says so itself
    if log_probs_SV is not None and not is_translation:
        labels = [label for label in text.labels if label not in pieces.control]
        best = float(log_probs_SV.max(-1).sum(dtype=np.float64))
        limit = PER_FRAME * len(log_probs_SV)
        doubt = min(best - log_likelihood(log_probs_SV, labels, blank=pieces.blank), limit)
        if doubt > UNLIKELY and not is_invented:
            spoken = [label for label in labels if is_spoken(pieces, label)]  # nobody hears punctuation
            silence = float(log_probs_SV[:, pieces.blank].sum(dtype=np.float64))
            evidence = log_likelihood(log_probs_SV, spoken, blank=pieces.blank) - silence
            is_invented = evidence < LEAST_EVIDENCE * (len(spoken) or len(labels))
        *nats, ending = (-math.log(max(sure, 1e-30)) for sure in (*text.confidence, text.end))
        most = max(nats, default=0.0)
        is_unsure = most > UNSURE_OF_LABEL or CTC_WEIGHT * doubt + (1 - CTC_WEIGHT) * most > UNSURE
        return JudgedPart(
            part, is_bad or doubt > UNLIKELY, doubt, doubt,
            unsure=sum(nats) + ending, is_unsure=is_unsure, is_invented=is_invented,
        )  # fmt: skip
    if log_probs_SV is not None:
        expected = LEAST_OF_TRANSLATED * heard_letters(log_probs_SV, pieces)
        doubt = 2 * expected if is_bad else max(0.0, expected - said)
        return JudgedPart(part, is_bad or doubt > 0, doubt, doubt, is_invented=is_invented)
    expected = SLOWEST * WINDOW_SECONDS * float(loud_windows(sound_N, rate).sum())
    is_doubtful, doubt, of_part = said > 0, expected - said, expected
    if is_bad:
        is_doubtful, doubt, of_part = True, 2 * expected, 2 * expected
    elif said >= expected:
        is_doubtful, doubt, of_part = False, 0.0, 0.0
    return JudgedPart(part, is_doubtful, doubt, of_part, is_invented=is_invented)


def is_better(texts: Sequence[JudgedPart], before: JudgedPart) -> bool:
    """Whether a text, or those of some parts, are more probable by the decoder and CTC than that from before.

    CTC heads are sure of letters that are wrong: of each word in which the texts differ, they have a say of
    `WORD_NATS` at most; where no spaces are written, of each character. A text that did not end, or that nobody said,
    has no say.
    """
    gain = before.doubt - sum(own.doubt for own in texts)
    if before.is_invented or BAD & {*before.part.hypothesis.flags}:
        return gain > 0
    one = _words(" ".join(own.part.hypothesis.text for own in texts))
    other = _words(before.part.hypothesis.text)
    spans = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    most = WORD_NATS * sum(max(b - a, d - c) for kind, a, b, c, d in spans if kind != "equal")
    surer = before.unsure - sum(own.unsure for own in texts)
    return CTC_WEIGHT * min(max(gain, -most), most) + (1 - CTC_WEIGHT) * surer > 0


def _words(text: str) -> list[str]:
    return "".join(f" {character} " if is_spaceless(character) else character for character in text).split()


def letters(text: str) -> int:
    """How much a text says, in letters: a character of Chinese, Japanese or Korean counts as several."""
    return sum(PER_WIDE if ord(character) >= WIDE else 1 for character in text if character.isalnum())


def heard_letters(log_probs_SV: np.ndarray, pieces: Pieces) -> int:
    """How many letters the best path of CTC has."""
    labels_S = log_probs_SV.argmax(-1)
    changes_S = np.diff(labels_S, prepend=pieces.blank) != 0
    found = [label for label in labels_S[changes_S].tolist() if label != pieces.blank and label not in pieces.control]
    return letters(pieces.decode(found))


def parts_of(sound: SoundStretch, rate: int, overlap: float, *, has_ctc: bool) -> list[SoundStretch]:
    """Two or three parts of a stretch, cut in pauses near its middle; none of one that is too short for that."""
    seconds, start = len(sound.samples_N) / rate, sound.start
    if seconds < 2 * (SHORTEST_PART if has_ctc else SHORTEST_UNKNOWN):
        return []
    found = list(stretches(sound.samples_N, rate, preferred=0.6 * seconds, longest=0.75 * seconds, overlap=overlap))
    return [
        SoundStretch(start + part.start, part.samples_N, start + part.first, min(start + part.end, sound.end))
        for part in found
    ] if len(found) > 1 else []  # fmt: skip


def united(parts: Sequence[JudgedPart], most: float) -> SoundStretch | None:
    """Neighbours in one stretch of at most so many samples, if some are doubtful: seams may be in a sentence."""
    if not any(part.is_doubtful for part in parts):
        return None
    sounds = [part.sound for part in parts if part.sound is not None]
    pieces = []
    for one, following in itertools.pairwise(sounds):
        if not 0 < (own := following.start - one.start) <= len(one.samples_N):
            return None
        pieces.append(one.samples_N[:own])
    if len(sounds) < len(parts) or sum(map(len, pieces)) + len(sounds[-1].samples_N) > most:
        return None
    samples_N = np.concatenate([*pieces, sounds[-1].samples_N])
    return SoundStretch(sounds[0].start, samples_N, sounds[0].first, sounds[-1].end)


def without_sounds(parts: list[JudgedPart], new: int) -> None:
    """Forgets the sounds of parts that no neighbour will be heard with, now that there are so many `new` ones."""
    for at in range(max(0, len(parts) - new - AT_ONCE + 1), len(parts) - AT_ONCE + 1):
        if not any(part.is_doubtful for part in parts[max(0, at - AT_ONCE + 1) : at + AT_ONCE]):
            parts[at] = parts[at]._replace(sound=None)
