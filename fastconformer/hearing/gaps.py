"""Stretches whose text leaves out some of what is said, or goes round in it: heard again in parts. Needs no torch.

Attention decoders end a text too early, above all where a stretch is longer than what they learned from.

Shapes: N samples, S encoder frames, V pieces and the blank.
"""

from collections.abc import Sequence

import numpy as np

from common.recognition.pauses import SoundStretch, loud_seconds, stretches
from common.text.pieces import Pieces
from fastconformer.attention.search import BAD
from fastconformer.hearing.texts import TextHypothesis

SHORTEST_PART = 4.0  # seconds
LEAST_OF_CTC, LEAST_OF_TRANSLATED = 0.75, 0.4  # of the letters that a CTC head hears: a text with fewer has a gap
SLOWEST = 8.0  # letters in a second of sound; slow speech has 12
WIDE, PER_WIDE = 0x2E80, 3  # from this character on scripts have characters that stand for syllables and words


def letters(text: str) -> int:
    """How much a text says, in letters: a character of Chinese, Japanese or Korean counts as several."""
    return sum(PER_WIDE if ord(character) >= WIDE else 1 for character in text if character.isalnum())


def heard_letters(log_probs_SV: np.ndarray, pieces: Pieces) -> int:
    """How many letters the best path of CTC has."""
    labels_S = log_probs_SV.argmax(-1)
    changes_S = np.diff(labels_S, prepend=pieces.blank) != 0
    found = [label for label in labels_S[changes_S].tolist() if label != pieces.blank and label not in pieces.control]
    return letters(pieces.decode(found))


def is_doubtful(
    text: TextHypothesis, sound_N: np.ndarray, rate: int, by_ctc: int | None, *, is_translation: bool
) -> bool:
    """Whether a text repeats itself, does not end, or is too short for its sound.

    `by_ctc`: letters that a CTC head hears; None where there is no such head. Then an empty text is taken for right:
    what is loud need not be speech.
    """
    if BAD & {*text.flags}:
        return True
    said = letters(text.text)
    if by_ctc is not None:
        return said < (LEAST_OF_TRANSLATED if is_translation else LEAST_OF_CTC) * by_ctc
    return 0 < said < SLOWEST * loud_seconds(sound_N, rate)


def parts_of(sound: SoundStretch, rate: int, overlap: float) -> list[SoundStretch]:
    """Two or three parts of a stretch, cut in pauses near its middle; none of one that is too short for that."""
    seconds = len(sound.samples_N) / rate
    if seconds < 2 * SHORTEST_PART:
        return []
    found = list(stretches(sound.samples_N, rate, preferred=0.6 * seconds, longest=0.75 * seconds, overlap=overlap))
    start = sound.start
    return [
        SoundStretch(start + part.start, part.samples_N, start + part.first, min(start + part.end, sound.end))
        for part in found
    ] if len(found) > 1 else []  # fmt: skip


def are_better(parts: Sequence[TextHypothesis], whole: TextHypothesis) -> bool:
    """Whether the texts of the parts are taken: those that do not repeat themselves say more than such a whole."""
    sound = [part for part in parts if not BAD & {*part.flags}]
    if BAD & {*whole.flags}:
        return bool(sound)
    return sum(letters(part.text) for part in sound) > letters(whole.text)
