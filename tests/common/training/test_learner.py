"""A network that learns: one step, its parts, and what a validation evaluates."""

import copy
from dataclasses import dataclass, field

import torch
from torch import nn

from common.data.manifest import Utterance
from common.devices.distributed import World
from common.training import learner
from common.training.learner import Learner
from common.training.optimizers import OptimConfig
from common.training.state import Progress

ALONE = World(rank=0, size=1, device=torch.device("cpu"))


@dataclass(frozen=True, kw_only=True)
class Settings:
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(kind="adamw", lr=0.5, weight_decay=0.0))
    precision: str = "fp32"
    ema: float = 0.9


def step(own: Learner, progress: Progress, rate: float = 0.1, **options: float) -> torch.Tensor | None:
    own.begin(rate)
    own.backward(own.parallel(torch.ones(1, 3)).square().sum())
    return own.finish(progress, **options)


def test_a_step_changes_the_weights_by_the_rate_and_its_gradients_are_gone():
    torch.manual_seed(0)
    own = Learner(nn.Linear(3, 2), Settings(), ALONE)
    before = copy.deepcopy(own.network.state_dict())
    own.network.eval()
    assert step(own, Progress()).isfinite()
    assert own.network.training
    for name, weight in own.network.state_dict().items():
        # The first step of Adam goes by the rate whatever the gradient.
        torch.testing.assert_close((weight - before[name]).abs(), torch.full_like(weight, 0.1), rtol=1e-4, atol=0)
    assert all(weight.grad is None for weight in own.network.parameters())


def test_the_norm_of_the_whole_gradient_is_clipped():
    torch.manual_seed(0)
    own = Learner(nn.Linear(3, 2), Settings(optim=OptimConfig(kind="adamw", betas=(0.0, 0.0), lr=0.1)), ALONE)
    own.backward(own.network(torch.ones(1, 3)).square().sum())
    expected = torch.cat([weight.grad.flatten() for weight in own.network.parameters()]).norm()
    own.optimizer.zero_grad()
    kept = []
    own.optimizer.register_step_pre_hook(
        lambda optimizer, *_: kept.append(torch.cat([w.grad.flatten() for w in own.network.parameters()]).norm())
    )
    torch.testing.assert_close(step(own, Progress(), clip_norm=0.25), expected)
    torch.testing.assert_close(kept[0], torch.tensor(0.25), rtol=1e-4, atol=0)


def test_the_average_follows_and_warms_up():
    own = Learner(nn.Linear(3, 2), Settings(), ALONE)
    before = copy.deepcopy(own.network.state_dict())
    step(own, Progress(step=0))
    for name, average in own.ema.model.state_dict().items():
        torch.testing.assert_close(average, 0.1 * before[name] + 0.9 * own.network.state_dict()[name])


def test_gradients_of_the_parts_of_a_step_add_up():
    own = Learner(nn.Linear(3, 2), Settings(), ALONE)
    for part_BN in own.each(list(torch.ones(2, 2, 3))):
        own.backward(own.parallel(part_BN).sum())
    torch.testing.assert_close(own.network.bias.grad, torch.full((2,), 4.0))


def test_a_validation_evaluates_the_weights_and_their_average_where_there_is_one():
    own = Learner(nn.Linear(3, 2), Settings(), ALONE)
    assert own.models() == {"dev": own.network, "dev_ema": own.ema.model}
    without = Learner(nn.Linear(3, 2), Settings(), ALONE, is_averaged=False)
    assert without.models() == {"dev": without.network}
    assert without.parts["ema"] is None


def test_only_the_named_parameters_learn():
    network = nn.Linear(3, 2)
    own = Learner(network, Settings(), ALONE, parameters=[network.bias])
    before = network.weight.detach().clone()
    step(own, Progress())
    assert torch.equal(network.weight, before)


def test_the_log_says_how_large_networks_and_data_are(tmp_path):
    assert learner.size_of(nn.Linear(999, 2)) == "2,000 parameters"
    spoken = [Utterance(id="a", audio=tmp_path / "a.wav", text="", seconds=1800.0)] * 3
    assert learner.amount_of(spoken, "clips") == "3 clips, 1.50 h"
