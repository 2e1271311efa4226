import numpy as np
import pytest
import soundfile

from common.audio import waveform
from fastpitch.acoustic.pitch import PitchConfig, extract_pitch, pitch_statistics
from tests.data import shared


def tone(hz: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    """A voice of five overtones that glides up by a third."""
    n = round(seconds * rate)
    phase = 2 * np.pi * np.cumsum(hz * np.linspace(1, 1.25, n)) / rate
    return sum(np.sin(k * phase) / k for k in range(1, 6)).astype(np.float32) * 0.2


def real_clip(seconds: float) -> np.ndarray:
    path = shared("data/ljspeech-mini/LJSpeech-1.1/wavs/LJ001-0002.wav")
    return soundfile.read(path, dtype="float32")[0][: round(seconds * 22_050)]


@pytest.mark.parametrize(("lowest_hz", "highest_hz"), [(65.40639, 2093.0045), (60, 500)])
def test_the_fast_method_hears_in_real_speech_what_pyin_hears(lowest_hz, highest_hz):
    samples = real_clip(1.6)
    fast, pyin = (
        extract_pitch(samples, PitchConfig(method=method, lowest_hz=lowest_hz, highest_hz=highest_hz))
        for method in ("fast", "pyin")
    )
    assert fast.dtype == pyin.dtype == np.float32
    assert fast.shape == pyin.shape == (1 + len(samples) // 256,)
    assert ((fast > 0) == (pyin > 0)).mean() > 0.98
    voiced = (fast > 0) & (pyin > 0)
    assert voiced.sum() > 50
    difference = np.abs(fast[voiced] / pyin[voiced] - 1)
    assert np.median(difference) < 0.003  # pyin answers in steps of a tenth of a semitone, 0.6 %
    assert difference.max() < 0.02


@pytest.mark.parametrize("method", ["fast", "combs"])
@pytest.mark.parametrize(("rate", "hop"), [(16_000, 256), (22_050, 256), (24_000, 300), (44_100, 512), (48_000, 480)])
def test_every_rate_and_hop_gives_a_frame_per_hop_and_the_same_pitch(rate, hop, method):
    samples = tone(180, rate)
    f0 = extract_pitch(samples, PitchConfig(method=method, sample_rate=rate, hop_samples=hop))
    assert len(f0) == 1 + len(samples) // hop
    middle = slice(len(f0) // 4, 3 * len(f0) // 4)
    expected = 180 * np.interp(np.arange(len(f0)) * hop / len(samples), [0, 1], [1, 1.25])
    np.testing.assert_allclose(f0[middle], expected[middle], rtol=0.01)


def test_combs_show_the_pitch_of_a_voice_in_breath_as_loud_as_itself():
    time_N = np.arange(22_050) / 22_050
    hz_N = 190 * 2 ** (0.2 * np.sin(2 * np.pi * 3 * time_N))
    phase_N = 2 * np.pi * np.cumsum(hz_N) / 22_050
    voice_N = 0.1 * sum(np.sin(k * phase_N) / k for k in range(1, 16))
    samples_N = (voice_N + np.random.default_rng(0).normal(0, 0.1, len(voice_N))).astype(np.float32)
    found_T, before_T = (
        extract_pitch(samples_N, PitchConfig(method=method, lowest_hz=60, highest_hz=500))
        for method in ("combs", "fast")
    )
    expected_T = hz_N[np.minimum(np.arange(len(found_T)) * 256, len(hz_N) - 1)]
    assert (np.abs(found_T / expected_T - 1) < 0.05).mean() > 0.9
    assert not before_T.any()


@pytest.mark.parametrize("method", ["fast", "combs"])
def test_pitch_does_not_depend_on_loudness(method):
    samples, config = real_clip(1.0), PitchConfig(method=method)
    np.testing.assert_allclose(extract_pitch(samples * 0.25, config), extract_pitch(samples, config), rtol=1e-4)


@pytest.mark.parametrize("method", ["fast", "combs"])
def test_silence_has_no_pitch(method):
    assert not extract_pitch(np.zeros(9_000, np.float32), PitchConfig(method=method)).any()


@pytest.mark.parametrize("method", ["fast", "combs"])
@pytest.mark.parametrize("n_samples", [1, 255, 256, 1000])
def test_a_clip_shorter_than_a_frame_has_frames_too(n_samples, method):
    f0 = extract_pitch(np.full(n_samples, 0.1, np.float32), PitchConfig(method=method))
    assert len(f0) == 1 + n_samples // 256


def test_pitch_above_the_range_is_not_reported():
    f0 = extract_pitch(tone(300, 22_050), PitchConfig(highest_hz=250))
    assert f0.max() <= 250 * 1.01


def test_a_range_narrower_than_a_step_can_be_asked_for():
    samples = np.sin(2 * np.pi * 101 * np.arange(11_025) / 22_050).astype(np.float32)
    f0 = extract_pitch(samples, PitchConfig(lowest_hz=100, highest_hz=103))
    np.testing.assert_allclose(f0[10:30], 101, rtol=0.02)


def test_a_resampled_clip_keeps_its_pitch():
    samples = real_clip(1.6)
    low = extract_pitch(waveform.resample(samples, 22_050, 16_000), PitchConfig(sample_rate=16_000, hop_samples=160))
    high = extract_pitch(samples, PitchConfig(hop_samples=220))
    n = min(len(low), len(high))
    voiced = (low[:n] > 0) & (high[:n] > 0)
    assert voiced.sum() > 0.8 * max((low > 0).sum(), (high > 0).sum())
    assert np.median(np.abs(low[:n][voiced] / high[:n][voiced] - 1)) < 0.01


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 10)), r"pitch of audio of shape \(2, 10\); expected one dimension, not empty"),
        (np.zeros(0), r"pitch of audio of shape \(0,\)"),
        (np.array([0, np.nan]), "pitch of audio with samples that are NaN or infinite"),
    ],
)
def test_unusable_audio_is_described(samples, message):
    with pytest.raises(ValueError, match=message):
        extract_pitch(samples)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lowest_hz": 10}, r"pitch from 10 to 2093 Hz; expected 21.6 < lowest_hz < highest_hz <= 11025"),
        ({"highest_hz": 12_000}, r"pitch from 65.4064 to 12000 Hz"),
        ({"highest_hz": 50}, r"lowest_hz < highest_hz"),
        ({"hop_samples": 0}, r"hop_samples = 0: expected at least 1"),
    ],
)
def test_a_range_that_cannot_be_heard_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PitchConfig(**settings)


def test_statistics_count_voiced_frames_only():
    statistics = pitch_statistics([np.array([0, 100, 200], np.float32), np.array([300, 0], np.float32)])
    assert statistics.frames == 3
    assert statistics.mean == pytest.approx(200)
    assert statistics.std == pytest.approx(np.std([100, 200, 300]))
    with pytest.raises(ValueError, match="pitch statistics of 1 voiced frames; expected two at least"):
        pitch_statistics([np.array([0, 100], np.float32)])
