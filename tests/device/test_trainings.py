import pytest
import torch

import ctc
from tests.device.mirror import counted
from tests.device.runs import COMMANDS, TOLERANCES, logging_rarely
from tests.training import assert_same_state, logged, state_of


@pytest.fixture(params=COMMANDS)
def command(request):
    return COMMANDS[request.param]


def test_a_run_gives_bitwise_the_state_of_the_cpu_also_where_it_changes_the_device(
    command, device, plain_cpu, tmp_path
):
    root = command.write_corpus(tmp_path / "corpus")
    for name, jobs in (
        ("cpu", {"cpu": 0}),
        ("mirror", {"mirror": 0}),
        ("both", {"cpu": 1, "mirror": 2, "mirror:1": 0}),
    ):
        for place, stop in jobs.items():
            command.main(command.configured(root, tmp_path / name, device=place, **{command.stop: stop}))
    for name in ("mirror", "both"):
        assert_same_state(state_of(tmp_path / "cpu"), state_of(tmp_path / name))


def kernel(log_probs, targets, frames_B, lengths_B, **options):
    """Stands in for the CTC loss's kernels, which there are for CUDA and not here: in plain torch it waits."""
    return log_probs.clamp(min=-100).square().mean((1, 2)) * (frames_B / lengths_B)


def test_no_step_waits_for_the_device(command, device, tmp_path, monkeypatch):
    """What another step adds to a run: its loss on its way to the host, and nothing that waits."""
    monkeypatch.setattr(ctc, "ctc_loss", kernel)
    root = command.write_corpus(tmp_path / "corpus", **command.larger)
    found = []
    for steps in (1, 2):
        cfg = command.configured(root, tmp_path / str(steps), device="mirror", **{command.stop: steps})
        with counted() as counts:
            command.main(logging_rarely(cfg))
        found.append(counts)
    assert found[1].waits - found[0].waits == {}
    assert found[1].copies("to the host, late") - found[0].copies("to the host, late") == 1
    assert found[1].copies("from the host, late") > found[0].copies("from the host, late")  # batches are pinned


@pytest.mark.usefixtures("device")
def test_in_half_precision_a_training_has_about_the_losses_of_float32(command, tmp_path):
    root = command.write_corpus(tmp_path / "corpus")
    for precision in ("fp32", "bf16", "fp16"):
        cfg = command.configured(root, tmp_path / precision, device="mirror", precision=precision)
        command.main(cfg)
    expected = logged(tmp_path / "fp32")
    assert len(expected) == 3
    for precision in ("bf16", "fp16"):
        assert logged(tmp_path / precision) == pytest.approx(expected, rel=TOLERANCES[precision])
        state = state_of(tmp_path / precision)
        weights = state["weights" if "weights" in state else "generator"]
        assert {weight.dtype for weight in weights.values() if weight.is_floating_point()} == {torch.float32}
        assert all(torch.isfinite(weight).all() for weight in weights.values())
