import threading

import pytest
import torch
from torch import nn

from common.config import ConfigError
from common.devices.precision import (
    _FLOAT32,
    algorithms_tried,
    autocast,
    cast_for_inference,
    float32_math,
    grad_scaler,
)


def switches():
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
)
def test_autocast_computes_products_in_the_precision_and_keeps_weights_in_fp32(precision, dtype):
    layer = nn.Linear(4, 4)
    with autocast("cpu", precision):
        output = layer(torch.randn(2, 4))
    assert output.dtype == dtype
    output.float().sum().backward()
    assert layer.weight.dtype == layer.weight.grad.dtype == torch.float32


def test_tf32_ends_with_its_context():
    before = switches()
    with float32_math("tf32"):
        assert switches() == ("high", True)
        with autocast("cpu", "fp32"):
            assert switches() == ("highest", False)
        assert switches() == ("high", True)
    assert switches() == before


def test_algorithms_of_convolutions_are_tried_on_cuda_alone_and_inside_alone():
    assert not torch.backends.cudnn.benchmark
    for place, wanted in (("cuda:1", True), ("cuda", False), ("cpu", True)):
        with algorithms_tried(torch.device(place), wanted):
            assert torch.backends.cudnn.benchmark == (place == "cuda:1")
        assert not torch.backends.cudnn.benchmark
    with pytest.raises(KeyError), algorithms_tried(torch.device("cuda"), True):
        raise KeyError
    assert not torch.backends.cudnn.benchmark


def test_an_error_inside_restores_the_switches():
    before = switches()
    with pytest.raises(KeyError), autocast("cpu", "tf32"):
        raise KeyError
    assert switches() == before


def test_what_was_before_is_restored_when_the_last_thread_has_left():
    before, entered, left = switches(), threading.Event(), threading.Event()

    def other():
        with float32_math("tf32"):
            entered.set()
            left.wait(timeout=100)
            seen.append(switches())

    seen = []
    thread = threading.Thread(target=other)
    with float32_math("tf32"):
        inside = switches()
        thread.start()
        entered.wait(timeout=100)
    left.set()
    thread.join()
    assert seen == [inside]
    assert switches() == before


@pytest.mark.parametrize(("precision", "scales"), [("fp32", False), ("tf32", False), ("bf16", False), ("fp16", True)])
def test_only_fp16_scales_the_loss(precision, scales):
    assert grad_scaler("cpu", precision).is_enabled() == scales


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.half)]
)
def test_inference_casts_the_whole_network_once(precision, dtype):
    model = nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4))
    assert cast_for_inference(model, precision) is model
    assert not model.training
    assert {t.dtype for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()} == {dtype}
    assert model[1].num_batches_tracked.dtype == torch.int64
    assert model(torch.randn(1, 4, 8, dtype=dtype)).dtype == dtype


def test_int8_is_refused_where_no_convolution_can_be_packed():
    with pytest.raises(
        ConfigError, match=r"int8 is for convolutions and FastConformers on a CPU, .*; take bf16 or fp32"
    ):
        cast_for_inference(nn.Sequential(nn.Conv1d(4, 4, 1)), "int8")


def test_a_generator_that_is_collected_while_another_enters_does_not_wait_for_it():
    """Garbage is collected in the middle of anything."""

    def within():
        with float32_math("tf32"):
            yield

    def close_inside() -> None:
        with _FLOAT32.lock:
            found.close()

    found = within()
    next(found)
    closing = threading.Thread(target=close_inside, daemon=True)
    closing.start()
    closing.join(100)
    assert not closing.is_alive()
    assert not _FLOAT32.wanted


def test_who_leaves_while_another_leaves_is_not_brought_back(monkeypatch):
    """As garbage that is collected there."""
    set_precision = torch.set_float32_matmul_precision
    inner = [float32_math("tf32")]
    inner[0].__enter__()
    outer = float32_math("fp32")
    outer.__enter__()

    def collected(name: str) -> None:
        if inner:
            inner.pop().__exit__(None, None, None)
        set_precision(name)

    before = _FLOAT32.before
    monkeypatch.setattr(torch, "set_float32_matmul_precision", collected)
    outer.__exit__(None, None, None)
    assert not _FLOAT32.wanted
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before
