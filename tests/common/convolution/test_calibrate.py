import sys

import pytest

from common.convolution import __main__ as command
from common.convolution import calibrate, native, planning
from ctc import SlowPathWarning

needs_library = pytest.mark.skipif(native.load() is None, reason="the native library was never built")


@pytest.fixture
def calibration(tmp_path, monkeypatch):
    path = tmp_path / "machine.json"
    monkeypatch.setattr(planning, "CALIBRATION", path)
    monkeypatch.setattr(sys, "argv", ["convolution", "calibrate"])
    planning.this_machine.cache_clear()
    yield path
    planning.this_machine.cache_clear()


@needs_library
def test_a_processor_is_measured_and_the_measure_is_taken(calibration, monkeypatch, capsys):
    monkeypatch.setattr(calibrate, "REPEATS", 1)
    command.main()
    machine = planning.this_machine()
    assert machine not in planning.MACHINES.values()
    assert all(1e8 < constant < 1e14 for constant in machine)
    assert f"written to {planning.CALIBRATION}" in capsys.readouterr().out


def test_without_the_library_there_is_nothing_to_measure(calibration, monkeypatch):
    monkeypatch.setattr(native, "load", lambda: None)
    with pytest.raises(SystemExit, match=r"libconvolution.so is missing; `python -m common.convolution.build` makes"):
        command.main()


def test_a_library_that_cannot_be_built_is_told_once(monkeypatch):
    native.load.cache_clear()
    monkeypatch.setattr(native.building, "load", lambda library: None)
    try:
        with pytest.warns(SlowPathWarning, match=r"convolutions run in plain torch, which is slower: .* is missing;"):
            assert native.load() is None
    finally:
        native.load.cache_clear()
