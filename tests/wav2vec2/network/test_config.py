import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from common import config
from common.config import ConfigError
from wav2vec2.contrastive.model import Wav2Vec2ForPretraining
from wav2vec2.network.config import HourglassConfig, LearningConfig, ModelConfig


def n_parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "wav2vec2"


@dataclass(frozen=True, kw_only=True)
class Network:
    model: ModelConfig = field(default_factory=ModelConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)


def published(name: str) -> Network:
    settings = config.read_toml(CONFIGS / f"{name}.toml")
    return config.build(Network, {key: settings[key] for key in ("model", "learning") if key in settings}, name)


@pytest.mark.parametrize(("name", "parameters"), [("base", 95_044_608), ("large", 317_390_592)])
def test_the_published_models_have_the_published_number_of_parameters(name, parameters):
    with torch.device("meta"):
        assert n_parameters(Wav2Vec2ForPretraining(published(name).model)) == parameters


def test_an_hourglass_by_averages_adds_no_parameters_and_a_linear_one_as_many_as_published():
    with torch.device("meta"):
        naive = Wav2Vec2ForPretraining(ModelConfig(hourglass="[2,(8,4),2]"))
        linear = Wav2Vec2ForPretraining(ModelConfig(hourglass="[2,(8,4),2]", hourglass_resample="linear"))
    assert n_parameters(naive) == 95_044_608
    assert n_parameters(linear) == 99_767_040


def test_an_hourglass_is_read_from_the_notation_of_the_published_scripts():
    expected = HourglassConfig(before=2, shortened=8, factor=4, after=2)
    assert HourglassConfig.parse("[2,(8,4),2]") == HourglassConfig.parse(" [2, [8, 4], 2]") == expected
    assert str(expected) == "[2,(8,4),2]"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch hacked')",
        "[2,(8,4)]",
        "[2,(8,0),2]",
        "[2,(8,1001),2]",
        "[-1,(8,4),2]",
        "[2,(8,4.0),2]",
        "[2,(8,'4'),2]",
        "[[[[[[[[[[[[[[[[[[[[[[[[[",
        "[9**9**9,(8,4),2]",
        "{",
        "\x00",
        "2",
    ],
)
def test_anything_else_is_refused_with_what_is_expected_and_never_evaluated(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as error:
        HourglassConfig.parse(text)
    expected = "expected [layers before, (layers shortened, factor), layers after], as [2,(8,4),2]"
    assert str(error.value) == f"hourglass = {text!r}: {expected}"
    assert not list(tmp_path.iterdir())


def test_a_long_hourglass_is_neither_parsed_nor_shown_whole():
    with pytest.raises(ValueError, match=r"hourglass = '\({64}…': expected \[layers before"):
        HourglassConfig.parse("(" * 100_000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hourglass": "[2,(8,4)]"}, "x: ModelConfig: hourglass = '[2,(8,4)]': expected [layers before, "),
        ({"hourglass": "[2,(4,4),2]"}, "x: ModelConfig: hourglass = '[2,(4,4),2]' has 8 layers; layers = 12"),
        ({"heads": 7}, "x: ModelConfig: heads = 7 does not divide dim = 768"),
        ({"pos_groups": 5}, "x: ModelConfig: pos_groups = 5 does not divide dim = 768"),
        ({"codebooks": 3}, "x: ModelConfig: codebooks = 3 does not divide width_of_codes = 256"),
        ({"layers": 0}, "x: ModelConfig: layers = 0: expected a number above 0"),
        ({"final_dim": -5}, "x: ModelConfig: final_dim = -5: expected a number above 0"),
        ({"code_dim": -4}, "x: ModelConfig: width_of_codes = -4: expected a number above 0"),
        ({"conv_layers": []}, "x: ModelConfig: conv_layers = (): expected (channels, kernel, stride), kernel >= "),
        ({"conv_layers": [[8, 2, 3]]}, "x: ModelConfig: conv_layers = ((8, 2, 3),): expected (channels, kernel, "),
        ({"labels": ["a", "b"], "blank": 2}, "x: ModelConfig: blank = 2: expected the index of one of 2 labels"),
    ],
)
def test_an_impossible_architecture_is_told_in_one_line(settings, message):
    with pytest.raises(ConfigError) as error:
        config.build(ModelConfig, settings, "x")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dropout": 1.0}, "dropout = 1.0: expected a probability from 0 to below 1"),
        ({"layer_drop": -0.1}, "layer_drop = -0.1: expected a probability from 0 to below 1"),
        ({"extractor_gradient": -1.0}, "extractor_gradient = -1.0: expected a number of at least 0"),
        ({"extractor_gradient": math.nan}, "extractor_gradient = nan: expected a number of at least 0"),
    ],
)
def test_an_impossible_way_of_learning_is_told_in_one_line(settings, message):
    with pytest.raises(ConfigError) as error:
        config.build(LearningConfig, settings, "x")
    assert str(error.value) == f"x: LearningConfig: {message}"


def test_a_frame_stands_for_20_ms_and_sees_25_ms():
    assert (ModelConfig().samples_per_frame, ModelConfig().shortest_audio) == (320, 400)


def test_an_architecture_survives_a_checkpoint():
    for name in ("base", "large", "toy"):
        model = published(name).model
        assert config.build(ModelConfig, config.to_dict(model), "x") == model
