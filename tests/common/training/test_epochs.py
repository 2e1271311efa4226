"""What a training that counts epochs goes through."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from common.data.batching import BatchingError, bucketed_batches
from common.devices.distributed import World
from common.training.epochs import Epochs
from common.training.schedule import ScheduleConfig

SECOND_OF_TWO = World(rank=1, size=2, device=torch.device("cpu"))
SECONDS = [1.0 + i % 5 for i in range(12)]
CFG = SimpleNamespace(
    epochs=4, batch_size=3, seed=1, optim=SimpleNamespace(lr=0.5), schedule=ScheduleConfig(kind="polynomial", power=1.0)
)


def test_batches_are_those_of_the_epoch_and_the_last_two_are_remembered():
    epochs = Epochs(SECONDS, CFG, SECOND_OF_TWO)
    for epoch in (0, 1):
        expected = bucketed_batches(SECONDS, batch_size=3, seed=1, epoch=epoch, ranks=2, rank=1)
        assert epochs.batches(epoch) == expected
    assert epochs.batches(0) is epochs.batches(0)


def test_batches_may_have_a_budget_of_seconds_instead_of_a_size():
    cfg = SimpleNamespace(**vars(CFG), batch_seconds=10.0)
    found = Epochs(SECONDS, cfg, SECOND_OF_TWO).batches(0)
    assert found == bucketed_batches(SECONDS, max_seconds=10.0, seed=1, epoch=0, ranks=2, rank=1)


@pytest.mark.parametrize(("lr", "peak"), [(None, 0.5), (0.25, 0.25)])
def test_the_learning_rate_spans_the_whole_training(lr, peak):
    epochs = Epochs(SECONDS, CFG, SECOND_OF_TWO, lr=lr)
    assert (epochs.steps, epochs.about) == (8, "2 steps an epoch")
    assert epochs.learning_rate(3) == pytest.approx(peak / 2)


def test_a_batch_has_at_most_so_many_labels_besides_its_seconds():
    cfg = SimpleNamespace(**vars(CFG), batch_seconds=10.0, batch_tokens=50)
    tokens = np.where(np.arange(len(SECONDS)) % 3, 5, 25)
    found = Epochs(SECONDS, cfg, SECOND_OF_TWO, tokens=tokens).batches(0)
    assert all(len(batch) * max(SECONDS[i] for i in batch) <= 10 for batch in found)
    assert all(len(batch) * max(tokens[batch]) <= 50 for batch in found)
    assert found != Epochs(SECONDS, cfg, SECOND_OF_TWO).batches(0)
    tokens[4] = 51
    with pytest.raises(
        BatchingError, match=r"^utterance 4 has 51 labels: more than a batch may hold, batch_tokens 50;"
    ):
        Epochs(SECONDS, cfg, SECOND_OF_TWO, tokens=tokens)
