"""The seven trainings on a GPU, beside the CPU: for `scripts/gpu_check.sh`."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn

from common.devices.distributed import World, data_parallel, gradient_sync
from common.devices.graphs import GraphRunner
from tests.device.runs import COMMANDS, TOLERANCES, logging_rarely
from tests.training import logged

pytestmark = [pytest.mark.gpu, pytest.mark.slow]


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_training_goes_as_on_the_cpu(name, precision, tmp_path):
    command = COMMANDS[name]
    root = command.write_corpus(tmp_path / "corpus")
    command.main(command.configured(root, tmp_path / "cpu", device="cpu"))
    command.main(command.configured(root, tmp_path / "cuda", device="cuda", precision=precision))
    expected, found = (logged(tmp_path / place) for place in ("cpu", "cuda"))
    assert found == pytest.approx(expected, rel=TOLERANCES[precision])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_goes_on_on_the_cpu_and_comes_back(name, tmp_path):
    command = COMMANDS[name]
    root = command.write_corpus(tmp_path / "corpus")
    for place, stop in (("cuda", 1), ("cpu", 2), ("cuda", 0)):
        command.main(command.configured(root, tmp_path / "run", device=place, **{command.stop: stop}))
    command.main(command.configured(root, tmp_path / "cpu", device="cpu"))
    assert logged(tmp_path / "run") == pytest.approx(logged(tmp_path / "cpu"), rel=TOLERANCES["fp32"])


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_step_waits_for_the_gpu(name, precision, tmp_path):
    command = COMMANDS[name]
    root = command.write_corpus(tmp_path / "corpus", **command.larger)
    found = []
    for steps in (1, 2):
        cfg = command.configured(
            root, tmp_path / str(steps), device="cuda", precision=precision, **{command.stop: steps}
        )
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                command.main(logging_rarely(cfg))
            finally:
                torch.cuda.set_sync_debug_mode("default")
        found.append([f"{w.filename}:{w.lineno}" for w in told if "synchroniz" in str(w.message)])
    more = [place for place in set(found[1]) if found[1].count(place) > found[0].count(place)]
    assert not more, f"a second step waits at {more}"


def test_a_step_of_one_process_over_nccl(tmp_path):
    dist.init_process_group("nccl", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        model = nn.Linear(3, 2).cuda()
        parallel = data_parallel(model, World(rank=0, size=2, device=torch.device("cuda:0")))
        for last in (False, True):
            with gradient_sync(parallel, enabled=last):
                parallel(torch.ones(4, 3, device="cuda")).sum().backward()
        assert model.weight.grad.tolist() == [[8.0] * 3] * 2
    finally:
        dist.destroy_process_group()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs a second GPU")
def test_a_graph_of_the_second_gpu_computes_there():
    network = nn.Linear(3, 2, device="cuda:1")
    run = GraphRunner(network.forward, network)
    for value in (1.0, 2.0):
        x = torch.full((4, 3), value, device="cuda:1")
        torch.testing.assert_close(run(x), network(x))
