from dataclasses import replace

import pytest
import torch

from common import config
from common.features import TTS
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.networks.fused import is_faster_fused
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.vocoder import Denoiser, MelSpan, Vocoder, VocoderError, load_vocoder
from tests.data import shared
from tests.fastpitch.vocoders.small import golden, of_every_kind, random_mel, save_hifigan

KINDS = ("hifigan", "istft", "waveglow")


def mel_for(vocoder: Vocoder, utterances: int, frames: int) -> torch.Tensor:
    return random_mel(utterances, vocoder.features.mel_bins, frames)


@pytest.fixture(scope="module")
def vocoders(tmp_path_factory) -> dict[str, Vocoder]:
    return of_every_kind(tmp_path_factory.mktemp("vocoders"))


def test_a_published_hifigan_gives_the_audio_of_its_own_code():
    vocoder = load_vocoder(shared("golden/tts/hifigan_gen_checkpoint_5.pt"), device="cpu")
    expected = golden("hifigan_expected.npz")
    torch.testing.assert_close(vocoder(expected["mel"]), expected["audio"][:, 0], rtol=0, atol=1e-4)
    assert vocoder.delay_samples == 128


def test_a_published_waveglow_gives_the_audio_of_its_own_code_at_sigma_0():
    vocoder = load_vocoder(shared("golden/tts/checkpoint_WaveGlow_9.pt"), device="cpu")
    expected = golden("waveglow_expected.npz")
    torch.testing.assert_close(vocoder(expected["mel"], sigma=0.0), expected["audio_sigma0"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_is_a_hop_of_audio_that_is_heard(vocoders, kind):
    audio_BN = vocoders[kind](mel_for(vocoders[kind], 2, 21))
    assert audio_BN.shape == (2, 21 * 256)
    assert audio_BN.dtype == torch.float32
    assert audio_BN.std() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [0.0, 0.7])
def test_an_utterance_sounds_the_same_alone_and_in_a_batch_and_is_silent_beyond_its_end(vocoders, kind, sigma):
    mel_BMT = mel_for(vocoders[kind], 3, 30)
    frames = [30, 11, 17]
    together_BN = vocoders[kind](mel_BMT, torch.tensor(frames), sigma=sigma, seed=3)
    for row, count in enumerate(frames):
        alone_1N = vocoders[kind](mel_BMT[row : row + 1, :, :count], sigma=sigma, seed=3)
        torch.testing.assert_close(together_BN[row, : count * 256], alone_1N[0], rtol=0, atol=1e-5)
        assert not together_BN[row, count * 256 :].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [7, 16, 200])
def test_a_stream_is_the_whole_in_pieces(vocoders, kind, chunk):
    vocoder = vocoders[kind]
    mel_BMT = mel_for(vocoder, 2, 75)
    whole_BN = vocoder(mel_BMT, sigma=0.5, seed=1)
    pieces = list(vocoder.stream(mel_BMT, chunk_frames=chunk, sigma=0.5, seed=1))
    assert len(pieces) == -(-mel_BMT.shape[2] // chunk)
    torch.testing.assert_close(torch.cat(pieces, 1), whole_BN, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_several_spectrograms_sound_together_as_in_the_stream_of_each(vocoders, kind):
    """Cuts of different lengths, at different places, cleaned of the vocoder's hum and not."""
    mel_BMT = mel_for(vocoders[kind], 2, 75)
    cuts = [MelSpan(mel_BMT[0], 0, 16), MelSpan(mel_BMT[1, :, :40], 16, 32), MelSpan(mel_BMT[0], 64, 75)]
    for vocoder in (vocoders[kind], Denoiser(vocoders[kind], 0.5)):
        whole = [vocoder(cut.mel_MT[None], sigma=0.5, seed=1)[0] for cut in cuts]
        for cut, whole_N, found_N in zip(cuts, whole, vocoder.cuts(cuts, sigma=0.5, seed=1), strict=True):
            torch.testing.assert_close(found_N, whole_N[cut.start * 256 : cut.end * 256], rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_context_of_a_sample_is_as_large_as_said_and_hardly_larger(vocoders, kind):
    vocoder, frames = vocoders[kind], 60
    mel_BMT = mel_for(vocoder, 1, frames)
    context = vocoder.context_frames
    changed_BMT = mel_BMT.clone()
    changed_BMT[:, :, 30] += 1
    frame_BT = (vocoder(changed_BMT) - vocoder(mel_BMT)).abs().unflatten(1, (frames, 256)).amax(2)
    # What is changed in a block of a fast convolution changes the rounding of all of it.
    heard = (frame_BT[0] > (1e-6 if kind == "hifigan" else 0.0)).nonzero().flatten()
    assert 30 - context <= heard.min()
    assert heard.max() <= 30 + context
    assert heard.max() >= 30 + context - 2 or heard.min() <= 30 - context + 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("precision", "tolerance"), [("bf16", 0.1), ("fp16", 0.02)])
def test_reduced_precision_is_near_to_the_full_one(tmp_path, vocoders, kind, precision, tolerance):
    path = vocoders[kind].name
    mel_BMT = mel_for(vocoders[kind], 1, 20)
    reduced_BN = load_vocoder(path, device="cpu", precision=precision)(mel_BMT)
    full_BN = vocoders[kind](mel_BMT)
    assert reduced_BN.dtype == torch.float32
    assert (reduced_BN - full_BN).norm() < tolerance * full_BN.norm()


def test_noise_of_waveglow_is_that_of_its_seed(vocoders):
    mel_BMT = mel_for(vocoders["waveglow"], 1, 9)
    first, again, other = (vocoders["waveglow"](mel_BMT, sigma=0.9, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_stream_draws_noise_for_what_it_hears_and_for_nothing_before(vocoders, monkeypatch):
    """A piece costs the same wherever it is in a long utterance."""
    vocoder, drawn, randn = vocoders["waveglow"], [], torch.randn
    monkeypatch.setattr(torch, "randn", lambda *shape, **how: drawn.append(shape[0]) or randn(*shape, **how))
    mel_MT = mel_for(vocoder, 1, 900)[0]
    for start in (200, 800):
        vocoder.cuts([MelSpan(mel_MT, start, start + 16)], sigma=0.5, seed=-1)
        assert sum(drawn) * vocoder.generator.cfg.group <= (16 + 2 * vocoder.context_frames + 128) * 256
        drawn.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_no_frames_are_no_audio(vocoders, kind):
    assert vocoders[kind](mel_for(vocoders[kind], 2, 0)).shape == (2, 0)
    for vocoder in (vocoders[kind], Denoiser(vocoders[kind], 0.5)):
        assert vocoder(mel_for(vocoders[kind], 0, 9)).shape == (0, 9 * 256)
        for utterances, frames in ((0, 9), (2, 0)):
            assert list(vocoder.stream(mel_for(vocoders[kind], utterances, frames))) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_refuses_before_its_first_piece(vocoders, kind):
    damaged_BMT = mel_for(vocoders[kind], 1, 30)
    damaged_BMT[0, 0, 29] = torch.nan
    for vocoder in (vocoders[kind], Denoiser(vocoders[kind], 0.5)):
        with pytest.raises(VocoderError, match="NaN or infinite"):
            next(vocoder.stream(damaged_BMT, chunk_frames=1))
        with pytest.raises(VocoderError, match=r"of shape \(\d+, 30\); expected \[utterances, \d+ mel bins"):
            next(vocoder.stream(damaged_BMT[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_denoised_utterance_is_the_same_alone_in_a_batch_and_streamed(vocoders, kind):
    denoiser, frames_B = Denoiser(vocoders[kind], 0.5), torch.tensor([40, 13])
    mel_BMT = mel_for(vocoders[kind], 2, 40)
    whole_BN = denoiser(mel_BMT, frames_B)
    assert (whole_BN - vocoders[kind](mel_BMT, frames_B)).abs().max() > 1e-4
    torch.testing.assert_close(whole_BN[1:, : 13 * 256], denoiser(mel_BMT[1:, :, :13]), rtol=0, atol=1e-5)
    streamed_BN = torch.cat(list(denoiser.stream(mel_BMT, chunk_frames=8)), 1)
    torch.testing.assert_close(streamed_BN, denoiser(mel_BMT), rtol=0, atol=1e-4)


def test_a_denoiser_of_strength_0_changes_nothing_and_of_strength_1_silences_the_hum(vocoders):
    vocoder, silence_BMT = vocoders["hifigan"], torch.zeros(1, 80, 88)
    assert torch.equal(Denoiser(vocoder, 0.0)(silence_BMT), vocoder(silence_BMT))
    assert Denoiser(vocoder, 3.0)(silence_BMT).norm() < vocoder(silence_BMT).norm()
    with pytest.raises(VocoderError, match=r"strength -1; expected 0, for nothing, or more"):
        Denoiser(vocoder, -1)


def test_a_mel_spectrogram_for_another_vocoder_is_told_in_one_line(vocoders):
    vocoder = vocoders["hifigan"]
    with pytest.raises(VocoderError, match=r"hifigan.pt: mel spectrograms of shape \(1, 20, 9\); expected .* 80 mel"):
        vocoder(torch.zeros(1, 20, 9))
    with pytest.raises(VocoderError, match="transpose them"):
        vocoder(torch.zeros(1, 9, 80))
    with pytest.raises(VocoderError, match=r"frames \[10\] for mel spectrograms of shape \(1, 80, 9\)"):
        vocoder(torch.zeros(1, 80, 9), torch.tensor([10]))
    with pytest.raises(VocoderError, match="NaN or infinite"):
        vocoder(torch.full((1, 80, 9), torch.nan))
    with pytest.raises(VocoderError, match=r"chunk_frames = 0: expected at least 1"):
        list(vocoder.stream(torch.zeros(1, 80, 9), chunk_frames=0))


def test_features_of_another_model_are_told_in_one_line(vocoders):
    vocoders["istft"].require(TTS)
    with pytest.raises(
        VocoderError, match=r"with sample_rate 22050, but my model has sample_rate 16000; use a vocoder"
    ):
        vocoders["istft"].require(replace(TTS, sample_rate=16000), "my model")


def test_a_file_that_is_no_vocoder_is_told(tmp_path):
    checkpoint.save(tmp_path / "other.pt", {"format": "jasper", "weights": {}})
    with pytest.raises(CheckpointError, match=r"other.pt: not a vocoder: .* its format is 'jasper'"):
        load_vocoder(tmp_path / "other.pt", device="cpu")
    path = save_hifigan(tmp_path / "broken.pt")
    state = checkpoint.load(path)
    del state["generator"]["conv_pre.bias"]
    checkpoint.save(path, state)
    with pytest.raises(CheckpointError, match=r"broken.pt: does not fit its configuration: .*conv_pre.bias"):
        load_vocoder(path, device="cpu")


@pytest.mark.parametrize("size", [0, 1])
def test_a_checkpoint_whose_weight_norm_has_another_shape_is_an_error_and_no_crash(tmp_path, size):
    path = save_hifigan(tmp_path / "v.pt")
    state = checkpoint.load(path)
    weight = state["generator"].pop("conv_pre.weight")
    state["generator"] |= {"conv_pre.weight_v": weight, "conv_pre.weight_g": torch.ones(size)}
    checkpoint.save(path, state)
    with pytest.raises(CheckpointError, match=r"v.pt: does not fit its configuration: conv_pre.weight: a magnitude of"):
        load_vocoder(path)


@pytest.mark.parametrize(("name", "is_fused"), [("v1", True), ("v2", False), ("v3", True)])
def test_the_layout_for_cpus_is_for_generators_whose_layers_fill_its_kernels(name, is_fused):
    cfg = config.load(HifiganRun, config.packaged() / "hifigan" / f"{name}.toml")
    with torch.device("meta"):
        generator = HifiganGenerator(cfg.hifigan, cfg.features.mel_bins)
    assert is_faster_fused(generator) is is_fused
