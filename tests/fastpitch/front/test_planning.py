import numpy as np
import pytest

from fastpitch.front.control import Control, ControlError, Speaker
from fastpitch.front.planning import plan
from fastpitch.front.ssml import SsmlError
from fastpitch.front.symbols import TextConfig, TextError, TextProcessor, Word

PROCESSOR = TextProcessor(TextConfig(p_arpabet=0))
VOICE = Speaker(pitch_mean=200.0, pitch_std=50.0)


def said(text: str, **options: object) -> list[str]:
    return ["".join(piece.encoded.symbols) for piece in plan(text, PROCESSOR, VOICE, **options)]


def test_a_text_becomes_sentences_with_pauses():
    pieces = plan("It is $5. Yes. <break time='1s'/>", PROCESSOR, VOICE, speaker=3)
    assert [piece.pause_ms for piece in pieces] == [300, 1000]
    assert {piece.speaker for piece in pieces} == {3}
    assert pieces[0].encoded.words == [Word("it", 0, 1), Word("is", 3, 4), Word("five", 6, 9), Word("dollars", 11, 17)]
    assert said("It is $5. Yes.") == ["it is five dollars.", "yes."]


def test_silence_alone_has_no_tokens():
    first, second = plan("<break time='500ms'/>Yes", PROCESSOR, VOICE)
    assert first.encoded.tokens == []
    assert first.pause_ms == 500
    assert len(first.edits.pace_L) == 0
    assert "".join(second.encoded.symbols) == "yes"


def test_controls_meet_in_the_symbols():
    (piece,) = plan(
        "a <prosody rate='50%'>bc</prosody> d",
        PROCESSOR,
        VOICE,
        control=Control(pace=2),
        words="3: pace=3",
        symbols="1: pace=5",
    )
    assert "".join(piece.encoded.symbols) == "a bc d"
    np.testing.assert_allclose(piece.edits.pace_L, [10, 2, 1, 1, 2, 6])


def test_places_and_curves_go_through_the_whole_text():
    pieces = plan(
        "Ab. Cd. Ef.", PROCESSOR, VOICE, control=Control(pitch_curve_hz=((0, 200), (1, 290))), words="3: pace=2"
    )
    assert [set(piece.edits.pace_L.tolist()) for piece in pieces] == [{1.0}, {1.0}, {1.0, 2.0}]
    hz = np.concatenate([piece.edits.pitch_L for piece in pieces]) * 50 + 200
    np.testing.assert_allclose(hz, np.arange(205, 290, 10), rtol=1e-5)


def test_all_edits_have_a_value_for_every_token():
    for piece in plan("Dr. No: " + "word " * 200, PROCESSOR, VOICE):
        assert {len(column) for column in piece.edits} == {len(piece.encoded.tokens)}


def test_what_was_left_out_is_told_with_its_sentence():
    processor = TextProcessor(TextConfig(p_arpabet=0, unknown_characters="skip"))
    assert [piece.encoded.left_out for piece in plan("Yes. No 你. <break/> 好 so.", processor, VOICE)] == [
        [],
        ["你"],
        ["好"],
    ]


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("", {}, TextError, "nothing to say"),
        ("<break time='1s'/>", {}, TextError, "nothing to say"),
        ("." * 5000, {}, TextError, r"^'\.{77}\.\.\.': nothing to say in it"),
        ("<speak>a", {}, SsmlError, "broken markup"),
        ("a", {"words": "b: pace=2"}, ControlError, "word 'b': not one of the 1 words"),
    ],
)
def test_what_cannot_be_said_is_told(text, options, error, message):
    with pytest.raises(error, match=message):
        plan(text, PROCESSOR, VOICE, **options)
