"""benchmarks/buzz.py: a buzz is heard, and a clean recording is not taken for one."""

import numpy as np
import pytest
from scipy import signal

from benchmarks.buzz import buzz, coherence, hum_db

RATE = 22_050
NOISE = np.random.default_rng(0)


def recording(seconds: float = 3.0) -> np.ndarray:
    """Vowels of a voice that glides, blurred as by a room, with silences between them and a little noise."""
    time_N = np.arange(round(seconds * RATE)) / RATE
    phase_N = np.cumsum(190 + 40 * np.sin(2 * np.pi * 0.7 * time_N)) / RATE
    pulses_N = np.diff(np.floor(phase_N), prepend=0.0)
    draw = np.random.default_rng(1)
    room_N = draw.standard_normal(RATE // 40) * np.exp(-np.arange(RATE // 40) / (RATE / 400))
    voice_N = signal.lfilter([1.0], [1.0, -0.9], signal.fftconvolve(pulses_N, room_N)[: len(time_N)])
    voice_N *= (time_N % 1.0) < 0.6
    return 0.2 * voice_N / np.abs(voice_N).max() + 1e-4 * draw.standard_normal(len(time_N))


def pulses(hz: float, count: int) -> np.ndarray:
    return np.diff(np.floor(np.arange(count) * hz / RATE), prepend=0.0)


@pytest.mark.parametrize("hz", [60.0, 86.13, 100.0, 150.0])
def test_a_buzz_in_the_silences_is_told_from_a_clean_recording(hz):
    clean_N = recording()
    buzzing_N = clean_N + 3e-3 * pulses(hz, len(clean_N))  # twice as loud as the noise
    assert hum_db(clean_N, RATE) < 4
    assert hum_db(buzzing_N, RATE) > 8


def test_a_buzz_of_a_sine_and_its_octaves_is_told_too():
    clean_N, time_N = recording(), np.arange(3 * RATE) / RATE
    buzzing_N = clean_N + sum(3e-4 * np.sin(2 * np.pi * 100 * k * time_N) for k in range(1, 20))
    assert hum_db(buzzing_N, RATE) > hum_db(clean_N, RATE) + 6


def test_the_coherence_of_a_pulse_train_is_high_and_that_of_a_hoarse_voice_low():
    bare_N = pulses(200.0, 2 * RATE) + 1e-3 * NOISE.standard_normal(2 * RATE)
    low, high = (signal.butter(8, 2000.0, kind, fs=RATE, output="sos") for kind in ("lowpass", "highpass"))
    hoarse_N = signal.sosfilt(low, bare_N) + 0.05 * signal.sosfilt(high, NOISE.standard_normal(2 * RATE))
    assert coherence(bare_N, RATE) > 0.9
    assert coherence(hoarse_N, RATE) < 0.2
    assert coherence(hoarse_N, RATE) < coherence(recording(), RATE) < coherence(bare_N, RATE)


def test_what_has_no_silence_or_no_voice_cannot_be_judged():
    noise_N = 0.1 * NOISE.standard_normal(RATE)
    assert np.isnan(buzz(noise_N, RATE).hum_db)
    assert np.isnan(buzz(noise_N, RATE).coherence)
    assert np.isnan(hum_db(np.zeros(RATE), RATE))
    assert np.isnan(hum_db(np.zeros(10), RATE))
