import pytest
import torch

from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch.vocoders.checkpoints.waveglow import read
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.networks.weight_norm import folded
from fastpitch.vocoders.vocoder import load_generator, load_vocoder
from tests.data import shared
from tests.fastpitch.vocoders.small import golden

GOLDEN = "golden/tts/checkpoint_WaveGlow_9.pt"


def test_the_published_network_maps_audio_to_its_z():
    network = load_generator(shared(GOLDEN)).generator
    assert isinstance(network, Waveglow)
    expected = golden("waveglow_expected.npz")
    with torch.no_grad():
        said = network(expected["mel"], expected["train_audio"])
        again_BN = network.inverse(expected["mel"], said.z_BGP)
    torch.testing.assert_close(said.z_BGP, expected["z"], rtol=0, atol=1e-4)
    torch.testing.assert_close(again_BN, expected["train_audio"], rtol=0, atol=1e-4)
    assert said.log_scales_B.item() == pytest.approx(expected["log_s_total"].sum().item(), abs=0.01)
    assert said.log_determinant.item() == pytest.approx(expected["log_det"].sum().item(), abs=1e-3)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_checkpoint_without_weight_normalisation_speaks_as_the_one_with_it(tmp_path, prefix):
    state = checkpoint.load(shared(GOLDEN))
    plain = {prefix + name: weight for name, weight in folded(state["state_dict"]).items()}
    checkpoint.save(tmp_path / "folded.pt", {"state_dict": plain, "config": state["config"]})
    expected = golden("waveglow_expected.npz")
    audio_BN = load_vocoder(tmp_path / "folded.pt", device="cpu")(expected["mel"], sigma=0.0)
    torch.testing.assert_close(audio_BN, expected["audio_sigma0"], rtol=0, atol=1e-4)


def test_without_a_description_channels_and_bins_are_read_off_the_weights(tmp_path):
    state = checkpoint.load(shared(GOLDEN))
    found = read({"state_dict": state["state_dict"]}, tmp_path).config
    assert (found.model.channels, found.features.mel_bins, found.features.hop_samples) == (16, 20, 256)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"weights": {}}, "not a WaveGlow checkpoint .* found weights"),
        ({"state_dict": {"WN.0.end.weight": torch.zeros(8, 4, 1)}}, "a WaveGlow checkpoint without upsample.weight"),
        ({"format": "waveglow"}, "its own description cannot be read: 'weights'"),
    ],
)
def test_what_is_no_waveglow_is_told(tmp_path, state, told):
    with pytest.raises(CheckpointError, match=f"x.pt: {told}"):
        read(state, tmp_path / "x.pt")


def test_a_description_that_cannot_be_used_is_told(tmp_path):
    state = checkpoint.load(shared(GOLDEN))
    with pytest.raises(CheckpointError, match="its description of the network cannot be used: .*expected even numbers"):
        read(state | {"config": state["config"] | {"n_group": 7}}, tmp_path / "x.pt")
