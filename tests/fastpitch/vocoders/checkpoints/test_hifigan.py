import re

import pytest
import torch

from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch.vocoders.checkpoints.hifigan import read, read_discriminators
from fastpitch.vocoders.config import DiscriminatorConfig
from fastpitch.vocoders.networks.config import HifiganConfig
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.weight_norm import folded, unfolded
from fastpitch.vocoders.training.discriminators import Discriminators
from fastpitch.vocoders.vocoder import load_vocoder
from tests.data import shared
from tests.fastpitch.vocoders.networks.test_hifigan import V3
from tests.fastpitch.vocoders.small import golden, loud, random_mel

GOLDEN = "golden/tts/hifigan_gen_checkpoint_5.pt"


def published(weights: dict[str, torch.Tensor], *, flat: int = 0, resblock: str = "1") -> dict[str, torch.Tensor]:
    """The names of DeepLearningExamples or, with the number of kernels as `flat`, those of jik876."""
    renamed = {}
    for key, tensor in weights.items():
        if resblock == "2":
            key = key.replace(".convs1.", ".convs.")
        if flat and (found := re.fullmatch(r"resblocks\.(\d+)\.(\d+)\.(.*)", key)):
            key = f"resblocks.{int(found[1]) * flat + int(found[2])}.{found[3]}"
        key = key.replace("parametrizations.weight.original0", "weight_g")
        renamed[key.replace("parametrizations.weight.original1", "weight_v")] = tensor
    return renamed


def test_a_checkpoint_without_weight_normalisation_speaks_as_the_one_with_it(tmp_path):
    state = checkpoint.load(shared(GOLDEN))
    weights = published(folded(state["generator"]))
    checkpoint.save(tmp_path / "folded.pt", state | {"generator": {f"module.{k}": w for k, w in weights.items()}})
    expected = golden("hifigan_expected.npz")
    found_BN = load_vocoder(tmp_path / "folded.pt", device="cpu")(expected["mel"])
    torch.testing.assert_close(found_BN, expected["audio"][:, 0], rtol=0, atol=1e-4)


def test_the_order_of_kernels_is_that_of_the_checkpoint(tmp_path):
    """The published flags say 11, 7, 3 in one place and 3, 7, 11 in another."""
    cfg = HifiganConfig(channels=16, resblock_kernels=(11, 7, 3))
    generator = loud(HifiganGenerator(cfg, 80)).eval()
    described = {
        "upsample_rates": [8, 8, 2, 2], "upsample_kernel_sizes": [16, 16, 4, 4], "upsample_initial_channel": 16,
        "resblock": "1", "resblock_kernel_sizes": [11, 7, 3], "resblock_dilation_sizes": [[1, 3, 5]] * 3,
    }  # fmt: skip
    state = {"generator": generator.state_dict(), "config": described, "train_setup": {"fine_tuning": True}}
    checkpoint.save(tmp_path / "x.pt", state)
    vocoder = load_vocoder(tmp_path / "x.pt", device="cpu")
    with torch.no_grad():
        torch.testing.assert_close(vocoder(random_mel(1, 80, 9)), generator(random_mel(1, 80, 9)), rtol=0, atol=1e-5)
    assert vocoder.delay_samples == 0


@pytest.mark.parametrize(("resblock", "more"), [("1", 2), ("1", 5), ("2", 1), ("2", 4)])
def test_of_more_dilations_or_kernels_than_are_used_the_first_count(tmp_path, resblock, more):
    """As published: lists are zipped, and a block takes its first three dilations, or two."""
    dilations = ((1, 3, 5),) * 2 if resblock == "1" else ((1, 2), (2, 6))
    sizes = {"upsample_rates": (8, 8, 4), "upsample_kernels": (16, 16, 8), "resblock_kernels": (3, 5)}
    cfg = HifiganConfig(channels=16, resblock=resblock, resblock_dilations=dilations, **sizes)
    generator = loud(HifiganGenerator(cfg, 80)).eval()
    described = {
        "upsample_rates": [8, 8, 4], "upsample_kernel_sizes": [16, 16, 8, 4], "upsample_initial_channel": 16,
        "resblock": resblock, "resblock_kernel_sizes": [3, 5],
        "resblock_dilation_sizes": [[*own, 7, 9] for own in dilations] + [[1, 3]] * more,
    }  # fmt: skip
    checkpoint.save(tmp_path / "x.pt", {"generator": generator.state_dict(), "config": described})
    with torch.no_grad():
        expected_BN = generator(random_mel(1, 80, 9))
    found_BN = load_vocoder(tmp_path / "x.pt", device="cpu")(random_mel(1, 80, 9))
    torch.testing.assert_close(found_BN, expected_BN, rtol=0, atol=1e-5)


@pytest.mark.parametrize("cfg", [HifiganConfig(channels=16), V3], ids=["V1", "V3"])
@pytest.mark.parametrize("is_flat", [True, False])
def test_a_checkpoint_without_a_description_is_read_off_its_weights(tmp_path, cfg, is_flat):
    generator = HifiganGenerator(cfg, 80, normalized=True).eval()
    weights = published(generator.state_dict(), flat=3 if is_flat else 0, resblock=cfg.resblock)
    checkpoint.save(tmp_path / "g_02500000.pt", {"generator": weights})
    found = read(checkpoint.load(tmp_path / "g_02500000.pt"), tmp_path)
    assert found.config.hifigan == cfg
    with torch.no_grad():
        expected_BN = generator(random_mel(1, 80, 9))
    heard_BN = load_vocoder(tmp_path / "g_02500000.pt", device="cpu")(random_mel(1, 80, 9))
    torch.testing.assert_close(heard_BN, expected_BN, rtol=0, atol=1e-6)


def test_weights_of_images_one_row_high_are_those_of_audio(tmp_path):
    state = checkpoint.load(shared(GOLDEN))
    weights = {k: w[:, :, None] if w.ndim == 3 else w for k, w in state["generator"].items()}
    checkpoint.save(tmp_path / "x.pt", state | {"generator": weights})
    expected = golden("hifigan_expected.npz")
    found_BN = load_vocoder(tmp_path / "x.pt", device="cpu")(expected["mel"])
    torch.testing.assert_close(found_BN, expected["audio"][:, 0], rtol=0, atol=1e-4)


def test_a_published_average_is_taken(tmp_path):
    state = checkpoint.load(shared(GOLDEN))
    average = {k: w * 0.5 for k, w in state["generator"].items()}
    checkpoint.save(tmp_path / "x.pt", state | {"gen_ema": average})
    mel_BMT = random_mel(1, 80, 9)
    averaged, plain = (load_vocoder(tmp_path / "x.pt", device="cpu", ema=ema)(mel_BMT) for ema in (None, False))
    assert not torch.equal(averaged, plain)


def test_published_discriminators_are_taken_with_their_normalisations():
    """Old names of both kinds: weight_g and weight_v of weight normalisation, weight_u and weight_v of spectral."""
    torch.manual_seed(0)
    ours = Discriminators(DiscriminatorConfig(divide_channels=16))
    old = {"mpd": {}, "msd": {}}
    for key, tensor in ours.state_dict().items():
        part, _, rest = key.partition(".")
        for new, name in (("original0", "weight_g"), ("original1", "weight_v"), ("original", "weight_orig")):
            rest = rest.replace(f"parametrizations.weight.{new}", name) if rest.endswith(new) else rest
        rest = rest.replace("parametrizations.weight.0._u", "weight_u").replace(
            "parametrizations.weight.0._v", "weight_v"
        )
        old[part][f"module.discriminators.{rest}"] = tensor
    fresh = Discriminators(DiscriminatorConfig(divide_channels=16))
    weights = read_discriminators(old, shared("golden"))
    assert checkpoint.load_matching(fresh, unfolded(weights, fresh), "x.pt") == []
    assert all(torch.equal(a, b) for a, b in zip(ours.state_dict().values(), fresh.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"weights": {}}, "not a HiFi-GAN checkpoint .* expected weights under generator, found weights"),
        (
            {"generator": {"a.weight": torch.zeros(1)}},
            "not a HiFi-GAN generator: expected weights named conv_pre.* and ups.*, found a.weight",
        ),
        ({"format": "hifigan"}, "its own description cannot be read: 'config'"),
        ({"format": "hifigan", "config": {"epoch": 1}}, "its own description cannot be read: .*unknown key epoch"),
    ],
)
def test_what_is_no_hifigan_is_told(tmp_path, state, told):
    with pytest.raises(CheckpointError, match=f"x.pt: {told}"):
        read(state, tmp_path / "x.pt")


def test_what_cannot_be_read_off_or_used_is_told(tmp_path):
    weights = HifiganGenerator(HifiganConfig(channels=16), 80).state_dict()
    described = {"upsample_rates": [8, 8, 2, 2], "upsample_initial_channel": 24, "resblock_kernel_sizes": [3, 7, 11]}
    with pytest.raises(CheckpointError, match="its description of the generator cannot be used: .*channels = 24"):
        read({"generator": weights, "config": described}, tmp_path / "x.pt")
    single = {k.replace(".convs1.", ".convs."): w for k, w in weights.items() if ".convs2." not in k}
    with pytest.raises(CheckpointError, match=r"residual blocks of \[3, 7, 11\] samples are not those of V1, V2 or V3"):
        read({"generator": single}, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="x.pt: no discriminators: expected weights under mpd and msd, found g"):
        read_discriminators({"g": 1}, tmp_path / "x.pt")
