import copy
import io
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.devices.host_copy import HostCopy
from tests.device import mirror
from tests.device.mirror import counted, no_waits

OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "arithmetic": lambda x: (x * 2 + 1).exp().sum(0),
    "a view written to": lambda x: (x * 1).t()[1:].mul_(3),
    "masks": lambda x: torch.where(x > 0, x, torch.zeros((), device=x.device)).masked_fill(x < -1, 2.0),
    "indices": lambda x: x[torch.tensor([2, 0], device=x.device)][:, x[0] > 0],
    "dropout": lambda x: F.dropout(x, 0.3),
    "convolution": lambda x: F.conv1d(x.reshape(2, 3, 24), torch.ones(4, 3, 5, device=x.device), padding=2),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "attention": lambda x: F.scaled_dot_product_attention(*x.reshape(3, 1, 2, 3, 8)),
    "spectrum": lambda x: torch.stft(
        x.flatten(), 32, 8, window=torch.hann_window(32, device=x.device), return_complex=True
    ).abs(),
    "conjugate": lambda x: torch.fft.irfft(torch.fft.rfft(x).conj()),
    "sort": lambda x: x.sort(1).values.cumsum(1),
    "lists": lambda x: torch._foreach_mul(list(x.unbind()), 2.0)[3],
    "chosen by the host": lambda x: x[x > 0],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_and_gradients_are_bitwise_those_of_the_cpu(name, device):
    x = torch.randn(6, 24, generator=torch.Generator().manual_seed(1))
    found = []
    for place in (torch.device("cpu"), device):
        leaf = x.to(place, copy=True).requires_grad_()
        torch.manual_seed(3)
        y = OPERATIONS[name](leaf)
        assert y.device == place
        y.square().sum().backward()
        assert leaf.grad.device == place
        found.append((y.detach().cpu(), leaf.grad.cpu()))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}, {"foreach": False}])
def test_optimisers_go_the_cpus_way(options, device):
    weights = []
    for place in ("cpu", device):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)).to(place)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **options)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 4, device=place)).square().sum().backward()
            optimizer.step()
        weights.append([w.detach().cpu() for w in model.parameters()])
    for a, b in zip(*weights, strict=True):
        assert torch.equal(a, b)


def test_tensors_of_two_devices_do_not_mix(device):
    here, there, other = torch.ones(3, device=device), torch.ones(3), torch.ones(3, device="mirror:1")
    for operation in (lambda: here + there, lambda: torch.cat([here, there]), lambda: here.add_(other)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            operation()
    assert (here + torch.tensor(1.0)).device == device  # a number of the host may come along, as on CUDA
    with pytest.raises(RuntimeError, match="there is no mirror:2"):
        torch.ones(3, device="mirror:2")


def test_operations_casts_and_copies_are_counted(device):
    with counted() as counts:
        x = torch.ones(3).to(device)
        y = x.bfloat16().float().add_(1)
        y.clone()
    assert counts.copies("from the host") == 1
    assert counts.casts == 2
    assert counts.operations == {"add_": 1, "clone": 1}
    assert counts.copies("to the host") == 0


def test_what_the_host_waits_for_is_counted_and_can_be_forbidden(device):
    x = torch.ones(3, device=device)
    waiting = (lambda: x.sum().item(), x.cpu, x.nonzero, lambda: x[x > 0], lambda: bool(x.all()))
    with counted() as counts:
        for wait in waiting:
            wait()
    assert counts.waits.total() == len(waiting)
    for wait in (*waiting, lambda: torch.tensor([1.0], device=device)):
        with no_waits(), pytest.raises(RuntimeError, match="the host waits for the device"):
            wait()
    with no_waits():
        torch.ones(3, device=device) + 1


def test_a_late_copy_is_there_when_somebody_waited_for_it(device):
    value = torch.arange(3.0, device=device)
    with no_waits():
        late = HostCopy(value)
        value.zero_()
    assert late._numbers.isnan().all()
    assert late.tolist() == [0.0, 1.0, 2.0]


def test_what_kind_of_memory_is_copied_is_counted(device):
    x = torch.ones(3)
    with counted() as counts, no_waits():
        x.pin_memory().to(device, non_blocking=True)
        x.to(device, non_blocking=True)
        with pytest.raises(RuntimeError, match="copy: from the host"):
            x.to(device)
        y = torch.ones(3, device=device)
        with pytest.raises(RuntimeError, match="copy: to the host"):
            x.copy_(y, non_blocking=True)
    assert counts.copies("from the host, late") == counts.copies("from the host, not pinned") == 1


def test_states_cross_devices(device):
    model = nn.BatchNorm1d(3).to(device)
    again = copy.deepcopy(model)
    assert again.weight.device == device
    assert again.weight.data_ptr() != model.weight.data_ptr()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for place in ("cpu", "mirror:0", "mirror:1"):
        file.seek(0)
        loaded = torch.load(file, map_location=place, weights_only=True)
        assert loaded["weight"].device == torch.device(place)
        again.load_state_dict(loaded)


def test_generators_of_the_device_draw_what_the_cpus_draw(device):
    drawn = [
        torch.rand(4, device=place, generator=torch.Generator(device=place).manual_seed(5)).cpu()
        for place in ("cpu", device)
    ]
    assert torch.equal(*drawn)


def test_autocast_casts_what_it_casts_on_cuda(device):
    x = torch.ones(2, 2, device=device)
    with torch.autocast(device.type, torch.bfloat16):
        assert (x @ x).dtype == x.mv(x[0]).dtype == torch.bfloat16
        assert (x @ x).sum().dtype == F.layer_norm(x @ x, (2,)).dtype == torch.float32


def test_a_loss_is_scaled_and_an_overflow_skipped(device):
    weight = nn.Parameter(torch.ones(2, device=device))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(device.type, init_scale=4.0)
    for factor, expected in ((0.5, 0.5), (float("inf"), 0.5)):
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [expected, expected]
    assert scaler.get_scale() == 2.0


def test_lists_that_cuda_would_take_apart_are_noticed(device):
    lists = [torch.ones(3, device=device), torch.ones(2, device=device)], [torch.ones((), device=device)] * 2
    with counted() as counts:
        torch._foreach_mul(lists[0], lists[0])
        torch._foreach_mul(lists[0], 2.0)
    assert not counts.slow
    with counted() as counts:
        torch._foreach_mul(*lists)
    assert counts.slow == {"_foreach_mul": 1}


def test_without_a_compiler_it_says_so(monkeypatch):
    monkeypatch.setattr(mirror, "find_compiler", lambda: None)
    with pytest.raises(mirror.UnavailableError, match=r"needs a C\+\+ compiler; set CXX to name one"):
        mirror.built()


def test_what_does_not_compile_is_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(mirror, "find_compiler", lambda: "false")
    with pytest.raises(mirror.UnavailableError, match="does not compile with torch"):
        mirror.built()
