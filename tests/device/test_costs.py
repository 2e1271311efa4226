"""What computations cost on a device beside arithmetic: casts, copies, lists that are taken apart."""

from dataclasses import replace

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from common import config
from common.features import CutoutConfig, LogMel, SpecAugmentConfig, cutout, spec_augment
from common.precision import autocast, float32_math
from fastpitch.acoustic.aligner import Aligner
from jasper.config import Config
from jasper.model import Jasper
from tests.device.mirror import counted
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
    log_mel = LogMel().train()
    expected = log_mel(AUDIO_BN, SAMPLES_B, seed=3)
    log_mel, audio_BN, samples_B = log_mel.to(device), AUDIO_BN.to(device), SAMPLES_B.to(device)
    with counted() as counts, float32_math("tf32"):
        found = log_mel(audio_BN, samples_B, seed=3)
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
