"""What computations cost on a device beside arithmetic: casts, copies, lists that are taken apart."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from common import config
from common.augmentation import CutoutConfig, SpecAugmentConfig, cutout, spec_augment
from common.devices.precision import autocast, float32_math, grad_scaler
from common.features import LogMel
from common.training.optimizers import OptimConfig, build_optimizer
from fastpitch.acoustic.aligner import Aligner
from fastpitch.acoustic.model import FastPitch
from fastpitch.vocoders.config import DiscriminatorConfig
from fastpitch.vocoders.networks.config import HifiganConfig, WaveglowConfig
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.training.discriminators import Discriminators
from jasper.config import Config
from jasper.network.model import Jasper
from tests.device.mirror import counted, no_waits
from tests.fastpitch.tiny import SMALL
from tests.training import REPOSITORY

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution")
AUDIO_BN, SAMPLES_B = torch.randn(3, 16000), torch.tensor([16000, 9000, 100])


def test_only_weights_and_features_are_cast_when_jasper_trains_in_bf16(device):
    cfg = config.load(Config, REPOSITORY / "configs" / "jasper" / "jasper10x5dr.toml").model
    narrow = tuple(replace(block, filters=8, kernel=3) for block in cfg.blocks)
    model = Jasper(replace(cfg, blocks=narrow), 16).to(device)
    features_BFT, frames_B = torch.randn(2, 16, 40, device=device), torch.tensor([40, 25], device=device)
    with counted() as counts:
        with autocast(device, "bf16"):
            output = model(features_BFT, frames_B)
        output.log_probs_BSV.sum().backward()
    weights = 2 * sum(parameter.ndim == 3 for parameter in model.parameters())  # forward, and their gradients
    assert counts.casts <= weights + 8  # the decoder's bias, features, two masks, the logits


def test_augmentation_that_is_switched_off_does_nothing(device):
    features_BFT, frames_B = torch.ones(2, 8, 20, device=device), torch.tensor([20, 10], device=device)
    with counted() as counts:
        same = cutout(features_BFT, frames_B, CutoutConfig(masks=0), seed=1)
        same = spec_augment(same, frames_B, SpecAugmentConfig(freq_masks=0, time_masks=0), seed=1)
    assert same is features_BFT
    assert not counts.all


def test_features_are_those_of_the_cpu_and_wait_only_for_the_audio(device):
    log_mel = LogMel()
    expected = log_mel(AUDIO_BN, SAMPLES_B)
    log_mel, audio_BN, samples_B = log_mel.to(device), AUDIO_BN.to(device), SAMPLES_B.to(device)
    with counted() as counts, float32_math("tf32"):
        found = log_mel(audio_BN, samples_B)
    assert not counts.waits
    assert torch.equal(found.frames_B.cpu(), expected.frames_B)
    torch.testing.assert_close(found.features_BFT.cpu(), expected.features_BFT, atol=1e-6, rtol=0)


class PrecisionOfProducts(TorchDispatchMode):
    """Notes how float32 products are computed inside while they are."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, bool]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in PRODUCTS:
            self.found.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return function(*args, **(kwargs or {}))


def test_what_has_to_stay_float32_does_in_a_run_in_tf32():
    lengths_B, frames_B = torch.tensor([5, 3]), torch.tensor([9, 7])
    with float32_math("tf32"), PrecisionOfProducts() as products:
        LogMel().eval()(AUDIO_BN, SAMPLES_B)
        Aligner(4, 6)(torch.randn(2, 5, 4), lengths_B, torch.randn(2, 6, 9), frames_B)
        assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("high", True)
    assert len(products.found) > 6
    assert set(products.found) == {("highest", False)}


def test_a_transformer_of_fastpitch_casts_nothing_between_its_two_convolutions(device):
    config = replace(SMALL, encoder=replace(SMALL.encoder, layers=6))
    encoder = FastPitch(config, n_symbols=9, mel_bins=8).encoder.to(device)
    x_BTC, inside_BT = torch.randn(2, 11, 16, device=device), torch.ones(2, 11, dtype=torch.bool, device=device)
    with counted() as counts, autocast(device, "bf16"):
        encoder(x_BTC, inside_BT)
    # In a layer seven weights and biases, the inputs of its two products in the residual stream, the three summands of
    # its normalisations; a mask and the positions once.
    assert counts.casts <= 6 * 14 + 4


def test_waveglow_casts_its_condition_once_in_bf16(device):
    flow = Waveglow(WaveglowConfig(channels=8), 16, 64, normalized=True).to(device)
    mel_BMT, audio_BN = torch.randn(1, 16, 16, device=device), torch.randn(1, 16 * 64, device=device)
    with counted() as counts, autocast(device, "bf16"):
        flow(mel_BMT, audio_BN)
    couplings = len(flow.WN) * flow.cfg.layers
    weights = len(list(flow.parameters()))
    assert couplings == 96
    assert counts.casts < weights - 2 * couplings  # 782 of 938 when every coupling layer cast it again


def test_hifigan_makes_a_mask_per_stage_where_lengths_differ(device):
    generator = HifiganGenerator(HifiganConfig(channels=16), 8).to(device).eval().requires_grad_(False)
    mel_BMT, frames_B = torch.randn(2, 8, 9, device=device), torch.tensor([9, 5], device=device)
    with counted() as plain:
        generator(mel_BMT)
    with counted() as ragged:
        generator(mel_BMT, frames_B)
    convolutions = plain.operations["convolution"]
    masks = ragged.operations - plain.operations
    assert masks["arange"] == 5
    assert masks["mul"] == 5 + 1 + convolutions  # lengths in samples, what is said, and in front of each
    assert masks.total() < 1.5 * convolutions


def test_the_power_iteration_of_spectral_normalisation_is_in_float32_under_autocast(device):
    judges = Discriminators(DiscriminatorConfig(periods=(2,), scales=1, divide_channels=16)).to(device)
    found = []

    class TypesOfProducts(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.overloadpacket.__name__ in ("mv", "addmv", "dot"):
                found.append(args[0].dtype)
            return function(*args, **(kwargs or {}))

    with TypesOfProducts(), autocast(device, "bf16"):
        said = judges(torch.randn(1, 4096, device=device))
    assert set(found) == {torch.float32}
    assert said.scores[1].dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["novograd", "lamb"])
def test_an_optimiser_works_on_lists_of_tensors_of_which_cuda_takes_one_apart(device, kind):
    """The numbers of a tensor that scale its update lie beside it, each a tensor of its own."""
    weights = [torch.ones(size, device=device, requires_grad=True) for size in (2, 3, 4)]
    optimizer = build_optimizer(weights, OptimConfig(kind=kind))
    for _ in range(2):
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        with counted() as counts, no_waits():
            optimizer.step()
    assert counts.slow.total() == 1


@pytest.mark.parametrize("kind", ["novograd", "lamb"])
def test_whether_a_step_in_fp16_is_taken_is_not_asked_of_the_device(device, kind):
    weight = torch.ones(3, device=device, requires_grad=True)
    optimizer, scaler = build_optimizer([weight], OptimConfig(kind=kind)), grad_scaler(device, "fp16")
    found = []
    for factor in (1.0, float("inf"), 1.0):
        scaler.scale((weight * factor).sum()).backward()
        with no_waits():
            scaler.step(optimizer)
            scaler.update()
        found.append(weight.detach().cpu())
        optimizer.zero_grad()
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[1], found[2])
    assert optimizer.state_dict()["param_groups"][0].get("step", 2) == 2
