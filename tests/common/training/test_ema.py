import pytest
import torch
from torch import nn

from common.training.ema import Ema


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3))


def train_a_step(model, seed):
    torch.manual_seed(seed)
    model(torch.randn(4, 2, 5))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


def test_the_average_follows_weights_and_statistics_and_copies_the_counter():
    model = network()
    ema = Ema(model, 0.9)
    expected = {name: value.double() for name, value in model.state_dict().items()}
    for seed in range(3):
        train_a_step(model, seed)
        ema.update()
        for name, value in model.state_dict().items():
            expected[name] = 0.9 * expected[name] + 0.1 * value.double()
    state = ema.state_dict()
    assert state.keys() == model.state_dict().keys()
    assert state["1.num_batches_tracked"] == 3
    assert state["1.num_batches_tracked"].dtype == torch.int64
    for name in ("0.weight", "0.bias", "1.weight", "1.running_mean", "1.running_var"):
        torch.testing.assert_close(state[name].double(), expected[name], rtol=1e-6, atol=1e-6)


def test_the_average_is_a_model_of_its_own():
    model = network()
    ema = Ema(model, 0.9)
    before = ema.model[0].weight.clone()
    train_a_step(model, 1)
    assert torch.equal(ema.model[0].weight, before)
    assert model.training
    assert not ema.model.training
    assert not any(parameter.requires_grad for parameter in ema.model.parameters())


def test_a_model_without_counters_is_averaged():
    model = nn.Linear(2, 2)
    ema = Ema(model, 0.0)
    with torch.no_grad():
        model.weight.fill_(3)
    ema.update()
    torch.testing.assert_close(ema.model.weight, model.weight)


def test_an_impossible_decay_is_named():
    with pytest.raises(ValueError, match="decay 1; expected 0 <= decay < 1"):
        Ema(nn.Linear(1, 1), 1.0)


def test_the_average_warms_up():
    model = network()
    ema = Ema(model, 0.999)
    average, weight = ema.model[0].weight.double(), None
    for updates in range(5):
        train_a_step(model, updates)
        ema.update(updates)
        decay = (1 + updates) / (10 + updates)
        weight = model[0].weight.double()
        average = decay * average + (1 - decay) * weight
        torch.testing.assert_close(ema.model[0].weight.double(), average, rtol=1e-6, atol=1e-6)


def test_a_warm_average_follows_with_its_decay():
    model = network()
    warm, constant = Ema(model, 0.9), Ema(model, 0.9)
    train_a_step(model, 1)
    warm.update(1000)
    constant.update()
    assert torch.equal(warm.model[0].weight, constant.model[0].weight)


def test_an_average_can_begin_again_at_the_weights_of_now():
    model = network()
    ema = Ema(model, 0.9)
    train_a_step(model, 1)
    ema.restart()
    assert torch.equal(ema.model[0].weight, model[0].weight)
