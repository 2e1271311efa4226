"""Sound of phones and browsers, which PyAV decodes; what is read of it everywhere that audio is read."""

import io
import shutil

import numpy as np
import pytest

from common.audio import containers, waveform
from common.audio.headers import AudioError, Held

av = pytest.importorskip("av")
RATE, SECONDS = 48_000, 1.5
CODECS = {"m4a": "aac", "mp4": "aac", "webm": "libopus", "aac": "aac", "mka": "libopus"}
FORMATS = {"aac": "adts", "m4a": "ipod", "mka": "matroska"}


def sine() -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * 440 * np.arange(int(RATE * SECONDS)) / RATE)).astype(np.float32)


def encoded(path, samples_N: np.ndarray, *, channels: int = 1):
    """A file of that suffix, as FFmpeg writes it."""
    layout = "mono" if channels == 1 else "stereo"
    with av.open(str(path), "w", format=FORMATS.get(path.suffix[1:])) as out:
        stream = out.add_stream(CODECS[path.suffix[1:]], rate=RATE, layout=layout)
        rows = np.repeat(samples_N[None], channels, 0)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(rows), format="fltp", layout=layout)
        frame.sample_rate = RATE
        codec = stream.codec_context
        fit = av.AudioResampler(codec.format, layout, RATE, frame_size=codec.frame_size or 4096)
        for part in [*fit.resample(frame), *fit.resample(None)]:
            out.mux(stream.encode(part))
        out.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("suffix", CODECS)
@pytest.mark.parametrize("channels", [1, 2])
def test_what_phones_and_browsers_record_is_read(tmp_path, suffix, channels):
    path = encoded(tmp_path / f"a.{suffix}", sine(), channels=channels)
    found = waveform.read(path, sample_rate=16_000)
    assert found.sample_rate == 16_000
    assert abs(len(found.samples) / 16_000 - SECONDS) < 0.1
    inner = found.samples[4000:20_000]
    assert abs(np.sqrt((inner**2).mean()) / (0.3 / np.sqrt(2)) - 1) < 0.05
    assert abs(np.abs(np.fft.rfft(inner)).argmax() * 16_000 / len(inner) - 440) < 2
    assert waveform.info(path).channels == channels
    piece = waveform.read(Held(path.read_bytes()), offset_seconds=0.5, seconds=0.25)
    assert len(piece.samples) == RATE // 4


def test_a_cut_file_is_an_error(tmp_path):
    path = encoded(tmp_path / "a.m4a", np.tile(sine(), 10))
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(AudioError, match=r"a.m4a: cannot be read as audio \(MP4 or M4A\): truncated or damaged"):
        waveform.read(path)
    silent = tmp_path / "video.mp4"
    silent.write_bytes(b"\0\0\0\x18ftypisom" + bytes(500))
    with pytest.raises(AudioError, match=r"video.mp4: cannot be read as audio \(MP4 or M4A\)"):
        waveform.read(silent)


@pytest.mark.parametrize("content", [True, False])
def test_without_pyav_one_line_says_what_to_install(tmp_path, monkeypatch, content):
    path = encoded(tmp_path / "a.m4a", sine())
    monkeypatch.setattr(containers, "can_decode", lambda: False)
    with pytest.raises(AudioError, match=r"\(MP4 or M4A\); to read it: pip install av; or convert it to FLAC"):
        waveform.read(Held(io.BytesIO(path.read_bytes())) if content else path)


def test_names_are_never_addresses(tmp_path):
    playlist = tmp_path / "a.m4a"
    playlist.write_bytes(b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/x\n")
    with pytest.raises(AudioError, match="cannot be read as audio"):
        waveform.read(playlist)
    shutil.rmtree(tmp_path)
