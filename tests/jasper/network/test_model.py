import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from common import config
from common.convolution import products
from common.convolution.training import blocks
from jasper.config import BlockConfig, Config, ModelConfig
from jasper.network.model import Jasper
from tests.jasper.runs import TOY
from tests.jasper.tiny import randomised

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "jasper"


def on_meta(name: str) -> tuple[Config, Jasper]:
    cfg = config.load(Config, CONFIGS / f"{name}.toml")
    with torch.device("meta"):
        return cfg, Jasper(cfg.model, cfg.features.mel_bins)


TINY = ModelConfig(
    blocks=(
        BlockConfig(filters=12, kernel=5, stride=2),
        BlockConfig(filters=12, kernel=5, repeat=2, residual="dense"),
        BlockConfig(filters=16, kernel=7, repeat=2, residual="dense"),
        BlockConfig(filters=16, kernel=5, dilation=2),
    )
)
SEPARABLE = ModelConfig(
    blocks=(
        BlockConfig(filters=12, kernel=5, stride=2, separable=True),
        BlockConfig(filters=12, kernel=5, repeat=2, residual="block", separable=True),
        BlockConfig(filters=16, kernel=1),
    )
)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("jasper10x5dr", 332_632_349), ("quartznet15x5", 18_924_381), ("jasper10x5_sp_offline", 322_286_877)],
)
def test_the_published_models_have_their_published_sizes(name, parameters):
    _, model = on_meta(name)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("file", sorted(CONFIGS.rglob("*.toml")), ids=lambda f: f.stem)
def test_every_configuration_makes_a_model(file):
    cfg = config.load(Config, file)
    with torch.device("meta"):
        Jasper(cfg.model, cfg.features.mel_bins)


def test_the_dense_residuals_are_one_for_every_earlier_block_input():
    _, model = on_meta("jasper10x5dr")
    assert [len(block.residuals) for block in model.blocks] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0]
    assert model.stride == 2
    assert model.context_frames == 441  # of 20 ms: 8.8 s to each side


@pytest.mark.parametrize("cfg", [TINY, SEPARABLE], ids=["jasper", "quartznet"])
def test_padding_and_batch_mates_do_not_change_an_utterance(cfg):
    model = randomised(cfg)
    features = torch.randn(3, 8, 100)
    frames = torch.tensor([100, 63, 1])
    batch, out_frames = model(features, frames)
    assert out_frames.tolist() == [50, 32, 1]
    for row, n in enumerate(frames.tolist()):
        alone, _ = model(features[row : row + 1, :, :n], torch.tensor([n]))
        torch.testing.assert_close(batch[row : row + 1, : alone.shape[1]], alone, atol=1e-5, rtol=0)


def test_outputs_are_float32_log_probabilities():
    log_probs, frames = randomised(TINY).bfloat16()(torch.randn(2, 8, 33).bfloat16(), torch.tensor([33, 20]))
    assert log_probs.dtype == torch.float32
    assert log_probs.shape == (2, 17, 29)
    assert frames.tolist() == [17, 10]
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 17))


def test_output_frames_are_those_of_the_forward_pass():
    model = randomised(TINY)
    for n in (1, 2, 15, 16, 17):
        log_probs, frames = model(torch.randn(1, 8, n), torch.tensor([n]))
        assert log_probs.shape[1] == frames.item() == model.output_frames(torch.tensor(n))


def test_an_output_depends_on_no_more_than_its_context():
    model = randomised(TINY)
    features = torch.randn(1, 8, 200).requires_grad_()
    log_probs, _ = model(features, torch.tensor([200]))
    log_probs[0, 50].sum().backward()
    touched = features.grad.abs().sum((0, 1)).nonzero().flatten()
    assert touched.min() >= 2 * (50 - model.context_frames)
    assert touched.max() <= 2 * (50 + model.context_frames) + 1


@pytest.mark.parametrize("activation", ["relu", "hardtanh", "selu"])
@pytest.mark.parametrize("init", ["xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal"])
def test_every_activation_and_initialisation_trains(activation, init):
    model = Jasper(replace(TINY, activation=activation, init=init), 8)
    log_probs, _ = model(torch.randn(2, 8, 40), torch.tensor([40, 30]))
    log_probs.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Jasper(ModelConfig(), 64), "model.blocks is empty: name a configuration, such as configs/jasper/"),
        (lambda: BlockConfig(filters=1, kernel=4), "kernel = 4: expected an odd number of frames"),
        (lambda: ModelConfig(labels="aba"), "labels = 'aba': a character stands there twice"),
        (lambda: Config(epochs=0), "epochs = 0: expected at least 1"),
        (lambda: Config(grad_accumulation=0), "grad_accumulation = 0: expected at least 1"),
        (lambda: Config(epochs=3, save_best_from=4), "save_best_from = 4 is beyond the last of 3 epochs"),
        (lambda: Config(steps=-1), "steps = -1: expected a number of at least 0"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def published_forward(model: Jasper, features_BFT: torch.Tensor, frames_B: torch.Tensor) -> torch.Tensor:
    """The network in training as it was published, written anew: every convolution sees zeros in the padding.

    Batch statistics are of all frames, the padding's too. From the papers and their words on masking alone, a loop per
    layer: nothing is shared with `jasper.network.model` but the weights.
    """
    weights = model.state_dict()

    def masked(x, frames):
        return torch.stack(
            [torch.cat([u[:, :n], torch.zeros_like(u[:, n:])], 1) for u, n in zip(x, frames, strict=True)]
        )

    def conv_norm(prefix, x, frames, stride, dilation):
        names = [n for n in ("depthwise", "conv") if f"{prefix}.{n}.weight" in weights]
        for name in names:
            weight = weights[f"{prefix}.{name}.weight"]
            groups = len(weight) if name == "depthwise" else 1
            by, apart = (stride, dilation) if name == names[0] else (1, 1)
            padding = weight.shape[2] // 2 * apart
            x = F.conv1d(masked(x, frames), weight, None, by, padding, apart, groups)
            frames = [-(-n // by) for n in frames]
        mean, variance = x.mean((0, 2), keepdim=True), x.var((0, 2), unbiased=False, keepdim=True)
        scale, shift = (weights[f"{prefix}.norm.{name}"][:, None] for name in ("weight", "bias"))
        return (x - mean) / (variance + 1e-3).sqrt() * scale + shift, frames

    x, frames, inputs = features_BFT, frames_B.tolist(), []
    for i, block in enumerate(model.blocks):
        inputs.append((x, frames))
        own = inputs[1:] if block.residual == "dense" else [inputs[-1]] if block.residual == "block" else []
        for j in range(len(block.layers)):
            layer = block.layers[j]
            dilation = (layer.depthwise or layer.conv).dilation[0]
            x, frames = conv_norm(f"blocks.{i}.layers.{j}", x, frames, block.stride if j == 0 else 1, dilation)
            if j == len(block.layers) - 1:
                x = x + sum(conv_norm(f"blocks.{i}.residuals.{k}", *given, 1, 1)[0] for k, given in enumerate(own))
            x = F.relu(x)
    x = F.conv1d(masked(x, frames), weights["decoder.weight"], weights["decoder.bias"])
    return x.transpose(1, 2).log_softmax(2)


@pytest.mark.parametrize("cfg", [TINY, SEPARABLE], ids=["jasper", "quartznet"])
def test_training_on_a_ragged_batch_computes_what_was_published(cfg):
    model = randomised(cfg).double().train()
    features = torch.randn(3, 8, 100, dtype=torch.float64)
    frames = torch.tensor([100, 63, 7])
    expected = published_forward(model, features, frames)
    found, out_frames = model(features, frames)
    for row, n in enumerate(out_frames.tolist()):
        torch.testing.assert_close(found[row, :n], expected[row, :n].float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("cfg", [TINY, SEPARABLE], ids=["jasper", "quartznet"])
@pytest.mark.parametrize("training", [True, False])
def test_autocast_leaves_activations_in_its_type(cfg, training):
    model = randomised(cfg).train(training)
    seen = []
    for module in model.modules():
        if isinstance(module, torch.nn.Conv1d):
            module.register_forward_pre_hook(lambda module, given: seen.append(given[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.randn(2, 8, 40), torch.tensor([40, 30]))
    assert seen[0] == torch.float32  # the features
    assert set(seen[1:]) == {torch.bfloat16}


def test_blocks_computed_again_in_the_backward_pass_give_the_same_gradients_and_statistics():
    cfg = config.load(Config, TOY)
    found = []
    for again in (False, True):
        torch.manual_seed(0)
        model = Jasper(cfg.model, 64)
        model.checkpoints_activations = again
        torch.manual_seed(1)
        features_BFT = torch.randn(2, 64, 40)
        model(features_BFT, torch.tensor([40, 31])).log_probs_BSV[..., 0].sum().backward()
        found.append({name: p.grad for name, p in model.named_parameters()} | dict(model.named_buffers()))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_gradients_with_fewer_multiplications_are_as_close_to_float64_as_plain_ones(monkeypatch):
    monkeypatch.setattr(products, "has_fast_products", lambda: False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    wide = BlockConfig(filters=64, kernel=11, repeat=2, residual="dense")
    model = randomised(ModelConfig(blocks=(BlockConfig(filters=64, kernel=5, stride=2), wide, wide))).train()
    torch.manual_seed(0)
    features_BFT, frames_B = torch.randn(8, 8, 420), torch.tensor([420, 300, 77, 420, 400, 390, 200, 420])
    weights_BSV = torch.randn(8, 210, model.decoder.out_channels)

    def gradients(network: Jasper) -> list[torch.Tensor]:
        log_probs_BSV = network(features_BFT.to(network.decoder.weight), frames_B).log_probs_BSV
        return list(torch.autograd.grad((log_probs_BSV * weights_BSV).sum(), list(network.parameters())))

    taken: list[int] = []
    chosen = blocks.fastest
    monkeypatch.setattr(blocks, "fastest", lambda *shape: taken.append(1) or chosen(*shape) or 24)
    try:
        found = gradients(model)
        with products.left_to_torch():
            plain = gradients(model)
    finally:
        torch.set_num_threads(threads)
    assert len(taken) == 4
    exact = gradients(copy.deepcopy(model).double())
    for ours, theirs, wanted in zip(found, plain, exact, strict=True):
        size = float(wanted.abs().max())
        allowed = max(1e-5 * size, 4 * float((theirs - wanted).abs().max()))
        torch.testing.assert_close(ours.double(), wanted.double(), rtol=0, atol=allowed)
