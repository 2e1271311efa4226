"""The phrases of benchmarks/phrases, each set of which was written before the reader was run on it."""

from benchmarks import normalization
from common.benchmark import read_rows


def test_phrases_of_labels_are_read_as_a_person_says_them():
    """Those of languages, tests/common/text reads."""
    assert {path.stem for path in normalization.PHRASES.glob("*.tsv")} == {"english", *normalization.READERS}
    phrases = normalization.phrases("labels")
    wrong = normalization.misread(phrases, normalization.LABELS)
    assert len(wrong) <= 0.02 * len(phrases), [(case.written, said) for case, said in wrong]


def test_every_numbered_set_has_a_row_of_its_first_try():
    rows = {row.get("set") for row in read_rows("normalization")}
    numbered = {case.set for case in normalization.phrases("english") if case.set.isdecimal()}
    older = {number for number in numbered if int(number) <= 28}  # whose first tries the command named otherwise
    assert {f"everyday_{number}, first try" for number in older} <= rows
    assert {f"english {number}" for number in numbered - older} <= rows


def test_what_is_said_may_have_alternatives():
    assert list(normalization.expanded("[a|one] [p m|] b")) == ["a p m b", "a  b", "one p m b", "one  b"]
    case = normalization.Case("everyday", "time", "3 o'clock", ["Three o'clock."])
    assert normalization.misread([case], normalization.VOICE) == []


def test_words_of_another_reading_are_found():
    case = normalization.Case("everyday", "money", "$5", ["five euros"])
    assert normalization.misread([case], normalization.VOICE) == [(case, "five dollars")]
