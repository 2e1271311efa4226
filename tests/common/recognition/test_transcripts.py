from common.recognition.transcripts import Letter, Transcript, Word, words_of

PLACE = {"first_seconds": 1.0, "seconds_per_frame": 0.02, "seconds": 1.5}


def letters(text: str, confidence: float = 0.81) -> list[Letter]:
    return [Letter(letter, 2 * i, 2 * i + 1, confidence) for i, letter in enumerate(text)]


def test_words_lie_between_separators_from_their_first_letter_to_the_end_of_their_last():
    assert words_of(letters("|ab||c|"), separator="|", **PLACE) == [
        Word("ab", 1.04, 1.1, 0.81),
        Word("c", 1.2, 1.22, 0.81),
    ]
    assert words_of([], separator="|", **PLACE) == []


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
