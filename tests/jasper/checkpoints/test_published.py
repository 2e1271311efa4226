import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import jasper
from common import config
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from jasper.checkpoints import own
from jasper.checkpoints.published import read
from jasper.checkpoints.reading import read_model
from jasper.config import BlockConfig, Config, ModelConfig
from jasper.network.model import Jasper
from tests.data import shared
from tests.jasper.tiny import DENSE, random_weights, save_tiny

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "jasper"
PUBLISHED = "Jasper_epoch7_checkpoint.pt"
SEPARABLE = ModelConfig(
    blocks=(
        BlockConfig(filters=12, kernel=5, stride=2, separable=True),
        BlockConfig(filters=12, kernel=5, repeat=2, residual="block", separable=True),
        BlockConfig(filters=16, kernel=7, repeat=2, residual="block", separable=True),
        BlockConfig(filters=16, kernel=5, dilation=2, separable=True),
        BlockConfig(filters=16, kernel=1),
    )
)


def published_names(weights: dict[str, Tensor], model: ModelConfig) -> dict[str, Tensor]:
    """Our names turned into those of DeepLearningExamples, whose activations and dropouts take numbers too."""
    separable = any(block.separable for block in model.blocks)

    def rename(key: str) -> str:
        if key.startswith("decoder."):
            return key.replace("decoder.", "decoder.layers.0.")
        _, block, kind, index, part, name = key.split(".")
        if kind == "residuals":
            return f"encoder.layers.{block}.res.{index}.{int(part == 'norm')}.{name}"
        parts = ["depthwise", "conv", "norm"] if model.blocks[int(block)].separable else ["conv", "norm"]
        position = (len(parts) + 2) * int(index) + parts.index(part)
        return f"encoder.layers.{block}.{'mconv' if separable else 'conv'}.{position}.{name}"

    return {rename(key): tensor for key, tensor in weights.items()}


def in_2019(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    renamed = {}
    for key, tensor in weights.items():
        key = key.replace("encoder.layers.", "jasper_encoder.encoder.")
        renamed[re.sub(r"^decoder\.layers\.", "jasper_decoder.decoder_layers.", key)] = tensor
    return {"audio_preprocessor.featurizer.window": torch.ones(320)} | renamed


@pytest.mark.parametrize("ema", [False, True])
def test_a_published_checkpoint_gives_the_published_features_and_log_probs(ema):
    golden = shared("golden/jasper")
    expected = np.load(golden / "expected.npz")
    asr = jasper.load(golden / PUBLISHED, device="cpu", precision="fp32", ema=ema, noise_floor=0.0)
    features, frames = asr.features(torch.from_numpy(expected["audio"]), torch.from_numpy(expected["audio_lens"]))
    log_probs, out_frames = asr.model(features, frames)
    assert frames.tolist() == expected["feature_lens"].tolist()
    assert out_frames.tolist() == expected["log_prob_lens"].tolist()
    wanted = torch.from_numpy(expected["log_probs_ema" if ema else "log_probs"])
    torch.testing.assert_close(features, torch.from_numpy(expected["features"]), atol=1e-4, rtol=0)
    for row, n in enumerate(out_frames.tolist()):
        torch.testing.assert_close(log_probs[row, :n], wanted[row, :n], atol=1e-4, rtol=0)


def test_a_published_checkpoint_gives_the_published_transcripts():
    golden = shared("golden/jasper")
    expected = np.load(golden / "expected.npz")
    clips = [audio[:n] for audio, n in zip(expected["audio"], expected["audio_lens"], strict=True)]
    asr = jasper.load(golden / PUBLISHED, device="cpu", ema=False, noise_floor=0.0)
    wanted = json.loads((golden / "meta.json").read_text())["hypotheses"]
    assert [t.text for t in asr.transcribe(clips)] == wanted


def test_a_published_checkpoint_says_which_blocks_it_has():
    golden = shared("golden/jasper")
    blocks = json.loads((golden / "meta.json").read_text())["blocks"]
    found = read(checkpoint.load(golden / PUBLISHED), Path("x.pt")).config
    assert [(b.filters, b.kernel, b.repeat, b.stride, b.dilation) for b in found.model.blocks] == [
        (b["filters"], *b["kernel_size"], b["repeat"], *b["stride"], *b["dilation"]) for b in blocks
    ]
    assert found.data.trim_silence


@pytest.mark.parametrize("model", [DENSE, SEPARABLE], ids=["jasper", "quartznet"])
@pytest.mark.parametrize("names", ["2021", "2019", "ddp"])
def test_weights_of_every_published_naming_come_out_as_ours(model, names):
    weights = random_weights(Config(model=model))
    published = published_names(weights, model)
    if names == "2019":
        published = in_2019(published)
    if names == "ddp":
        published = {f"module.{key}": tensor for key, tensor in published.items()}
    found = read({"epoch": 3, "state_dict": published, "optimizer": {}}, Path("x.pt"))
    assert found.config.model == model
    assert found.config.data.trim_silence is (names != "2019")  # silence was not cut off in 2019
    assert found.ema is None
    assert found.weights.keys() == weights.keys()
    assert all(torch.equal(found.weights[key], weights[key]) for key in weights)


@pytest.mark.parametrize(
    ("name", "parameters", "entries"), [("jasper10x5dr", 332_632_349, 650), ("quartznet15x5", 18_924_381, 637)]
)
def test_the_published_models_are_recognised_in_full_size(name, parameters, entries):
    own = config.load(Config, CONFIGS / f"{name}.toml")
    with torch.device("meta"):
        weights = Jasper(own.model, 64).state_dict()
    found = read({"state_dict": published_names(weights, own.model), "ema_state_dict": None}, Path("x.pt"))
    with torch.device("meta"):
        model = Jasper(found.config.model, 64)
    model.load_state_dict(found.weights, assign=True)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert len(found.weights) == entries
    kept = [(b.filters, b.kernel, b.repeat, b.stride, b.dilation, b.residual) for b in found.config.model.blocks]
    assert kept == [(b.filters, b.kernel, b.repeat, b.stride, b.dilation, b.residual) for b in own.model.blocks]


def test_half_precision_weights_are_read_as_float32(tmp_path):
    weights = random_weights(Config(model=DENSE))
    halved = {key: t.half() for key, t in published_names(weights, DENSE).items()}  # counters of batches, too
    torch.save({"state_dict": halved}, tmp_path / "x.pt")
    model, found = read_model(tmp_path / "x.pt")
    assumed = "x.pt: does not describe itself; assumed are stride 2 in the first block, "
    assert found.assumed[0].startswith(f"{tmp_path}/{assumed}")
    for name, tensor in model.state_dict().items():
        expected = weights[name].half().float() if weights[name].is_floating_point() else weights[name]
        assert tensor.dtype == expected.dtype, name
        assert tensor.equal(expected), name


def with_labels(n: int) -> dict[str, Tensor]:
    weights = published_names(random_weights(Config(model=DENSE)), DENSE)
    weights["decoder.layers.0.weight"] = torch.zeros(n + 1, 16, 1)
    weights["decoder.layers.0.bias"] = torch.zeros(n + 1)
    return weights


def test_labels_that_are_not_the_english_ones_have_to_be_named(tmp_path):
    path = tmp_path / "a.pt"
    checkpoint.save(path, {"state_dict": with_labels(3)})
    with pytest.raises(CheckpointError, match=r"a.pt: writes 3 labels and does not say which; expected the 28 English"):
        jasper.load(path, device="cpu")
    named = Config(model=ModelConfig(blocks=DENSE.blocks, labels="abc"))
    assert jasper.load(path, device="cpu", configuration=named).vocabulary.labels == ("a", "b", "c")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "not a checkpoint of this repository or of DeepLearningExamples' Jasper or QuartzNet; it holds nothing"),
        ({"model": 1, "args": 2}, "it holds model, args"),
        (
            {"state_dict": {"conv.weight": torch.zeros(1)}},
            "not a Jasper or QuartzNet checkpoint: expected weights named",
        ),
        ({"state_dict": {"decoder.layers.0.weight": 1}}, "found none"),
        ({"format": "jasper", "weights": {}}, "its own description cannot be read: 'config'"),
        ({"format": "jasper", "config": {"epoch": 1}}, "unknown key epoch; did you mean epochs?"),
    ],
)
def test_what_is_no_jasper_checkpoint_is_described(state, message):
    with pytest.raises(CheckpointError) as error:
        (own.read if "format" in state else read)(state, Path("x.pt"))
    assert str(error.value).startswith("x.pt: ")
    assert message in str(error.value)


def test_an_encoder_of_other_blocks_is_refused():
    weights = published_names(random_weights(Config(model=DENSE)), DENSE)
    other = {key: tensor for key, tensor in weights.items() if "running_mean" not in key}
    with pytest.raises(CheckpointError, match=r"x.pt: expected under encoder.layers.0.conv convolution, .*found sub"):
        read({"state_dict": other}, Path("x.pt"))


def test_weights_that_do_not_fit_their_configuration_are_refused(tmp_path):
    path = save_tiny(tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"a.pt: does not fit its configuration: .*blocks.0"):
        jasper.load(path, device="cpu", configuration=Config(model=SEPARABLE))
