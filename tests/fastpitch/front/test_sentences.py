import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpitch.front import ssml
from fastpitch.front.sentences import CLAUSE_SECONDS, MAX_CHARACTERS, SENTENCE_SECONDS, sentences
from tests.data import shared


def split(text: str, *, max_characters: int = MAX_CHARACTERS, language: str = "") -> list[str]:
    """The sentences of plain text."""
    spans = [ssml.MarkedSpan(text)]
    return [found.text for found in sentences(spans, max_characters=max_characters, language=language)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Hello world. How are you? Fine!", ["Hello world.", "How are you?", "Fine!"]),
        ("Dr. Smith met J. F. Kennedy at 3.14 p.m. He left.", ["Dr. Smith met J. F. Kennedy at 3.14 p.m.", "He left."]),
        ("I live in the U.S. The U.S. Army came.", ["I live in the U.S.", "The U.S. Army came."]),
        ("On Main St. He left. St. James is.", ["On Main St.", "He left.", "St. James is."]),
        ('wait... what? "Yes." (No.) Ok', ["wait... what?", '"Yes."', "(No.)", "Ok"]),
        ("one line\ntwo\n\nthree", ["one line", "two", "three"]),
        ("你好。世界！我爱 Python。", ["你好。", "世界！", "我爱 Python。"]),
        ("No. 5 is, e.g. this. i.e. that", ["No. 5 is, e.g. this. i.e. that"]),
        ("See fig. 3. It shows", ["See fig. 3.", "It shows"]),
        ("He is 5 ft. 10 in. Tall men", ["He is 5 ft. 10 in.", "Tall men"]),
        ("It took 5 min. 3 people left.", ["It took 5 min.", "3 people left."]),
        ("It is 6 ft. 2 men saw it.", ["It is 6 ft.", "2 men saw it."]),
        ("... yes. ... no", ["... yes.", "... no"]),
        ("no end", ["no end"]),
        ("", []),
        ("...", []),
    ],
)  # fmt: skip
def test_sentences_end_where_a_reader_breathes(text, parts):
    assert split(text) == parts


def test_pauses_are_between_sentences_not_after_the_last():
    found = sentences(ssml.parse("One. Two! Three"))
    assert [sentence.pause_seconds for sentence in found] == [SENTENCE_SECONDS, SENTENCE_SECONDS, 0]
    found = sentences(ssml.parse("One.\nTwo."))
    assert [sentence.pause_seconds for sentence in found] == [ssml.PARAGRAPH_SECONDS, 0]


def test_a_break_ends_a_sentence_and_counts_at_the_end_too():
    found = sentences(ssml.parse("One <break time='200ms'/> two. <break time='1s'/>"))
    assert [(sentence.text, sentence.pause_seconds) for sentence in found] == [("One", 0.2), ("two.", 1.0)]
    found = sentences(ssml.parse("<break time='1s'/>One"))
    assert [(sentence.text, sentence.pause_seconds) for sentence in found] == [("", 1.0), ("One", 0.0)]


@pytest.mark.parametrize(
    ("text", "pauses"),
    [
        ("One. <break time='200ms'/> Two.", [0.2, 0]),
        ("One.\n<break time='100ms'/> Two.", [0.1, 0]),
        ("One. <break strength='none'/>Two.", [0, 0]),
        ("One <break strength='none'/> and two.", [0]),
        ("One. <break time='200ms'/> <break time='300ms'/><break time='1s'/> Two.", [1.5, 0]),
        ("<p>One.</p><break time='200ms'/><p>Two.</p>", [0.2, 0]),
        ("<p>One.<break time='200ms'/></p>Two.", [0.2, 0]),
        ("<p><s>One.</s><s>Two.</s></p>Three.", [SENTENCE_SECONDS, ssml.PARAGRAPH_SECONDS, 0]),
        ("<speak>One.<break time='200ms'/> </speak>", [0.2]),
        ("<break time='0s'/>One.", [0]),
    ],
)
def test_a_break_takes_the_place_of_the_pause_that_would_be_there(text, pauses):
    assert [sentence.pause_seconds for sentence in sentences(ssml.parse(text))] == pytest.approx(pauses)


def test_a_sentence_goes_on_from_one_piece_to_the_next():
    found = sentences(
        ssml.parse("wor<prosody rate='80%'>ld</prosody>. Next <prosody rate='80%'>one. And</prosody> on.")
    )
    assert [sentence.text for sentence in found] == ["world.", "Next one.", "And on."]
    assert [span.text for span in found[0].spans] == ["wor", "ld", "."]


def test_a_line_of_5000_characters_is_divided_at_clauses():
    text = ("a word, and some more words that follow it " * 120)[:5000]
    found = sentences(ssml.parse(text))
    assert all(len(sentence.text) <= 300 for sentence in found)
    assert "".join(sentence.text for sentence in found).replace(" ", "") == text.replace(" ", "")
    assert sum(sentence.text.endswith("word,") for sentence in found) > len(found) / 2
    assert {sentence.pause_seconds for sentence in found[:-1]} == {CLAUSE_SECONDS}


def test_words_longer_than_a_sentence_are_cut_and_phonemes_are_not():
    assert [len(part) for part in split("x" * 700)] == [300, 300, 100]
    assert all(part.count("{") == part.count("}") for part in split("{HH AY1 } " * 100))


def test_pieces_without_an_end_are_divided_between_them():
    text = "<prosody rate='2'>some words</prosody> and <prosody rate='3'>others</prosody> "
    assert all(len(sentence.text) <= 50 for sentence in sentences(ssml.parse(text * 20), max_characters=50))


def test_most_clips_of_ljspeech_are_a_sentence_or_a_few():
    rows = shared("data/text/ljspeech-metadata-full.csv").read_text(encoding="utf-8").splitlines()
    counts = [len(split(row.split("|")[1])) for row in rows[::50]]
    assert sum(counts) < 1.35 * len(counts)


@given(st.text(max_size=200), st.integers(5, 60))
def test_no_word_is_lost(text, max_characters):
    parts = split(text, max_characters=max_characters)
    assert all(0 < len(part) <= max_characters for part in parts)
    letters = [character for character in text if character.isalnum()]
    assert [character for part in parts for character in part if character.isalnum()] == letters


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("de", ["Am 3. Mai kam Dr. Müller, z. B. aus der Hauptstr. 7.", "Das war schön."]),
        ("de", ["Er hat 3,5 Mio. Euro.", "Es waren 3.", "Dann ging er."]),
        ("de", ["So.", "Das ist Max.", "Er kommt am So. wieder.", "So. 10 Uhr."]),
        ("es", ["El Sr. García vive en EE. UU. desde mayo.", "Pesa 5 kg.", "Bien."]),
        ("fr", ["M. Dupont, av. J.-C., roule.", "Il dort."]),
        ("nl", ["Dhr. Jansen weegt 80 kg.", "Dat klopt."]),
        ("cs", ["Přišel 3. května.", "Bylo to dobré."]),
        ("", ["Dr. Smith came.", "He left."]),
    ],
)
def test_sentences_do_not_end_at_abbreviations_and_ordinals(language, parts):
    assert split(" ".join(parts), language=language) == parts
