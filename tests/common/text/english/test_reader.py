"""Everyday text as a voice says it. The phrases of benchmarks/phrases/english.tsv are the cases, set by set."""

from collections import defaultdict

import pytest

from benchmarks.normalization import VOICE, Case, misread, phrases
from common.text.english.reader import answers_no, spoken, tokens, why
from common.text.english.style import Style
from common.text.normalize import label_tokens, normalize_english
from common.text.spoken import spoken_english, voice_tokens
from tests.data import shared

KEEP = "'-!(),.:;?"
SETS: dict[str, list[Case]] = defaultdict(list)
for case in phrases("english"):
    SETS[case.set].append(case)


@pytest.mark.parametrize("name", SETS)
def test_each_set_of_phrases_is_read_as_a_person_reads_it(name: str) -> None:
    wrong = misread(SETS[name], VOICE)
    few = 0.005 if name.isdigit() else 0.025  # sets written blind, and those that teach rare forms
    assert len(wrong) <= few * len(SETS[name]), [(case.written, said) for case, said in wrong]


def test_punctuation_stays_where_it_is_no_part_of_a_token() -> None:
    cases = {
        "Pay $5M, or else!": "pay five million dollars, or else!",
        "Mon-Fri 9am-5pm.": "monday to friday nine ay m to five p m.",
        "He was born Nov. 22, 1963, in Ohio.": "he was born november twenty second nineteen sixty three, in ohio.",
        "a 9-to-5 job at the U.S. mint": "a nine-to-five job at the u s mint",
        "under Henry II., a king": "under henry the second, a king",
        "Call +1 212 555 0123, ext. 204.": "call plus one, two one two, five five five, zero one two three, "
        "extension two zero four.",
        "It is 5 in. = 12.7 cm.": "it is five inches equals twelve point seven centimeters.",
    }
    assert {written: spoken_english(written, keep=KEEP) for written in cases} == cases


def test_what_the_grammar_alone_decides_needs_no_teaching() -> None:
    cases = {
        "a 7-GBq, 3-oz., 40-mNm zorp": "a seven gigabecquerel, three ounce, forty millinewton meter zorp",
        "her asst. zorped": "her assistant zorped",
        "5 w/ zorps": "five with zorps",
        "at 49°12' N": "at forty nine degrees twelve minutes north",
        "in ΔABC": "in triangle ay b c",
        "POST it to /zorps.": "post it to slash zorps.",
        "admin@10.0.0.5": "admin at ten dot zero dot zero dot five",
    }
    assert {written: spoken_english(written, keep=KEEP) for written in cases} == cases


def test_labels_have_the_same_words_but_no_spelled_capitals() -> None:
    assert normalize_english("The CEO paid $5M at 7.30pm for 3 kWh!") == (
        "the ceo paid five million dollars at seven thirty pm for three kilowatt hours"
    )


def _forgiving(text: str) -> str:
    """Letters alone: case, punctuation, spaces, and the words and, the, of do not count."""
    return "".join(word for word in normalize_english(text).split() if word not in ("and", "the", "of"))


def test_a_public_set_of_cases_is_read_as_it_asks_or_nearly() -> None:
    rows = shared("data/text/normalization/english.tsv").read_text(encoding="utf-8").splitlines()
    cases = [(*row.split("\t"), "")[1:3] for row in rows if not row.startswith("#")]
    right = sum(_forgiving(written) in map(_forgiving, said.split(" | ")) for written, said in cases)
    assert right >= 0.92 * len(cases)


@pytest.mark.parametrize("name", ["1", "20"])
def test_tokens_hold_the_whole_text(name: str) -> None:
    for case in SETS[name]:
        assert "".join(token.written for token in tokens(case.written, Style())) == case.written


def test_tokens_have_classes_and_readings() -> None:
    found = [(token.written, token.kind, token.spoken) for token in voice_tokens("Pay $5M at 9 am, OK?")]
    assert ("$5M", "money", "five million dollars") in found
    assert ("am", "half", "ay m") in found
    assert spoken(label_tokens("2-5lb")).split() == ["two", "to", "five", "pounds"]


def test_own_readings_come_first() -> None:
    readings = {"SQL": "sequel", "GIF": "jif", "5G": "fifth generation"}
    assert spoken_english("SQL, a GIF, and 5G.", readings=readings) == "sequel, a jif, and fifth generation."
    assert normalize_english("the SQL server", readings=readings) == "the sequel server"


def test_a_choice_is_explained_by_its_candidates_and_what_decided() -> None:
    reasons = dict(why("May 5 was cold", Style(for_voice=True)))["5"]
    assert reasons.readings[0][0] == "fifth [ordinal]"
    assert reasons.readings[0][1] > reasons.readings[1][1]
    assert len(reasons.deciding) == 3
    assert any("month" in feature for feature, _ in reasons.deciding)


def test_the_sums_of_long_integers_are_those_of_single_weights() -> None:
    style = Style(for_voice=True)
    for case in SETS["20"]:
        chosen = {t.written: f"{t.spoken} [{t.kind}]" for t in tokens(case.written, style) if t.spoken}
        for written, reasons in why(case.written, style):
            best = [said for said, score in reasons.readings if score == reasons.readings[0][1]]
            assert case.written.count(written) > 1 or chosen.get(written, best[0]) in best


def test_code_and_charges_are_told_from_sentences() -> None:
    cases = {
        "Use torch.nn.Linear here.": "use torch dot n n dot linear here",
        "It was late.He went home.": "it was late he went home",
        "the userName field": "the user name field",
        "NO3- and Ca2+ ions": "n o three minus and c ay two plus ions",
        "A Cu 2+ ion and the Na + ions": "a c u two plus ion and the n ay plus ions",
        "It cost Rs 12,50,000.": "it cost twelve lakh fifty thousand rupees",
        "They paid 3,00,00,000 and 300,000.": "they paid three crore and three hundred thousand",
        "and (8) the rest": "and eight the rest",
        "exercises 3a-c": "exercises three ay to c",
        "the no. on the card; he said no. Good.": "the number on the card he said no good",
    }
    assert {written: spoken_english(written, keep="") for written in cases} == cases


def test_no_is_an_answer_only_where_it_does_not_count() -> None:
    assert answers_no("She said ", "5 people left.")
    assert not answers_no("She lives at ", "5 Elm St.")
    assert not answers_no("She said ", "five")
