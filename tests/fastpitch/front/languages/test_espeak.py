import pytest

from fastpitch.front.control import SpeakerStatistics
from fastpitch.front.languages import ESPEAK_SYMBOLS
from fastpitch.front.planning import plan
from fastpitch.front.symbols import TextConfig, TextError, TextProcessor

VOICES = [SpeakerStatistics(200.0, 50.0)] * 8


def processor(language: str, **options: str) -> TextProcessor:
    return TextProcessor(TextConfig(language=language, **options))


@pytest.mark.parametrize(
    ("language", "text", "ipa", "words"),
    [
        ("de", "Guten Morgen, Straße!", "ɡˈuːtən mˈɔɾɡən, ʃtɾˈɑːsə!", ["guten", "morgen", "straße"]),
        ("de", "3,5 kg", "dɾˈaɪ kɔmɑː fˈʏnf kˌiːlɔɡɾˈam", ["3,5", "kilogramm"]),
        ("de", "Am 3. Mai.", "am dɾˈɪtən mˈaɪ.", ["am", "dritten", "mai"]),
        ("es", "¿Cómo estás? Tengo 21.", "¿kˈomo estˈas? tˈɛŋɡo βˌeɪntiˈuno.", ["cómo", "estás", "tengo", "21"]),
        ("hi", "नमस्ते, आप कैसे हैं।", "nəmˈʌsteː, ˌaːp kˈɛːseː hɛ̃.", ["नमस्ते", "आप", "कैसे", "हैं"]),
        ("cmn", "你好，中国。", "ni2χˈɑu2,ʈʂˈonɡ5 kˈuoɜ.", ["你好", "中国"]),
        ("zh-CN", "5-6个", "wˈu2 tˈɑu5 liou5kˈo1", ["五到六个"]),
        ("en", "Dr. Smith, $5.", "dˈɑːktɚ smˈɪθ, fˈaɪv dˈɑːlɚz.", ["doctor", "smith", "five", "dollars"]),
    ],
)  # fmt: skip
def test_text_becomes_sounds_with_stress_punctuation_and_words(language, text, ipa, words):
    encoded = processor(language).encode(text)
    assert "".join(encoded.symbols) == ipa
    assert [word.text for word in encoded.words] == words


def test_the_symbol_set_has_its_order_forever():
    symbols = processor("de").symbols
    assert len(symbols) == len(set(symbols)) == 254
    assert "".join(symbols[:17]) == "_.,;:!?-()\"'¿¡ ab"
    assert processor("es").symbols is symbols


def test_a_language_is_all_that_a_configuration_needs():
    assert TextConfig(language="de").symbol_set == ESPEAK_SYMBOLS
    assert TextConfig().symbol_set == "english_basic"


def test_languages_are_switched_by_tags():
    (piece,) = plan("Das ist <lang xml:lang='en-US'>nice</lang> heute", processor("de"), VOICES)
    assert "".join(piece.encoded.symbols) == "das ɪst nˈaɪs hˈɔøtə"


def test_readings_that_tags_give():
    german = processor("de")
    text = (
        "<phoneme ph='həlˈoʊ'>Hallo</phoneme> {lˈa} <say-as interpret-as='characters'>AB</say-as> "
        "<say-as interpret-as='digits'>21</say-as> <say-as interpret-as='ordinal'>3</say-as>"
    )
    (piece,) = plan(text, german, VOICES, words="hallo: pace=2")
    assert [word.text for word in piece.encoded.words] == ["hallo", "{lˈa}", "a", "b", "2", "1", "dritte"]
    assert piece.edits.pace_L.tolist()[:7] == [2.0] * 6 + [1.0]


def test_spans_control_the_words_that_they_hold():
    (piece,) = plan("Guten <prosody rate='50%'>Morgen</prosody> Anna", processor("de"), VOICES)
    (morning,) = [word for word in piece.encoded.words if word.text == "morgen"]
    slow = [i for i, pace in enumerate(piece.edits.pace_L) if pace == 0.5]
    assert slow == list(range(morning.first, morning.last + 1))


def test_pictures_and_other_scripts_are_left_out_or_named():
    encoded = processor("de", unknown_characters="skip").encode("Gut 😀 so")
    assert ("".join(encoded.symbols), encoded.left_out) == ("ɡˈuːt  zˈoː", ["😀"])
    with pytest.raises(TextError, match="'😀' .GRINNING FACE. in 'Gut 😀' is no symbol of espeak_1"):
        processor("de").encode("Gut 😀")


@pytest.mark.parametrize(
    ("language", "text", "message"),
    [
        ("xx", "a", "language 'xx': espeak-ng has no voice 'xx'"),
        ("de", "<phoneme alphabet='arpabet' ph='AH0'>a</phoneme>", '<phoneme alphabet="arpabet">: expected ipa'),
        ("de", "<phoneme ph='ҩ'>a</phoneme>", "is no sound of espeak_1"),
        ("de", "a { }", "phonemes: none; expected sounds in IPA"),
        ("de", "<say-as interpret-as='song'>a</say-as>", 'interpret-as="song">: expected one of characters, digits'),
        ("de", "<say-as interpret-as='ordinal'>a</say-as>", "no ordinal of 'a' in de"),
        ("pl", "<say-as interpret-as='ordinal'>0</say-as>", "no ordinal of '0' in pl"),
        ("tr", f"<say-as interpret-as='ordinal'>{'9' * 30}</say-as>", "no ordinal of '9999"),
    ],
)
def test_what_cannot_be_said_is_named(language, text, message):
    with pytest.raises(TextError, match=message):
        plan(text, processor(language), VOICES)
