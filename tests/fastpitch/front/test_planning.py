import re

import numpy as np
import pytest

from fastpitch.front.control import Control, ControlError, SpeakerStatistics
from fastpitch.front.planning import plan
from fastpitch.front.ssml import SsmlError
from fastpitch.front.symbols import TextConfig, TextError, TextProcessor, WordSymbols
from tests.fastpitch.front.test_symbols import spelled

PROCESSOR = TextProcessor(TextConfig(p_arpabet=0))
VOICES = [SpeakerStatistics(pitch_mean=200.0, pitch_std=50.0)] * 8


def written_out(text: str) -> str:
    """<say-as date mdy> with the names of its attributes."""
    return re.sub(r"<say-as ([\w-]+) ?(\w*)>", r"<say-as interpret-as='\1' format='\2'>", text)


def said(text: str, **options: object) -> list[str]:
    return ["".join(piece.encoded.symbols) for piece in plan(text, PROCESSOR, VOICES, **options)]


def test_a_text_becomes_sentences_with_pauses():
    pieces = plan("It is $5. Yes. <break time='1s'/>", PROCESSOR, VOICES, speaker=3)
    assert [piece.pause_ms for piece in pieces] == [300, 1000]
    assert {piece.speaker for piece in pieces} == {3}
    assert pieces[0].encoded.words == [
        WordSymbols("it", 0, 1),
        WordSymbols("is", 3, 4),
        WordSymbols("five", 6, 9),
        WordSymbols("dollars", 11, 17),
    ]
    assert said("It is $5. Yes.") == ["it is five dollars.", "yes."]


def test_silence_alone_has_no_tokens():
    first, second = plan("<break time='500ms'/>Yes", PROCESSOR, VOICES)
    assert first.encoded.tokens == []
    assert first.pause_ms == 500
    assert len(first.edits.pace_L) == 0
    assert "".join(second.encoded.symbols) == "yes"


def test_controls_meet_in_the_symbols():
    (piece,) = plan(
        "a <prosody rate='50%'>go</prosody> d",
        PROCESSOR,
        VOICES,
        control=Control(pace=2),
        words="3: pace=3",
        symbols="1: pace=5",
    )
    assert "".join(piece.encoded.symbols) == "a go d"
    np.testing.assert_allclose(piece.edits.pace_L, [10, 2, 1, 1, 2, 6])


def test_places_and_curves_go_through_the_whole_text():
    pieces = plan(
        "Ox. Go. Up.", PROCESSOR, VOICES, control=Control(pitch_curve_hz=((0, 200), (1, 290))), words="3: pace=2"
    )
    assert [set(piece.edits.pace_L.tolist()) for piece in pieces] == [{1.0}, {1.0}, {1.0, 2.0}]
    hz = np.concatenate([piece.edits.pitch_L for piece in pieces]) * 50 + 200
    np.testing.assert_allclose(hz, np.arange(205, 290, 10), rtol=1e-5)


def test_all_edits_have_a_value_for_every_token():
    for piece in plan("Dr. No: " + "word " * 200, PROCESSOR, VOICES):
        assert {len(column) for column in piece.edits} == {len(piece.encoded.tokens)}


def test_what_was_left_out_is_told_with_its_sentence():
    processor = TextProcessor(TextConfig(p_arpabet=0, unknown_characters="skip"))
    assert [piece.encoded.left_out for piece in plan("Yes. No 你. <break/> 好 so.", processor, VOICES)] == [
        [],
        ["你"],
        ["好"],
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. <emphasis>Smith</emphasis> is here.", ["doctor smith is here."]),
        ("<prosody rate='50%'>$5</prosody> million", ["five million dollars"]),
        ("In <prosody rate='50%'>201</prosody>9.", ["in twenty nineteen."]),
        ("St. <phoneme alphabet='ipa' ph='həlˈoʊ'>James</phoneme> street", ["saint {HH AH0 L OW1} street"]),
        ("Dr. {S M IH1 TH}'s", ["doctor {S M IH1 TH}'s"]),
        ("<say-as characters>NASA 1</say-as>, ok", ["n ay s ay one, ok"]),
        ("on <say-as date dmy>1/2/2003</say-as>.", ["on the first of february two thousand three."]),
        ("<say-as telephone>555-12</say-as> (<say-as digits>42</say-as>)", ["five five five, one two (four two)"]),
        ("<say-as cardinal>2019</say-as>", ["two thousand nineteen"]),
        ("the <say-as ordinal>3</say-as> <say-as time>3:30pm</say-as>", ["the third three thirty p m"]),
        ("AT&amp;T <lang xml:lang='en-GB'>and</lang> 3 &lt; 4", ["ay t and t and three is less than four"]),
        ("<voice name='1'>Hello.</voice> There", ["hello.", "there"]),
    ],
)  # fmt: skip
def test_spans_are_read_in_their_sentence(text, expected):
    pieces = plan(written_out(text), PROCESSOR, VOICES)
    assert [spelled(piece.encoded) for piece in pieces] == expected


def test_the_symbols_of_a_reading_have_the_control_of_where_they_come_from():
    (piece,) = plan(
        "Pay <prosody rate='50%'>$5</prosody> million <emphasis level='none'>now</emphasis>", PROCESSOR, VOICES
    )
    assert "".join(piece.encoded.symbols) == "pay five million dollars now"
    np.testing.assert_allclose(piece.edits.pace_L, [1] * 4 + [0.5] * 20 + [1] * 4)


def test_a_contour_goes_over_sentences_and_nested_tags():
    pieces = plan(
        "<prosody contour='(0%,100Hz) (100%,200Hz)'>Ox. <emphasis>Go</emphasis></prosody> up", PROCESSOR, VOICES
    )
    hz = np.concatenate([piece.edits.pitch_L for piece in pieces]) * 50 + 200
    np.testing.assert_allclose(hz[:5], [110, 130, 150, 170, 190], rtol=1e-5)
    assert np.isnan(hz[5:]).all()


def test_marks_are_before_the_symbols_that_follow_them():
    pieces = plan("<mark name='a'/>One <mark name='b'/>2. <mark name='c'/><break/><mark name='d'/>", PROCESSOR, VOICES)
    assert ["".join(piece.encoded.symbols) for piece in pieces] == ["one two.", ""]
    assert [[tuple(mark) for mark in piece.marks] for piece in pieces] == [[("a", 0), ("b", 4), ("c", 8)], [("d", 0)]]


def test_another_voice_says_what_it_is_given():
    other = SpeakerStatistics(pitch_mean=100.0, pitch_std=20.0)
    text = "One <voice name='anna'>two <prosody pitch='150Hz'>three</prosody></voice> four"
    pieces = plan(text, PROCESSOR, [*VOICES[:7], other], names=[*"abcdefg", "anna"])
    assert [(piece.speaker, "".join(piece.encoded.symbols)) for piece in pieces] == [
        (0, "one"),
        (7, "two three"),
        (0, "four"),
    ]
    np.testing.assert_allclose(pieces[1].edits.pitch_scale_L, [1] * 4 + [1.5] * 5)


def test_words_given_as_phonemes_or_as_they_stand_are_controlled_by_name():
    written = TextProcessor(TextConfig(p_arpabet=0, cleaners="none"))
    (piece,) = plan("Say Hello now", written, VOICES, words="hello: pace=2")
    np.testing.assert_allclose(piece.edits.pace_L, [1] * 4 + [2] * 5 + [1] * 4)
    (piece,) = plan("say {HH AH0 L OW1}", PROCESSOR, VOICES, words="{hh ah0 l ow1}: pace=2")
    np.testing.assert_allclose(piece.edits.pace_L, [1] * 4 + [2] * 4)
    (piece,) = plan(
        "say <phoneme alphabet='arpabet' ph='AY1'>Really</phoneme>", PROCESSOR, VOICES, words="really: pace=2"
    )
    np.testing.assert_allclose(piece.edits.pace_L, [1] * 4 + [2])


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("", {}, TextError, "nothing to say"),
        ("<break time='1s'/>", {}, TextError, "nothing to say"),
        ("." * 5000, {}, TextError, r"^'\.{77}\.\.\.': nothing to say in it"),
        ("<speak>a", {}, SsmlError, "broken markup"),
        (
            "<phoneme alphabet='sapi' ph='a'>a</phoneme>",
            {},
            TextError,
            '<phoneme alphabet="sapi">: expected arpabet or ipa',
        ),
        ("<phoneme alphabet='arpabet' ph='QQ'>a</phoneme>", {}, TextError, "'QQ' in 'QQ' is no phoneme"),
        ("<lang xml:lang='de'>Welt</lang>", {}, TextError, "language 'de': english_basic speaks English only"),
        ("<voice name='x'>Hi</voice>", {}, ControlError, "speaker x: the model has 0 to 7"),
        (
            "<say-as song>a</say-as>",
            {},
            TextError,
            'interpret-as="song">: expected one of characters, spell-out',
        ),
        ("<say-as ordinal>a</say-as>", {}, TextError, "interpret-as=\"ordinal\">: 'a' is none"),
        ("<say-as fraction>1/0</say-as>", {}, TextError, "interpret-as=\"fraction\">: '1/0' is none"),
        (
            "<say-as date q>1</say-as>",
            {},
            TextError,
            "expected a date of as many parts as its format",
        ),
        ("<say-as date m>13</say-as>", {}, TextError, "'13' in '13' is no month"),
        ("a", {"words": "b: pace=2"}, ControlError, "word 'b': not one of the 1 words"),
    ],
)
def test_what_cannot_be_said_is_told(text, options, error, message):
    with pytest.raises(error, match=message):
        plan(written_out(text), PROCESSOR, VOICES, **options)
