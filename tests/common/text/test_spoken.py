import pytest

from common.text.spoken import spoken_english, transliterated

KEEP = "'-!(),.:;?"

CASES = {
    "what english_cleaners_v2 said wrongly": {
        "120,500 people": "one hundred twenty thousand five hundred people",
        "10 GB": "ten gigabytes",
        "5 MHz": "five megahertz",
        "at 5 pm": "at five p m",
        "No. 5": "number five",
        "HELLO WORLD": "hello world",
        "NVIDIA": "nvidia",
        "on Main St.": "on main street.",
        "3.14": "three point one four",
        "1/2": "one half",
        "½": "one half",
        "-5": "minus five",
        "12:45": "twelve forty five",
        "2024-01-05": "january fifth twenty twenty four",
        "(212) 555-1234": "two one two, five five five, one two three four",
        "https://www.example.com/a_b": "w w w dot example dot com slash ay underscore b",
    },
    "telephone numbers": {
        "call 555-0123.": "call five five five zero one two three.",
        "1-800-555-1234": "one, eight hundred, five five five, one two three four",
        "+1 212 555 1234": "plus one, two one two, five five five, one two three four",
        "+44 20 7946 0958": "plus four four, two zero, seven nine four six, zero nine five eight",
        "212.555.1234": "two one two, five five five, one two three four",
    },
    "addresses": {
        "Write to me@home.org, please.": "write to me at home dot org, please.",
        "See example.com!": "see example dot com!",
        "http://a.io/x?y=1": "ay dot i o slash x question mark y equals one",
        "wait.then": "wait.then",
    },
    "capitals": {
        "a GPU and GPUs": "a g p u and g p u's",
        "NASA, IBM's CPU": "nasa, i b m's c p u",
        "the US is": "the u s is",
        "LET US GO": "let us go",
        "AT&T": "ay t and t",
        "XML and KUBERNETES": "x m l and kubernetes",
        "MP3": "m p three",
        "World War II, Rocky II and Elizabeth II.": "world war two, rocky two and elizabeth the second.",
    },
    "dots": {
        "I live in the U.S.": "i live in the u s.",
        "The U.S. and the U.K. agree": "the u s and the u k agree",
        "A.I. is": "ay i is",
        "e.g. this": "for example this",
        "in the a.m.": "in the ay m.",
        "at 8:00 p.m. today": "at eight p m today",
        "cats, dogs, etc.": "cats, dogs, et cetera.",
        "(On Main St.)": "(on main street.)",
        "wait... what": "wait... what",
    },
    "punctuation": {
        "Hello, world! (yes) - no; well-known: x": "hello, world! (yes) - no; well-known: x",
        "(see p. 5)": "(see page five)",
        'He said "yes".': "he said yes.",
        "a — b": "a - b",
        "don’t": "don't",
        "": "",
    },
    "comparisons": {
        "3 < 4 and 5>2": "three is less than four and five is greater than two",
        "x >= y ≤ -1": "x is at least y is at most minus one",
    },
    "heights": {"he's 5'10\" tall": "he's five feet ten tall"},
    "alphabets": {
        "naïve Привет": "naive privet",
        "你好 hello": "你好 hello",
        "I → you 😀": "i → you 😀",
        "20 °C": "twenty degrees celsius",
    },
}  # fmt: skip


@pytest.mark.parametrize("table", CASES.values(), ids=CASES)
def test_printed_text_becomes_what_is_said_and_that_stays_as_it_is(table):
    assert {printed: spoken_english(printed, keep=KEEP) for printed in table} == table
    said = [said for said in table.values() if said.isascii()]
    assert [spoken_english(each, keep=KEEP) for each in said] == said


def test_words_of_letters_that_are_elements_are_no_formulae_and_elided_words_are_not_spelled():
    assert spoken_english("Read this out NOW, or WHICH.") == "read this out now, or which."
    assert spoken_english("Is't so? On it I'ld go.") == "is't so? on it i'ld go."


def test_known_words_in_capitals_are_not_spelled():
    assert spoken_english("the XQ rules", keep=KEEP) == "the x q rules"
    assert spoken_english("the XQ rules", keep=KEEP, known={"xq"}) == "the xq rules"


def test_without_punctuation_a_full_stop_is_not_put_back():
    assert spoken_english("on Main St.", keep="") == "on main street"


def test_transliteration_leaves_what_has_no_letters_for_it():
    assert transliterated("Łódź é Привет 你 →") == "Lodz e Privet 你 →"
