"""Properties of the batches, for any number of utterances, ranks and sizes."""

import itertools
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.data import batching
from common.data.batching import Batches, BatchingError, bucketed_batches, evaluation_batches
from tests.timing import assert_takes_less

durations = st.lists(st.floats(0.1, 16.7), min_size=1, max_size=150)
ranks_ = st.integers(1, 4)


def of_all_ranks(seconds, ranks, **options):
    """Steps, each a list of the batches of the ranks."""
    return list(zip(*(bucketed_batches(seconds, ranks=ranks, rank=r, **options) for r in range(ranks)), strict=True))


def librispeech_like(n: int) -> np.ndarray:
    """Durations with the shape of train-clean-100: most between 12 and 16 s, a tail of short ones."""
    random = np.random.default_rng(0)
    return np.where(random.random(n) < 0.75, random.normal(14.5, 1.0, n), random.uniform(1.5, 14, n)).clip(1, 16.7)


def padding(seconds, batches) -> float:
    """Share of a batch that is padding."""
    padded = sum(len(batch) * max(seconds[i] for i in batch) for batch in batches)
    return 1 - sum(seconds[i] for batch in batches for i in batch) / padded


@settings(deadline=None)
@given(durations, st.integers(1, 9), ranks_, st.booleans(), st.integers(0, 3))
def test_every_utterance_occurs_once_but_for_the_incomplete_last_batch(seconds, size, ranks, shuffle, epoch):
    missing = len(seconds) % (size * ranks)
    options = {"batch_size": size, "seed": 1, "epoch": epoch, "shuffle": shuffle}
    if missing == len(seconds):
        with pytest.raises(BatchingError, match="utterances do not fill one batch over"):
            of_all_ranks(seconds, ranks, **options)
        return
    steps = of_all_ranks(seconds, ranks, **options)
    counts = Counter(i for step in steps for batch in step for i in batch)
    assert set(counts.values()) == {1}
    assert len(counts) == len(seconds) - missing
    assert all(batch for step in steps for batch in step)
    assert all(len(batch) == size for step in steps for batch in step)


@settings(deadline=None)
@given(durations, st.integers(1, 5), st.integers(2, 4), st.integers(0, 3))
def test_many_ranks_see_the_same_global_batches_as_one(seconds, size, ranks, epoch):
    if len(seconds) < size * ranks:
        return
    steps = of_all_ranks(seconds, ranks, batch_size=size, seed=3, epoch=epoch)
    alone = bucketed_batches(seconds, batch_size=size * ranks, seed=3, epoch=epoch)
    assert [sorted(i for batch in step for i in batch) for step in steps] == [sorted(batch) for batch in alone]


@settings(deadline=None)
@given(durations, st.floats(16.7, 100), ranks_, st.booleans())
def test_a_budget_holds_on_every_rank_with_padding_and_leaves_out_fewer_than_the_ranks(seconds, budget, ranks, shuffle):
    if len(seconds) < ranks:
        return
    steps = of_all_ranks(seconds, ranks, max_seconds=budget, seed=5, epoch=0, shuffle=shuffle)
    assert all(len(batch) * max(seconds[i] for i in batch) <= budget for step in steps for batch in step)
    counts = Counter(i for step in steps for batch in step for i in batch)
    assert set(counts.values()) == {1}
    assert len(counts) == len(seconds) - len(seconds) % ranks
    assert all(len({len(batch) for batch in step}) == 1 for step in steps)


@settings(deadline=None)
@given(st.lists(st.floats(0, 60), max_size=100), st.integers(1, 9), st.integers(1, 8))
def test_evaluation_takes_every_utterance_exactly_once_over_the_ranks(seconds, size, ranks):
    batches = [b for r in range(ranks) for b in evaluation_batches(seconds, batch_size=size, ranks=ranks, rank=r)]
    assert sorted(i for batch in batches for i in batch) == list(range(len(seconds)))
    assert all(0 < len(batch) <= size for batch in batches)


def test_evaluation_goes_from_the_longest_to_the_shortest():
    assert evaluation_batches([1, 5, 3, 4, 2], batch_size=2) == [[1, 3], [2, 4], [0]]


def test_the_same_seed_and_epoch_give_the_same_batches_and_others_give_others():
    seconds = librispeech_like(500)

    def batches(seed, epoch):
        return bucketed_batches(seconds, batch_size=8, seed=seed, epoch=epoch)

    np.random.seed(0)  # the global generator must have no influence
    first = batches(0, 0)
    np.random.seed(1)
    assert batches(0, 0) == first
    assert batches(0, 1) != first
    assert batches(1, 0) != first


def test_another_process_gives_the_same_batches():
    call = "bucketed_batches([*range(1, 40)], batch_size=4, seed=7, epoch=2)"
    code = f"from common.data.batching import bucketed_batches; print({call})"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(bucketed_batches([*range(1, 40)], batch_size=4, seed=7, epoch=2))


def test_an_utterance_meets_others_in_every_epoch():
    seconds = librispeech_like(2000)
    neighbours = [
        next(set(batch) for batch in bucketed_batches(seconds, batch_size=16, seed=0, epoch=e) if 7 in batch)
        for e in range(20)
        if any(7 in batch for batch in bucketed_batches(seconds, batch_size=16, seed=0, epoch=e))
    ]
    assert len(set.union(*neighbours)) > 80


def test_who_stays_out_changes_with_the_epoch_and_does_not_depend_on_duration():
    seconds = librispeech_like(100)
    left_out = []
    for epoch in range(200):
        seen = {i for batch in bucketed_batches(seconds, batch_size=8, seed=0, epoch=epoch) for i in batch}
        left_out += [i for i in range(100) if i not in seen]
    assert len(left_out) == 200 * 4
    assert len(set(left_out)) == 100
    # the mean of 800 draws lies within 4 standard errors of the mean of all
    assert abs(seconds[left_out].mean() - seconds.mean()) < 4 * seconds.std() / 800**0.5


def test_bucketing_leaves_little_padding():
    seconds = librispeech_like(5000)
    at_random = bucketed_batches(seconds, batch_size=32, seed=0, epoch=0, buckets=1)
    assert padding(seconds, at_random) > 0.15
    assert padding(seconds, bucketed_batches(seconds, batch_size=32, seed=0, epoch=0)) < 0.04
    assert padding(seconds, bucketed_batches(seconds, max_seconds=500, seed=0, epoch=0)) < 0.04


def test_the_ranks_get_equal_work():
    seconds = librispeech_like(4000)
    steps = of_all_ranks(seconds, 4, batch_size=8, seed=0, epoch=0, buckets=1)
    work = np.array([[sum(seconds[i] for i in batch) for batch in step] for step in steps])
    assert (work.max(axis=1) / work.min(axis=1)).max() < 1.3


def test_without_shuffling_the_batches_come_by_duration_in_every_epoch():
    seconds = [5.0, 1.0, 4.0, 2.0, 3.0, 6.0]
    expected = [[3, 1], [2, 4], [5, 0]]
    for epoch in (0, 1):
        assert bucketed_batches(seconds, batch_size=2, seed=0, epoch=epoch, shuffle=False) == expected


def test_impossible_sizes_are_refused():
    with pytest.raises(BatchingError, match="batch_size is None and max_seconds None; expected one of them"):
        bucketed_batches([1.0], seed=0, epoch=0)
    with pytest.raises(BatchingError, match="3 utterances do not fill one batch over 1 ranks; lower batch_size"):
        bucketed_batches([1.0, 2.0, 3.0], batch_size=4, seed=0, epoch=0)
    message = r"utterance 1 lasts 20\.00 s: more than a batch may hold, max_seconds 16; so do 1 others"
    with pytest.raises(BatchingError, match=message):
        bucketed_batches([1.0, 20.0, 30.0], max_seconds=16, seed=0, epoch=0)


def test_the_whole_of_librispeech_takes_a_moment():
    seconds = librispeech_like(281_241)
    for size in ({"batch_size": 64}, {"max_seconds": 1000}):
        assert_takes_less(1, lambda size=size: bucketed_batches(seconds, **size, seed=0, epoch=0, ranks=8, rank=3))


BLOCKS = np.repeat(np.arange(5000, dtype=np.uint32) * np.uint32(2654435761), 10)
"""Of utterances that lie ten by ten."""


def in_windows(seconds: np.ndarray, ranks: int, **size) -> list[Batches]:
    return [
        bucketed_batches(seconds, **size, seed=1, epoch=2, ranks=ranks, rank=rank, blocks=BLOCKS)
        for rank in range(ranks)
    ]


def test_in_windows_every_utterance_occurs_once_and_any_number_of_ranks_sees_the_same_global_batches(monkeypatch):
    monkeypatch.setattr(batching, "WINDOW", 10_000)
    seconds = librispeech_like(len(BLOCKS))
    for alone, shared in (({"batch_size": 400}, {"batch_size": 50}), ({"max_seconds": 8000}, {"max_seconds": 1000})):
        (whole,) = in_windows(seconds, 1, **alone)
        shares = in_windows(seconds, 8, **shared)
        if "batch_size" in alone:
            assert [sorted(batch) for batch in whole] == [
                sorted(itertools.chain(*step)) for step in zip(*shares, strict=True)
            ]
            assert all(len(set(map(len, step))) == 1 for step in zip(*shares, strict=True))
        for ranks in ([whole], shares):
            seen = [index for batches in ranks for batch in batches for index in batch]
            assert len(seen) == len(set(seen)) > len(BLOCKS) - 400
        for step in zip(*shares, strict=True):
            assert all(seconds[batch].max() * len(batch) <= 1000 for batch in step) or "batch_size" in alone


def test_a_window_has_whole_blocks_of_which_most_are_read_by_one_rank_and_no_others_for_it(monkeypatch):
    monkeypatch.setattr(batching, "WINDOW", 10_000)
    seconds = librispeech_like(len(BLOCKS))
    shares = in_windows(seconds, 8, batch_size=50)
    of_window = [[{BLOCKS[i] for batch in batches[:25] for i in batch} for batches in shares]]
    for ranks in of_window:
        assert len(set.union(*ranks)) <= 1001  # the last one goes on in the next window
        assert sum(map(len, ranks)) < 2 * len(set.union(*ranks))  # 8 times as many, dealt out by length
    assert (
        bucketed_batches(seconds, batch_size=400, seed=1, epoch=3, blocks=BLOCKS)
        != in_windows(seconds, 1, batch_size=400)[0]
    )


def test_windows_mix_a_corpus_that_lies_in_order_and_cost_few_steps():
    count = 1 << 18
    seconds = librispeech_like(count)
    speakers = np.arange(count) // 200
    blocks = (np.arange(count) // 10).astype(np.uint32)
    batches = bucketed_batches(seconds, batch_size=256, seed=0, epoch=0, blocks=blocks)
    assert np.mean([len(set(speakers[batch])) for batch in batches]) >= 225  # of 1,300 speakers; a full order has 233
    steps = len(bucketed_batches(seconds, max_seconds=400, seed=0, epoch=0, ranks=16, blocks=blocks))
    assert steps < 1.07 * seconds.sum() / 400 / 16
    assert padding(seconds, bucketed_batches(seconds, max_seconds=400, seed=0, epoch=0, blocks=blocks)) < 0.04
