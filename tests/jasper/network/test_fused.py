import copy

import numpy as np
import pytest
import torch
from torch import nn

from common.devices.graphs import GraphRunner
from common.devices.precision import cast_for_inference, float32_math
from jasper.checkpoints.reading import read_model
from jasper.config import BlockConfig, ModelConfig
from jasper.network.fused import fuse
from jasper.network.model import Jasper
from tests.data import shared


def small_model(*, residual="dense", separable=False, activation="relu", seed=0) -> Jasper:
    """Five blocks with a stride, a dilation and a growing width, and batch statistics as if it were trained."""
    torch.manual_seed(seed)
    middle = [
        BlockConfig(filters=filters, kernel=kernel, repeat=3, residual=residual, separable=separable)
        for filters, kernel in ((8, 11), (12, 13), (12, 5))
    ]
    blocks = (
        BlockConfig(filters=8, kernel=11, stride=2, separable=separable),
        *middle,
        BlockConfig(filters=16, kernel=7, dilation=2, separable=separable),
        BlockConfig(filters=24, kernel=1),
    )
    model = Jasper(ModelConfig(blocks=blocks, activation=activation), n_mels=64).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_()
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return model


def batch(device="cpu", frames=(160, 37, 1)) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    features_BFT = torch.randn(len(frames), 64, 160, generator=generator)
    return features_BFT.to(device), torch.tensor(frames, device=device)


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


@pytest.mark.parametrize("residual", ["none", "block", "dense"])
@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize("is_prepared", [False, True])
def test_fused_gives_what_the_model_gives(residual, separable, is_prepared):
    model = small_model(residual=residual, separable=separable)
    network = cast_for_inference(fuse(model), "fp32") if is_prepared else fuse(model)
    expected, found = model(*batch()), network(*batch())
    assert torch.equal(found.frames_B, expected.frames_B)
    assert found.log_probs_BSV.shape == expected.log_probs_BSV.shape
    assert relative_error(found.log_probs_BSV, expected.log_probs_BSV) < 1e-5


@pytest.mark.parametrize("activation", ["relu", "hardtanh", "selu"])
def test_every_activation_works_in_place(activation):
    model = small_model(activation=activation)
    expected_BSV, network = model(*batch()).log_probs_BSV, fuse(model)
    with torch.inference_mode():
        assert relative_error(network(*batch()).log_probs_BSV, expected_BSV) < 1e-5
        assert relative_error(cast_for_inference(network, "fp32")(*batch()).log_probs_BSV, expected_BSV) < 1e-5


def test_published_checkpoint_gives_the_reference_log_probs_when_fused():
    golden = shared("golden/jasper")
    model, _ = read_model(golden / "Jasper_epoch7_checkpoint.pt", ema=False)
    expected = np.load(golden / "expected.npz")
    features_BFT = torch.from_numpy(expected["features"])
    frames_B = torch.from_numpy(expected["feature_lens"])
    output = cast_for_inference(fuse(model), "fp32")(features_BFT, frames_B)
    reference_BSV = torch.from_numpy(expected["log_probs"])
    for row, frames in enumerate(output.frames_B.tolist()):
        assert (output.log_probs_BSV[row, :frames] - reference_BSV[row, :frames]).abs().max() < 1e-4


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_padding_does_not_change_an_utterance(precision):
    network = cast_for_inference(fuse(small_model()), precision)
    features_BFT, frames_B = batch()
    together = network(features_BFT, frames_B)
    alone = network(features_BFT[1:2, :, :48], frames_B[1:2])
    frames = int(alone.frames_B)
    assert (together.log_probs_BSV[1, :frames] - alone.log_probs_BSV[0, :frames]).abs().max() < 1e-5


def test_input_and_weights_are_left_as_they_were():
    model = small_model()
    weights = copy.deepcopy(model.state_dict())
    features_BFT, frames_B = batch()
    before_BFT = features_BFT.clone()
    fuse(model)(features_BFT, frames_B)
    assert torch.equal(features_BFT, before_BFT)
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())


def test_fused_keeps_what_the_recogniser_asks_of_a_model():
    model = small_model()
    network = fuse(model)
    assert (network.stride, network.context_frames) == (model.stride, model.context_frames)
    assert not any(p.requires_grad for p in network.parameters())
    assert fuse(model.bfloat16()).decoder.weight_OKI.dtype == torch.bfloat16


@pytest.mark.parametrize("is_prepared", [False, True])
def test_reduced_precision_is_as_accurate_fused_as_plain(is_prepared):
    model = small_model()
    features_BFT, frames_B = batch()
    truth = model(features_BFT, frames_B).log_probs_BSV
    network = cast_for_inference(fuse(model), "bf16") if is_prepared else fuse(model).bfloat16()
    found = network(features_BFT, frames_B).log_probs_BSV
    plain = model.bfloat16()(features_BFT.bfloat16(), frames_B).log_probs_BSV
    assert found.dtype == torch.float32
    assert relative_error(found, truth) < 2 * relative_error(plain, truth)


@pytest.mark.gpu
@pytest.mark.parametrize("separable", [False, True])
def test_fused_on_a_gpu_gives_what_it_gives_on_a_cpu(separable):
    network = fuse(small_model(residual="block" if separable else "dense", separable=separable))
    expected = network(*batch()).log_probs_BSV
    with float32_math("fp32"):
        found = network.cuda()(*batch("cuda")).log_probs_BSV
    assert relative_error(found.cpu(), expected) < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_graph_gives_what_calls_one_by_one_give(dtype):
    network = fuse(small_model()).to("cuda", dtype)
    run = GraphRunner(network, network)
    for frames in ((160, 37, 1), (5, 160, 80), (160, 37, 1)):
        features_BFT, frames_B = batch("cuda", frames)
        features_BFT = features_BFT.to(dtype)
        expected, found = network(features_BFT, frames_B), run(features_BFT, frames_B)
        assert torch.equal(found.frames_B, expected.frames_B)
        assert relative_error(found.log_probs_BSV, expected.log_probs_BSV) < 1e-5


@pytest.mark.gpu
def test_graphs_of_several_shapes_do_not_disturb_each_other():
    network = fuse(small_model()).cuda()
    run = GraphRunner(network, network)
    features_BFT, frames_B = batch("cuda")
    first = run(features_BFT, frames_B)
    kept = first.log_probs_BSV.clone()
    alone = run(features_BFT[:1, :, :96], frames_B[:1])
    again = run(features_BFT, frames_B)
    assert torch.equal(first.log_probs_BSV, kept)
    assert torch.equal(again.log_probs_BSV, kept)
    expected = network(features_BFT[:1, :, :96], frames_B[:1]).log_probs_BSV
    assert relative_error(alone.log_probs_BSV, expected) < 1e-5
