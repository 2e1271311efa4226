import re

import pytest

from common.text.pronunciation import pronounce
from common.text.pronunciation.pronounce import LexiconError, read_lexicon


def test_cmudict_has_every_pronunciation_of_a_word():
    assert pronounce.cmudict()["read"] == (("R", "EH1", "D"), ("R", "IY1", "D"))


def test_words_are_looked_up_with_their_s():
    assert pronounce.pronunciations("world") == (("W", "ER1", "L", "D"),)
    assert pronounce.pronunciations("vocoders") == ()
    assert pronounce.pronunciations("zither's") == (("Z", "IH1", "DH", "ER0", "Z"),)
    assert pronounce.pronunciations("cats") == (("K", "AE1", "T", "S"),)
    assert pronounce.pronunciations("s") != ()
    assert pronounce.pronunciations("xyzzy") == ()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("tacotron", "T AE1 K AH0 T R AA2 N"),
        ("blorptastic", "B L AO0 R P T EY1 S T IH0 K"),
        ("overexposing", "OW2 V ER0 EH0 K S P OW1 Z IH0 NG"),
    ],
)
def test_unknown_words_are_said_as_espeak_says_them(word, expected):
    assert " ".join(pronounce.guessed(word)) == expected


def test_heteronyms_are_words_of_which_cmudict_has_one_pronunciation():
    assert all(len(pronounce.pronunciations(word)) == 1 for word in pronounce.HETERONYMS)


def test_a_lexicon_has_comments_tabs_and_several_pronunciations(tmp_path):
    path = tmp_path / "words.dict"
    path.write_text(";;; mine\n\nGIF\tjh ih1 f  # not the other\ngif(2)  G IH1 F\nnginx EH1 N JH IH0 N EH1 K S\n")
    lexicon = read_lexicon(path)
    assert lexicon["gif"] == (("JH", "IH1", "F"), ("G", "IH1", "F"))
    assert lexicon["nginx"][0][-1] == "S"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello HH AH0\ngif jif", r"words.dict:2: gif: 'JIF' in 'jif' is no phoneme"),
        ("hello", r"words.dict:1: hello: '': no phoneme in it"),
    ],
)
def test_a_bad_line_of_a_lexicon_is_named(tmp_path, content, message):
    path = tmp_path / "words.dict"
    path.write_text(content)
    with pytest.raises(LexiconError, match=message):
        read_lexicon(path)


def test_a_missing_lexicon_is_named(tmp_path):
    path = tmp_path / "none.dict"
    with pytest.raises(LexiconError, match=re.escape(f"{path}: cannot be read as a lexicon")):
        read_lexicon(path)
