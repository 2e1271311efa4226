import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common.audio import waveform
from common.audio.waveform import AudioError
from common.data.manifest import Utterance
from common.recognition.sources.recordings import (
    OneChannel,
    Recording,
    is_silent,
    name_of,
    of_channel,
    read,
    read_ahead,
)


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    soundfile.write(tmp_path / "a.wav", np.linspace(0, 0.5, 8_000), 8_000)
    return tmp_path / "a.wav"


def test_files_utterances_and_arrays_are_read_at_the_wanted_rate(wav):
    for source, name in (
        (wav, str(wav)),
        (str(wav), str(wav)),
        (Utterance(id="u", audio=wav, seconds=1, text=""), "u"),
    ):
        found = read(source, 16_000)
        assert (found.name, found.seconds, len(found.samples_N)) == (name, 1.0, 16_000)
    found = read(np.ones(800), 16_000)
    assert (found.name, found.seconds, found.samples_N.dtype) == ("array", 0.05, np.float32)
    for offset in (0.0, 0.5):
        piece = Utterance(id="u", audio=wav, seconds=0.25, text="", offset_seconds=offset)
        assert read(piece, 8_000).seconds == 0.25


@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.zeros(0), np.array([0.0, np.nan])])
def test_arrays_that_are_no_sound_are_refused(array):
    with pytest.raises(AudioError, match=r"^array of shape .*: expected finite mono samples \[N\] at 16000 Hz$"):
        read(array, 16_000)


def test_whole_numbers_are_samples_as_files_have_them():
    for dtype, zero, half in ((np.int16, 0, 1 << 14), (np.int32, 0, 1 << 30), (np.uint8, 128, 192)):
        found = read(np.array([zero, half] * 400, dtype), 16_000).samples_N
        np.testing.assert_array_equal(found, np.array([0, 0.5] * 400, np.float32))
    for dtype in (np.int64, bool, object):
        with pytest.raises(AudioError, match=r": expected floating-point samples .*, or int16, int32, uint8$"):
            read(np.ones(800, dtype), 16_000)


@pytest.mark.parametrize(
    "form",
    [
        lambda n: n[None],
        lambda n: n[:, None],
        lambda n: np.stack([n, n]),
        lambda n: np.stack([n, n], 1),
        lambda n: np.stack([n, -n], 1),
        lambda n: torch.from_numpy(n)[None],
        lambda n: (torch.from_numpy(n)[None], 16_000),
        lambda n: (16_000, n),
        lambda n: n.tolist(),
        np.ma.masked_array,
        lambda n: {"raw": n, "sampling_rate": 16_000},
    ],
)
def test_samples_come_in_the_forms_that_other_programs_give_them(form):
    wanted = np.linspace(-0.5, 0.5, 800, dtype=np.float32)
    np.testing.assert_array_equal(read(form(wanted), 16_000).samples_N, wanted)


def test_datasets_hand_files_out_as_bytes_or_paths(wav):
    for source, name in (
        ({"path": str(wav), "bytes": None}, str(wav)),
        ({"path": "a.wav", "bytes": wav.read_bytes()}, "a.wav"),
        ({"path": None, "bytes": wav.read_bytes()}, "dict"),
    ):
        found = read(source, 16_000)
        assert (found.name, len(found.samples_N)) == (name, 16_000)
    with pytest.raises(AudioError, match=r"^dict of audio: expected array and sampling_rate, or path, or bytes$"):
        read({"audio": 1}, 16_000)


@pytest.mark.parametrize("seconds", [np.inf, 0.1])
def test_of_channels_that_cancel_each_other_the_loudest_is_taken(tmp_path, seconds):
    sound = 0.4 * np.sin(np.arange(16_000) / 9)
    soundfile.write(tmp_path / "a.wav", np.stack([0.9 * sound, -sound], 1), 16_000, subtype="FLOAT")
    found = read(tmp_path / "a.wav", 16_000, long_seconds=seconds).samples_N
    np.testing.assert_array_equal(found[0 : len(found)], -sound.astype(np.float32))


def test_recordings_come_in_order_and_errors_raise_or_stand_in_their_place(wav, tmp_path):
    missing = tmp_path / "missing.wav"
    sources = [wav, missing, wav]
    found = list(read_ahead(sources, 8_000, on_error="skip", silence=True))
    assert [bool(recording.error) for recording in found] == [False, True, False]
    assert found[1].error == f"{missing}: no such file; expected an audio file"
    assert isinstance(found[1], Recording)
    assert len(found[1].samples_N) == 0
    with pytest.raises(AudioError, match=r"missing\.wav: no such file"):
        list(read_ahead(sources, 8_000, on_error="stop", silence=True))


def test_what_nobody_can_hear_is_silent():
    assert is_silent(np.full(100, 9e-6, np.float32))
    assert is_silent(np.zeros(0, np.float32))
    assert not is_silent(np.array([0, 0, 2e-5], np.float32))


@pytest.fixture
def tone(tmp_path):
    samples_N = (0.5 * np.sin(np.arange(8000) * 0.05)).astype(np.float32)
    waveform.write(tmp_path / "tone.wav", samples_N, 16000)
    return tmp_path / "tone.wav"


def test_bytes_open_files_arrays_and_tensors_are_recordings_too(tone):
    expected = read(tone, 16000).samples_N
    with tone.open("rb") as file:
        held = tone.read_bytes()
        dataset = {"path": "x", "array": expected, "sampling_rate": 16000}
        of_bytes = (held, bytearray(held), memoryview(held), io.BytesIO(held), file)
        for source in (*of_bytes, expected, torch.from_numpy(expected), (expected, 16000.0), dataset):
            np.testing.assert_array_equal(read(source, 16000).samples_N, expected)
    for source in ((expected, 8000), (torch.from_numpy(expected), 8000)):
        assert len(read(source, 16000).samples_N) == 2 * len(expected)
    assert [name_of(s) for s in (b"", io.BytesIO(), expected, torch.ones(2), (expected, 8000))] == [
        "bytes", "BytesIO", "array", "Tensor", "tuple",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"", "bytes: the file is empty"),
        (b"no sound", "bytes: cannot be read as audio"),
        (io.BytesIO(b"no sound"), "BytesIO: cannot be read as audio"),
        ((np.ones(4, np.float32), 10), "samples at a rate of 10: expected a whole number of 1000 to 768000 Hz"),
        ((np.ones(4, np.float32), 16000.5), "samples at a rate of 16000.5: expected a whole number"),
        ((16000, 8000), "int: expected a file, bytes, or samples as an array or tensor"),
        ((1, 2, 3), r"tuple \(int, int, int\): expected \(samples, rate\)"),
        ({"array": [1.0]}, "dict of array: expected array and sampling_rate, or path, or bytes"),
        (torch.ones(4, dtype=torch.int64), "array of int64: expected floating-point samples"),
        ((np.full(4, np.nan, np.float32), 8000), "expected finite mono samples .N. at 8000 Hz"),
    ],
)
def test_what_is_no_sound_is_told(source, message):
    with pytest.raises(AudioError, match=message):
        read(source, 16000)


def test_an_open_file_that_was_read_already_is_told():
    used = io.BytesIO(b"sound")
    used.read()
    with pytest.raises(AudioError, match="BytesIO: nothing is left in it, for it stands at its end"):
        read(used, 16000)


@pytest.mark.parametrize(
    "source",
    ["a.wav", Path("a.wav"), b"x", np.zeros(3), torch.ones(3), bytearray(b"x"), io.BytesIO(b"x"), (np.ones(3), 1)],
)
def test_one_recording_is_no_list_of_them(source):
    with pytest.raises(TypeError, match=r"expected a list of recordings, found one .*; put it in \[ \]"):
        list(read_ahead(source, 16000, on_error="stop", silence=True))


@pytest.mark.parametrize("seconds", [np.inf, 0.1])
def test_one_channel_of_a_call_is_heard_alone(tmp_path, seconds):
    agent, customer = (np.float32(0.4 * np.sin(np.arange(16_000) / by)) for by in (9, 7))
    both = np.stack([agent, customer], 1)
    soundfile.write(tmp_path / "a.wav", both, 16_000, subtype="FLOAT")
    cut = Utterance(id="u", audio=tmp_path / "a.wav", seconds=1, text="", offset_seconds=0)
    content = (tmp_path / "a.wav").read_bytes()
    sources = [tmp_path / "a.wav", cut, content, io.BytesIO(content), both, both.T, torch.tensor(both), (both, 16_000)]
    for channel, expected in (("left", agent), ("right", customer), ("1", agent), ("02", customer)):
        sources[3].seek(0)
        for source, one in zip(sources, of_channel(sources, channel), strict=True):
            found = read(one, 16_000, long_seconds=seconds)
            assert found.name == name_of(source)
            np.testing.assert_array_equal(found.samples_N[0:16_000], expected)
    assert of_channel(sources, "mean") == sources


def test_a_channel_that_is_not_there_costs_its_recording_alone(wav, tmp_path):
    stereo = tmp_path / "stereo.wav"
    soundfile.write(stereo, np.zeros((800, 2)), 8_000)
    sources = of_channel([wav, stereo, np.zeros(800)], "right")
    first, second, third = read_ahead(sources, 8_000, on_error="skip", silence=True)
    assert (first.error, second.error) == (f"{wav}: has 1 channel, and no channel 2", "")
    assert third.error == "array: has 1 channel, and no channel 2"
    with pytest.raises(AudioError, match=r"stereo\.wav: has 2 channels, and no channel 3$"):
        read(*of_channel([stereo], "3"), 8_000)
    for name in ("0", "-1", "1.5", "middle", "", "²"):
        with pytest.raises(ValueError, match=rf"^channel = '{name}': expected mean, left, right, or a number"):
            of_channel([wav], name)
    with pytest.raises(ValueError, match=r"^channel -1: expected a number, counted from 0$"):
        OneChannel(wav, -1)
    with pytest.raises(TypeError, match=r"^expected a list of recordings, found one OneChannel; put it in \[ \]$"):
        read_ahead(OneChannel(wav, 0), 8_000, on_error="skip", silence=True)
