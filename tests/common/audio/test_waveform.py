"""Reading, writing and changing recordings."""

import io
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from common.audio import containers, silence, waveform
from tests.data import shared


def noise(n: int, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "subtype", "tolerance"),  # half a quantisation step; float is exact; OGG and MP3 keep the shape only
    [
        ("a.flac", "PCM_16", 2**-15),
        ("a.wav", "PCM_16", 2**-15),
        ("a.wav", "PCM_24", 2**-23),
        ("a.wav", "FLOAT", 0),
        ("a.aiff", "PCM_16", 2**-15),
        ("a.ogg", "VORBIS", None),
        ("a.mp3", "MPEG_LAYER_III", None),
    ],
)
def test_every_format_gives_its_samples(tmp_path, name, subtype, tolerance):
    tone = np.sin(np.arange(16000) * 0.1).astype(np.float32) * 0.5
    soundfile.write(tmp_path / name, tone, 16000, subtype=subtype)
    samples, rate = waveform.read(tmp_path / name)
    assert (samples.dtype, samples.ndim, rate) == (np.float32, 1, 16000)
    if tolerance is None:
        assert np.corrcoef(samples[: len(tone)], tone[: len(samples)])[0, 1] > 0.99
    else:
        np.testing.assert_allclose(samples, tone, rtol=0, atol=tolerance)


def test_stereo_becomes_the_mean_of_its_channels(tmp_path):
    left, right = noise(1000, 1), noise(1000, 2)
    soundfile.write(tmp_path / "stereo.wav", np.stack([left, right], 1), 16000, subtype="FLOAT")
    np.testing.assert_allclose(waveform.read(tmp_path / "stereo.wav").samples, (left + right) / 2, atol=1e-7)


def test_another_sample_rate_keeps_duration_and_pitch(tmp_path):
    seconds = np.arange(96000) / 96000
    stereo = np.stack([np.sin(2 * np.pi * 440 * seconds)] * 2, 1)
    soundfile.write(tmp_path / "high.wav", stereo, 96000, subtype="FLOAT")
    samples, rate = waveform.read(tmp_path / "high.wav", sample_rate=16000)
    assert (len(samples), rate) == (16000, 16000)
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    np.testing.assert_allclose(samples[200:-200], expected[200:-200], atol=1e-3)


def test_a_piece_equals_the_same_piece_of_the_whole():
    path = shared("data/librispeech-mini/LibriSpeech/dev-clean/2412/153948/2412-153948-0000.flac")
    whole = waveform.read(path).samples
    np.testing.assert_array_equal(waveform.read(path, offset_seconds=2.5, seconds=1.5).samples, whole[40000:64000])
    np.testing.assert_array_equal(waveform.read(path, offset_seconds=11).samples, whole[176000:])
    np.testing.assert_array_equal(waveform.read(path, offset_seconds=11, seconds=60).samples, whole[176000:])


def test_the_header_gives_length_and_format(tmp_path):
    soundfile.write(tmp_path / "a.flac", np.zeros((800, 2)), 8000)
    assert waveform.info(tmp_path / "a.flac") == waveform.AudioInfo(
        seconds=0.1, samples=800, sample_rate=8000, channels=2
    )


@pytest.mark.parametrize("samples", [noise(3), np.zeros(16000, np.float32)], ids=["three samples", "silence"])
def test_very_short_and_silent_files_are_audio(tmp_path, samples):
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    np.testing.assert_array_equal(waveform.read(tmp_path / "a.wav").samples, samples)
    np.testing.assert_array_equal(silence.trim_silence(samples).samples, samples)


def test_a_wav_written_to_a_pipe_has_no_length_in_its_header_and_is_read(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(1000), 16000)
    content = (tmp_path / "a.wav").read_bytes()
    at = content.index(b"data") + 4
    (tmp_path / "piped.wav").write_bytes(content[:4] + b"\xff" * 4 + content[8:at] + b"\xff" * 4 + content[at + 4 :])
    np.testing.assert_array_equal(
        waveform.read(tmp_path / "piped.wav").samples, waveform.read(tmp_path / "a.wav").samples
    )


def without_length(flac: bytes) -> bytes:
    """The FLAC file as a program writes it to a pipe."""
    content = bytearray(flac)
    content[21] &= 0xF0  # the 36 bits of STREAMINFO that count samples
    content[22:26] = bytes(4)
    return bytes(content)


@pytest.mark.parametrize("count", [17, 4096, 4097, 16000 * 5])
@pytest.mark.parametrize("rate", [8000, 12345, 44100])
def test_flac_from_a_pipe_is_as_long_as_its_last_frame_says(tmp_path, count, rate):
    path = tmp_path / "a.flac"
    soundfile.write(path, np.stack([noise(count)] * 2, 1), rate)
    content = path.read_bytes()
    expected = waveform.read(path).samples
    assert len(expected) == count
    path.write_bytes(without_length(content))
    for source in (path, waveform.Held(without_length(content))):
        np.testing.assert_array_equal(waveform.read(source).samples, expected)
        np.testing.assert_array_equal(waveform.read(source, offset_seconds=5 / rate).samples, expected[5:])
        assert waveform.info(source).samples == count


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_flac_from_a_pipe_that_broke_off_is_told(tmp_path, kept):
    soundfile.write(tmp_path / "a.flac", noise(16000 * 5), 16000)
    content = without_length((tmp_path / "a.flac").read_bytes())
    with pytest.raises(waveform.AudioError, match=r"^audio: truncated or damaged: "):
        waveform.read(waveform.Held(content[: int(kept * len(content))]))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS); fetch the file: git lfs pull"),
        (b"\n<!DOCTYPE html><html>", "a web page); download the file again"),
        (b"PK\x03\x04" + bytes(9), "a ZIP archive); unpack it"),
        (b"\xff\xf1P\x80" + bytes(99), "AAC); to read it: pip install av; or convert it to FLAC"),
        ("a.wav\nü.wav\n".encode(), "it is text, as lists (.txt) and manifests (.jsonl, .csv) are; expected WAV"),
        (("a.wav " + "x" * 505 + "ü").encode(), "it is text"),
        (b"no audio, whatever its name says.", "Format not recognised); expected WAV, FLAC, OGG or MP3"),
    ],
)
def test_what_is_no_recording_is_told_for_what_it_is(monkeypatch, content, told):
    monkeypatch.setattr(containers, "can_decode", lambda: False)
    with pytest.raises(waveform.AudioError, match=r"^x: cannot be read as audio \(.*" + re.escape(told)):
        waveform.read(waveform.Held(content, "x"))


def test_a_name_that_is_no_utf_8_is_read(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(1000), 16000)
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/latin\xe9.wav"))
    (tmp_path / "a.wav").replace(path)
    assert len(waveform.read(path).samples) == 1000


def test_a_recording_of_a_telephone_in_which_one_cannot_seek(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(16000), 8000, subtype="GSM610")
    samples = waveform.read(tmp_path / "a.wav").samples
    assert len(samples) == 16000
    piece = waveform.read(tmp_path / "a.wav", offset_seconds=0.5, seconds=1).samples
    np.testing.assert_array_equal(piece, samples[4000:12000])


def test_an_ogg_file_that_is_whole_is_read_from_memory_too(tmp_path):
    soundfile.write(tmp_path / "a.ogg", noise(100_000), 16000)
    assert len(waveform.read(waveform.Held((tmp_path / "a.ogg").read_bytes())).samples) == 100_000
    with pytest.raises(waveform.AudioError, match="bytes: truncated: its last page"):
        waveform.read(waveform.Held((tmp_path / "a.ogg").read_bytes()[:-100], "bytes"))


def broken(folder: Path, name: str) -> Path:
    """A file that cannot be used, of the kind that its name says."""
    path = folder / name
    if name.startswith("truncated"):
        kind = {"sph": "NIST"}.get(name.rpartition(".")[2])
        soundfile.write(path, noise(16000), 16000, format=kind)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif name == "empty.wav":
        path.touch()
    elif name == "text.flac" or name == "noise.raw":
        path.write_text("this is no audio " * 50)
    elif name == "nothing.wav":
        soundfile.write(path, noise(16000), 16000)
        content = bytearray(path.read_bytes())
        content[40:44] = bytes(4)
        path.write_bytes(content)
    elif name == "none.wav":
        soundfile.write(path, np.zeros(0), 16000)
    elif name == "nan.wav":
        soundfile.write(path, np.array([0, np.nan, 0]), 16000, subtype="FLOAT")
    elif name == "infinite.wav":
        soundfile.write(path, np.array([0, np.inf, 0]), 16000, subtype="FLOAT")
    elif name == "folder.wav":
        path.mkdir()
    elif name == "piped.flac":
        soundfile.write(path, noise(16000), 16000)
        path.write_bytes(without_length(path.read_bytes()) + bytes(1 << 18))
    return path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.wav", "no such file; expected an audio file"),
        ("folder.wav", "is a folder; expected an audio file"),
        ("empty.wav", "the file is empty (0 bytes)"),
        ("text.flac", "cannot be read as audio (Format not recognised)"),
        ("noise.raw", "has no header that tells its rate and format; write one, as with: ffmpeg -f s16le"),
        ("truncated.wav", "truncated: its header promises 32000 bytes but 15978 are there"),
        ("truncated.flac", "truncated or damaged: 16000 samples are promised, but: Error : flac decoder lost sync"),
        ("truncated.ogg", "truncated: its last page is not whole"),
        ("truncated.sph", "truncated: its header promises more samples than the 7"),
        ("truncated.voc", "truncated: its header promises more samples than the 7"),
        ("truncated.mp3", "truncated: 16000 samples are promised but only"),
        ("none.wav", "holds 0 samples"),
        ("nothing.wav", "holds 0 samples, though it has 32044 bytes (was it written to a pipe?); encode it again"),
        ("nan.wav", "NaN or infinite"),
        ("infinite.wav", "NaN or infinite"),
        ("piped.flac", "its header gives no length"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_that_names_it(tmp_path, name, message):
    path = broken(tmp_path, name)
    with pytest.raises(waveform.AudioError, match=re.escape(f"{path}: ")) as caught:
        waveform.read(path, sample_rate=16000)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (b"\0\0\0\x20ftypM4A ", "MP4 or M4A"),
        (b"\x1aE\xdf\xa3\x9fB\x86", "WebM or Matroska"),
        (b"#!AMR\n", "AMR"),
        (b"0&\xb2u\x8ef\xcf\x11\xa6", "WMA"),
    ],
)
def test_a_recording_of_a_phone_or_a_browser_is_named_with_what_to_do(tmp_path, monkeypatch, first, kind):
    monkeypatch.setattr(containers, "can_decode", lambda: False)
    for name, quoted in (("a.m4a", "{}"), ("renamed.wav", "{}"), ("New Recording 3.m4a", "'{}'")):
        path = tmp_path / name
        path.write_bytes(first + bytes(range(200)))
        given, wanted = quoted.format(path), quoted.format(path.with_suffix(".flac"))
        advice = f"to read it: pip install av; or convert it to FLAC, as with: ffmpeg -i {given} {wanted}"
        with pytest.raises(waveform.AudioError, match=re.escape(f"{path}: cannot be read as audio ({kind}); {advice}")):
            waveform.read(path)
    with pytest.raises(
        waveform.AudioError, match=re.escape(f"standard input: cannot be read as audio ({kind}); to read it")
    ):
        waveform.read(waveform.Held(path.read_bytes(), "standard input"))


def test_a_piece_outside_the_file_is_refused(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(16000), 16000)
    with pytest.raises(waveform.AudioError, match=r"the piece starts at 1\.00 s but the audio ends at 1\.00 s"):
        waveform.read(tmp_path / "a.wav", offset_seconds=1.0)
    with pytest.raises(waveform.AudioError, match="expected seconds > 0, offset >= 0"):
        waveform.read(tmp_path / "a.wav", seconds=0.0)


def test_too_few_samples_for_the_wanted_rate_are_refused(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(1), 96000)
    with pytest.raises(waveform.AudioError, match="1 samples at 96000 Hz are too few for one at 16000 Hz"):
        waveform.read(tmp_path / "a.wav", sample_rate=16000)


@pytest.mark.parametrize("name", ["a.wav", "a.flac"])
def test_what_was_written_is_read_again_and_nothing_else_is_left(tmp_path, name):
    samples = np.array([0.5, -0.25, 2.0, -2.0], np.float32)
    waveform.write(tmp_path / name, samples, 22050)
    read = waveform.read(tmp_path / name)
    np.testing.assert_allclose(read.samples, [0.5, -0.25, 1, -1], atol=2**-15)
    assert read.sample_rate == 22050
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("name", ["a.wav", "a.flac"])
def test_a_written_file_has_the_bytes_of_libsndfile_and_nobody_waits_for_the_disk(tmp_path, name, dtype, monkeypatch):
    samples = noise(3000).astype(np.float32) if dtype is np.float32 else (1000 * noise(3000)).astype(np.int16)
    soundfile.write(tmp_path / name, samples, 16000, subtype="PCM_16")
    expected = (tmp_path / name).read_bytes()
    monkeypatch.setattr(soundfile.SoundFile, "__init__", in_memory_alone(soundfile.SoundFile.__init__))
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("a clip is written in less time than the disk takes"))
    (tmp_path / name).unlink()
    waveform.write(tmp_path / name, samples, 16000)
    assert (tmp_path / name).read_bytes() == expected


def in_memory_alone(made):
    """libsndfile waits for the disk when it closes a file that it has opened by its name or descriptor."""

    def make(self, file, *given, **named):
        assert isinstance(file, io.BytesIO)
        made(self, file, *given, **named)

    return make


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named_with_the_file_and_leaves_nothing(tmp_path):
    (tmp_path / "a.wav").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '.*a\.wav'"):
        waveform.write(tmp_path / "a.wav", noise(3000), 16000)


def test_writing_refuses_other_formats_and_samples_that_are_not_finite(tmp_path):
    with pytest.raises(waveform.AudioError, match=r"cannot write \.mp3; expected \.wav or \.flac"):
        waveform.write(tmp_path / "a.mp3", noise(10), 16000)
    with pytest.raises(waveform.AudioError, match="not all finite"):
        waveform.write(tmp_path / "a.wav", np.array([np.nan]), 16000)
    assert list(tmp_path.iterdir()) == []


def test_faster_is_shorter_and_higher():
    tone = np.sin(2 * np.pi * 400 * np.arange(16000) / 16000).astype(np.float32)
    faster = waveform.change_speed(tone, 1.25)
    assert len(faster) == 12800
    expected = np.sin(2 * np.pi * 500 * np.arange(12800) / 16000)
    np.testing.assert_allclose(faster[200:-200], expected[200:-200], atol=1e-3)


def test_speed_one_changes_nothing_and_a_speed_of_zero_is_refused():
    samples = noise(100)
    assert waveform.change_speed(samples, 1.0) is samples
    with pytest.raises(ValueError, match=r"speed 0\.0: expected a positive number"):
        waveform.change_speed(samples, 0.0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5000), st.sampled_from([0.0, 1e-6, 1e-4, 0.01, 0.3])), min_size=1, max_size=6),
    st.sampled_from([20.0, 60.0]),
)
def test_trimming_keeps_the_samples_that_librosa_keeps(pieces, top_db):
    librosa = pytest.importorskip("librosa")
    samples = np.concatenate([noise(n, n) * 10 * level for n, level in pieces])
    expected, (start, _) = librosa.effects.trim(samples, top_db=top_db)
    trimmed = silence.trim_silence(samples, top_db=top_db)
    np.testing.assert_array_equal(trimmed.samples, expected)
    assert trimmed.start == start


def test_trimming_real_speech_keeps_the_samples_that_librosa_keeps():
    librosa = pytest.importorskip("librosa")
    for path in sorted(shared("data/librispeech-mini/LibriSpeech").rglob("*.flac"))[:20]:
        samples = waveform.read(path).samples
        for top_db in (30, 60):
            expected = librosa.effects.trim(samples, top_db=top_db)[0]
            np.testing.assert_array_equal(silence.trim_silence(samples, top_db=top_db).samples, expected)


def test_importing_brings_in_neither_librosa_nor_torch():
    code = "import sys, common.audio.waveform; print(sorted({'librosa', 'torch'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_a_flac_that_promises_more_than_it_holds_costs_no_memory(tmp_path):
    path = tmp_path / "a.flac"
    soundfile.write(path, np.zeros(4000), 16000)
    content = bytearray(path.read_bytes())
    # STREAMINFO, behind "fLaC" and the header of its block: samples are the last 36 bits of bytes 10 to 17.
    content[8 + 13] = content[8 + 13] & 0xF0 | 0x2
    content[8 + 14 : 8 + 18] = (10**10 - 2 * 2**32).to_bytes(4, "big")
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(waveform.AudioError, match=r"a.flac: (truncated|promises)"):
        waveform.read(path, sample_rate=16000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50e6


@pytest.mark.parametrize("rate", [1, 999, 768_001])
def test_rates_that_no_recording_has_are_refused(tmp_path, rate):
    soundfile.write(tmp_path / "a.wav", np.zeros(100), rate)
    with pytest.raises(waveform.AudioError, match=f"expected a sample rate of 1000 to 768000 Hz, found {rate} Hz"):
        waveform.read(tmp_path / "a.wav", sample_rate=16000)


def test_more_seconds_than_the_caller_allows_are_refused(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(32000), 16000)
    with pytest.raises(waveform.AudioError, match=r"a.wav: promises 2 s; expected at most 1 s"):
        waveform.read(tmp_path / "a.wav", most_seconds=1)
    assert len(waveform.read(tmp_path / "a.wav", seconds=1, most_seconds=1).samples) == 16000


def test_blocks_are_joined_without_a_seam(tmp_path, monkeypatch):
    samples_NC = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2)).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", samples_NC, 16000, subtype="FLOAT")
    whole = waveform.read(tmp_path / "a.wav").samples
    monkeypatch.setattr(waveform, "BLOCK", 999)
    assert np.array_equal(waveform.read(tmp_path / "a.wav").samples, whole)


def test_a_name_that_is_too_long_is_an_audio_error(tmp_path):
    with pytest.raises(waveform.AudioError, match="File name too long; expected an audio file"):
        waveform.read(tmp_path / f"{'a' * 300}.wav")
