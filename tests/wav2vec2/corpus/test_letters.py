import pytest

from common.config import ConfigError
from common.text.vocabulary import VocabularyError
from tests.wav2vec2.corpus.sets import LETTERS
from wav2vec2.corpus.letters import Letters, parse_dictionary, read_dictionary


@pytest.mark.parametrize(
    ("labels", "text", "normalized"),
    [
        ("|AB", "ab Ba", "AB BA"),
        ("|ab", "ab Ba", "ab ba"),
        ("|abAB", "ab Ba", "ab Ba"),  # such a dictionary is for capitals, too
        ("|\u4f60\u597d", "\u4f60\u597d", "\u4f60\u597d"),
    ],
)
def test_texts_take_the_case_of_the_labels(labels, text, normalized):
    assert Letters(("<s>", *labels)).spelling()(text) == normalized


def test_numbers_are_spelled_out_in_the_case_of_the_labels():
    assert Letters(("<s>", *"|TWO")).spelling()("2") == "TWO"
    assert Letters(("<s>", *"|two")).spelling()("2") == "two"


def test_a_dictionary_has_the_special_labels_before_its_own(tmp_path):
    (tmp_path / "dict.ltr.txt").write_text("| 9\nE 8\n\n")
    assert read_dictionary(tmp_path / "dict.ltr.txt") == ("<s>", "<pad>", "</s>", "<unk>", "|", "E")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x: 0 symbols, 0 of them different; expected some, once"),
        ("a 1\na 2", "x: 2 symbols, 1 of them different; expected some, once"),
        ("a 1\nb", "x:2: found 'b'; expected a symbol and how often it occurs"),
    ],
)
def test_a_text_that_is_no_dictionary_is_told(text, message):
    with pytest.raises(ConfigError) as error:
        parse_dictionary(text, "x")
    assert str(error.value) == message


def test_texts_become_letters_and_come_back():
    assert [LETTERS.labels[i] for i in LETTERS.encode("HI YOU")] == [*"HI|YOU|"]
    assert LETTERS.decode(LETTERS.encode("HI YOU")) == "HI YOU"
    assert LETTERS.decode([2, *LETTERS.encode("A"), 3]) == "A"
    assert LETTERS.spelling()(" it's  5 o'clock ") == "IT'S FIVE O'CLOCK"
    small = Letters(("_", " ", "a", "b"))
    assert small.encode("a b") == [2, 1, 3]
    assert small.spelling()("A B") == "a b"


def test_a_character_that_is_no_label_is_named():
    with pytest.raises(VocabularyError, match=r"character '5' of 'A 5' is none of the labels .*normalise the text"):
        LETTERS.encode("A 5")
