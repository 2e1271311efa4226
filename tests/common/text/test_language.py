import pytest

from common.text.language import LanguageError, Spelling, language_of

ENGLISH = " abcdefghijklmnopqrstuvwxyz'"
GERMAN = f"{ENGLISH}äöüß"
RUSSIAN = " абвгдеёжзийклмнопрстуфхцчшщъыьэюя"


@pytest.mark.parametrize(
    ("labels", "text", "written"),
    [
        (ENGLISH, " It's  Mr. A & B's 5 o'clock.", "it's mister a and b's five o'clock"),
        (ENGLISH.upper(), "5 o'clock", "FIVE O'CLOCK"),
        (f"{ENGLISH}é", "Café", "café"),
        (GERMAN, "Die Bären — Straße", "die bären straße"),
        (RUSSIAN, "Привет, МИР! Ёж.", "привет мир ёж"),
        (RUSSIAN.upper(), "Привет", "ПРИВЕТ"),
        (" 你好世界", "你好，世界。", "你好 世界"),
        ("你好世界", "你好，世界。", "你好世界"),  # without a label for the space
        (" abAB", "ab Ba", "ab Ba"),
        (" किताब", "किताब।", "किताब"),
        (" ı" + ENGLISH[1:], "İz", "iz"),
        (" абв", "а\u00adб\u200bв", "абв"),
    ],
)
def test_texts_are_written_in_the_letters_of_the_labels(labels, text, written):
    spelling = Spelling(labels)
    assert spelling(text) == written
    assert not spelling.unknown


@pytest.mark.parametrize(
    ("labels", "language"),
    [(ENGLISH, "english"), ("AB'", "english"), (GERMAN, "none"), (RUSSIAN, "none"), ("5", "none")],
)
def test_a_language_that_is_not_named_is_english_where_no_other_letters_are_labels(labels, language):
    assert language_of(labels, "auto") == language
    assert language_of(labels, "mandarin") == "mandarin"


@pytest.mark.parametrize(
    ("labels", "text", "language", "unknown"),
    [
        (ENGLISH, "Привет hello МИР", "english", "привет мир"),
        (ENGLISH, "Die 3 Bären", "english", "ä"),
        (ENGLISH, "naïve 你好", "english", "ï你好"),
        (GERMAN, "Die 3 Bären", "none", "3"),
        (RUSSIAN, "Привет hello", "none", "hello"),
        (RUSSIAN, "приве\u0301т", "none", "\u0301"),
        (" 你好三", "你好 3", "none", "3"),
    ],
)
def test_letters_that_are_no_labels_are_counted_and_stay_in_the_text(labels, text, language, unknown):
    spelling = Spelling(labels)
    written = spelling(text)
    assert spelling.language == language
    assert set(spelling.unknown) == set(unknown) - {" "}
    assert set(unknown) <= {*written, " "}


def test_they_can_be_dropped_or_written_in_latin_letters():
    assert Spelling(ENGLISH, unknown_letters="drop")("café 3") == "caf three"
    assert Spelling(ENGLISH, unknown_letters="latin")("café, привет") == "cafe privet"
    assert Spelling(GERMAN, unknown_letters="drop")("Bär 3") == "bär"
    assert Spelling(GERMAN, unknown_letters="latin")("Bär naïve") == "bär naive"
    assert Spelling(None, language="english", unknown_letters="drop")("Über 2") == "ber two"


def test_numbers_are_spelled_in_mandarin_where_it_is_named():
    assert Spelling(" 我有三本书", language="mandarin")("我有3本书。") == "我有三本书"


def test_texts_can_be_left_as_they_are_and_are_counted_all_the_same():
    spelling = Spelling(ENGLISH, normalizes=False)
    assert spelling(" it's  ok") == "it's ok"
    assert spelling("Ok.") == "Ok."
    assert set(spelling.unknown) == {"O", "."}


def test_without_labels_every_letter_of_the_language_is_one():
    assert Spelling(None, language="none")("Ёж, it's 5 — Bär!") == "ёж it's 5 bär"
    english = Spelling(None, language="english")
    assert english("5 o'clock, Ёж") == "five o'clock ёж"
    assert english.unknown == {"ё": 1, "ж": 1}
    with pytest.raises(LanguageError, match=r"2 letters in 1 texts are none of the letters of language english: 'ё' 1"):
        english.check("train.jsonl")


def test_one_line_names_the_letters_the_most_frequent_first():
    spelling = Spelling(ENGLISH)
    for text in ("мир", "ми", "good"):
        spelling(text)
    with pytest.raises(LanguageError) as error:
        spelling.check("train.jsonl, dev.jsonl")
    assert str(error.value) == (
        'train.jsonl, dev.jsonl: 3 letters in 2 texts are none of the 28 labels " abcdefghijklmnopqrstuvwxyz\'" '
        "(language english): 'м' 2, 'и' 2, 'р' 1; take the labels of this language (python -m common.text.alphabet "
        "makes them), or write them in Latin letters (--data.unknown_letters latin: é as e), or leave them out (drop)"
    )
    Spelling(ENGLISH, unknown_letters="drop").check("x")
    many = Spelling("a")
    many("".join(map(chr, range(0x4E00, 0x4E00 + 30))))
    assert many.told().endswith("1, …")
