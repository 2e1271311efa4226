import pytest

from common.config import ConfigError
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
