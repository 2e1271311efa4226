"""Monotonic alignment against every alignment there is."""

import itertools

import pytest
import torch
from torch import Tensor

import ctc
from ctc.alignment.monotonic import monotonic_native, monotonic_torch
from ctc.bindings import _native


def native(*arguments: Tensor) -> Tensor:
    library = _native.load()
    if library is None:
        pytest.skip("the native library is not built: python -m ctc.build")
    return monotonic_native(library, *arguments)


BOTH = pytest.mark.parametrize("search", [monotonic_torch, native])


def best_by_enumeration(log_probs_TL: Tensor) -> tuple[float, list[int]]:
    """Score and durations of the best way to cut T frames into L pieces; of equals, whose last pieces begin latest."""
    frames, tokens = log_probs_TL.shape
    found = []
    for cuts in itertools.combinations(range(1, frames), tokens - 1):
        bounds = (0, *cuts, frames)
        score = sum(float(log_probs_TL[a:b, i].sum()) for i, (a, b) in enumerate(itertools.pairwise(bounds)))
        found.append((score, cuts[::-1], [b - a for a, b in itertools.pairwise(bounds)]))
    score, _, durations = max(found)
    return score, durations


@BOTH
@pytest.mark.parametrize("seed", range(20))
def test_no_alignment_is_better_than_the_one_found(search, seed):
    random = torch.Generator().manual_seed(seed)
    frames_B = torch.randint(5, 10, (4,), generator=random)
    lengths_B = torch.minimum(torch.randint(1, 6, (4,), generator=random), frames_B)
    log_probs_BTL = torch.randn(4, int(frames_B.max()) + 2, int(lengths_B.max()) + 1, generator=random)
    if seed % 2:
        log_probs_BTL = log_probs_BTL.round()  # with many alignments that are equally good
    durations_BL = search(log_probs_BTL, frames_B, lengths_B)
    for b, (frames, length) in enumerate(zip(frames_B.tolist(), lengths_B.tolist(), strict=True)):
        _, expected = best_by_enumeration(log_probs_BTL[b, :frames, :length])
        assert durations_BL[b, :length].tolist() == expected
        assert not durations_BL[b, length:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_both_searches_agree_on_long_utterances_however_they_lie_in_memory(dtype):
    random = torch.Generator().manual_seed(0)
    frames_B, lengths_B = torch.tensor([400, 253, 90, 7]), torch.tensor([90, 13, 90, 1])
    log_probs_BTL = (10 * torch.randn(4, 90, 400, generator=random)).log_softmax(1).to(dtype).mT
    expected = monotonic_torch(log_probs_BTL, frames_B, lengths_B)
    assert torch.equal(ctc.monotonic_alignment(log_probs_BTL, frames_B, lengths_B), expected)
    assert expected.sum(1).tolist() == frames_B.tolist()


@BOTH
def test_tokens_that_are_impossible_somewhere_are_gone_around(search):
    log_probs_BTL = torch.full((1, 5, 3), -torch.inf)
    for frame, token in enumerate([0, 0, 1, 2, 2]):
        log_probs_BTL[0, frame, token] = -1.0
    assert search(log_probs_BTL, torch.tensor([5]), torch.tensor([3])).tolist() == [[2, 1, 2]]


@BOTH
def test_an_utterance_with_fewer_frames_than_tokens_has_no_durations(search):
    durations_BL = search(torch.zeros(3, 4, 6), torch.tensor([3, 4, 0]), torch.tensor([6, 4, 0]))
    assert durations_BL.tolist() == [[0] * 6, [1, 1, 1, 1, 0, 0], [0] * 6]


@pytest.mark.parametrize(
    ("shape", "frames", "lengths", "message"),
    [
        ((4, 6), [4], [6], r"shape \(4, 6\), frames of \(1,\).*expected \[B, T, L\], \[B\] and \[B\]"),
        ((2, 4, 6), [4], [6, 6], r"shape \(2, 4, 6\), frames of \(1,\), lengths of \(2,\)"),
        ((1, 4, 6), [5], [6], "up to 5 frames and 6 tokens; the log-probabilities have 4 and 6"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shape, frames, lengths, message):
    if len(shape) == 3 and len(frames) == len(lengths) and _native.load() is None:
        pytest.skip("only native code is given memory that it must not leave")
    with pytest.raises(ValueError, match=message):
        ctc.monotonic_alignment(torch.zeros(shape), torch.tensor(frames), torch.tensor(lengths))


def test_no_tokens_have_no_durations():
    durations = ctc.monotonic_alignment(torch.zeros(2, 5, 0), torch.tensor([5, 5]), torch.tensor([0, 0]))
    assert durations.shape == (2, 0)
