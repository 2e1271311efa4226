import pytest

from fastpitch.front import ssml
from fastpitch.front.control import Control
from fastpitch.front.ssml import Span, SsmlError, parse

PLAIN = Control()


@pytest.mark.parametrize("text", ["Hello.", "3 < 4 & 5 > 2", "I <3 you", "a<b", "x << y", "<- here"])
def test_text_without_tags_is_said_as_it_is(text):
    assert parse(text) == [Span(text, PLAIN)]


def test_breaks_divide_a_text():
    assert parse('One <break time="300ms"/> two<break strength="strong" /><break/>') == [
        Span("One ", PLAIN),
        Span("", PLAIN, 0.3),
        Span(" two", PLAIN),
        Span("", PLAIN, 0.7),
        Span("", PLAIN, 0.4),
    ]
    assert parse("<speak><break time='2s'/>Hi</speak>") == [Span("", PLAIN, 2.0), Span("Hi", PLAIN)]


def test_prosody_is_nested():
    spans = parse('a <prosody rate="50%" pitch="+20Hz">b <prosody rate="fast" volume="+6dB">c</prosody></prosody> d')
    assert [span.text for span in spans] == ["a ", "b ", "c", " d"]
    assert spans[1].control == Control(pace=0.5, pitch_shift_hz=20)
    assert spans[2].control.pace == pytest.approx(0.65)
    assert spans[2].control.energy == pytest.approx(1.995, abs=1e-3)
    assert spans[3].control == PLAIN


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('rate="+10%"', Control(pace=1.1)),
        ('rate="1.5"', Control(pace=1.5)),
        ('rate="slow"', Control(pace=0.75)),
        ('pitch="-5%"', Control(pitch_ratio=0.95)),
        ('pitch="+12st"', Control(pitch_ratio=2)),
        ('pitch="x-high"', Control(pitch_ratio=1.33)),
        ('range="50%"', Control(pitch_amplify=0.5)),
        ('volume="loud"', Control(energy=1.6)),
    ],
)
def test_attributes_of_prosody(attributes, expected):
    assert parse(f"<prosody {attributes}>a</prosody>")[0].control == expected


def test_phonemes_and_substitutes():
    assert parse('Say <phoneme alphabet="arpabet" ph="t ah0 m ey1 t ow2">tomato</phoneme>!')[0].text == (
        "Say {T AH0 M EY1 T OW2}!"
    )
    assert parse('<phoneme ph="həlˈoʊ">hello</phoneme>')[0].text == "{HH AH0 L OW1}"
    assert parse('the <sub alias="World Wide Web">WWW</sub>')[0].text == "the World Wide Web"


def test_emphasis():
    assert parse("<emphasis>now</emphasis>")[0].control == Control(pace=0.9, pitch_amplify=1.2, energy=1.2)


def test_sentences_and_paragraphs_end_sentences():
    assert parse("<p><s>One</s><s>two</s></p>three") == [
        Span("One", PLAIN),
        Span("", PLAIN, ssml.SENTENCE_SECONDS, ends_sentence=True),
        Span("two", PLAIN),
        Span("", PLAIN, ssml.SENTENCE_SECONDS, ends_sentence=True),
        Span("", PLAIN, ssml.PARAGRAPH_SECONDS, ends_sentence=True),
        Span("three", PLAIN),
    ]


def test_characters_of_markup_in_marked_up_text_stand_for_themselves():
    assert parse("<speak>AT&T: 3 < 4 &amp; 5 &lt; 6</speak>")[0].text == "AT&T: 3 < 4 & 5 < 6"


def test_declaration_attributes_and_comments_are_passed_over():
    text = '<?xml version="1.0"?>\n<speak version="1.1" xml:lang="en-US"><!-- so --> Hi\n  there </speak>'
    assert parse(text)[0].text.strip() == "Hi there"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "<speak>hi",
            "broken markup: no element found near 'hi'; every <tag> needs its </tag>, and <break/> its slash",
        ),
        ("<break>hi", "broken markup"),
        ("<prosody rate='2'>a</speak>", "broken markup: mismatched tag"),
        ("a <b>c</b>", "<b>: no tag that can be followed; known: speak, p, s, break, prosody"),
        ("<break time='soon'/>", 'time="soon"/>: expected 0 to 60 s, such as 300ms or 0.5s'),
        ("<break time='99s'/>", "expected 0 to 60 s"),
        ("<break strength='big'/>", '<break strength="big">: expected one of none, x-weak, weak'),
        ("<break length='1s'/>", "<break length=...>: expected time or strength"),
        ("<prosody rate='soon'>a</prosody>", '<prosody rate="soon">: expected a factor such as 80%, 0.8 or [+]10%, or'),
        ("<prosody rate='0%'>a</prosody>", "<prosody>: pace = 0.0: expected a number above 0"),
        ("<prosody pitch='200Hz'>a</prosody>", '<prosody pitch="200Hz">: expected a change such as [+]20Hz'),
        ("<prosody volume='7'>a</prosody>", '<prosody volume="7">: expected [+]6dB, or one of x-soft'),
        ("<prosody contour='x'>a</prosody>", "<prosody contour=...>: expected rate or pitch or range or volume"),
        ("<emphasis level='much'>a</emphasis>", '<emphasis level="much">: expected one of strong, moderate'),
        ("<phoneme alphabet='x-sampa' ph='a'>a</phoneme>", '<phoneme alphabet="x-sampa">: expected arpabet or ipa'),
        (
            "<phoneme alphabet='arpabet' ph='QQ'>a</phoneme>",
            "<phoneme alphabet=\"arpabet\">: 'QQ' in 'QQ' is no phoneme",
        ),
    ],
)
def test_markup_that_cannot_be_followed_is_one_line(text, message):
    with pytest.raises(SsmlError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
