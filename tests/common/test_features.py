from dataclasses import replace

import librosa
import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common.features import NEMO, TTS, LogMel, LogMelConfig, mel_filters, normalize, normalize_moving
from tests.data import shared
from tests.host_sync import NoHostSync


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.1


def lengths(*values):
    return torch.tensor(values)


def textbook(samples, cfg):
    """Log-mel of one clip before normalisation, in float64, frame by frame."""
    x = np.append(samples[:1], samples[1:] - cfg.preemphasis * samples[:-1])
    half = cfg.n_fft // 2
    if cfg.edges == "zeros":
        x = np.pad(x, half)
    else:
        x = np.pad(x, half, mode="reflect") if len(x) > 1 else np.full(len(x) + 2 * half, x[0])
    window = np.zeros(cfg.n_fft)
    start = half - cfg.window_samples // 2
    hann = np.hanning(cfg.window_samples + 1)[:-1] if cfg.window_is_periodic else np.hanning(cfg.window_samples)
    window[start : start + cfg.window_samples] = hann
    count = cfg.frames(len(samples))
    frames = np.stack([x[t * cfg.hop_samples :][: cfg.n_fft] for t in range(count)])
    magnitude = abs(np.fft.rfft(frames * window)).T
    filters = librosa.filters.mel(
        sr=cfg.sample_rate, n_fft=cfg.n_fft, n_mels=cfg.mel_bins, fmin=cfg.lowest_hz, fmax=cfg.highest_hz
    ).astype(np.float64)
    power = magnitude**2 + cfg.noise_floor**2 * np.square(window).sum()
    mel = filters @ (power if cfg.spectrum == "power" else np.sqrt(power))
    return np.log(mel + cfg.log_floor if cfg.log_guard == "add" else np.maximum(mel, cfg.log_floor))


def test_the_reference_features_are_reproduced_on_real_speech():
    golden = np.load(shared("golden/jasper") / "expected.npz")
    audio, samples = torch.from_numpy(golden["audio"]), torch.from_numpy(golden["audio_lens"])
    features, frames = LogMel(LogMelConfig(noise_floor=0.0)).eval()(audio, samples)
    assert frames.tolist() == golden["feature_lens"].tolist()
    assert np.abs(features.numpy() - golden["features"]).max() <= 1e-4


def test_real_speech_alone_and_in_a_padded_batch_has_the_same_features():
    files = sorted(shared("data/librispeech-mini").rglob("*.flac"))[:12]
    clips = [torch.from_numpy(soundfile.read(file, dtype="float32")[0]) for file in files]
    clips = [clip[: len(clip) - i * 37] for i, clip in enumerate(clips)]
    samples = lengths(*map(len, clips))
    log_mel = LogMel().eval()
    batch, frames = log_mel(torch.nn.utils.rnn.pad_sequence(clips, batch_first=True), samples)
    for i, clip in enumerate(clips):
        alone, (n,) = log_mel(clip[None], samples[i : i + 1])
        assert n == frames[i]
        assert (batch[i, :, :n] - alone[0, :, :n]).abs().max() <= 1e-5


@pytest.mark.parametrize("samples", [1, 2, 3, 159, 160, 161, 256, 257, 1_600, 8_001])
def test_every_length_follows_the_textbook(samples):
    cfg = LogMelConfig(normalize="none")
    audio = noise(1, samples, seed=samples)
    features, (n,) = LogMel(cfg).eval()(audio, lengths(samples))
    amplitude = np.exp(textbook(audio[0].double().numpy(), cfg) / 2)
    # Window and pre-emphasis are rounded to 24 bits, relative to the loudest bin.
    atol = 2 * 2**-24 * amplitude.max()
    np.testing.assert_allclose((features[0, :, :n] / 2).exp(), amplitude, rtol=1e-5, atol=atol)
    assert not features[0, :, n:].any()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 2_000), min_size=1, max_size=5), st.integers(0, 400))
def test_what_follows_an_utterance_does_not_matter(samples, extra):
    log_mel = LogMel().eval()
    audio = noise(len(samples), max(samples) + extra)
    clean = audio.clone()
    for row, n in zip(clean, samples, strict=True):
        row[n:] = 0
    torch.testing.assert_close(log_mel(audio, lengths(*samples)), log_mel(clean, lengths(*samples)), rtol=0, atol=0)


def test_rubbish_after_the_end_of_an_utterance_is_ignored():
    audio = noise(2, 4_000)
    audio[1, 1_000:] = torch.nan
    features, frames = LogMel().eval()(audio, lengths(4_000, 1_000))
    assert features.isfinite().all()
    assert frames.tolist() == [25, 7]


def test_the_tts_recipe_follows_the_textbook():
    audio = noise(2, 9_000)
    features, frames = LogMel(TTS)(audio, lengths(9_000, 5_120))
    assert frames.tolist() == [36, 21]
    for row, samples, n, mel in zip(audio, (9_000, 5_120), frames, features, strict=True):
        np.testing.assert_allclose(mel[:, :n], textbook(row[:samples].double().numpy(), TTS), atol=2e-4)


def test_tts_features_have_finite_gradients_even_of_silence():
    audio = noise(2, 4_000).mul_(lengths(1, 0)[:, None]).requires_grad_()
    LogMel(TTS)(audio, lengths(4_000, 4_000)).features_BFT.sum().backward()
    assert audio.grad.isfinite().all()
    assert audio.grad[0].any()


@pytest.mark.parametrize("cfg", [LogMelConfig(), TTS, replace(TTS, highest_hz=11_025)])
def test_mel_filters_are_librosas(cfg):
    theirs = librosa.filters.mel(
        sr=cfg.sample_rate, n_fft=cfg.n_fft, n_mels=cfg.mel_bins, fmin=cfg.lowest_hz, fmax=cfg.highest_hz
    )
    np.testing.assert_allclose(mel_filters(cfg), theirs, atol=1e-8)


def test_frames_are_the_ceiling_and_the_length_is_padded():
    features, frames = LogMel().eval()(noise(3, 3_201), lengths(3_201, 3_200, 1))
    assert frames.tolist() == [21, 20, 1]
    assert features.shape == (3, 64, 32)
    assert LogMelConfig().frames(3_201) == 21


def test_silence_has_features_of_zero():
    audio = torch.zeros(2, 30_000)
    audio[1] = noise(30_000)
    features, _ = LogMel().eval()(audio, lengths(30_000, 12_345))
    assert not features[0].any()
    assert features.isfinite().all()


@pytest.mark.parametrize(
    "cfg", [LogMelConfig(normalize="none"), replace(NEMO, normalize="none"), replace(TTS, log_floor=1e-9)]
)
def test_the_noise_floor_is_the_power_that_white_noise_has(cfg):
    cfg = replace(cfg, preemphasis=0.0, log_floor=min(cfg.log_floor, 1e-9))
    deviation, samples = 1e-3, lengths(200_000)
    floor = LogMel(replace(cfg, noise_floor=deviation))(torch.zeros(1, 200_000), samples).features_BFT[0, :, 5:-20]
    heard = LogMel(replace(cfg, noise_floor=0.0))(10 * deviation * noise(1, 200_000), samples).features_BFT[0, :, 5:-20]
    power = 2 if cfg.spectrum == "magnitude" else 1  # the mean of magnitudes is below the root of the mean power
    assert (floor - floor[:, :1]).abs().max() < 1e-5
    torch.testing.assert_close((power * heard).exp().mean(1), (power * floor[:, 0]).exp(), rtol=0.25, atol=0)


def test_features_stay_in_single_precision():
    audio, samples = noise(2, 4_000), lengths(4_000, 3_000)
    expected = LogMel().eval()(audio, samples).features_BFT
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(LogMel().eval()(audio, samples).features_BFT, expected)
    assert torch.equal(LogMel().eval().half()(audio, samples).features_BFT, expected)
    assert torch.equal(LogMel().eval().bfloat16()(audio, samples).features_BFT, expected)
    assert not LogMel().state_dict()


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"audio of shape \(4000,\) and samples of shape \(1,\); expected"):
        LogMel().eval()(noise(4_000), lengths(4_000))
    with pytest.raises(ValueError, match=r"shape \(1, 0\) holds no samples"):
        LogMel().eval()(noise(1, 0), lengths(0))


def test_impossible_options_are_named():
    with pytest.raises(ValueError, match="window_samples 600 and n_fft 512; both must be even"):
        LogMelConfig(window_samples=600)
    with pytest.raises(ValueError, match="from 0 to 8000 Hz; expected 0 <= lowest_hz < highest_hz <= 4000"):
        LogMelConfig(sample_rate=8_000)


@pytest.mark.parametrize("block", [1, 10**9])
def test_normalisation_gives_mean_0_and_deviation_1_over_the_frames(block, monkeypatch):
    monkeypatch.setattr("common.features.NORMALIZE_BLOCK", {"cpu": block})
    features = noise(3, 8, 50) * 30 - 10
    before, frames = features.clone(), lengths(50, 20, 1)
    per_feature, together = (normalize(features, frames, kind) for kind in ("per_feature", "all_features"))
    assert torch.equal(features, before)
    for i, n in enumerate((50, 20)):
        x = features[i, :, :n].double()
        per_bin = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
        torch.testing.assert_close(per_feature[i, :, :n].double(), per_bin, rtol=0, atol=2e-6)
        torch.testing.assert_close(together[i, :, :n].double(), (x - x.mean()) / (x.std() + 1e-5), rtol=0, atol=2e-6)
        assert not per_feature[i, :, n:].any()
        assert not together[i, :, n:].any()
    assert not per_feature[2].any()
    assert together.isfinite().all()


@pytest.mark.parametrize("kind", ["per_feature", "all_features"])
@pytest.mark.parametrize("window", [1, 2, 7, 16])
def test_a_moving_normalisation_is_that_of_the_frames_around_each(kind, window):
    features_BFT = 3 + 2 * torch.randn(4, 5, 20, generator=torch.Generator().manual_seed(0))
    features_BFT[3] = -16.6
    frames_B = torch.tensor([20, 13, 1, 20])
    found_BFT = normalize_moving(features_BFT, frames_B, window, kind)
    for b, frames in enumerate(frames_B.tolist()):
        for t in range(20):
            first = max(0, min(t - window // 2, frames - window))
            around_1FT = features_BFT[b : b + 1, :, first : min(first + window, frames)]
            expected_F = torch.zeros(5)
            if t < frames:
                expected_F = normalize(around_1FT, torch.tensor([around_1FT.shape[2]]), kind)[0, :, t - first]
            assert torch.allclose(found_BFT[b, :, t], expected_F, atol=1e-4), (b, t)


def test_a_window_that_is_longer_than_an_utterance_changes_nothing():
    features_BFT, frames_B = torch.randn(2, 5, 20, generator=torch.Generator().manual_seed(1)), torch.tensor([20, 9])
    for kind in ("per_feature", "all_features", "none"):
        expected_BFT = normalize(features_BFT, frames_B, kind)
        assert torch.allclose(normalize_moving(features_BFT, frames_B, 20, kind), expected_BFT, atol=1e-5)
    audio_BN, samples_B = torch.randn(1, 16_000, generator=torch.Generator().manual_seed(2)), torch.tensor([16_000])
    log_mel = LogMel().eval()
    moving, whole = (log_mel(audio_BN, samples_B, window_frames=n).features_BFT for n in (30, 0))
    assert not torch.allclose(moving, whole, atol=0.1)
    assert torch.allclose(log_mel(audio_BN, samples_B, window_frames=500).features_BFT, whole, atol=1e-4)


def test_without_normalisation_only_the_padding_changes():
    features = noise(2, 8, 50)
    result = normalize(features, lengths(50, 20), "none")
    assert torch.equal(result[0], features[0])
    assert torch.equal(result[1, :, :20], features[1, :, :20])
    assert not result[1, :, 20:].any()


@pytest.mark.parametrize("kind", ["per_feature", "all_features", "none"])
def test_features_are_normalised_in_place_only_if_asked_for(kind):
    features, before = noise(2, 8, 50), noise(2, 8, 50)
    before.copy_(features)
    expected = normalize(features, lengths(50, 20), kind)
    assert torch.equal(features, before)
    assert normalize(features, lengths(50, 20), kind, in_place=True) is features
    assert torch.equal(features, expected)


def test_no_step_waits_for_the_device():
    audio, samples = noise(3, 4_000), lengths(4_000, 3_000, 10)
    log_mel, features = LogMel().train(), noise(3, 64, 32)
    with NoHostSync():
        _, frames = log_mel(audio, samples)
        normalize(features, frames, "all_features")


def test_the_front_end_of_nemo_is_reproduced_on_real_speech():
    arrays = dict(np.load(shared("golden/transducer/inputs.npz")))
    log_mel = LogMel(replace(NEMO, noise_floor=0.0)).eval()
    for audio, expected in [("audio_0", "features_0"), ("audio_2", "features_2"), ("edge_audio", "edge_features")]:
        samples = torch.from_numpy(arrays[audio].astype(np.float32) / 32768)
        features, frames = log_mel(torch.nn.functional.pad(samples[None], (0, 777)), lengths(len(samples)))
        assert frames.tolist() == [arrays[expected].shape[1]]
        np.testing.assert_allclose(features[0, :, : frames[0]], arrays[expected], rtol=0, atol=1e-4)
        assert not features[0, :, frames[0] :].any()


@pytest.mark.parametrize("samples", [1, 159, 160, 161, 4_000])
def test_zeros_at_the_ends_follow_the_textbook(samples):
    cfg = replace(NEMO, normalize="none", frame_count="centered")
    audio = noise(1, samples)
    features, frames = LogMel(cfg).eval()(audio, lengths(samples))
    expected = textbook(audio[0].double().numpy(), cfg)
    assert frames.tolist() == [expected.shape[1]]
    np.testing.assert_allclose(features[0, :, : expected.shape[1]], expected, rtol=0, atol=2e-3)


def test_audio_shorter_than_a_hop_has_no_frame_where_they_are_rounded_down():
    features, frames = LogMel(NEMO).eval()(noise(2, 159), lengths(159, 20))
    assert frames.tolist() == [0, 0]
    assert features.shape == (2, 80, 1)
    assert not features.any()
