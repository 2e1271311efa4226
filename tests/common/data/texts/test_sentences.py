import re

import pytest

from common.data.texts.sentences import CHOICES, sentences, subset_of
from common.text.vocabulary import ENGLISH

SUBSETS = ("train", "dev", "test")


def vocabulary() -> set[str]:
    """Every word that an English sentence may contain."""
    text = " ".join(" ".join(choices) for choices in CHOICES["en"].values())
    possessives = {f"{word}'s" for name in ("name", "person") for word in CHOICES["en"][name]}
    return set(re.sub(r"\{\w+\}('s)?", " ", text).split()) | possessives | {"an"}


@pytest.mark.parametrize("subset", SUBSETS)
def test_sentences_have_3_to_12_words_of_the_vocabulary_and_are_all_different(subset):
    found = sentences(300, subset=subset)
    assert len(set(found)) == 300
    assert all(3 <= len(sentence.split()) <= 12 for sentence in found)
    assert {word for sentence in found for word in sentence.split()} <= vocabulary()
    assert all(ENGLISH.encode(sentence) for sentence in found)


def test_the_words_are_a_few_hundred_and_the_training_subset_has_every_one():
    words = vocabulary()
    assert 200 < len(words) < 300
    assert words - {word for sentence in sentences(4000) for word in sentence.split()} == set()


def test_every_letter_and_the_apostrophe_occur_dozens_of_times():
    text = "".join(sentences(2400))
    assert min(text.count(label) for label in ENGLISH.labels) > 24


def test_no_sentence_occurs_in_two_subsets_whatever_the_seeds():
    found = {subset: {s for seed in range(2) for s in sentences(200, subset=subset, seed=seed)} for subset in SUBSETS}
    assert not found["train"] & found["test"]
    assert not found["train"] & found["dev"]
    assert not found["dev"] & found["test"]
    assert {subset_of(sentence) for sentence in found["dev"]} == {"dev"}


def test_a_longer_list_begins_as_a_shorter_one_and_a_seed_gives_another():
    assert sentences(200)[:50] == sentences(50)
    assert sentences(50, seed=1) != sentences(50)


def test_articles_fit_the_word_behind_them():
    text = " ".join(sentences(3000))
    assert " an old" in text or " an empty" in text or " an apple" in text
    assert not any(f" a {word}" in text for word in ("apple", "old", "empty", "onion", "umbrella"))


def test_more_sentences_than_the_grammar_has_are_an_error(monkeypatch):
    rules = {"sentence": ("one two three", "four five six seven")}
    monkeypatch.setattr("common.data.texts.sentences.CHOICES", {"en": rules})
    with pytest.raises(ValueError, match=r"the grammar gave \d different sentences for (train|dev), not 5"):
        sentences(5, subset=subset_of("one two three"))


def test_german_sentences_share_none_between_subsets_and_have_umlauts():
    found = {subset: set(sentences(200, subset=subset, language="de")) for subset in SUBSETS}
    assert not found["train"] & found["test"]
    letters = set("".join(found["train"]))
    assert letters >= set("äöü")
    assert letters <= set("abcdefghijklmnopqrstuvwxyzäöüß ")
