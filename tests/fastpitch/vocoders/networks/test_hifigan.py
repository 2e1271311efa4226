import pytest
import torch
from torch import nn

from common import config
from common.config import ConfigError
from common.devices.fastest import voice_like
from common.devices.precision import cast_for_inference
from common.features import TTS, LogMel
from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.networks.config import HifiganConfig, IstftConfig
from fastpitch.vocoders.networks.fused import FusedHifigan
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.istft import IstftGenerator, inverse_stft, magnitude_prior
from fastpitch.vocoders.networks.weight_norm import folded, unfolded
from fastpitch.vocoders.vocoder import Vocoder
from tests.fastpitch.vocoders.small import loud, random_mel

V3 = HifiganConfig(
    upsample_rates=(8, 8, 4),
    upsample_kernels=(16, 16, 8),
    channels=16,
    resblock="2",
    resblock_kernels=(3, 5, 7),
    resblock_dilations=((1, 2), (2, 6), (3, 12)),
)


def size(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_v1_has_as_many_parameters_as_published():
    with torch.device("meta"):
        assert size(HifiganGenerator(HifiganConfig(), 80)) == 13_926_017
        assert size(HifiganGenerator(HifiganConfig(), 80, normalized=True)) == 13_936_130


def test_the_context_of_v1_is_the_measured_13_frames():
    with torch.device("meta"):
        assert HifiganGenerator(HifiganConfig(), 80).context_frames == 13


@pytest.mark.parametrize("cfg", [HifiganConfig(channels=16), V3], ids=["pairs", "single"])
@pytest.mark.parametrize("is_prepared", [False, True])
def test_the_layout_for_a_cpu_gives_the_same_audio(cfg, is_prepared):
    generator = loud(HifiganGenerator(cfg, 80)).eval()
    fused = cast_for_inference(FusedHifigan(generator), "fp32") if is_prepared else FusedHifigan(generator)
    mel_BMT, frames_B = random_mel(2, 80, 24), torch.tensor([24, 9])
    before_BMT = mel_BMT.clone()
    with torch.no_grad():
        plain_BN, fused_BN = generator(mel_BMT, frames_B), fused(mel_BMT, frames_B)
        alone_BN = fused(mel_BMT[1:, :, :9])
    assert plain_BN.std() > 0.01
    torch.testing.assert_close(fused_BN, plain_BN, rtol=0, atol=1e-5)
    torch.testing.assert_close(alone_BN, plain_BN[1:, : alone_BN.shape[1]], rtol=0, atol=1e-5)
    assert torch.equal(mel_BMT, before_BMT)


def test_weight_normalisation_folds_and_unfolds_without_a_change_of_what_is_said():
    generator = HifiganGenerator(V3, 80, normalized=True).eval()
    mel_BMT = random_mel(1, 80, 10)
    plain = HifiganGenerator(V3, 80).eval()
    plain.load_state_dict(folded(generator.state_dict()))
    again = HifiganGenerator(V3, 80, normalized=True).eval()
    again.load_state_dict(unfolded(folded(generator.state_dict()), again))
    with torch.no_grad():
        torch.testing.assert_close(plain(mel_BMT), generator(mel_BMT), rtol=0, atol=1e-6)
        torch.testing.assert_close(again(mel_BMT), generator(mel_BMT), rtol=0, atol=1e-6)


def test_the_inverse_of_the_transform_is_the_audio_and_agrees_with_torch():
    audio_BN = torch.randn(2, 20 * 256, generator=torch.Generator().manual_seed(0))
    window_S = torch.hann_window(1024)
    spectrum_BKT = torch.stft(audio_BN, 1024, 256, window=window_S, return_complex=True)
    found_BN = inverse_stft(spectrum_BKT.mT, torch.ones(2, 21, 1), window_S, 256)
    assert found_BN.shape == (2, 21 * 256)
    torch.testing.assert_close(found_BN[:, : 20 * 256], audio_BN, rtol=0, atol=1e-5)
    edited_BKT = spectrum_BKT * torch.rand(spectrum_BKT.shape, generator=torch.Generator().manual_seed(1))
    expected_BN = torch.istft(edited_BKT, 1024, 256, window=window_S, length=21 * 256)
    found_BN = inverse_stft(edited_BKT.mT, torch.ones(2, 21, 1), window_S, 256)
    torch.testing.assert_close(found_BN, expected_BN, rtol=0, atol=1e-5)


def test_a_mel_spectrogram_says_the_magnitudes_of_what_it_is_of():
    """A flat spectrum of magnitude m has mel values of m times the sums of the filters."""
    from common.features import mel_filters

    slopes_KM, offsets_K = magnitude_prior(TTS, 1024)
    mel_M = torch.from_numpy(mel_filters(TTS)).sum(1).mul(0.3).log()
    found_K = slopes_KM @ mel_M + offsets_K
    torch.testing.assert_close(found_K, torch.full((513,), 0.3).log(), rtol=0, atol=1e-3)


def mel_distance(audio_BN: torch.Tensor, mel_BMT: torch.Tensor) -> float:
    """From the mel frames of `audio_BN` to `mel_BMT`, without the frames at the ends."""
    samples_B = torch.full((len(audio_BN),), audio_BN.shape[1])
    found_BMT = LogMel(TTS).eval()(audio_BN, samples_B).features_BFT[:, :, : mel_BMT.shape[2]]
    return (found_BMT - mel_BMT)[:, :, 3:-3].abs().mean().item()


def speech_like(frames: int = 40) -> torch.Tensor:
    """The mel frames [2, M, T] of a voice, from two places."""
    audio_N = torch.from_numpy(voice_like(TTS.sample_rate, 3.0))
    audio_BN = torch.stack([audio_N[:30_000], audio_N[30_000:60_000]])
    return LogMel(TTS).eval()(audio_BN, torch.full((2,), 30_000)).features_BFT[:, :, :frames]


def test_corrections_bring_the_mel_frames_of_what_is_said_to_those_that_were_given():
    torch.manual_seed(0)
    plain = IstftGenerator(IstftConfig(channels=8, layers=2), TTS)
    mel_BMT, distances = speech_like(), []
    for corrections in (0, 1, 4, 16):
        generator = IstftGenerator(IstftConfig(channels=8, layers=2, corrections=corrections), TTS).eval()
        generator.load_state_dict(plain.state_dict())
        distances.append(mel_distance(generator(mel_BMT).detach(), mel_BMT))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.4 * distances[0]


def test_an_utterance_is_corrected_the_same_alone_and_beside_a_longer_one():
    torch.manual_seed(0)
    generator = IstftGenerator(IstftConfig(channels=8, layers=2, corrections=3), TTS).eval()
    mel_BMT = speech_like()
    with torch.inference_mode():
        both_BN = generator(mel_BMT, torch.tensor([40, 21]))
        alone_1N = generator(mel_BMT[1:, :, :21])
    torch.testing.assert_close(both_BN[1:, : 21 * 256], alone_1N, rtol=0, atol=1e-5)
    assert not both_BN[1, 21 * 256 :].any()


def test_a_stream_of_corrected_audio_is_the_whole():
    torch.manual_seed(0)
    vocoder = Vocoder(IstftGenerator(IstftConfig(channels=8, layers=2, corrections=2), TTS), TTS)
    mel_BMT = speech_like(80)
    whole_BN = vocoder(mel_BMT)
    pieces_BN = torch.cat(list(vocoder.stream(mel_BMT, chunk_frames=16)), 1)
    torch.testing.assert_close(pieces_BN, whole_BN, rtol=0, atol=1e-5)
    assert vocoder.context_frames == 3 * 3 + 2 + 2 * 4


def test_corrections_of_what_no_recording_has_stay_within_bounds():
    """Mel frames that no sound has, and silence."""
    torch.manual_seed(0)
    generator = IstftGenerator(IstftConfig(channels=8, layers=2, corrections=16), TTS).eval()
    loudest = generator(random_mel(1, 80, 40)).abs().max()
    assert torch.isfinite(loudest)
    assert loudest < 20
    assert generator(torch.full((1, 80, 40), -11.5)).abs().max() < 0.01


def test_frequencies_that_no_mel_filter_hears_are_not_corrected():
    """Above 8 kHz the mel frames say nothing."""
    generator = IstftGenerator(IstftConfig(channels=8, layers=1, corrections=1), TTS)
    keep_BT1, quiet_BTM = torch.ones(1, 40, 1), torch.full((1, 40, 80), 1e-5)
    time_N = torch.arange(40 * 256) / TTS.sample_rate
    for hz, kept in ((9500, 1.0), (1000, 0.1)):
        tone_1N = 0.1 * torch.sin(2 * torch.pi * hz * time_N)[None]
        found_1N = generator.corrected(tone_1N, quiet_BTM, keep_BT1)
        middle = slice(2048, -2048)
        assert found_1N[0, middle].std() / tone_1N[0, middle].std() == pytest.approx(kept, rel=0.05)


def test_spectra_stay_in_fp32_under_autocast():
    """With a head that says nothing the audio is that of the estimate from the mel spectrogram."""
    generator, mel_BMT = IstftGenerator(IstftConfig(channels=8, layers=1), TTS), random_mel(1, 80, 12)
    nn.init.zeros_(generator.head.weight)
    expected_BN = generator(mel_BMT)
    with torch.autocast("cpu", torch.bfloat16):
        found_BN = generator(mel_BMT)
    assert found_BN.abs().max() > 0.01
    torch.testing.assert_close(found_BN, expected_BN, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"hifigan": {"upsample_rates": [8, 8]}}, "upsample_kernels has 4 values and upsample_rates 2"),
        ({"hifigan": {"resblock_kernels": [3]}}, "resblock_dilations has 3 values and resblock_kernels 1"),
        ({"hifigan": {"upsample_kernels": [15, 16, 4, 4]}}, "upsample kernel 15 for rate 8: expected the rate, or"),
        ({"hifigan": {"resblock_kernels": [3, 8, 11]}}, r"resblock_kernels = \(3, 8, 11\): expected odd"),
        ({"hifigan": {"channels": 24}}, "channels = 24: cannot be halved 4 times"),
        ({"features": {"hop_samples": 128}}, "make 256 samples of a frame; features.hop_samples is 128"),
        ({"generator": "istft", "istft": {"n_fft": 256}}, "istft.n_fft = 256: expected a multiple of"),
        ({"istft": {"corrections": -1}}, "corrections = -1: expected 0 to 100"),
        (
            {"generator": "istft", "istft": {"corrections": 1}, "features": {"n_fft": 2048}},
            "istft.corrections = 1: expected mel frames of magnitudes, and features.n_fft = features.window_samples",
        ),
        ({"istft": {"kernel": 4}}, "kernel = 4: expected an odd number of frames"),
        ({"discriminator": {"divide_channels": 3}}, "divide_channels = 3: expected 1, 2, 4, 8 or 16"),
        ({"data": {"segment_frames": 4}}, "segment_frames = 4, segments_per_clip = 1: expected at least 8"),
        ({"samples_every_epochs": -1}, "samples_every_epochs = -1: expected a number of at least 0"),
    ],
)
def test_a_configuration_that_cannot_be_is_told(settings, told):
    with pytest.raises(ConfigError, match=told):
        config.build(HifiganRun, settings, "x.toml")
