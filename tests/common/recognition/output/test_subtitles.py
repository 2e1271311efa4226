from itertools import pairwise

import pytest

from common.recognition.output.subtitles import LINE_CHARACTERS, LONGEST_SECONDS, cues, render
from common.recognition.output.transcripts import Word


def spoken(text: str, *, start: float = 0.0, seconds_per_word: float = 0.3) -> list[Word]:
    return [
        Word(word, start + i * seconds_per_word, start + (i + 0.8) * seconds_per_word, 0.9)
        for i, word in enumerate(text.split())
    ]


def test_a_pause_ends_a_subtitle():
    first, second = cues(spoken("one two") + spoken("three", start=5.0))
    assert first.lines == ["one two"]
    assert second == (5.0, 6.0, ["three"])


def test_a_subtitle_has_at_most_two_lines_of_similar_length():
    text = "it was the first great sorrow of his life it was not so much the loss of the cotton itself"
    found = cues(spoken(text))
    assert " ".join(line for cue in found for line in cue.lines) == text
    assert all(len(cue.lines) <= 2 for cue in found)
    assert all(len(line) <= LINE_CHARACTERS for cue in found for line in cue.lines)
    assert cues(spoken("so the two lines of this one are equally long again"))[0].lines == [
        "so the two lines of this",
        "one are equally long again",
    ]


def test_slow_speech_is_cut_by_time():
    found = cues(spoken("a b c d e f g h i j", seconds_per_word=1.5))
    assert len(found) == 3
    assert all(cue.end - cue.start <= LONGEST_SECONDS for cue in found)


def test_a_short_word_stays_long_enough_to_be_read_but_not_beyond_the_next():
    assert cues([Word("yes", 1.0, 1.1, 1.0)]) == [(1.0, 2.0, ["yes"])]
    first, second = cues([Word("yes", 1.0, 1.1, 1.0), *spoken("x " * 43, start=1.5)])
    assert first.end <= second.start


def test_a_word_longer_than_a_line_is_not_broken():
    word = "a" * (LINE_CHARACTERS + 9)
    assert cues(spoken(f"short {word}"))[0].lines == ["short", word]


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("srt", "1\n00:00:00,500 --> 00:00:01,500\nhello\n\n2\n01:01:01,250 --> 01:01:02,250\nagain\n"),
        ("vtt", "WEBVTT\n\n1\n00:00:00.500 --> 00:00:01.500\nhello\n\n2\n01:01:01.250 --> 01:01:02.250\nagain\n"),
    ],
)
def test_both_formats_are_written_as_their_players_expect(style, text):
    assert render([Word("hello", 0.5, 0.9, 1.0), Word("again", 3661.25, 3661.5, 1.0)], style) == text


@pytest.mark.parametrize(("style", "text"), [("srt", ""), ("vtt", "WEBVTT\n")])
def test_no_words_make_an_empty_file(style, text):
    assert render([], style) == text


def test_words_that_have_the_times_of_a_stretch_share_it_by_their_lengths():
    text = " ".join(f"wort{i}" for i in range(40))
    words = [*(Word(word, 10.0, 40.0, 0.9) for word in text.split()), *spoken("and on", start=41.5)]
    found = cues(words)
    assert " ".join(line for cue in found for line in cue.lines) == f"{text} and on"
    assert (found[0].start, found[-2].end, found[-1].start) == (10.0, 40.0, 41.5)
    assert all(one.end == pytest.approx(other.start) for one, other in pairwise(found[:-1]))
    assert all(2 < cue.end - cue.start < 12 and len(cue.lines) <= 2 for cue in found[:-1])
