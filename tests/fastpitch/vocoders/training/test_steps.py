from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.training import steps
from fastpitch.vocoders.training.data import GeneratorInput, micro_batches, share


def test_micro_batches_are_all_of_the_batch_and_have_their_shares_of_it():
    batch = GeneratorInput(torch.arange(10.0).view(5, 1, 2), torch.arange(20.0).view(5, 4))
    parts = micro_batches(batch, 2)
    assert [share(part, parts) for part in parts] == [0.6, 0.4]
    for whole, pieces in zip(batch, zip(*parts, strict=True), strict=True):
        assert torch.equal(torch.cat(pieces), whole)


@pytest.mark.parametrize("schema", [HifiganRun, WaveglowRun])
def test_a_step_on_cuda_tries_algorithms_of_convolutions_unless_told_otherwise(schema, monkeypatch):
    found = []

    def noted(*_: Any) -> torch.Tensor:
        found.append(torch.backends.cudnn.benchmark)
        return torch.zeros(1)

    monkeypatch.setattr(steps, "data", SimpleNamespace(heard=lambda *_: [], micro_batches=lambda *_: []))
    for name in ("update_flow", "update_adversarially"):
        monkeypatch.setattr(steps, name, noted)
    for place, options in (("cuda", {}), ("cuda", {"cudnn_benchmark": False}), ("cpu", {})):
        run: Any = SimpleNamespace(
            cfg=schema(**options),
            state=SimpleNamespace(progress=SimpleNamespace(step=0)),
            epochs=SimpleNamespace(learning_rate=lambda step: 1e-3),
            learners=[],
            world=SimpleNamespace(device=torch.device(place)),
            log_mel=None,
        )
        batch: Any = SimpleNamespace(to=lambda device: None)
        steps.update(run, batch)
    assert found == [True, False, False]
    assert not torch.backends.cudnn.benchmark
