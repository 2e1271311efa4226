"""The choice of a precision on this machine."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from common.benchmark import Timings
from common.devices import fastest as module
from common.devices.fastest import deviation, fastest, voice_like
from common.devices.precision import Precision

EXPECTED = torch.linspace(-1, 1, 1000)


class Fake:
    """A model that is `error` away from what is right."""

    def __init__(self, precision: Precision, error: float):
        self.precision, self.error = precision, error

    def run(self) -> Tensor:
        return EXPECTED + self.error * EXPECTED.std()


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Precision]:
    """What is chosen on a machine where fp32 takes 4 ms and bf16 `milliseconds`."""

    def choose(milliseconds: float, error: float) -> Precision:
        times = {"plain": Timings([4.0]), "other": Timings([milliseconds])}
        monkeypatch.setattr(module, "compare", lambda calls, **_: times)
        return fastest(lambda tried: Fake(tried, 0 if tried == "fp32" else error), Fake.run, "cpu").precision

    return choose


def test_the_faster_precision_is_taken_if_its_output_is_close(chosen) -> None:
    assert chosen(milliseconds=1, error=0.01) == "bf16"


def test_a_precision_that_is_not_faster_is_left(chosen, capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen(milliseconds=8, error=0) == "fp32"
    assert capsys.readouterr().err.startswith("precision: fp32 (bf16 is 0.50 times")


def test_a_precision_out_of_tolerance_is_left(chosen, capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen(milliseconds=1, error=0.05) == "fp32"
    assert "differs by 5.00%; tolerance 2%)" in capsys.readouterr().err


def test_outputs_that_cannot_be_compared_differ_infinitely() -> None:
    assert deviation(EXPECTED[:10], EXPECTED) == float("inf")
    assert deviation(EXPECTED * float("nan"), EXPECTED) == float("inf")
    assert deviation(EXPECTED, EXPECTED) == 0


def test_the_sound_that_is_measured_on_is_always_the_same_and_neither_silent_nor_too_loud() -> None:
    sound_N = voice_like(16_000, 1.5)
    assert sound_N.dtype == np.float32
    assert len(sound_N) == 24_000
    assert np.sqrt((sound_N**2).mean()) > 0.02
    assert np.abs(sound_N).max() < 1
    np.testing.assert_array_equal(sound_N, voice_like(16_000, 1.5))
    assert module.TOLERANCE == 0.02
