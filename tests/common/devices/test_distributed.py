from datetime import timedelta
from typing import ClassVar

import pytest
import torch

from common.config import ConfigError
from common.devices import distributed
from tests.processes import run_python


def test_one_process_is_the_whole_world():
    with distributed.start("cpu") as world:
        assert (world.rank, world.size, world.is_main) == (0, 1, True)
        assert world.gather("a") == ["a"]
        assert world.any(True)
        assert world.mean(torch.tensor(3.0)) == 3
        world.barrier()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As if there were GPUs: the numbers of those that were chosen."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "set_device_index", chosen.append)
    return chosen


@pytest.mark.parametrize(("name", "index"), [("auto", 0), ("cuda", 0), ("cuda:1", 1)])
def test_one_process_computes_on_the_gpu_it_is_told(cuda, name, index):
    with distributed.start(name) as world:
        assert world.device == torch.device("cuda", index)
    assert cuda == [index]


def test_a_device_that_does_not_exist_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="device 'gpu': expected auto, cpu, cuda or cuda:N"):
        distributed.pick_device("gpu")
    with pytest.raises(ConfigError, match=r"device 'cuda': this torch .* sees no CUDA device; use --device cpu"):
        distributed.pick_device("cuda")


@pytest.mark.parametrize("variable", ["RANK", "WORLD_SIZE", "LOCAL_RANK"])
def test_a_variable_that_is_no_number_is_one_line(variable, monkeypatch):
    monkeypatch.setenv(variable, "two")
    with (
        pytest.raises(ConfigError, match=f"{variable} = 'two' in the environment: expected a whole number; unset it"),
        distributed.start("cpu"),
    ):
        pass


@pytest.mark.parametrize(("rank", "size"), [("2", "2"), ("-1", "2"), ("0", "0")])
def test_a_rank_that_is_not_below_the_size_is_one_line(rank, size, monkeypatch):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    with (
        pytest.raises(ConfigError, match=f"RANK = {rank}, WORLD_SIZE = {size}: expected a rank from 0 to below the"),
        distributed.start("cpu"),
    ):
        pass


def test_an_error_in_one_process_is_not_held_up_by_leaving_the_group(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(distributed.dist, "init_process_group", lambda backend, **options: None)
    left = []
    for name in ("barrier", "destroy_process_group"):
        monkeypatch.setattr(distributed.dist, name, lambda name=name: left.append(name))
    with pytest.raises(ValueError, match="bad data"), distributed.start("cpu"):
        raise ValueError("bad data")
    assert not left
    with distributed.start("cpu"):
        pass
    assert left == ["barrier", "destroy_process_group"]


@pytest.fixture
def joined(monkeypatch) -> dict[str, object]:
    """What `init_process_group` is called with, as one of two processes on a machine with GPUs."""
    found: dict[str, object] = {}
    monkeypatch.setattr(distributed.dist, "init_process_group", lambda backend, **options: found.update(options))
    monkeypatch.setattr(distributed, "pick_device", torch.device)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    for function in ("barrier", "destroy_process_group"):
        monkeypatch.setattr(distributed.dist, function, lambda: None)
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    return found


def test_nccl_is_told_the_gpu_of_its_process_and_gloo_none(joined):
    with distributed.start("cuda:0"):
        assert joined == {"device_id": torch.device("cuda:1"), "timeout": None}
    with distributed.start("cpu"):
        assert joined == {"device_id": None, "timeout": None}


def test_how_long_processes_wait_for_each_other_can_be_set(joined, monkeypatch):
    monkeypatch.setenv("DISTRIBUTED_TIMEOUT_MINUTES", "90")
    with distributed.start("cpu"):
        assert joined["timeout"] == timedelta(minutes=90)
    for wrong in ("soon", "0", "nan"):
        monkeypatch.setenv("DISTRIBUTED_TIMEOUT_MINUTES", wrong)
        message = f"DISTRIBUTED_TIMEOUT_MINUTES = '{wrong}': expected a number of minutes above 0"
        with pytest.raises(ConfigError, match=message), distributed.start("cpu"):
            pass


def test_no_thread_outlives_the_group_whatever_is_imported_meanwhile():
    script = """
import os
from common.devices import distributed

def threads():
    return sorted(open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task"))

before = threads()
with distributed.start("cpu") as world:
    import torch.distributed._shard.sharded_tensor  # and with it the collectives that have gradients
    world.gather("a")
    assert len(threads()) > len(before)
assert threads() == before, threads()
"""
    statuses, told = run_python("-c", script)
    assert statuses == [0, 0], told


def test_only_the_last_of_an_accumulated_step_exchanges_gradients_also_of_sharded_weights():
    class Sharded(torch.nn.Linear):
        synced: ClassVar[list[bool]] = []

        def set_requires_gradient_sync(self, enabled: bool) -> None:
            self.synced.append(enabled)

    model = Sharded(2, 2)
    for enabled in (False, True):
        with distributed.gradient_sync(model, enabled=enabled):
            pass
    assert Sharded.synced == [False, True]
