"""Shares of corpora: exact to one utterance, without state, nothing again before all was heard."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from common.data.batching import BatchingError
from common.data.manifest import Utterance, Utterances
from common.data.mixing import MixConfig, chosen, shares
from common.devices.distributed import World
from common.recognition.scoring import ScoredUtterance, scored
from common.training.epochs import Epochs
from common.training.schedule import ScheduleConfig

COUNTS = [7, 100, 1000]
SECONDS = np.repeat([2.0, 1.0, 1.0], COUNTS)
WORLD = World(rank=0, size=1, device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("cfg", "expected"),
    [
        (MixConfig(temperature=0.0), [1 / 5, 2 / 5, 2 / 5]),
        (MixConfig(weights=(2.0, 1.0, 1.0)), [1 / 3, 1 / 3, 1 / 3]),
        (MixConfig(weights=(1.0, 4.0, 9.0), temperature=0.5), [0.5 / 5.5, 2 / 5.5, 3 / 5.5]),
    ],
)
def test_shares_are_exact_in_every_epoch_and_passes_are_whole(cfg, expected):
    parts = shares(cfg, COUNTS, SECONDS)
    assert parts == pytest.approx(expected)
    heard: list[int] = []
    for epoch in range(20):
        found = chosen(parts, COUNTS, seed=3, epoch=epoch)
        assert np.array_equal(found, chosen(parts, COUNTS, seed=3, epoch=epoch))
        of_each = np.bincount(np.searchsorted(np.cumsum(COUNTS), found, side="right"), minlength=3)
        assert abs(of_each - np.array(expected) * sum(COUNTS)).max() <= 1
        heard += found.tolist()
        counts = Counter(heard)
        small = [counts[i] for i in range(7)]
        assert max(small) - min(small) <= 1


def test_an_epoch_has_the_mixture_on_any_number_of_ranks():
    cfg = SimpleNamespace(epochs=4, batch_size=8, seed=1, optim=SimpleNamespace(lr=0.5), schedule=ScheduleConfig(),
                          data=SimpleNamespace(mix=MixConfig(temperature=0.0)))  # fmt: skip
    corpora = tuple(zip("abc", COUNTS, strict=True))
    alone = Epochs(SECONDS, cfg, WORLD, corpora=corpora)
    cfg = SimpleNamespace(**vars(cfg) | {"batch_size": 4})
    two = [Epochs(SECONDS, cfg, World(rank=r, size=2, device=WORLD.device), corpora=corpora) for r in range(2)]
    for step, batch in enumerate(alone.batches(2)):
        assert sorted(batch) == sorted(two[0].batches(2)[step] + two[1].batches(2)[step])
    plain = SimpleNamespace(**vars(cfg) | {"data": SimpleNamespace(mix=MixConfig())})
    assert Epochs(SECONDS, plain, WORLD, corpora=corpora).batches(0) == Epochs(SECONDS, plain, WORLD).batches(0)
    wrong = SimpleNamespace(**vars(cfg) | {"data": SimpleNamespace(mix=MixConfig(weights=(1.0,)))})
    with pytest.raises(BatchingError, match="weights has 1 numbers for 3 corpora; expected one for each"):
        Epochs(SECONDS, wrong, WORLD, corpora=corpora)


def test_a_validation_tells_the_error_rate_of_each_corpus(tmp_path):
    utterances = Utterances.of(Utterance(id=str(i), audio=tmp_path, seconds=1.0, text="a b") for i in range(4))
    results = [ScoredUtterance(i, "a b" if i < 3 else "a c") for i in (3, 1, 2, 0)]
    assert "wer_x" not in scored(utterances, results, WORLD).rates
    utterances.corpora = (("x", 2), ("y", 2))
    rates = scored(utterances, results, WORLD).rates
    assert (rates["wer"], rates["wer_x"], rates["wer_y"]) == (1 / 8, 0.0, 0.25)
