import pytest
import torch

from common.config import ConfigError
from fastpitch.speaking.runtime import Padded, accelerate, accelerate_vocoder
from fastpitch.vocoders.vocoder import load_vocoder
from tests.fastpitch.tiny import tiny_model
from tests.fastpitch.vocoders.small import ISTFT, random_mel, save_hifigan, save_waveglow

TOKENS_BT = torch.randint(1, 148, (2, 11), generator=torch.Generator().manual_seed(0))
LENGTHS_B = torch.tensor([11, 7])


@pytest.fixture
def replay(monkeypatch):
    """Runs what would be recorded as a graph as it is, and notes the lengths it is given."""
    lengths = []

    def runner(mode, module, device):
        def wrap(network):
            def call(*arguments):
                lengths.append([tuple(argument.shape) for argument in arguments])
                return network(*arguments)

            return call

        return wrap

    monkeypatch.setattr("fastpitch.speaking.runtime.runner", runner)
    return lengths


def test_a_network_at_padded_lengths_says_the_same(replay):
    expected = tiny_model().infer(TOKENS_BT, LENGTHS_B)
    said = accelerate(tiny_model(), "graph").infer(TOKENS_BT, LENGTHS_B)
    for found, wanted in zip(said, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    assert [shapes[0][1] for shapes in replay] == [32, 32, 32, 32, 128]  # encoder, three predictors, decoder


@pytest.mark.parametrize("kind", ["hifigan", "istft", "waveglow"])
@pytest.mark.parametrize("frames_B", [None, torch.tensor([20, 9])])
def test_a_vocoder_at_padded_lengths_sounds_the_same(replay, tmp_path, kind, frames_B):
    path = tmp_path / "vocoder.pt"
    _ = save_waveglow(path) if kind == "waveglow" else save_hifigan(path, *([ISTFT] if kind == "istft" else []))
    plain = load_vocoder(path, device="cpu")
    mel_BMT = random_mel(2, plain.features.mel_bins, 20)
    expected = plain(mel_BMT, frames_B, sigma=0.5)
    vocoder = accelerate_vocoder(load_vocoder(path, device="cpu"), "graph")
    torch.testing.assert_close(vocoder(mel_BMT, frames_B, sigma=0.5), expected, rtol=0, atol=1e-5)
    assert [shapes[0] for shapes in replay] == [(2, plain.features.mel_bins, 128)]


def test_padding_is_proportional_and_cut_off_again():
    def repeated(x_BT, y_BT):
        assert (x_BT.shape[1], y_BT.shape[1]) == (8, 16)
        return y_BT.repeat_interleave(2, 1)

    y_BT = torch.arange(10.0)[None]
    found = Padded(repeated, 4, (1, 1), 1)(torch.zeros(1, 5), y_BT)
    assert torch.equal(found, y_BT.repeat_interleave(2, 1))


def test_eager_changes_nothing(tmp_path):
    model, vocoder = tiny_model(), load_vocoder(save_hifigan(tmp_path / "v.pt"), device="cpu")
    assert accelerate(model, "eager") is model
    assert accelerate_vocoder(vocoder, "eager") is vocoder
    assert "forward" not in vars(model.encoder)
    assert "forward" not in vars(vocoder.generator)


def test_graphs_need_a_gpu(tmp_path):
    with pytest.raises(
        ConfigError, match="mode graph needs a CUDA device, and this model is on cpu; take eager or comp"
    ):
        accelerate(tiny_model(), "graph")
    with pytest.raises(ConfigError, match="mode graph needs a CUDA device"):
        accelerate_vocoder(load_vocoder(save_hifigan(tmp_path / "v.pt"), device="cpu"), "graph")


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["compiled", "graph"])
def test_every_mode_says_what_eager_says(mode, tmp_path):
    expected = tiny_model().cuda().infer(TOKENS_BT.cuda(), LENGTHS_B.cuda())
    model = accelerate(tiny_model().cuda(), mode)
    for _ in range(2):
        said = model.infer(TOKENS_BT.cuda(), LENGTHS_B.cuda())
        torch.testing.assert_close(said.mel_BMT, expected.mel_BMT, rtol=0, atol=1e-3)
    path = save_hifigan(tmp_path / "v.pt")
    vocoder = accelerate_vocoder(load_vocoder(path, device="cuda"), mode)
    expected_BN = load_vocoder(path, device="cuda")(expected.mel_BMT, expected.frames_B)
    for _ in range(2):
        found_BN = vocoder(expected.mel_BMT, expected.frames_B)
        torch.testing.assert_close(found_BN, expected_BN, rtol=0, atol=1e-3)
