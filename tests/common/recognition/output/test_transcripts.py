import numpy as np

from common.audio.silence import Cut
from common.recognition.output.transcripts import Letter, Transcript, Word, words_of, words_of_pieces
from common.recognition.sources.recordings import Recording
from common.text.pieces import Pieces

PLACE = {"recording": Recording("", np.zeros(0), 1.5, (Cut(0.0, 1.0),)), "seconds_per_frame": 0.02}


def letters(text: str, confidence: float = 0.81) -> list[Letter]:
    return [Letter(letter, 2 * i, 2 * i + 1, confidence) for i, letter in enumerate(text)]


def test_words_lie_between_separators_from_these_to_the_end_of_their_last_letter():
    assert words_of(letters("|ab||c|"), separator="|", **PLACE) == [
        Word("ab", 1.0, 1.1, 0.81),
        Word("c", 1.16, 1.22, 0.81),
    ]
    assert words_of([], separator="|", **PLACE) == []


def test_a_word_begins_with_the_separator_before_it_unless_that_is_far_off_in_a_pause():
    """A second was cut out of the pause after the second word, whose separator is before that."""
    spelled = [Letter("a", 2, 3, 1.0), Letter("|", 4, 5, 1.0), Letter("b", 6, 7, 1.0), Letter("|", 8, 9, 1.0)]
    spelled += [Letter("c", 11, 12, 1.0), Letter("|", 12, 13, 1.0), Letter("d", 40, 41, 1.0)]
    place = {"recording": Recording("", np.zeros(0), 2.0, (Cut(0.18, 1.0),)), "seconds_per_frame": 0.02}
    words = words_of(spelled, separator="|", **place)
    assert [word.start for word in words] == [0.04, 0.08, 1.14, 1.72]
    assert [word.end for word in words] == [0.06, 0.14, 1.24, 1.82]


def test_no_word_ends_after_its_recording():
    assert words_of([Letter("a", 0, 40, 1.0)], separator=" ", **PLACE)[0].end == 1.5


def test_the_confidence_of_a_word_is_the_geometric_mean_of_its_letters():
    spelled = [Letter("a", 0, 1, 0.25), Letter("b", 1, 2, 1.0)]
    assert words_of(spelled, separator=" ", **PLACE)[0].confidence == 0.5


def test_a_transcript_is_a_json_object():
    words = [Word("a", 0.0, 0.5, 0.5), Word("b", 0.5, 1.0, 1.0)]
    assert Transcript(audio="x.wav", text="a b", words=words, seconds=1.00049).record() == {
        "audio": "x.wav",
        "duration": 1.0,
        "text": "a b",
        "confidence": 0.75,
        "words": [word._asdict() for word in words],
    }
    assert Transcript(audio="x.wav", text="", words=[], seconds=1.0).record()["confidence"] == 0.0


def test_words_of_pieces_keep_their_punctuation_and_end_before_the_next_begins():
    pieces = Pieces(("<unk>", "▁the", "▁ca", "t", ",", "▁sat"), unknown=frozenset({0}))
    spans = [Letter("", 2, 4, 0.5), Letter("", 4, 5, 0.9), Letter("", 7, 9, 0.4), Letter("", 8, 30, 0.1),
             Letter("", 8, 9, 0.8), Letter("", 8, 40, 1.0)]  # fmt: skip
    recording = Recording("", np.zeros(0), 3.0, (Cut(0.0, 1.0),))
    words = words_of_pieces(pieces, [1, 2, 3, 4, 5, 5], spans, recording, seconds_per_frame=0.1)
    assert [word.text for word in words] == ["the", "cat,", "sat", "sat"]
    assert [(word.start, word.end) for word in words] == [(1.2, 1.4), (1.4, 1.8), (1.8, 1.9), (1.8, 3.0)]
    assert [word.confidence for word in words] == [0.5, 0.6, 0.8, 1.0]
    assert words_of_pieces(pieces, [], [], recording, seconds_per_frame=0.1) == []
