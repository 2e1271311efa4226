import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.text.vocabulary import ENGLISH, Vocabulary, VocabularyError


def test_the_english_vocabulary_has_the_published_28_labels_with_the_blank_behind_them():
    assert "".join(ENGLISH.labels) == " abcdefghijklmnopqrstuvwxyz'"
    assert len(ENGLISH) == 29
    assert ENGLISH.blank == 28
    assert ENGLISH.encode("a z'") == [1, 0, 26, 27]


@given(st.text(alphabet=ENGLISH.labels))
def test_decoding_gives_back_what_was_encoded(text):
    assert ENGLISH.decode(ENGLISH.encode(text)) == text


def test_other_alphabets_work_in_the_order_given():
    assert Vocabulary(("é", "你")).encode("你é") == [1, 0]


def test_a_character_without_a_label_is_named_with_its_place_and_its_text():
    with pytest.raises(VocabularyError, match=r"character 'é' at position 3 of 'café' is none of the 28 labels"):
        ENGLISH.encode("café")


@pytest.mark.parametrize("index", [28, 29, -1])
def test_a_blank_or_a_number_without_a_label_cannot_be_decoded(index):
    with pytest.raises(VocabularyError, match=rf"{index} is no label: expected 0 to 27, in \[1, {index}\]"):
        ENGLISH.decode([1, index])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ((), "a vocabulary needs one label at least"),
        (("a", "ab"), "labels are single characters, but 'ab' has 2"),
        (("a", ""), "labels are single characters, but '' has 0"),
        (("a", "b", "a"), "label 'a' occurs twice"),
    ],
)
def test_labels_that_are_no_vocabulary_are_refused(labels, message):
    with pytest.raises(VocabularyError, match=message):
        Vocabulary(labels)


def test_vocabularies_of_the_same_labels_are_equal_also_in_another_process():
    assert Vocabulary(list(ENGLISH.labels)) == ENGLISH
    assert pickle.loads(pickle.dumps(ENGLISH)).encode("ab") == [1, 2]
