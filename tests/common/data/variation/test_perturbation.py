import math
import re

import numpy as np
import pytest

from common.audio import waveform
from common.audio.waveform import AudioError
from common.data.variation.perturbation import PerturbationConfig, mixed, perturbed, recordings, shifted

SPEECH = np.sin(np.arange(16000) * 0.05).astype(np.float32)
PLACE = {"sample_rate": 16000, "seed": 1}


def test_a_perturbation_is_a_function_of_seed_epoch_and_index():
    cfg = PerturbationConfig(gain_db=10, shift_ms=5)
    first = perturbed(SPEECH, cfg, **PLACE, epoch=2, index=3)
    np.testing.assert_array_equal(perturbed(SPEECH, cfg, **PLACE, epoch=2, index=3), first)
    assert not np.array_equal(perturbed(SPEECH, cfg, **PLACE, epoch=3, index=3), first)
    assert (first.dtype, len(first)) == (np.float32, len(SPEECH))


def test_nothing_is_changed_by_default_or_with_probability_0():
    for cfg in (PerturbationConfig(), PerturbationConfig(gain_db=10, probability=0)):
        np.testing.assert_array_equal(perturbed(SPEECH, cfg, **PLACE, epoch=0, index=0), SPEECH)


def test_loudness_stays_within_its_bounds_and_uses_them():
    cfg = PerturbationConfig(gain_db=10)
    gains = [
        20 * math.log10(np.abs(perturbed(SPEECH, cfg, **PLACE, epoch=e, index=0)).max() / np.abs(SPEECH).max())
        for e in range(200)
    ]
    assert -10.001 < min(gains) < -9
    assert 9 < max(gains) < 10.001


@pytest.mark.parametrize("by", [0, 3, -3, 40, -40])
def test_a_shift_brings_in_silence(by):
    samples = np.arange(1.0, 11.0, dtype=np.float32)
    padded = np.concatenate([np.zeros(50), samples, np.zeros(50)]).astype(np.float32)
    np.testing.assert_array_equal(shifted(samples, by), padded[50 - by : 60 - by])


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 30.0])
def test_noise_has_the_wanted_energy(snr_db):
    noise = np.random.default_rng(0).standard_normal(16000).astype(np.float32) * 7
    added = mixed(SPEECH, noise, snr_db=snr_db) - SPEECH
    assert 10 * math.log10(np.mean(SPEECH**2) / np.mean(added**2)) == pytest.approx(snr_db, abs=0.01)


def test_silence_and_silent_noise_stay_as_they_are():
    silence = np.zeros(100, np.float32)
    np.testing.assert_array_equal(mixed(silence, SPEECH[:100], snr_db=10), silence)
    np.testing.assert_array_equal(mixed(SPEECH[:100], silence, snr_db=10), SPEECH[:100])


def test_short_noise_is_repeated_and_empty_noise_is_an_error(tmp_path):
    waveform.write(tmp_path / "hum.wav", 0.1 * SPEECH[:500], 16000)
    cfg = PerturbationConfig(noise=(tmp_path / "hum.wav",), min_snr_db=20, max_snr_db=20)
    added = perturbed(SPEECH, cfg, **PLACE, epoch=0, index=0) - SPEECH
    np.testing.assert_allclose(added[:500], added[500:1000], atol=1e-6)
    assert added.any()
    waveform.write(tmp_path / "empty.wav", SPEECH[:0], 16000)
    with pytest.raises(AudioError, match="empty.wav: holds 0 samples"):
        perturbed(SPEECH, PerturbationConfig(noise=(tmp_path / "empty.wav",)), **PLACE, epoch=0, index=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gain_db": -1.0}, "gain_db = -1.0: expected a number of at least 0"),
        ({"shift_ms": math.nan}, "shift_ms = nan: expected a number of at least 0"),
        ({"min_snr_db": 60.0}, "min_snr_db = 60.0 is above max_snr_db = 50.0"),
        ({"max_snr_db": math.inf}, "max_snr_db = inf: expected a finite number"),
        ({"min_snr_db": math.nan}, "min_snr_db = nan: expected a finite number"),
        ({"probability": 1.5}, "probability = 1.5: expected 0 to 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        PerturbationConfig(**settings)


def test_rooms_and_noises_of_folders_are_functions_of_seed_epoch_and_utterance(tmp_path):
    (tmp_path / "rooms/a").mkdir(parents=True)
    impulse = np.zeros(400, np.float32)
    impulse[[40, 140]] = 0.5, 0.25
    waveform.write(tmp_path / "rooms/a/1.wav", impulse, 16000)
    samples = np.random.default_rng(0).normal(0, 0.1, 3000).astype(np.float32)
    cfg = PerturbationConfig(impulses=(tmp_path / "rooms",), impulse_probability=1.0)
    heard = perturbed(samples, cfg, sample_rate=16000, seed=1, epoch=2, index=3)
    expected = samples + 0.5 * np.pad(samples, (100, 0))[:3000]
    expected *= np.sqrt(np.mean(samples**2) / np.mean(expected**2))
    np.testing.assert_allclose(heard, expected, atol=1e-4)
    assert heard.dtype == np.float32
    half = PerturbationConfig(impulses=(tmp_path / "rooms",), noise=(tmp_path / "rooms",))
    draws = [perturbed(samples, half, sample_rate=16000, seed=1, epoch=e, index=3) for e in (0, 0, 1)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    (tmp_path / "none").mkdir()
    with pytest.raises(waveform.AudioError, match="none: no recording in it"):
        recordings((tmp_path / "none",))
