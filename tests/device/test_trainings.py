import pytest

from common import convolution
from ctc import _compiled_loss, _loss_library, monotonic
from tests.device.runs import COMMANDS
from tests.training import assert_same_state, state_of


@pytest.fixture(params=COMMANDS)
def command(request):
    return COMMANDS[request.param]


@pytest.fixture(autouse=True)
def plain_cpu(monkeypatch):
    """The CPU computes as a device for which there are no kernels: plainly, with torch alone."""
    monkeypatch.setattr(_loss_library, "is_available", lambda: False)
    monkeypatch.setattr(_compiled_loss, "function", lambda: None)
    monkeypatch.setattr(monotonic, "_load", lambda: None)
    monkeypatch.setattr(convolution, "_pays", lambda x: False)


def test_three_steps_give_bitwise_the_state_of_the_cpu(command, device, tmp_path):
    root = command.write_corpus(tmp_path / "corpus")
    for place in ("cpu", "mirror"):
        command.main(command.configured(root, tmp_path / place, device=place))
    assert_same_state(state_of(tmp_path / "cpu"), state_of(tmp_path / "mirror"))


@pytest.mark.parametrize(("first", "then"), [("cpu", "mirror"), ("mirror", "cpu")])
def test_a_run_goes_on_on_another_device(command, device, tmp_path, first, then):
    root = command.write_corpus(tmp_path / "corpus")
    command.main(command.configured(root, tmp_path / "whole", device="cpu"))
    command.main(command.configured(root, tmp_path / "moved", device=first, **{command.stop: 2}))
    command.main(command.configured(root, tmp_path / "moved", device=then))
    assert_same_state(state_of(tmp_path / "whole"), state_of(tmp_path / "moved"))
