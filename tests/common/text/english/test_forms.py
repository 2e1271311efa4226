"""Labelled codes, sets of tennis, units alone, short words and the answer "no."."""

import pytest

from common.text.english.reader import answers_no
from common.text.normalize import normalize_english
from common.text.spoken import spoken_english
from tests.timing import assert_takes_less

CASES = {
    "Acct. no. 5532-8841": "account number five five three two eight eight four one",
    "S/N: 8F3-22K-901": "s n eight f three twenty two k nine zero one",
    "order #48213-A": "order number four eight two one three ay",
    "Model no. XJ-900": "model number x j nine hundred",
    "pages 12-15": "pages twelve to fifteen",
    "She won 6-4, 3-6, 7-6 (7-3).": "she won six four, three six, seven six seven three.",
    "See 6-4, 3-6.": "see six to four, three to six.",
    "Windows 10/11": "windows ten eleven",
    "Prep time: 15m": "prep time fifteen minutes",
    "a wall 15m long": "a wall fifteen meters long",
    "Dilute it 1:10.": "dilute it one to ten.",
    "2x HDMI, a 4x Olympic champion": "two h d m i, a four time olympic champion",
    "How many kWh? 5 cents per kWh.": "how many kilowatt hours? five cents per kilowatt hour.",
    "the weight in kg": "the weight in kilograms",
    "¹⁴C and ²³⁸U": "carbon fourteen and uranium two thirty eight",
    "Dir. by Ann Lee": "directed by ann lee",
    "Thx, see you at 6ish": "thanks, see you at sixish",
    "Cc: Ann": "c c ann",
    "Item #: 12": "item number twelve",
    "Sections 12(a)-(c)": "sections twelve ay to c",
    "(W x D x H)": "w by d by h",
    "the €750bn fund": "the seven hundred fifty billion euro fund",
    "I want my $20 back": "i want my twenty dollars back",
    "the $500 raised, the $20 owed": "the five hundred dollars raised, the twenty dollars owed",
    "in the file 2019-2021": "in the file twenty nineteen to twenty twenty one",
    "mm, tasty: 5 mm in mm": "mm, tasty five millimeters in millimeters",
    "take vitamin c. 5 people do, c. 68 do": "take vitamin c. five people do, circa sixty eight do",
    "mix it at 1:10 pm, 15m late": "mix it at one ten p m, fifteen minutes late",
    "Python 3.8-3.12, Ubuntu 22.04": "python three point eight to three point twelve, ubuntu twenty two point oh four",
    "Nadal d. Federer 6-4, 6-4": "nadal defeated federer six four, six four",
    "med.-low heat, Q4 rev. was $4M": "medium low heat, q four revenue was four million dollars",
    "$20.5": "twenty dollars fifty cents",
    "4 g/24 h": "four grams per twenty four hours",
    "6/customer": "six per customer",
    "He hit 28 HRs": "he hit twenty eight h r's",
    "I-95 N.": "i ninety five north.",
    "shipped 11/02": "shipped november second",
    "c. 68 Ma ago": "circa sixty eight million years ago",
    "v3.11.2": "version three point eleven point two",
    "1-800-555-0199": "one, eight hundred, five five five, zero one nine nine",
    "She said no. 5 people left.": "she said no. five people left.",
    "We sat at no. 5.": "we sat at number five.",
    "M-F 6-9a, sunset 7:15p": "monday to friday six to nine ay m, sunset seven fifteen p m",
    "50/60 Hz, 240 V, 1.5A": "fifty sixty hertz, two hundred forty volts, one point five amps",
    "Rated 4.7★": "rated four point seven stars",
    "A 1/2 price sale, a 1/2 mile": "a half price sale, a half mile",
    "Ep. IV, Ch. XL, Pt. III": "episode four, chapter forty, part three",
    "the XXII Winter Games": "the twenty second winter games",
    "(1.9 mi) N of town": "one point nine miles north of town",
    "reg. $6.49, temp. >8°C": "regular six dollars forty nine cents, temperature more than eight degrees celsius",
    "delays of 20+ min.": "delays of twenty plus minutes.",
    "(373 K, 100 °C)": "three hundred seventy three kelvins, one hundred degrees celsius",
    "No. 2 pencils are best.": "number two pencils are best.",
}


@pytest.mark.parametrize("written", CASES)
def test_forms_and_lists_are_read_as_people_read_them(written: str) -> None:
    assert spoken_english(written) == CASES[written]


def test_no_is_an_answer_only_where_it_does_not_count() -> None:
    assert answers_no("She said ", " 5 people left.".strip())
    assert not answers_no("She lives at ", "5 people")
    assert not answers_no("She said ", "five")


# What one text of 8,000 characters repeats; a time that grows with the square of the length took up to 2.4 s.
REPEATED = [
    "1,", "a_", "1.", "1-", "1/", "1:", "-", ".", '"', "'", "()", "(a)", "A", "A.", "AB ", "$1", "a@", "1m ", "1-800-",
    "😀", "é", "a\u0301", "5' ", '5" ', "5F ", "no. ", "Dr. ", "A1-", "1+", "½ ", "1,1", "A1", "007 ",
]  # fmt: skip


@pytest.mark.parametrize("repeated", REPEATED)
def test_time_grows_with_the_length_and_no_faster(repeated: str) -> None:
    assert_takes_less(0.6, lambda: spoken_english((repeated * 8000)[:8000]))


def test_labels_read_codes_too() -> None:
    assert normalize_english("acct. no. 5532-8841") == "account number five five three two eight eight four one"
