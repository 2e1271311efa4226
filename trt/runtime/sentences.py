"""Texts that are being said, piece by piece; the next pieces of several of them are made together.

Shapes: N samples.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from fastpitch.front.planning import PlannedSentence
from fastpitch.speaking import sound

Next = Literal["sentence", "sound", "pause", "problem", "end"]
Said = np.ndarray | Exception | None
"""A piece of sound, float32 [N]; the reason why there is none; None at the end."""


class Saying:
    """A text of which some has been said."""

    def __init__(self, pieces: Sequence[PlannedSentence], *, chunk_frames: int | None):
        """`chunk_frames`: of the spectrogram of a sentence, whose sound is one piece; None for a sentence."""
        self.pieces, self.chunk_frames = list(pieces), chunk_frames
        self.sentence: Any = None
        """What a model made of the first of the pieces, or why it could not; None before that."""
        self.frames = self.frames_said = 0
        """How many frames the sentence has, and how many have been said."""

    @property
    def next(self) -> Next:
        """What comes next."""
        if isinstance(self.sentence, Exception):
            return "problem"
        while self.pieces:
            if self.pieces[0].encoded.tokens and self.sentence is None:
                return "sentence"
            if self.sentence is not None and self.frames_said < self.frames:
                return "sound"
            if self.pieces[0].pause_ms:
                return "pause"
            self._go_on()
        return "end"

    @property
    def until_frame(self) -> int:
        """The frame of the sentence up to which the next piece of sound goes."""
        return min(self.frames, self.frames_said + (self.chunk_frames or self.frames))

    def say(self, found: np.ndarray | None, sample_rate: int) -> Said:
        """What is said next, of which `found` is the sound; it is behind us then."""
        match self.next:
            case "problem":
                return self.sentence
            case "sound":
                self.frames_said = self.until_frame
                return found
            case "pause":
                silence_N = sound.silence(self.pieces[0].pause_ms, sample_rate)
                self._go_on()
                return silence_N
            case _:
                return None

    def _go_on(self) -> None:
        self.pieces = self.pieces[1:]
        self.sentence, self.frames, self.frames_said = None, 0, 0


def say_together(
    sayings: Sequence[Saying],
    *,
    sentences: Callable[[list[PlannedSentence]], Sequence[tuple[Any, int]]],
    sounds: Callable[[list[Saying]], Sequence[np.ndarray]],
    sample_rate: int,
) -> list[Said]:
    """The next piece of each of the texts.

    `sentences` makes of several what a voice needs to sound, and how many frames each has; an exception stands for one
    that cannot be said. `sounds` makes of each text the frames from `frames_said` to `until_frame`. If either raises an
    exception, nothing has been said, and fewer of them may be tried.
    """
    begun = [saying for saying in sayings if saying.next == "sentence"]
    if begun:
        for saying, made in zip(begun, sentences([saying.pieces[0] for saying in begun]), strict=True):
            saying.sentence, saying.frames = made
    speaking = [saying for saying in sayings if saying.next == "sound"]
    found = iter(sounds(speaking) if speaking else ())
    own = {id(saying): next(found) for saying in speaking}
    return [saying.say(own.get(id(saying)), sample_rate) for saying in sayings]
