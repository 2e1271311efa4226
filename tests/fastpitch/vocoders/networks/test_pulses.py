"""Where the pulses of a voice are, and what a light vocoder makes of them."""

import numpy as np
import pytest
import torch

from common.features import TTS
from fastpitch.vocoders.networks.config import IstftConfig
from fastpitch.vocoders.networks.istft import IstftGenerator, stft
from fastpitch.vocoders.networks.pulses import Pitch, pitch_of, pulses
from fastpitch.vocoders.vocoder import Vocoder
from tests.fastpitch.vocoders.networks.test_hifigan import speech_like

RATE, HOP, WINDOW_S = 22_050, 256, torch.hann_window(1024)
TIME_N = torch.arange(40 * HOP, dtype=torch.float64) / RATE


def harmonics(hz: float, count: int = 8, phase: float = 0.0) -> torch.Tensor:
    """[1, N] with decreasing harmonics, whose fundamental begins its cycle at `phase`."""
    angle_N = 2 * torch.pi * hz * TIME_N + phase
    return sum(torch.cos(n * angle_N + n) / n for n in range(2, count)).float()[None] + angle_N.cos().float()[None]


@pytest.mark.parametrize("hz", [90.0, 137.0, 210.0, 333.3])
def test_the_pitch_and_the_phase_of_a_voice_are_found(hz):
    pitch = pitch_of(0.1 * harmonics(hz, phase=0.7), WINDOW_S, HOP, RATE)
    inner = slice(4, -4)
    np.testing.assert_allclose(pitch.cycles_BT[0, inner].numpy() * RATE, hz, rtol=4e-3)
    assert (pitch.voicing_BT[0, inner] == 1).all()
    expected_T = 2 * np.pi * hz * np.arange(40) * HOP / RATE + 0.7
    apart_T = np.angle(np.exp(1j * (pitch.phase_BT[0].numpy() - expected_T)))
    assert np.abs(apart_T[inner]).max() < 0.1


def test_noise_and_silence_have_no_voice():
    noise_1N = 0.1 * torch.randn(1, 40 * HOP, generator=torch.Generator().manual_seed(0))
    assert pitch_of(noise_1N, WINDOW_S, HOP, RATE).voicing_BT.mean() < 0.1
    assert not pitch_of(torch.zeros(1, 40 * HOP), WINDOW_S, HOP, RATE).voicing_BT.any()


@pytest.mark.parametrize("hz", [90.0, 210.0])
def test_pulses_come_once_a_cycle_at_the_same_distance(hz):
    frames_T = torch.arange(40)
    phase_1T = (2 * torch.pi * hz * frames_T * HOP / RATE)[None]
    phase_1T = torch.atan2(phase_1T.sin(), phase_1T.cos())
    pitch = Pitch(torch.full((1, 40), hz / RATE), phase_1T, torch.ones(1, 40))
    beats_N = pulses(pitch, torch.ones(1, 40, 1), HOP)[0]
    inside_N = beats_N[: 39 * HOP]  # what follows the last frame is not known
    assert inside_N.sum().item() == pytest.approx(hz * 39 * HOP / RATE, abs=1)
    places = torch.nonzero(inside_N)[:, 0].numpy()
    each = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)  # one sample, or two that share a pulse
    np.testing.assert_allclose([inside_N[at].sum() for at in each], 1, atol=1e-4)
    centres = [float(inside_N[at] @ torch.from_numpy(at).float()) for at in each]
    np.testing.assert_allclose(np.diff(centres), RATE / hz, atol=0.2)


def with_pulses(corrections: int = 0) -> IstftGenerator:
    torch.manual_seed(0)
    return IstftGenerator(IstftConfig(channels=8, layers=2, corrections=corrections, phases="pulses"), TTS).eval()


def test_a_voice_that_ends_within_a_cycle_has_no_pulse_beyond_its_end():
    """The last one lies between its last sample and the first that is none of its own."""
    for last in torch.linspace(0.9, 1.0, 11):
        phase_1T = 2 * torch.pi * (last - 1) * torch.tensor([[0.0, 1, 0, 0]])
        pitch = Pitch(torch.full((1, 4), 1 / 256), phase_1T, torch.ones(1, 4))
        alone_N = pulses(Pitch(*(x_BT[:, :2] for x_BT in pitch)), torch.ones(1, 2, 1), HOP)[0]
        beside_N = pulses(pitch, torch.tensor([1.0, 1, 0, 0])[None, :, None], HOP)[0]
        torch.testing.assert_close(beside_N[: 2 * HOP], alone_N, rtol=0, atol=0)
        assert not beside_N[2 * HOP :].any()


def test_an_utterance_has_the_same_pulses_alone_and_beside_a_longer_one():
    mel_BMT, generator = speech_like(), with_pulses(1)
    with torch.inference_mode():
        both_BN = generator(mel_BMT, torch.tensor([40, 21]))
        alone_1N = generator(mel_BMT[1:, :, :21])
    torch.testing.assert_close(both_BN[1:, : 21 * 256], alone_1N, rtol=0, atol=1e-4)
    assert not both_BN[1, 21 * 256 :].any()


def test_a_stream_has_the_pulses_of_the_whole():
    vocoder, mel_BMT = Vocoder(with_pulses(1), TTS), speech_like(80)
    pieces_BN = torch.cat(list(vocoder.stream(mel_BMT, chunk_frames=16)), 1)
    torch.testing.assert_close(pieces_BN, vocoder(mel_BMT), rtol=0, atol=1e-4)
    assert vocoder.context_frames == 3 * 3 + 2 + 2 * 2 + 3 * 2 + 1


def test_the_first_corrections_leave_the_phases_of_high_frequencies_of_a_voice():
    generator, keep_BT1 = with_pulses(4), torch.ones(1, 40, 1)
    voice_1N = 0.1 * harmonics(200.0, count=50)
    spectrum_BTK = stft(voice_1N, WINDOW_S, HOP)
    wanted_BTM = torch.rand(1, 40, 80)
    pulsed = generator.pulsed(voice_1N, spectrum_BTK.angle(), keep_BT1)
    assert pulsed.steady_corrections == 2
    assert pulsed.is_steady_BTK[0, 10].sum() == 513 - 140  # 3 kHz is between the 139th and the 140th
    blurred_1N = generator.corrected(voice_1N, wanted_BTM, keep_BT1)
    said_1N = generator.corrected(voice_1N, wanted_BTM, keep_BT1, pulsed)
    apart = [
        (stft(audio_1N, WINDOW_S, HOP)[:, 8:-8] * pulsed.phases_BTK[:, 8:-8].conj()).angle()[..., 150:].abs().mean()
        for audio_1N in (blurred_1N, said_1N)
    ]
    assert apart[1] < 0.8 * apart[0]
    never = pulsed._replace(steady_corrections=0)
    assert torch.equal(generator.corrected(voice_1N, wanted_BTM, keep_BT1, never), blurred_1N)
