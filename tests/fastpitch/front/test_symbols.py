import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.audio.espeak import EspeakError
from common.text.pronunciation import pronounce
from common.text.pronunciation.arpabet import ArpabetError
from fastpitch.front.symbols import EncodedText, TextConfig, TextError, TextProcessor, WordSymbols
from tests.data import shared

ENGLISH = TextProcessor(TextConfig())
LETTERS = TextProcessor(TextConfig(p_arpabet=0))


def spelled(encoded: EncodedText) -> str:
    """The symbols as text for people: phonemes in braces, {HH AH0 L OW1}."""
    text = "".join(f"{{{symbol[1:]}}}" if len(symbol) > 1 else symbol for symbol in encoded.symbols)
    return text.replace("}{", " ")


def spell(processor: TextProcessor, text: str, **options: int) -> str:
    return spelled(processor.encode(text, **options))


def test_the_published_symbol_sets_have_their_order():
    basic = ENGLISH.symbols
    assert len(basic) == 148
    assert "".join(basic[:64]) == "_-!'(),.:;? ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert basic[64:69] == ("@AA", "@AA0", "@AA1", "@AA2", "@AE")
    assert basic[-1] == "@ZH"
    lower = TextProcessor(TextConfig(symbol_set="english_basic_lowercase")).symbols
    assert len(lower) == 123
    assert "".join(lower[:39]) == "_-!'\"(),.:;? abcdefghijklmnopqrstuvwxyz"
    assert lower[39:] == basic[64:]
    mandarin = TextProcessor(TextConfig(symbol_set="english_mandarin_basic")).symbols
    assert len(mandarin) == 220
    assert mandarin[:148] == basic
    assert mandarin[148:151] == ("#^", "#A", "#AI")
    assert mandarin[195:201] == ("#ZH", "#1", "#2", "#3", "#4", "#5")
    assert mandarin[201:204] == ("#，", "#。", "#？")


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("Cats and birds.", "{K AE1 T S} and {B ER1 D Z}."),  # "and" has two pronunciations: letters
        ("{HH AH0 L OW1}, world!", "{HH AH0 L OW1}, {W ER1 L D}!"),
        ("word{HH AY1}word", "{W ER1 D HH AY1 W ER1 D}"),
        ("At 5 pm.", "{AE1 T} {F AY1 V} {P IY1} {EH1 M}."),
        ("9 a.m.", "{N AY1 N} {EY1} {EH1 M}."),
        ("a GPU", "a {JH IY1} {P IY1} {Y UW1}"),
        ("pytorch's x-ray", "{P AY1 T AO0 R CH IH0 Z} {EH1 K S}-{R EY1}"),
        ("the house", "the house"),
    ],
)
def test_words_become_phonemes_where_there_is_one_pronunciation(text, symbols):
    assert spell(ENGLISH, text) == symbols


def test_words_are_where_their_symbols_are():
    encoded = ENGLISH.encode("Bird's 5, {HH AY1}!")
    assert encoded.words == [WordSymbols("bird's", 0, 3), WordSymbols("five", 5, 7), WordSymbols("{HH AY1}", 10, 11)]
    assert encoded.symbols == ["@B", "@ER1", "@D", "@Z", " ", "@F", "@AY1", "@V", ",", " ", "@HH", "@AY1", "!"]
    assert [ENGLISH.symbols[token] for token in encoded.tokens] == encoded.symbols


def test_letters_and_phonemes_are_mixed_by_the_seed():
    mixed = TextProcessor(TextConfig(p_arpabet=0.5))
    text = "world " * 40
    first = spell(mixed, text, seed=1)
    assert first == spell(mixed, text, seed=1)
    assert first != spell(mixed, text, seed=2)
    assert 5 < first.count("world") < 35
    assert "{" not in spell(LETTERS, text)


def test_a_word_with_several_pronunciations_as_the_configuration_says():
    first = TextProcessor(TextConfig(ambiguous_words="first"))
    drawn = TextProcessor(TextConfig(ambiguous_words="random"))
    assert spell(first, "read") == "{R EH1 D}"
    assert {spell(drawn, "read", seed=seed) for seed in range(20)} == {"{R EH1 D}", "{R IY1 D}"}


def test_unknown_words_as_the_configuration_says():
    assert spell(TextProcessor(TextConfig(unknown_words="letters")), "Tacotron") == "tacotron"
    with pytest.raises(TextError, match="'tacotron': not in CMUdict; add it to a lexicon, or take unknown_words = "):
        TextProcessor(TextConfig(unknown_words="error")).encode("Tacotron")


@pytest.mark.parametrize("error", [EspeakError("espeak-ng is not installed"), ArpabetError("'ǃ' is no sound")])
def test_a_word_that_espeak_cannot_say_is_named(monkeypatch, error):
    def refuses(word):
        raise error

    monkeypatch.setattr(pronounce, "guessed", refuses)
    with pytest.raises(TextError, match=f"'tacotron': {error}; add it to a lexicon, or take unknown_words = letters"):
        TextProcessor(TextConfig()).encode("Tacotron")


def test_a_lexicon_comes_before_everything(tmp_path):
    (tmp_path / "my.dict").write_text("world V AH0 R L T\nxq K Y UW1\n")
    processor = TextProcessor(TextConfig(lexicon=tmp_path / "my.dict", p_arpabet=0))
    assert spell(processor, "Hello world, XQ") == "hello {V AH0 R L T}, {K Y UW1}"


def test_spaces_at_the_ends():
    processor = TextProcessor(TextConfig(prepend_space=True, append_space=True, p_arpabet=0))
    encoded = processor.encode("yes")
    assert "".join(encoded.symbols) == " yes "
    assert encoded.words == [WordSymbols("yes", 1, 3)]


@pytest.mark.parametrize(
    ("cleaners", "text", "symbols"),
    [
        ("english_cleaners", "Dr. No", "doctor no"),
        ("transliteration_cleaners", "Naïve  CAFÉ", "naive cafe"),
        ("basic_cleaners", "Dr.  No", "dr. no"),
        ("none", "Dr.  No", "Dr.  No"),
    ],
)
def test_cleaners(cleaners, text, symbols):
    assert spell(TextProcessor(TextConfig(cleaners=cleaners, p_arpabet=0)), text) == symbols


def test_quotation_marks_are_kept_where_they_are_symbols():
    processor = TextProcessor(TextConfig(symbol_set="english_basic_lowercase", p_arpabet=0))
    assert spell(processor, 'He said "Yes".') == 'he said "yes".'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "say 你",
            r"'你' \(CJK UNIFIED IDEOGRAPH-4F60\) in 'say 你' is no symbol of english_basic; write it in words, or",
        ),
        ("yes 😀", r"'😀' \(GRINNING FACE\)"),
        ("a {b c", r"'a \{b c': a brace without its partner; phonemes stand between two: \{HH AH0 L OW1\}"),
        ("{hello}", "in braces: 'HELLO' in 'hello' is no phoneme; expected ARPAbet such as HH AH0 L OW1"),
        ("", "'': nothing to say in it; expected at least one word"),
        ("?!", r"'\?!': nothing to say in it"),
    ],
)
def test_what_cannot_be_spoken_is_named(text, message):
    with pytest.raises(TextError, match=message):
        ENGLISH.encode(text)


def test_the_symbol_of_padding_cannot_be_written():
    with pytest.raises(TextError, match=r"'_' \(LOW LINE\)"):
        TextProcessor(TextConfig(cleaners="none", p_arpabet=0)).encode("a_b")


def test_unknown_characters_can_be_left_out_and_are_told():
    encoded = TextProcessor(TextConfig(unknown_characters="skip", p_arpabet=0)).encode("say 你 → yes")
    assert "".join(encoded.symbols) == "say   yes"
    assert encoded.left_out == ["你", "→"]


def test_an_unknown_symbol_set_names_the_nearest():
    with pytest.raises(ValueError, match="symbol_set = 'english_basics': no such set; did you mean 'english_basic'"):
        TextConfig(symbol_set="english_basics")
    with pytest.raises(ValueError, match="known: english_basic, english_basic_lowercase, english_mandarin_basic"):
        TextConfig(symbol_set="xxxxxxx")
    with pytest.raises(ValueError, match="p_arpabet = 2: expected a probability, 0 to 1"):
        TextConfig(p_arpabet=2)


def test_the_whole_of_ljspeech_is_encoded_without_padding_or_unknown_characters():
    rows = shared("data/text/ljspeech-metadata-full.csv").read_text(encoding="utf-8").splitlines()
    for row in rows[::131]:
        encoded = ENGLISH.encode(row.split("|")[1])
        assert encoded.left_out == []
        assert 0 not in encoded.tokens
        assert encoded.words[-1].last < len(encoded.tokens)


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="{}"), max_size=60))
def test_every_text_in_ascii_is_spoken_or_has_nothing_to_say(text):
    try:
        encoded = LETTERS.encode(text)
    except TextError as error:
        assert "nothing to say" in str(error)  # noqa: PT017
        return
    assert all(0 < token < 64 for token in encoded.tokens)
    assert all("".join(encoded.symbols[w.first : w.last + 1]) == w.text for w in encoded.words)


def test_the_golden_text_has_its_golden_symbols():
    text = "Dr. Smith paid $5.50 at 8:05 pm, on Nov. 22, 1963; didn't he? (Yes - the GPU's {AE1 K} said so!)"
    assert spell(ENGLISH, text) == (
        "doctor {S M IH1 TH} {P EY1 D} {F AY1 V} dollars {F IH1 F T IY0} cents {AE1 T} {EY1 T} {OW1} {F AY1 V} {P IY1} "
        "{EH1 M}, on {N OW0 V EH1 M B ER0} twenty {S EH1 K AH0 N D} {N AY1 N T IY1 N} {S IH1 K S T IY0} {TH R IY1}; "
        "didn't {HH IY1}? ({Y EH1 S} - the {JH IY1} {P IY1} {Y UW1 Z} {AE1 K} {S EH1 D} {S OW1}!)"
    )


@pytest.mark.parametrize(
    ("unlearned", "text", "symbols"),
    [
        ([".", ","], "Oh, no.", "{OW1} {N OW1}"),
        (["!", ";"], "Oh; no!", "{OW1}, {N OW1}."),
        (["?", ",", ":"], "Oh: no?", "{OW1}. {N OW1}."),
        (["-"], "Oh - no.", "{OW1} {N OW1}."),
        ([".", "?"], "Oh, no?", "{OW1}, {N OW1}"),
        (["@OW1", "@OW2"], "Oh, no.", "{OW0}, {N OW0}."),
        (["@OY1", "@OY", "@OY0", "@OY2"], "Oh, boy.", "{OW1}, {B OY1}."),  # nothing is near it
    ],
)
def test_a_voice_says_what_it_has_learned_in_place_of_what_it_has_not(unlearned, text, symbols):
    learned = [symbol for symbol in ENGLISH.symbols if symbol not in unlearned]
    encoded = TextProcessor(TextConfig(), learned=learned).encode(text)
    assert spelled(encoded) == symbols
    assert encoded.left_out == []
    assert [encoded.symbols[word.first][0] for word in encoded.words] == ["@", "@"]
    assert encoded.tokens == [ENGLISH.symbols.index(symbol) for symbol in encoded.symbols]


def test_a_voice_of_which_it_is_not_known_what_it_has_learned_says_all():
    assert spell(TextProcessor(TextConfig(), learned=()), "oh, no!") == spell(ENGLISH, "oh, no!")
