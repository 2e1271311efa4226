import numpy as np
import pytest
import torch

from fastpitch.speaking.voicing import Voice, VoicingConfig, batches
from fastpitch.vocoders.vocoder import Vocoder
from tests.fastpitch.vocoders.small import of_every_kind, random_mel

KINDS = ("hifigan", "istft", "waveglow")
HOP = 256


@pytest.fixture(scope="module")
def vocoders(tmp_path_factory) -> dict[str, Vocoder]:
    return of_every_kind(tmp_path_factory.mktemp("vocoders"))


def mels(vocoder: Vocoder, *frames: int) -> list[torch.Tensor]:
    return [random_mel(vocoder.features.mel_bins, count, seed=count) for count in frames]


@pytest.mark.parametrize("kind", KINDS)
def test_sounds_come_in_the_order_of_their_mels_and_are_the_same_in_every_batch(vocoders, kind):
    several = mels(vocoders[kind], 20, 3, 31, 12)
    together = Voice(vocoders[kind], VoicingConfig(batch_size=3)).whole(several)
    assert [len(samples_N) for samples_N in together] == [frames * HOP for frames in (20, 3, 31, 12)]
    for mel_MT, samples_N in zip(several, together, strict=True):
        (alone,) = Voice(vocoders[kind], VoicingConfig(batch_size=1)).whole([mel_MT])
        np.testing.assert_allclose(samples_N, alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("denoising", [0.0, 0.1])
def test_a_stream_is_the_whole(vocoders, kind, denoising):
    voice = Voice(vocoders[kind], VoicingConfig(denoising=denoising, sigma=0.6))
    (mel_MT,) = mels(vocoders[kind], 150)
    (whole_N,) = voice.whole([mel_MT])
    pieces = list(voice.stream(mel_MT))
    assert len(pieces) > 1
    np.testing.assert_allclose(np.concatenate(pieces), whole_N, rtol=0, atol=1e-4)


def test_the_last_frames_fade_and_the_rest_is_the_vocoder_s(vocoders):
    (mel_MT,) = mels(vocoders["istft"], 20)
    (faded_N,) = Voice(vocoders["istft"], VoicingConfig(fade_out=4)).whole([mel_MT])
    (plain_N,) = Voice(vocoders["istft"], VoicingConfig(fade_out=0)).whole([mel_MT])
    np.testing.assert_array_equal(faded_N[: 16 * HOP], plain_N[: 16 * HOP])
    assert np.abs(faded_N[-10:]).max() < 0.02 * np.abs(plain_N).max()
    (short_N,) = Voice(vocoders["istft"], VoicingConfig(fade_out=10)).whole(mels(vocoders["istft"], 2))
    assert short_N.shape == (2 * HOP,)


def test_denoising_changes_the_sound(vocoders):
    (mel_MT,) = mels(vocoders["hifigan"], 20)
    plain, clean = (Voice(vocoders["hifigan"], VoicingConfig(denoising=d)).whole([mel_MT])[0] for d in (0.0, 0.5))
    assert np.abs(plain - clean).max() > 1e-3


def test_no_mels_have_no_sound(vocoders):
    assert Voice(vocoders["istft"]).whole([]) == []


def test_batches_hold_similar_lengths():
    assert list(batches([5, 1, 9, 2, 7], 2)) == [[1, 3], [0, 4], [2]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size = 0: expected at least 1"),
        ({"sigma": -1.0}, "sigma = -1, denoising = 0, fade_out = 10: expected 0 or more"),
        ({"fade_out": -1}, "sigma = 0.9, denoising = 0, fade_out = -1: expected 0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        VoicingConfig(**options)
