import math

import numpy as np
import pytest
import torch

from fastpitch.acoustic.model import Spectrogram
from fastpitch.front import control
from fastpitch.front.control import Control, ControlError, SpeakerStatistics, edits, limited, parsed, parts_from_text
from fastpitch.front.symbols import TextConfig, TextProcessor
from tests.fastpitch.tiny import tiny_model

VOICE = SpeakerStatistics(pitch_mean=200.0, pitch_std=50.0)


def edited_hz(hz: float, **settings: object) -> float:
    """The pitch in Hz of one symbol that is predicted at `hz`."""
    of_one = edits(1, Control(**settings), VOICE)
    predicted = control.from_hz(hz, VOICE)
    given = predicted if math.isnan(of_one.pitch_L[0]) else of_one.pitch_L[0]
    return float(control.to_hz(given * of_one.pitch_scale_L[0] + of_one.pitch_shift_L[0], VOICE))


@pytest.mark.parametrize(
    ("settings", "hz"),
    [
        ({}, 240),
        ({"pitch_shift_hz": 20}, 260),
        ({"pitch_amplify": 2}, 280),
        ({"pitch_flatten": True}, 200),
        ({"pitch_invert": True}, 160),
        ({"pitch_ratio": 1.5}, 360),
        ({"pitch_flatten": True, "pitch_shift_hz": -30}, 170),
        ({"pitch_invert": True, "pitch_amplify": 0.5, "pitch_shift_hz": 10}, 190),
        ({"pitch_amplify": 2, "pitch_ratio": 0.5}, 140),
        ({"pitch_curve_hz": ((0, 100), (1, 120))}, 110),
        ({"pitch_curve_hz": ((0.5, 100),), "pitch_shift_hz": 5}, 105),
    ],
)
def test_pitch_is_changed_in_hz(settings, hz):
    assert edited_hz(240, **settings) == pytest.approx(hz, rel=1e-5)


def test_nothing_is_changed_by_default():
    of_three = edits(3, Control(), VOICE)
    for column, value in zip(of_three, (1, math.nan, math.nan, 1, 0, 1), strict=True):
        assert column.dtype == np.float32
        np.testing.assert_array_equal(column, [value] * 3)


def test_parts_are_within_the_whole_and_later_ones_within_earlier():
    parts = [
        (range(1, 4), Control(pace=0.5, pitch_curve_hz=((0, 250), (1, 250)))),
        (range(2, 3), Control(pace=0.5, energy=2)),
    ]
    of_five = edits(5, Control(pace=2, pitch_shift_hz=50), VOICE, parts)
    np.testing.assert_allclose(of_five.pace_L, [2, 1, 0.5, 1, 2])
    np.testing.assert_allclose(of_five.pitch_shift_L, [1] * 5)
    np.testing.assert_array_equal(of_five.pitch_L, [math.nan, 1, 1, 1, math.nan])
    np.testing.assert_allclose(of_five.gain_L, [1, 1, 2, 1, 1])


def test_a_pitch_beyond_the_range_is_limited_where_it_was_asked_for():
    voice = VOICE._replace(lowest_hz=150.0, highest_hz=250.0)
    asked = edits(4, Control(), voice, [(range(1, 4), Control(pitch_ratio=1.25))])
    assert limited(asked, np.array([300.0, 240.0, 250.0, 200.0]), voice) is None
    less = limited(asked, np.array([300.0, 260.0, 140.0, 200.0]), voice)
    np.testing.assert_array_equal(less.pitch_L, [math.nan, 1, -1, math.nan])
    np.testing.assert_allclose(less.pitch_scale_L, [1, 1, 1, 1.25])
    np.testing.assert_allclose(less.pitch_shift_L, [0, 0, 0, 1])


def test_a_curve_has_a_value_for_the_middle_of_every_symbol():
    of_four = edits(4, Control(pitch_curve_hz=((0, 200), (1, 250))), VOICE)
    np.testing.assert_allclose(control.to_hz(of_four.pitch_L, VOICE), [206.25, 218.75, 231.25, 243.75])


def test_hz_and_deviations_are_the_same_for_numbers_arrays_and_tensors():
    assert control.from_hz(250.0, VOICE) == 1
    assert control.to_hz(torch.tensor([1.0]), VOICE).tolist() == [250]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pace": 0}, "pace = 0: expected a number above 0, 1 for unchanged"),
        ({"pace": 1e-9}, "pace = 1e-09: expected at least 0.05, 1 for unchanged"),
        ({"pitch_curve_hz": ((0, 100), (1, math.nan))}, "pitch_curve_hz has 100, nan Hz; expected numbers"),
        ({"energy": math.nan}, "energy = nan: expected 0 for silence, or more"),
        ({"pitch_shift_hz": math.inf}, "pitch_shift_hz = inf: expected a number"),
        ({"pitch_curve_hz": ((1, 100), (0, 100))}, "pitch_curve_hz has places 1, 0; expected them rising from 0"),
    ],
)
def test_an_impossible_control_is_named(settings, message):
    with pytest.raises(ControlError, match=message):
        Control(**settings)


def test_a_part_outside_is_named():
    with pytest.raises(ControlError, match="symbols 2 to 5: expected 0 to 4"):
        edits(5, Control(), VOICE, [(range(2, 6), Control())])


def test_controls_are_read_from_text():
    settings = {"pace": "0.9", "pitch_shift": "20", "pitch_flatten": "True", "pitch_curve": "0:180 0.5:240 1:150"}
    assert parsed(settings) == Control(
        pace=0.9, pitch_shift_hz=20, pitch_flatten=True, pitch_curve_hz=((0, 180), (0.5, 240), (1, 150))
    )
    assert parsed({"pitch_curve": "180, 240 150"}).pitch_curve_hz == ((0, 180), (0.5, 240), (1, 150))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"speed": "1"}, "'speed': no control; known: pace, pitch_shift_hz"),
        ({"pace": "fast"}, "pace = 'fast': expected a number"),
        ({"pitch_invert": "maybe"}, "pitch_invert = 'maybe': expected true or false"),
        ({"pitch_curve": "0:a"}, "pitch_curve = 'a': expected a number"),
    ],
)
def test_what_is_no_control_is_named(settings, message):
    with pytest.raises(ControlError, match=message):
        parsed(settings)


ENCODED = TextProcessor(TextConfig(p_arpabet=0)).encode("it is what it is")


def test_words_and_symbols_are_named_in_text():
    assert parts_from_text("it: pace=0.5 energy=2; 3: pitch_shift=40;", ENCODED, of="words") == [
        (range(2), Control(pace=0.5, energy=2)),
        (range(11, 13), Control(pace=0.5, energy=2)),
        (range(6, 10), Control(pitch_shift_hz=40)),
    ]
    assert parts_from_text("16:pitch_curve=0:100 1:200, pace=2", ENCODED, of="symbols") == [
        (range(15, 16), Control(pitch_curve_hz=((0, 100), (1, 200)), pace=2))
    ]


@pytest.mark.parametrize(
    ("text", "of", "message"),
    [
        ("pace=2", "words", "'pace=2': expected a word or its number, a colon, and settings such as pace=0.8"),
        ("it:", "words", "'it:': expected a word or its number"),
        ("that: pace=2", "words", "word 'that': not one of the 5 words that are said: it is what it is"),
        ("6: pace=2", "words", "word '6'"),
        ("17: pace=2", "symbols", "symbol '17': expected a number from 1 to 16"),
        ("it: pace=2", "symbols", "symbol 'it'"),
    ],
)
def test_a_part_that_is_not_there_is_named(text, of, message):
    with pytest.raises(ControlError, match=message):
        parts_from_text(text, ENCODED, of=of)


def test_a_network_says_what_is_asked_of_it():
    model = tiny_model()
    voice = SpeakerStatistics(float(model.pitch_mean[0]), float(model.pitch_std[0]))
    tokens_BT, lengths_B = torch.tensor([ENCODED.tokens]), torch.tensor([len(ENCODED.tokens)])

    def said(asked: Control) -> Spectrogram:
        of_all = [torch.from_numpy(column)[None] for column in edits(len(ENCODED.tokens), asked, voice)]
        names = ("pace", "durations_BT", "pitch_BT", "pitch_scale", "pitch_shift")
        return model.infer(tokens_BT, lengths_B, **dict(zip(names, of_all[:5], strict=True)))

    plain = model.infer(tokens_BT, lengths_B)
    same = said(Control())
    torch.testing.assert_close(same.mel_BMT, plain.mel_BMT, rtol=0, atol=1e-6)
    higher = control.to_hz(said(Control(pitch_shift_hz=20)).pitch_BT - plain.pitch_BT, voice._replace(pitch_mean=0))
    torch.testing.assert_close(higher, torch.full_like(higher, 20), rtol=0, atol=1e-3)
    curve = control.to_hz(said(Control(pitch_curve_hz=((0, 180), (1, 260)))).pitch_BT, voice)
    torch.testing.assert_close(curve[0], torch.linspace(182.5, 257.5, 16), rtol=0, atol=1e-3)
    slow = said(Control(pace=0.25))
    assert slow.frames_B > 2 * plain.frames_B
    torch.testing.assert_close(slow.durations_BT, plain.durations_BT)
