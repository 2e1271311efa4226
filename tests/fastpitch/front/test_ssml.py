import contextlib

import pytest

from fastpitch.front import ssml
from fastpitch.front.control import Control, ControlError
from fastpitch.front.languages import SpokenReading
from fastpitch.front.ssml import Contour, MarkedSpan, SsmlError, parse
from tests.timing import assert_takes_less

PLAIN = Control()


@pytest.mark.parametrize("text", ["Hello.", "3 < 4 & 5 > 2", "I <3 you", "a<b", "x << y", "<- here"])
def test_text_without_tags_is_said_as_it_is(text):
    assert parse(text) == [MarkedSpan(text, PLAIN)]


def test_breaks_divide_a_text():
    assert parse('One <break time="300ms"/> two<break strength="strong" /><break/>') == [
        MarkedSpan("One ", PLAIN),
        MarkedSpan("", PLAIN, 0.3),
        MarkedSpan(" two", PLAIN),
        MarkedSpan("", PLAIN, 0.7),
        MarkedSpan("", PLAIN, 0.4),
    ]
    assert parse("<speak><break time='2s'/>Hi</speak>") == [MarkedSpan("", PLAIN, 2.0), MarkedSpan("Hi", PLAIN)]


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
        ('volume="silent"', Control(energy=0)),
        ('volume="50"', Control(energy=0.5)),
        ('volume="+20%"', Control(energy=1.2)),
    ],
)
def test_attributes_of_prosody(attributes, expected):
    assert parse(f"<prosody {attributes}>a</prosody>")[0].control == expected


def test_phonemes_and_substitutes():
    said = parse('Say <phoneme alphabet="arpabet" ph="t ah0 m ey1 t ow2">tomato</phoneme>!')
    assert said == [
        MarkedSpan("Say "),
        MarkedSpan("tomato", reading=SpokenReading("phonemes", "arpabet", "t ah0 m ey1 t ow2")),
        MarkedSpan("!"),
    ]
    (span,) = parse("<phoneme alphabet='x-sampa' ph='h@&quot;l@U'>hello</phoneme>")
    assert span == MarkedSpan("hello", reading=SpokenReading("phonemes", "ipa", "həˈləʊ"))
    assert parse('<phoneme ph="həlˈoʊ"/>') == [MarkedSpan("həlˈoʊ", reading=SpokenReading("phonemes", "ipa", "həlˈoʊ"))]
    assert parse('<say-as interpret-as="date" format="mdy">1/2/3</say-as>') == [
        MarkedSpan("1/2/3", reading=SpokenReading("say-as", "date", "mdy"))
    ]
    assert parse('the <sub alias="World Wide Web">WWW</sub>')[0].text == "the World Wide Web"


def test_emphasis():
    assert parse("<emphasis>now</emphasis>")[0].control == Control(pace=0.9, pitch_amplify=1.2, energy=1.2)


def test_a_pitch_in_hertz_takes_the_place_of_what_is_around_it():
    (span,) = parse("<prosody pitch='+50%'><prosody pitch='150Hz'>a</prosody></prosody>", lambda speaker: 200.0)
    assert span.control == Control(pitch_ratio=0.75)
    with pytest.raises(ControlError, match="a pitch in Hz needs a voice whose mean is known"):
        parse("<prosody pitch='150Hz'>a</prosody>")


def test_a_contour_is_one_curve_for_all_that_is_in_it():
    text = "<prosody contour='(0%,+20Hz) (100%, 150Hz) (50%,-50%)'>a <emphasis>b</emphasis></prosody>"
    first, second = parse(text, lambda speaker: 200.0)
    assert first.contour == second.contour == Contour(1, ((0.0, 220.0), (0.5, 100.0), (1.0, 150.0)))


def test_marks_languages_and_voices():
    assert parse("a<mark name='m'/><lang xml:lang='de'>b</lang><voice name='2'>c</voice>") == [
        MarkedSpan("a"),
        MarkedSpan("", mark="m"),
        MarkedSpan("b", language="de"),
        MarkedSpan("c", speaker="2"),
    ]


def test_entities_are_read_with_or_without_tags():
    for text in (
        "AT&amp;T &lt;3 &#233; &eacute; &copy; R&D &nope; &",
        "<s>AT&amp;T &lt;3 &#233; &eacute; &copy; R&D &nope; &</s>",
    ):
        assert parse(text)[0].text == "AT&T <3 é é © R&D &nope; &"


@pytest.mark.parametrize("text", ["<!--" * 8000, "<p>" * 100_000, "<a " * 20_000, "&" * 50_000, "<a b='" * 10_000])
def test_broken_markup_of_any_length_takes_no_time(text):
    def read() -> None:
        with contextlib.suppress(SsmlError):
            parse(text)

    assert_takes_less(1, read)


def test_sentences_and_paragraphs_end_sentences():
    assert parse("<p><s>One</s><s>two</s></p>three") == [
        MarkedSpan("One", PLAIN),
        MarkedSpan("", PLAIN, ssml.SENTENCE_SECONDS, ends_sentence=True),
        MarkedSpan("two", PLAIN),
        MarkedSpan("", PLAIN, ssml.SENTENCE_SECONDS, ends_sentence=True),
        MarkedSpan("", PLAIN, ssml.PARAGRAPH_SECONDS, ends_sentence=True),
        MarkedSpan("three", PLAIN),
    ]


def test_characters_of_markup_stand_for_themselves_in_text_with_tags_but_not_in_a_document():
    assert parse("<s>AT&T: 3 < 4 &amp; 5 &lt; 6</s>")[0].text == "AT&T: 3 < 4 & 5 < 6"
    with pytest.raises(SsmlError, match="broken markup: not well-formed .*; & is &amp; and < is &lt;"):
        parse("<speak>AT&T</speak>")


def test_declaration_attributes_and_comments_are_passed_over():
    text = '<?xml version="1.0"?>\n<speak version="1.1" xml:lang="en-US"><!-- so --> Hi\n  there </speak>'
    assert [(span.text, span.language) for span in parse(text)] == [(" Hi there ", "en-US")]
    assert parse('<!DOCTYPE speak PUBLIC "x" "y"><speak><![CDATA[a < b &amp;]]></speak>') == [MarkedSpan("a < b &amp;")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "<speak>hi",
            "broken markup: no element found near '<speak>hi'; every <tag> needs its </tag>, and <break/>",
        ),
        ("<p>hi", "broken markup: <p> without its end near '<p>hi'; every <tag> needs its </tag>, and <break/>"),
        ("<break>hi", "broken markup"),
        ("<prosody rate='2'>a</speak>", "broken markup: mismatched tag"),
        ("a <b>c</b>", "<b>: no tag that can be followed; known: speak, p, s, break, prosody"),
        ("<break time='soon'/>", 'time="soon"/>: expected 0 to 60 s, such as 300ms or 0.5s'),
        ("<break time='99s'/>", "expected 0 to 60 s"),
        ("<break strength='big'/>", '<break strength="big">: expected one of none, x-weak, weak'),
        ("<break length='1s'/>", "<break length=...>: expected time or strength"),
        ("<prosody rate='soon'>a</prosody>", '<prosody rate="soon">: expected a factor such as 80%, 0.8 or [+]10%, or'),
        ("<prosody rate='0%'>a</prosody>", "<prosody>: pace = 0.0: expected a number above 0"),
        ("<prosody pitch='200'>a</prosody>", '<prosody pitch="200">: expected 180Hz, a change such as [+]20Hz'),
        (
            "<prosody pitch='+99999st'>a</prosody>",
            'pitch="[+]99999st">: expected a pitch above 0 Hz, and at most 48 semi',
        ),
        ("<prosody pitch='-100%'>a</prosody>", "expected a pitch above 0 Hz"),
        ("<prosody pitch='0Hz'>a</prosody>", "expected a pitch above 0 Hz"),
        (
            "<prosody volume='170'>a</prosody>",
            'volume="170">: expected [+]6dB .at most 60., 0 to 100, or one of',
        ),
        ("<prosody volume='+99999dB'>a</prosody>", "expected [+]6dB .at most 60., 0 to 100"),
        ("<prosody contour='x'>a</prosody>", 'contour="x">: expected points such as .0%,[+]20Hz. .100%,180Hz.'),
        ("<prosody contour='(200%,+1Hz)'>a</prosody>", "place '200%': expected 0% to 100%"),
        ("<prosody contour='(2%,up)'>a</prosody>", 'contour="up">: expected 180Hz, a change'),
        ("<break>text</break>", "<break>text</break>: expected no text in it; write <break/>"),
        ("<mark name='a'>text</mark>", "<mark>text</mark>: expected no text in it"),
        ("<mark/>a", '<mark>: expected name="..."'),
        ("<mark name='a' x='1'/>", "<mark x=...>: expected name"),
        ("<s rate='fast'>a</s>", "<s rate=...>: expected xml:lang"),
        ("<p x='1'>a</p>", "<p x=...>: expected xml:lang"),
        ("<speak rate='2'>a</speak>", "<speak rate=...>: expected version or xml:lang"),
        ("<voice gender='female'>a</voice>", '<voice>: expected name="..."'),
        ("<lang>a</lang>", '<lang>: expected xml:lang="..."'),
        ("<sub alias='x'><emphasis>a</emphasis></sub>", "<emphasis> within <sub>: expected only text there"),
        ("<sub>a</sub>", '<sub>: expected alias="..."'),
        ("<say-as interpret-as='date'/>", '<say-as interpret-as="date">: expected text in it'),
        ("<break time=300ms/>", "broken markup: not well-formed near '<break time=300ms/>'"),
        ("<s xml:lang='a' xml:lang='b'>x</s>", "broken markup: <s> has xml:lang twice near"),
        ("a <!-- b", "broken markup: <!-- without --> near 'a <!-- b'"),
        ("<p>" * 65 + "a" + "</p>" * 65, "broken markup: tags nested more than 64 deep near"),
        ("<emphasis level='much'>a</emphasis>", '<emphasis level="much">: expected one of strong, moderate'),
        ("<phoneme>a</phoneme>", '<phoneme>: expected ph="..."'),
    ],
)
def test_markup_that_cannot_be_followed_is_one_line(text, message):
    with pytest.raises(SsmlError, match=message) as caught:
        parse(text, lambda speaker: 200.0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["Intro<p>para</p>", "<p>Intro<p>para</p></p>", "<speak>Intro<speak>para</speak></speak>", "Intro<s>para</s>"],
)
def test_a_paragraph_or_sentence_ends_what_stands_before_it(text):
    said = [span.text.strip() for span in parse(text) if span.pause_seconds is None]
    assert said == ["Intro", "para"]
    assert any(span.ends_sentence for span in parse(text)[:2])


def test_the_nearest_tag_is_named():
    with pytest.raises(SsmlError, match="<BREAK>: no tag that can be followed; the nearest is <break>; known: speak"):
        parse("<BREAK/>Hi")


VENDORS = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE speak PUBLIC "-//W3C//DTD SYNTHESIS 1.0//EN" "http://www.w3.org/synthesis.dtd" [<!ELEMENT x ANY>]>
<speak version="1.1" xmlns="http://www.w3.org/2001/10/synthesis" xmlns:mstts="http://www.w3.org/2001/mstts"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="a b" xml:base="http://x/" xml:lang="en-US">
 <meta name="author" content="x"/><metadata><rdf:RDF><dc:title>not said</dc:title></rdf:RDF></metadata>
 <lexicon uri="http://x/y.pls" xml:id="l"/><lookup ref="l">One</lookup>
 <voice name="1" gender="female" xml:lang="en"><mstts:express-as style="sad">two</mstts:express-as></voice>
 <amazon:effect name="whispered">three</amazon:effect><amazon:breath duration="long"/>
 <audio src="http://x/y.wav"><desc>a bell</desc>four</audio>
 <token role="x">five</token> <w>six</w> <say-as interpret-as="date" format="mdy" language="de">1/2/3</say-as>
 <p onlangfailure="ignoretext"><prosody volume="silent" amazon:max-duration="2s">seven</prosody></p>
</speak>"""


def test_documents_of_other_vendors_are_read_and_what_is_passed_over_is_one_warning(caplog):
    spans = parse(VENDORS)
    assert " ".join("".join(span.text for span in spans).split()) == "One two three four five six 1/2/3 seven"
    told = {span.text.strip(): (span.speaker, span.language, span.control.energy) for span in spans}
    assert told["two"] == ("1", "en", 1.0)
    assert told["1/2/3"] == ("", "de", 1.0)
    assert told["seven"] == ("", "en-US", 0.0)
    (record,) = caplog.records
    passed = "<meta>, <metadata>, <lexicon>, <lookup>, <voice gender>, <mstts:express-as>, <amazon:effect>, "
    passed += "<amazon:breath>, <audio>, <desc>, <token>, <w>, <p onlangfailure>, <prosody amazon:max-duration>"
    assert record.getMessage() == f"SSML: passed over {passed}"


def test_what_is_in_a_document_type_is_never_said_nor_opened():
    with pytest.raises(SsmlError, match="<!ENTITY x>: entities are not expanded here"):
        parse('<!DOCTYPE speak [<!ENTITY x SYSTEM "file:///etc/passwd">]><speak>&x;</speak>')
