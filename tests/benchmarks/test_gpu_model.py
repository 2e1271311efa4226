"""The page of what GPUs should need is what its command counts."""

import torch
from torch import nn

from benchmarks import gpu_model
from scripts import gpu_slow


def test_the_page_is_what_the_command_writes():
    assert gpu_model.PAGE.read_text() == gpu_model.page(), "python -m benchmarks.gpu_model"


def test_a_layer_is_counted_by_its_definition():
    work = gpu_model.network("a layer", lambda: (nn.Linear(64, 32, bias=False), (torch.empty(10, 64),)))
    assert (work.launches, work.operations) == (1, 2 * 10 * 64 * 32)
    assert work.bytes == 2 * (10 * 64 + 64 * 32 + 10 * 32)


def test_the_longer_of_two_times_is_expected():
    assert "| 1 (memory) |" in gpu_model.Work("copy", 1, 2.039e9, 1, is_half=True).row()
    assert "| 2 (arithmetic) |" in gpu_model.Work("product", 1, 1, 624e9, is_half=True).row()


def test_what_gpu_check_prints_of_a_large_transducer_is_what_is_counted():
    counted = {device.name.split()[0]: gpu_model.most_times_real_time(device) for device in gpu_model.DEVICES}
    assert {name: counted[name] for name in gpu_slow.MOST} == gpu_slow.MOST
