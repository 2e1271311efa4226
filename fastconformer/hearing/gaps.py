"""Stretches whose text leaves out some of what is said, or goes round in it: heard again in parts. Needs no torch.

Attention decoders end a text too early, above all where a stretch is longer than what they learned from.

Shapes: N samples, S encoder frames, V pieces and the blank.
"""

from typing import NamedTuple

import numpy as np

from common.recognition.pauses import WINDOW_SECONDS, SoundStretch, loud_windows, stretches
from common.text.pieces import Pieces
from fastconformer.attention.search import BAD
from fastconformer.hearing.texts import HeardPart

SHORTEST_PART = 4.0  # seconds
LEAST_OF_CTC, LEAST_OF_TRANSLATED = 0.75, 0.4  # of the letters that a CTC head hears: a text with fewer has a gap
SLOWEST = 8.0  # letters in a second of sound; slow speech has 12
WIDE, PER_WIDE = 0x2E80, 3  # from this character on scripts have characters that stand for syllables and words


class JudgedPart(NamedTuple):
    """What a stretch says in one part, and how much that is, in letters: less than none where it goes round."""

    part: HeardPart
    said: int
    expected: float
    is_known: bool
    """Whether something else than the decoder has heard speech: what is loud need not be that."""

    @property
    def is_doubtful(self) -> bool:
        """Whether the text is too short for its sound, repeats itself, or does not end."""
        return self.said < self.expected

    @property
    def worth(self) -> int:
        """Letters that speak for this part beside a whole that is doubtful."""
        return min(self.said, 0) if self.is_doubtful and not self.is_known else self.said


def judged(part: HeardPart, sound_N: np.ndarray, rate: int, by_ctc: int | None, *, is_translation: bool) -> JudgedPart:
    """`by_ctc`: letters that a CTC head hears; None where there is no such head. Then an empty text is no gap."""
    said = -1 if BAD & {*part.hypothesis.flags} else letters(part.hypothesis.text)
    if by_ctc is not None:
        expected = by_ctc * (LEAST_OF_TRANSLATED if is_translation else LEAST_OF_CTC)
    else:
        expected = SLOWEST * WINDOW_SECONDS * loud_windows(sound_N, rate).sum() if said > 0 else 0.0
    return JudgedPart(part, said, expected, by_ctc is not None)


def letters(text: str) -> int:
    """How much a text says, in letters: a character of Chinese, Japanese or Korean counts as several."""
    return sum(PER_WIDE if ord(character) >= WIDE else 1 for character in text if character.isalnum())


def heard_letters(log_probs_SV: np.ndarray, pieces: Pieces) -> int:
    """How many letters the best path of CTC has."""
    labels_S = log_probs_SV.argmax(-1)
    changes_S = np.diff(labels_S, prepend=pieces.blank) != 0
    found = [label for label in labels_S[changes_S].tolist() if label != pieces.blank and label not in pieces.control]
    return letters(pieces.decode(found))


def parts_of(sound: SoundStretch, rate: int, overlap: float) -> list[SoundStretch]:
    """Two or three parts of a stretch, cut in pauses near its middle; none of one that is too short for that."""
    seconds, start = len(sound.samples_N) / rate, sound.start
    if seconds < 2 * SHORTEST_PART:
        return []
    found = list(stretches(sound.samples_N, rate, preferred=0.6 * seconds, longest=0.75 * seconds, overlap=overlap))
    return [
        SoundStretch(start + part.start, part.samples_N, start + part.first, min(start + part.end, sound.end))
        for part in found
    ] if len(found) > 1 else []  # fmt: skip
