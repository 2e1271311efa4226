import copy
import io
import math
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn

from common.training.ema import Ema
from common.training.optimizers import AdamW, Lamb, NovoGrad, OptimConfig, build_optimizer
from tests.host_sync import NoHostSync

SHAPES = [(12, 4, 11), (12,), (1,), (40, 12, 1), (40,), (29, 40, 1)]


def parameters(seed=0, shapes=SHAPES):
    draw = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=draw)) for shape in shapes]


def give_gradients(params, seed):
    draw = torch.Generator().manual_seed(seed)
    for p in params:
        p.grad = torch.randn(p.shape, generator=draw)


def novograd_by_hand(weights, gradients, lr, beta1, beta2, eps, weight_decay):
    """The recurrence for one tensor after the other, in float64."""
    result = []
    for w, grads in zip(weights, zip(*gradients, strict=True), strict=True):
        w, v, m = w.detach().double(), None, 0.0
        for g in grads:
            energy = g.double().pow(2).sum()
            v = energy if v is None else beta2 * v + (1 - beta2) * energy
            m = beta1 * m + g.double() / (v.sqrt() + eps) + weight_decay * w
            w = w - lr * m
        result.append(w)
    return result


@pytest.mark.parametrize("betas", [(0.95, 0.0), (0.9, 0.5)])
@pytest.mark.parametrize("stretch", [7, 10**6])
def test_novograd_follows_the_recurrence(betas, stretch, monkeypatch):
    monkeypatch.setattr("common.training.optimizers.CPU_STRETCH", stretch)
    params = parameters()
    start = [p.detach().clone() for p in params]
    optimizer = NovoGrad(params, lr=0.02, betas=betas, weight_decay=1e-3)
    gradients = []
    for step in range(4):
        give_gradients(params, step)
        gradients.append([p.grad.clone() for p in params])
        optimizer.step()
        assert all(torch.equal(p.grad, g) for p, g in zip(params, gradients[-1], strict=True))
    expected = novograd_by_hand(start, gradients, 0.02, *betas, 1e-8, 1e-3)
    for p, w in zip(params, expected, strict=True):
        torch.testing.assert_close(p.detach().double(), w, rtol=1e-6, atol=1e-6)


def test_novograd_has_the_state_of_the_published_checkpoints():
    params = parameters()
    optimizer = NovoGrad(params)
    give_gradients(params, 0)
    optimizer.step()
    state = optimizer.state_dict()["state"]
    assert len(state) == len(SHAPES)
    assert state[0].keys() == {"exp_avg", "exp_avg_sq"}
    torch.testing.assert_close(state[0]["exp_avg_sq"], params[0].grad.square().sum())


def lamb_by_hand(weights, gradients, lr, beta1, beta2, eps, weight_decay):
    ws = [w.detach().double() for w in weights]
    ms, vs = [torch.zeros_like(w) for w in ws], [torch.zeros_like(w) for w in ws]
    for t, grads in enumerate(gradients, 1):
        norm = torch.cat([g.double().flatten() for g in grads]).norm()
        for i, g in enumerate(grads):
            g = g.double() / max(1.0, norm)
            ms[i] = beta1 * ms[i] + (1 - beta1) * g
            vs[i] = beta2 * vs[i] + (1 - beta2) * g * g
            u = ms[i] / (1 - beta1**t) / ((vs[i] / (1 - beta2**t)).sqrt() + eps) + weight_decay * ws[i]
            ws[i] = ws[i] - lr * (ws[i].norm() / u.norm() if weight_decay else 1) * u
    return ws


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_lamb_follows_the_recurrence(weight_decay):
    params = parameters()
    start = [p.detach().clone() for p in params]
    optimizer = Lamb(params, lr=0.02, betas=(0.9, 0.98), eps=1e-9, weight_decay=weight_decay)
    gradients = []
    for step in range(4):
        give_gradients(params, step)
        gradients.append([p.grad.clone() for p in params])
        optimizer.step()
    expected = lamb_by_hand(start, gradients, 0.02, 0.9, 0.98, 1e-9, weight_decay)
    for p, w in zip(params, expected, strict=True):
        torch.testing.assert_close(p.detach().double(), w, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kind", ["novograd", "lamb", "adamw"])
def test_stopping_and_resuming_an_optimizer_gives_the_same_weights(kind):
    cfg = OptimConfig(kind=kind)
    params = parameters()
    optimizer = build_optimizer(params, cfg)
    for step in range(5):
        if step == 3:
            file = io.BytesIO()
            torch.save((optimizer.state_dict(), params), file)
            file.seek(0)
            state, params_again = torch.load(file, weights_only=True)
            again = build_optimizer(params_again, cfg)
            again.load_state_dict(state)
        give_gradients(params, step)
        optimizer.step()
        if step >= 3:
            give_gradients(params_again, step)
            again.step()
    assert all(torch.equal(p, q) for p, q in zip(params, params_again, strict=True))


@pytest.mark.parametrize("kind", ["novograd", "lamb", "adamw"])
def test_parameters_without_a_gradient_stay(kind):
    params = parameters()
    optimizer = build_optimizer(params, OptimConfig(kind=kind))
    optimizer.step()
    give_gradients(params, 0)
    params[2].grad = None
    before = copy.deepcopy(params)
    optimizer.step()
    assert torch.equal(params[2], before[2])
    assert not any(torch.equal(p, q) for p, q in zip(params[:2] + params[3:], before[:2] + before[3:], strict=True))


@pytest.mark.parametrize("kind", ["novograd", "lamb", "adamw"])
def test_gradients_of_zero_leave_finite_weights(kind):
    params = parameters()
    params[1].data.zero_()
    optimizer = build_optimizer(params, OptimConfig(kind=kind))
    for _ in range(2):
        for p in params:
            p.grad = torch.zeros_like(p)
        optimizer.step()
    assert all(p.isfinite().all() for p in params)
    give_gradients(params, 0)
    optimizer.step()
    assert all(p.isfinite().all() for p in params)


def test_parameters_that_are_not_contiguous_are_updated_too(monkeypatch):
    monkeypatch.setattr("common.training.optimizers.CPU_STRETCH", 7)
    plain = nn.Parameter(torch.randn(6, 5, generator=torch.Generator().manual_seed(0)))
    turned = nn.Parameter(plain.detach().t().contiguous().t())
    for p in (plain, turned):
        p.grad = torch.ones_like(p) * torch.arange(5)
        NovoGrad([p]).step()
    torch.testing.assert_close(plain, turned)


@pytest.mark.parametrize("kind", ["novograd", "lamb"])
def test_a_step_with_its_average_never_waits_for_the_device(kind):
    model = nn.Sequential(nn.Conv1d(4, 12, 11), nn.BatchNorm1d(12), nn.Conv1d(12, 29, 1))
    ema, optimizer = Ema(model, 0.999), build_optimizer(model.parameters(), OptimConfig(kind=kind))
    for step in range(3):
        give_gradients(list(model.parameters()), step)
        with NoHostSync() as watch:
            optimizer.step()
            ema.update()
        assert watch.calls > 5


def test_on_a_gpu_the_number_of_calls_does_not_depend_on_the_number_of_tensors(monkeypatch):
    monkeypatch.setattr("common.training.optimizers.stretches", lambda *tensors: iter([tensors]))
    calls = []
    for repeats in (1, 4):
        params = parameters(shapes=SHAPES * repeats)
        optimizer = NovoGrad(params)
        give_gradients(params, 0)
        optimizer.step()
        with NoHostSync() as watch:
            optimizer.step()
        calls.append(watch.calls)
    assert calls[0] == calls[1]


class Asking(torch.optim.Optimizer):
    """Has GradScaler decide on the host whether `optimizer` takes its step."""

    def __init__(self, optimizer):
        self.optimizer, self.param_groups, self.step = optimizer, optimizer.param_groups, optimizer.step


@pytest.mark.parametrize("is_clipped", [False, True])
@pytest.mark.parametrize("kind", ["novograd", "lamb"])
def test_in_fp16_steps_are_taken_or_not_as_by_a_scaler_that_asks_but_nothing_waits(kind, is_clipped):
    results = []
    for asks in (True, False):
        params = parameters()
        optimizer = build_optimizer(params, OptimConfig(kind=kind, lr=0.02))
        stepped = Asking(optimizer) if asks else optimizer
        scaler = torch.amp.GradScaler("cpu", init_scale=1000.0, growth_interval=2)
        for step in range(8):
            give_gradients(params, step)
            scaler.scale(torch.ones(()))
            for p in params:
                p.grad *= scaler._scale
            if step in (0, 3, 4):  # the first step too, which has no moments yet
                params[step].grad.view(-1)[0] = (math.inf, math.nan)[step % 2]
            with nullcontext() if asks else NoHostSync():
                if is_clipped:
                    scaler.unscale_(stepped)
                    nn.utils.clip_grad_norm_(params, 0.5)
                scaler.step(stepped)
            scaler.update()
        results.append((params, optimizer.state_dict(), scaler.get_scale()))
    (expected, state, scale), (found, other_state, other_scale) = results
    assert all(torch.equal(p, q) and p.isfinite().all() for p, q in zip(expected, found, strict=True))
    assert scale == other_scale
    assert state["param_groups"] == other_state["param_groups"]
    for moments, others in zip(state["state"].values(), other_state["state"].values(), strict=True):
        assert all(torch.equal(moments[name], others[name]) for name in moments)


def test_steps_that_a_device_counted_are_a_number_in_a_checkpoint_and_go_on_in_any_precision():
    params = parameters()
    optimizer = Lamb(params)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(3):
        give_gradients(params, step)
        scaler.scale(torch.ones(()))
        if step == 1:
            params[0].grad.fill_(math.inf)
        scaler.step(optimizer)
        scaler.update()
    state = optimizer.state_dict()
    assert state["param_groups"][0]["step"] == 2
    assert type(state["param_groups"][0]["step"]) is int
    again = Lamb(copies := copy.deepcopy(params))
    again.load_state_dict(copy.deepcopy(state))
    for chosen, its in ((optimizer, params), (again, copies)):
        give_gradients(its, 9)
        chosen.step()
    assert all(torch.equal(p, q) for p, q in zip(params, copies, strict=True))


def test_a_closure_is_evaluated_with_gradients():
    weight = nn.Parameter(torch.ones(3))

    def loss():
        value = weight.square().sum()
        value.backward()
        return value

    for optimizer in (NovoGrad([weight]), Lamb([weight])):
        weight.grad = None
        assert optimizer.step(loss) > 0
        assert weight.grad is not None


def test_the_configuration_chooses_the_optimizer_and_its_defaults():
    built = {kind: build_optimizer(parameters(), OptimConfig(kind=kind)) for kind in ("novograd", "lamb", "adamw")}
    assert {kind: type(o) for kind, o in built.items()} == {
        "novograd": NovoGrad,
        "lamb": Lamb,
        "adamw": AdamW,
    }
    assert [o.defaults["betas"] for o in built.values()] == [(0.95, 0.0), (0.9, 0.999), (0.9, 0.999)]
    assert build_optimizer(parameters(), OptimConfig(betas=(0.8, 0.5))).defaults["betas"] == (0.8, 0.5)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"lr": -1.0}, "lr = -1.0: expected a number of at least 0"),
        ({"lr": math.nan}, "lr = nan: expected a number of at least 0"),
        ({"lr": math.inf}, "lr = inf: expected a number of at least 0"),
        ({"weight_decay": -0.1}, "weight_decay = -0.1: expected a number of at least 0"),
        ({"betas": (1.0, 0.0)}, r"betas = \(1.0, 0.0\): expected decays from 0 to below 1"),
        ({"betas": (0.9, math.nan)}, r"betas = \(0.9, nan\): expected decays from 0 to below 1"),
        ({"eps": 0.0}, "eps = 0.0: expected a number above 0"),
    ],
)
def test_impossible_options_are_named(numbers, message):
    for refusing in (OptimConfig, partial(NovoGrad, parameters()), partial(Lamb, parameters())):
        with pytest.raises(ValueError, match=rf"^{message}$"):
            refusing(**numbers)
