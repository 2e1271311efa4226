import builtins

import numpy as np
import pytest

from fastpitch.speaking.delivery import DeliveryConfig, LoudnessError, Stream, delivered, loudness

RATE = 16_000
TONE_N = (0.1 * np.sin(np.arange(RATE) * 2 * np.pi * 997 / RATE)).astype(np.float32)


def test_loudness_is_raised_and_lowered_to_the_target():
    pytest.importorskip("pyloudnorm")
    for target in (-40.0, -23.0, -16.0):
        for samples_N in (TONE_N, TONE_N[:1000]):
            said_N, rate = delivered(samples_N, RATE, DeliveryConfig(loudness=target))
            assert (len(said_N), rate) == (len(samples_N), RATE)
            assert loudness(said_N, RATE) == pytest.approx(target, abs=0.2)
    silence_N, _ = delivered(np.zeros(RATE, np.float32), RATE, DeliveryConfig(loudness=-23))
    assert not silence_N.any()


def test_loudness_without_its_package_is_one_line(monkeypatch):
    real = builtins.__import__

    def missing(name, *arguments, **named):
        if name == "pyloudnorm":
            raise ImportError
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(LoudnessError, match="pyloudnorm, which is not installed: pip install pyloudnorm"):
        loudness(TONE_N, RATE)


def test_a_stream_is_what_the_whole_would_be():
    stream = Stream(RATE, DeliveryConfig(sample_rate=8000), seed=0)
    parts = [stream.chunk(part) for part in np.split(TONE_N, 8)]
    raw_N = np.frombuffer(b"".join([*parts, stream.chunk(TONE_N[:0], last=True)]), "<i2")
    whole_N, _ = delivered(TONE_N, RATE, DeliveryConfig(sample_rate=8000))
    np.testing.assert_allclose(raw_N[100:-100] / 32767, whole_N[100:-100], atol=1e-3)
    with pytest.raises(LoudnessError, match="which a stream has not got yet; write files"):
        Stream(RATE, DeliveryConfig(loudness=-23), seed=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loudness": 0.0}, "loudness = 0: expected -70 to -5 LUFS"),
        ({"sample_rate": 100}, "sample_rate = 100: expected 4000 to 192000 Hz"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DeliveryConfig(**settings)
