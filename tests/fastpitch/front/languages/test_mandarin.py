import pytest

from fastpitch.front.symbols import TextConfig, TextError, TextProcessor

MANDARIN = TextProcessor(TextConfig(symbol_set="english_mandarin_basic"))


def test_characters_are_words_and_english_stands_between_them():
    encoded = MANDARIN.encode("我爱Python，3天！Yes.")
    assert [word.text for word in encoded.words] == ["我", "爱", "python", "三", "天", "yes"]
    said = " ".join(encoded.symbols[: encoded.words[3].last + 1])
    assert said == "#W #O #3 #^ #AI #4 @P @AY1 @TH @AA0 @N #， #S #AN #1"
    assert encoded.symbols[-3:] == ["@EH1", "@S", "."]


def test_spaces_around_english_are_kept():
    assert MANDARIN.encode("好 yes 好").symbols.count(" ") == 2


def test_tone_sandhi_is_optional():
    published = TextProcessor(TextConfig(symbol_set="english_mandarin_basic", tone_sandhi=False))
    assert "#2" in MANDARIN.encode("你好").symbols
    assert "#2" not in published.encode("你好").symbols


def test_a_character_without_a_reading_is_named():
    with pytest.raises(TextError, match=r"is no symbol of english_mandarin_basic"):
        MANDARIN.encode("你\U00030000好")
