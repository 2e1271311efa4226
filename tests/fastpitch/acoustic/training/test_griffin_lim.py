import torch

from common.audio import waveform
from common.features import TTS, LogMel
from fastpitch.acoustic.training.griffin_lim import griffin_lim
from tests.data import shared


def test_the_sound_of_speech_has_about_the_mel_frames_it_was_made_of():
    recording = waveform.read(
        shared("data/ljspeech-mini/LJSpeech-1.1/wavs/LJ001-0002.wav"), sample_rate=TTS.sample_rate
    )
    log_mel = LogMel(TTS)
    mel_1MT, _ = log_mel(torch.from_numpy(recording.samples)[None], torch.tensor([len(recording.samples)]))
    heard_1N = griffin_lim(mel_1MT, TTS)
    assert heard_1N.shape == (1, (mel_1MT.shape[2] - 1) * TTS.hop_samples)
    again_1MT, _ = log_mel(heard_1N, torch.tensor([heard_1N.shape[1]]))
    is_loud = mel_1MT[:, :, 2:-2] > -3
    assert (again_1MT - mel_1MT)[:, :, 2:-2][is_loud].abs().mean() < 0.1


def test_a_few_frames_make_a_brief_sound():
    assert griffin_lim(torch.zeros(1, 80, 2), TTS).shape == (1, 256)
