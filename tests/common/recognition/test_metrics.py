import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.recognition.metrics import AlignedWord, ErrorCount, align_words, character_errors, word_errors

TEXTS = st.text(alphabet="ab '", max_size=12)


def distance(reference: list[str], hypothesis: list[str]) -> int:
    """The textbook recursion, row by row."""
    row = list(range(len(hypothesis) + 1))
    for i, expected in enumerate(reference, start=1):
        previous, row[0] = row[0], i
        for j, found in enumerate(hypothesis, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (expected != found))
    return row[-1]


def test_word_errors_are_counted_over_the_whole_set_and_by_kind():
    count = word_errors(["the cat sat", "hello"], ["the bat sat down", ""])
    assert count == ErrorCount(errors=3, length=4, substitutions=1, deletions=1, insertions=1)
    assert count.rate == 0.75


def test_the_rate_of_the_set_is_not_the_mean_of_the_rates():
    assert word_errors(["a b c d e f g h i", "x"], ["a b c d e f g h i", "y"]).rate == 0.1


def test_white_space_of_any_kind_and_amount_separates_words():
    assert word_errors([" a\tb  c\n"], ["a b c"]).errors == 0
    assert character_errors([" a\tb  c\n"], ["a b c"]).errors == 0


def test_a_space_is_a_character():
    assert character_errors(["a b"], ["ab"]) == ErrorCount(1, 3, 0, 1, 0)


def test_an_empty_reference_counts_its_hypothesis_as_inserted():
    assert word_errors(["a b", " "], ["a b", "x y z"]) == ErrorCount(3, 2, 0, 0, 3)
    assert character_errors([""], ["abc"]) == ErrorCount(3, 0, 0, 0, 3)


def test_only_empty_references_give_zero_or_infinity():
    assert word_errors([""], [""]).rate == 0
    assert word_errors([], []).rate == 0
    assert word_errors([""], ["a"]).rate == float("inf")


def test_counts_of_parts_add_up_to_the_count_of_the_whole():
    references, hypotheses = ["a b", "c", "d e f"], ["a", "c c", "d x f"]
    parts = [word_errors([r], [h]) for r, h in zip(references, hypotheses, strict=True)]
    assert parts[0] + parts[1] + parts[2] == word_errors(references, hypotheses)


def test_different_numbers_of_references_and_hypotheses_are_an_error():
    with pytest.raises(ValueError, match="2 references but 1 hypotheses; expected one for each"):
        word_errors(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="0 references but 1 hypotheses"):
        character_errors([], ["a"])


@given(TEXTS, TEXTS)
def test_errors_are_the_edit_distance(reference, hypothesis):
    count = word_errors([reference], [hypothesis])
    assert count.errors == distance(reference.split(), hypothesis.split())
    assert count.length == len(reference.split())
    characters = character_errors([reference], [hypothesis])
    assert characters.errors == distance(*([*" ".join(text.split())] for text in (reference, hypothesis)))


@given(TEXTS, TEXTS)
def test_an_alignment_holds_both_texts_in_order_with_the_fewest_errors(reference, hypothesis):
    aligned = align_words(reference, hypothesis)
    assert [word.reference for word in aligned if word.reference] == reference.split()
    assert [word.hypothesis for word in aligned if word.hypothesis] == hypothesis.split()
    assert sum(word.kind != "equal" for word in aligned) == word_errors([reference], [hypothesis]).errors


def test_an_alignment_names_what_happened_to_each_word():
    aligned = align_words("the black cat sat", "a black cat sat down")
    assert aligned[0] == AlignedWord("the", "a")
    assert [word.kind for word in aligned] == ["substitution", "equal", "equal", "equal", "insertion"]
    assert [word.kind for word in align_words("a b", "b")] == ["deletion", "equal"]
