"""Words of texts after prompts, with their times by CTC."""

import numpy as np
import pytest

from common.text.pieces import SPACE, Pieces
from fastconformer.hearing.prompted.texts import TAIL_SECONDS, in_sound, word_times

LETTERS = Pieces((SPACE, "a", "b", f"{SPACE}c", "."))
A, B, C, POINT, BLANK = 1, 2, 3, 4, 5


def sure(*frames: int) -> np.ndarray:
    """log_probs_SV of a model that is sure of a label at every frame."""
    found = np.full((len(frames), len(LETTERS)), -9.0, np.float32)
    found[range(len(frames)), frames] = -0.01
    return found


@pytest.mark.parametrize(
    ("frames", "times"),
    [
        ([BLANK, 0, BLANK, A, B, BLANK, C, BLANK], [(0.5, 4.5), (5.5, 6.5)]),  # a space right before its word
        ([0, BLANK, BLANK, BLANK, A, B, C, C], [(1.5, 5.5), (5.5, 7.5)]),  # a space in a pause
        ([0, A, B, C, POINT, BLANK, BLANK, BLANK], [(0.0, 2.5), (2.5, 3.5)]),  # punctuation has no part
    ],
)
def test_times_of_words_are_those_of_centred_frames_and_begin_with_a_space_near_them(frames, times):
    words = [[0, A, B], [C, POINT] if POINT in frames else [C]]
    found = word_times(words, sure(*frames), LETTERS, 0.04)
    assert found == [(pytest.approx(0.04 * a), pytest.approx(0.04 * b)) for a, b in times]


def test_among_longer_pieces_a_bare_space_does_not_begin_its_word():
    pieces = Pieces((SPACE, "a", f"{SPACE}the", f"{SPACE}an", "er"))
    found = word_times([[0, 1, 4]], sure(0, 0, 1, 4, BLANK, BLANK), pieces, 0.04)
    assert found == [(pytest.approx(0.06), pytest.approx(0.14))]


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([(0.0, 0.3), (0.3, 0.5)], [(0.2, 0.3), (0.3, 0.6)]),  # from the first sound, to the last one
        ([(0.24, 0.3), (0.5, 0.52)], [(0.24, 0.5), (0.5, 0.6)]),  # a word ends where the next one begins
        ([(0.24, 0.3), (0.8, 1.2)], [(0.24, 0.6), (1.0, 1.1)]),  # or where its sound does, before a pause
        ([(0.7, 0.8), (0.94, 1.3)], [(0.7, 0.8), (1.0, 1.1)]),  # what is heard in silence stays where it was
        ([(1.0, 1.02), (1.02, 1.06)], [(1.0, 1.02), (1.02, 1.1)]),
    ],
)
def test_words_begin_and_end_with_their_sound(times, found):
    is_loud_W = np.zeros(70, bool)
    is_loud_W[10:30] = is_loud_W[50:55] = True  # from 0.2 to 0.6 s, and from 1 to 1.1 s
    assert in_sound(times, is_loud_W) == [(pytest.approx(a), pytest.approx(b)) for a, b in found]


def test_in_noise_a_word_does_not_last_until_the_next_one():
    ((_, end), *_) = in_sound([(0.2, 0.4), (3.0, 3.2)], np.ones(200, bool))
    assert end == pytest.approx(0.4 + TAIL_SECONDS)


def test_a_text_that_does_not_fit_has_no_times():
    assert word_times([[0, A, A, A]], sure(0, A, A), LETTERS, 0.04) == []
