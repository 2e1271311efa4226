"""Turns of speech in streams."""

import numpy as np
import pytest

from common.audio import waveform
from common.audio.vad import EnergyVad, SileroVad, TurnEvent, Turns
from tests.data import shared


def turns_of(vad, sound_N: np.ndarray, size: int, **options) -> list[TurnEvent]:
    turns, found = Turns(vad, 16_000, **options), list[TurnEvent]()
    for start in range(0, len(sound_N), size):
        found += turns.feed(sound_N[start : start + size])
    return found


@pytest.mark.parametrize("level", [1e-5, 1e-3, 1e-2])
def test_turns_are_found_above_any_noise_however_it_is_fed(level):
    random = np.random.default_rng(0)
    sound_N = (level * random.standard_normal(16_000 * 12)).astype(np.float32)
    for start, end in ((3, 5), (8, 9)):
        sound_N[16_000 * start : 16_000 * end] += 0.1 * random.standard_normal(16_000 * (end - start)).astype(
            np.float32
        )
    for size in (len(sound_N), 1_000, 77):
        found = turns_of(EnergyVad(16_000), sound_N, size, silence_seconds=0.4, prefix_seconds=0.1)
        assert [event.kind for event in found] == ["started", "stopped"] * 2
        assert [event.at / 16_000 for event in found] == pytest.approx([2.9, 5.4, 7.9, 9.4], abs=0.08)


@pytest.mark.parametrize("kind", ["energy", "silero"])
def test_sentences_with_pauses_between_them_are_turns(kind):
    if kind == "silero":
        pytest.importorskip("silero_vad")
    files = sorted(shared("data/librispeech-mini").rglob("*.flac"))[:3]
    quiet_N = 1e-4 * np.random.default_rng(0).standard_normal(24_000).astype(np.float32)
    parts = [part for file in files for part in (quiet_N, waveform.read(file, sample_rate=16_000).samples[:96_000])]
    vad = SileroVad() if kind == "silero" else EnergyVad(16_000)
    found = turns_of(vad, np.concatenate([*parts, quiet_N]), 1_600, silence_seconds=0.7)
    assert [event.kind for event in found] == ["started", "stopped"] * 3
    assert [event.at / 16_000 for event in found[::2]] == pytest.approx([1.5, 9.0, 16.5], abs=0.4)
    assert [event.at / 16_000 for event in found[1::2]] == pytest.approx([8.2, 15.7, 23.2], abs=0.2)
