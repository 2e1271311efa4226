import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from common.audio import waveform
from common.audio.silence import keeper
from common.audio.waveform import AudioError, Held
from common.data.manifest import Utterance
from common.recognition.sources import recordings
from common.recognition.sources.long_sound import LongSound
from common.recognition.sources.recordings import Recording, heard, read, read_ahead

RATE = 16_000


def noise(seconds: float, rate: int) -> np.ndarray:
    return 0.3 * np.random.default_rng(0).standard_normal(round(seconds * rate)).clip(-1, 1).astype(np.float32)


def long(source, **options) -> LongSound:
    found = read(source, RATE, long_seconds=0.5, **options).samples_N
    assert isinstance(found, LongSound)
    return found


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("common.recognition.sources.recordings.BLOCK", 3001)


@pytest.mark.parametrize(("suffix", "rate"), [("wav", 8_000), ("flac", 16_000), ("mp3", 44_100), ("ogg", 48_000)])
def test_slices_are_those_of_the_whole_bit_by_bit(tmp_path: Path, suffix, rate):
    path = tmp_path / f"a.{suffix}"
    samples_NC = np.stack([noise(2.3, rate), np.roll(noise(2.3, rate), 5)], 1)
    soundfile.write(path, samples_NC, rate)
    whole_N = waveform.read(path, sample_rate=RATE).samples
    sound = long(path)
    assert (len(sound), sound.is_silent) == (len(whole_N), False)
    for start, stop in ((0, 100), (0, 9_000), (50, 9_001), (8_000, 8_000), (20_000, 30_001), (30_001, 10**9), (5, 6)):
        np.testing.assert_array_equal(sound[start:stop], whole_N[start:stop])
    np.testing.assert_array_equal(sound[-7:], whole_N[-7:])
    with pytest.raises(ValueError, match=r"^a slice of step 2: expected 1$"):
        sound[::2]


def test_everything_that_is_a_recording_may_be_long(tmp_path: Path):
    samples_N = noise(1.5, 8_000)
    soundfile.write(tmp_path / "a.wav", samples_N, 8_000, subtype="FLOAT")
    content = (tmp_path / "a.wav").read_bytes()
    expected_N = waveform.read(tmp_path / "a.wav", sample_rate=RATE).samples
    with (tmp_path / "a.wav").open("rb") as file:
        sources = [content, file, io.BytesIO(content), Held(content), (samples_N, 8_000), (samples_N, np.int64(8_000))]
        for source in sources:
            np.testing.assert_array_equal(long(source)[:], expected_N)
    np.testing.assert_array_equal(long(samples_N.astype(np.float64))[:], samples_N)
    piece = Utterance(id="u", audio=tmp_path / "a.wav", seconds=1.0, text="", offset_seconds=0.25)
    np.testing.assert_array_equal(long(piece)[:], soxr.resample(samples_N[2_000:10_000], 8_000, RATE, quality="HQ"))
    assert not isinstance(read(piece, RATE, long_seconds=1.0).samples_N, LongSound)


@pytest.mark.parametrize("keep", [keeper(RATE, trim=True), keeper(RATE, longest_pause=0.1, pause_db=30.0)])
@pytest.mark.parametrize("silence", [0, 1_000, 2_500, 9_999])
def test_silence_is_cut_as_out_of_the_whole(tmp_path: Path, silence, keep):
    still_N = np.zeros(silence, np.float32)
    pieces = [still_N, noise(1.0, RATE), still_N, noise(0.01, RATE), still_N, noise(0.3, RATE), still_N]
    soundfile.write(tmp_path / "a.wav", np.concatenate(pieces), RATE)
    whole, parts = (read(tmp_path / "a.wav", RATE, keep=keep, long_seconds=s) for s in (10.0, 0.5))
    assert (parts.seconds, parts.cuts) == (whole.seconds, whole.cuts)
    for part in (slice(None), slice(3_000, 3_001), slice(2_990, 20_000)):
        np.testing.assert_array_equal(parts.samples_N[part], whole.samples_N[part])


def test_where_nothing_can_be_heard_there_are_no_samples(tmp_path: Path):
    soundfile.write(tmp_path / "a.wav", np.zeros(RATE), RATE)
    found = heard(read(tmp_path / "a.wav", RATE, long_seconds=0.5))
    assert (len(found.samples_N), found.seconds) == (0, 1.0)


def test_what_is_wrong_with_a_long_recording_is_known_before_it_is_used(tmp_path: Path):
    samples_N = noise(1.0, RATE)
    samples_N[-3] = np.nan
    soundfile.write(tmp_path / "nan.wav", samples_N, RATE, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"nan\.wav: holds samples that are NaN or infinite"):
        long(tmp_path / "nan.wav")
    soundfile.write(tmp_path / "a.flac", noise(1.0, RATE), RATE)
    (tmp_path / "a.flac").write_bytes((tmp_path / "a.flac").read_bytes()[:-9000])
    with pytest.raises(AudioError, match=r"a\.flac: truncated"):
        long(tmp_path / "a.flac")


@pytest.mark.parametrize("on_error", ["skip", "stop"])
def test_a_file_that_is_lost_while_it_is_used_costs_itself(tmp_path: Path, on_error, monkeypatch):
    monkeypatch.setattr(recordings, "LONG_SECONDS", 0.5)
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(1.0, RATE), RATE)
    (recording,) = read_ahead([path], RATE, on_error=on_error, silence=True)
    soundfile.write(path, noise(0.2, RATE), RATE)
    assert recording.failure == ""
    if on_error == "stop":
        with pytest.raises(AudioError, match=r"a\.wav: has become shorter while it was read$"):
            recording.samples_N[0:16_000]
        return
    assert not recording.samples_N[0:16_000].any()
    path.unlink()
    assert recording.failure == f"{path}: has become shorter while it was read"
    (recording,) = [Recording("b", LongSound(lambda: iter([np.ones(4, np.float32)]), 8, 8), 0.5)]
    assert recording.failure == ""


def test_what_comes_from_a_pipe_is_kept_on_disk_where_it_is_large(monkeypatch):
    monkeypatch.setattr("common.audio.headers.SPOOLED", 10)
    held = Held.of(io.BytesIO(b"x" * 100), "standard input")
    assert (held.size, held.content(), str(held)) == (100, b"x" * 100, "standard input")

    class Full(io.BytesIO):
        def read(self, size: int = -1) -> bytes:
            raise OSError(28, "No space left on device")

    with pytest.raises(AudioError, match=r"^pipe: cannot be kept in /\S*: No space left on device$"):
        Held.of(Full(), "pipe")


def test_a_file_that_is_open_as_text_is_named(tmp_path: Path):
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with (tmp_path / "a.wav").open() as file, pytest.raises(AudioError, match=r'a\.wav: is open as text; .*mode "rb"$'):
        read(file, RATE)
