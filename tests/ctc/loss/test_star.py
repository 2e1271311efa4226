"""Stars in targets: any number of frames of anything, in the loss and in alignments."""

import itertools
import math

import pytest
import torch

import ctc
from ctc.alignment.align import split_stars
from ctc.bindings import _compiled_loss, _library, _native
from ctc.loss import reference
from tests.ctc.enumeration import brute_force_star_loss, collapse

STAR = -1
CASES = [
    (1, 2, [STAR]),
    (3, 3, [STAR, STAR]),
    (3, 3, [1, STAR]),
    (3, 3, [STAR, 1]),
    (4, 3, [1, STAR, 2]),
    (4, 3, [1, STAR, 1]),
    (4, 3, [1, 1, STAR]),
    (4, 3, [STAR, 1, STAR]),
    (4, 4, [STAR, 3, 1]),
    (4, 3, [1, 2]),
]


def logits(*shape, dtype=torch.float64, seed=0, scale=2.0):
    return (scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).to(dtype)


def loss_and_gradient(x, targets, frames=None, **options):
    """The loss of one utterance [T, V] with a star, and its gradient."""
    x = x.detach().requires_grad_()
    frames = len(x) if frames is None else frames
    loss = ctc.ctc_loss(
        x, torch.tensor(targets, dtype=torch.int64), [frames], [len(targets)], reduction="none", star=STAR, **options
    )
    return loss.item(), torch.autograd.grad(loss, x)[0]


@pytest.mark.parametrize(("frames", "classes", "targets"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_the_loss_is_that_of_all_ways_to_give_frames_away(frames, classes, targets, dtype, tolerance):
    for blank in range(classes):
        own = [0 if label == blank else label for label in targets]  # written for blank 0
        x = logits(frames, classes, dtype=dtype, seed=blank).requires_grad_()
        expected = brute_force_star_loss(x, own, STAR, blank)
        loss, gradient = loss_and_gradient(x, own, blank=blank)
        assert loss == pytest.approx(expected.item(), abs=tolerance)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, x)[0], rtol=0, atol=tolerance)


@pytest.mark.parametrize("classes", [29, 300])  # a small alphabet and a large one take different ways
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_long_utterances_agree_with_the_plain_recursion(classes, dtype):
    draw = torch.Generator().manual_seed(1)
    targets_BL = torch.randint(1, classes, (3, 20), generator=draw)
    targets_BL[0, [0, 7, 19]] = targets_BL[1, 3:5] = targets_BL[2, 10] = STAR
    frames_B, lengths_B = torch.tensor([90, 64, 75]), torch.tensor([20, 13, 10])  # the last one's star is padding
    x_TBV = logits(90, 3, classes, scale=3.0).to(dtype).requires_grad_()
    found_B = ctc.ctc_loss(x_TBV, targets_BL, frames_B, lengths_B, reduction="none", star=STAR)
    (gradient_TBV,) = torch.autograd.grad(found_B.sum(), x_TBV)
    exact_TBV = x_TBV.detach().double().requires_grad_()
    expected_B = reference.star_losses(exact_TBV, targets_BL, frames_B, lengths_B, 0, STAR)
    (expected_TBV,) = torch.autograd.grad(expected_B.sum(), exact_TBV)
    torch.testing.assert_close(found_B.double(), expected_B, rtol=1e-6, atol=0)
    error = (gradient_TBV.double() - expected_TBV).norm() / expected_TBV.norm()
    assert error < {torch.float64: 1e-10, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}[dtype]
    without = ctc.ctc_loss(x_TBV[:, 2:], targets_BL[2:, :10], frames_B[2:], lengths_B[2:], reduction="none")
    assert found_B[2].item() == pytest.approx(without.item(), rel=1e-6)


def test_the_gradient_is_that_of_differences():
    targets_BL = torch.tensor([[1, STAR, 2, 2], [STAR, 3, 0, 0]])
    x_TBV = logits(6, 2, 4).requires_grad_()

    def loss(x_TBV):
        options = {"label_smoothing": 0.1, "entropy_weight": 0.05, "star": STAR}
        return ctc.ctc_loss(x_TBV, targets_BL, [6, 5], [4, 2], reduction="mean", **options)

    assert torch.autograd.gradcheck(loss, x_TBV)


def test_a_star_alone_takes_everything_and_teaches_nothing():
    for dtype in (torch.float64, torch.float32):
        loss, gradient = loss_and_gradient(logits(50, 29, dtype=dtype, scale=10.0), [STAR])
        assert loss == pytest.approx(0.0, abs=1e-5)
        assert gradient.abs().max() < 1e-6


def test_what_a_transcript_leaves_out_costs_nothing_where_a_star_stands():
    path = [1, 0, 2, 3, 0, 2, 4, 4, 0, 1]
    x = 30.0 * torch.nn.functional.one_hot(torch.tensor(path), 5).double()
    complete = loss_and_gradient(x, collapse(path, 0))[0]
    for partial in ([1, STAR, 4, 1], [STAR, 4, 1], [1, 2, STAR], [STAR, 3, 2, STAR, 1]):
        starred = loss_and_gradient(x, partial)[0]
        assert starred == pytest.approx(complete, abs=math.log(3))  # frames beside a star may be given to either
        without = [label for label in partial if label != STAR]
        assert loss_and_gradient(x, without)[0] > 25


def test_padding_batch_and_threads_do_not_change_a_bit():
    x_TBV = logits(40, 3, 29, dtype=torch.float32)
    x_TBV[25:, 0] = math.nan
    targets_BL = torch.tensor([[3, STAR, 4], [STAR, 5, 99], [7, 8, 9]])
    together_B = ctc.ctc_loss(x_TBV, targets_BL, [25, 40, 40], [3, 2, 3], reduction="none", star=STAR)
    for item, (frames, labels) in enumerate([(25, 3), (40, 2), (40, 3)]):
        alone = loss_and_gradient(x_TBV[:frames, item], targets_BL[item, :labels].tolist())[0]
        assert alone == together_B[item].item()


def test_concatenated_targets_and_compiled_losses_know_stars():
    x_TBV = logits(12, 2, 5, dtype=torch.float32)
    padded = ctc.ctc_loss(x_TBV, torch.tensor([[1, STAR, 2], [STAR, 4, 0]]), [12, 9], [3, 2], star=STAR)
    flat = torch.tensor([1, STAR, 2, STAR, 4])
    lengths = torch.tensor([12, 9]), torch.tensor([3, 2])
    assert ctc.ctc_loss(x_TBV, flat, *lengths, star=STAR) == padded
    compiled = torch.compile(lambda x: ctc.ctc_loss(x, flat, *lengths, star=STAR), backend="eager", fullgraph=True)
    assert compiled(x_TBV) == padded


@pytest.mark.parametrize("classes", [29, 300])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_compiled_node_and_that_of_python_give_the_same_bits(classes, dtype, monkeypatch):
    x = logits(60, classes, dtype=dtype)
    compiled = loss_and_gradient(x, [3, STAR, 4, 4, STAR])
    monkeypatch.setattr(_compiled_loss, "function", lambda: None)
    loss, gradient = loss_and_gradient(x, [3, STAR, 4, 4, STAR])
    assert loss == compiled[0]
    assert torch.equal(gradient, compiled[1])


def test_equal_neighbours_need_a_frame_between_them_even_with_a_star():
    assert loss_and_gradient(logits(2, 3), [1, STAR, 1])[0] == math.inf
    assert loss_and_gradient(logits(3, 3), [1, STAR, 1])[0] < math.inf
    assert loss_and_gradient(logits(2, 3), [1, STAR, 2])[0] < math.inf


def test_nan_anywhere_in_a_frame_is_nan_and_a_class_at_minus_infinity_is_not():
    x = logits(6, 40, dtype=torch.float32)
    x[2, 39] = -math.inf
    loss, gradient = loss_and_gradient(x, [1, STAR])
    assert math.isfinite(loss)
    assert gradient.isfinite().all()
    x[2, 39] = math.nan
    loss, gradient = loss_and_gradient(x, [1, STAR])
    assert math.isnan(loss)
    assert gradient.isnan().all()
    x[2] = -math.inf
    assert loss_and_gradient(x, [1, STAR])[0] == math.inf


@pytest.mark.parametrize("frames", [0, 1])
def test_no_frames_hold_a_star_and_no_label(frames):
    x = logits(frames, 3, dtype=torch.float32)
    assert loss_and_gradient(x, [STAR], frames=0)[0] == 0
    assert loss_and_gradient(x, [], frames=0)[0] == 0
    assert loss_and_gradient(x, [1, STAR], frames=0)[0] == math.inf


def best_way(log_probs_SV, targets, blank):
    """The largest log-probability of all ways to give the frames away, by the definition."""
    labels, is_star = split_stars(targets, STAR)
    best_S = log_probs_SV.max(1).values.tolist()
    rows = log_probs_SV.tolist()
    found = [-math.inf]
    for way in itertools.product(range(2 * len(labels) + 1), repeat=len(rows)):
        steps = list(itertools.pairwise((0, *way)))
        skips = [(b // 2, p // 2) for b, p in steps if p - b == 2 and p % 2]
        is_possible = all(p - b in (0, 1) or (p - b == 2 and p % 2) for b, p in steps)
        if not is_possible or way[-1] < 2 * len(labels) - 1 or any(labels[b] == labels[p] for b, p in skips if p > b):
            continue
        scores = [
            row[labels[place // 2]] if place % 2 else max(row[blank], best if is_star[place // 2] else -math.inf)
            for row, best, place in zip(rows, best_S, way, strict=True)
        ]
        found.append(sum(scores))
    return max(found)


@pytest.mark.parametrize(("frames", "classes", "targets"), [case for case in CASES if case[0] > 1])
def test_the_alignment_around_stars_is_the_best_of_all(frames, classes, targets, monkeypatch):
    for seed in range(5):
        log_probs_SV = logits(frames, classes, seed=seed).log_softmax(1)
        arguments = (log_probs_SV[None], [targets], [frames])
        (found,) = ctc.align(*arguments, star=STAR)
        assert found.log_prob == pytest.approx(best_way(log_probs_SV, targets, 0), abs=1e-12)
        assert len(found.start_frames) == len(targets)
        with monkeypatch.context() as patch:
            patch.setattr(_native, "load", lambda: None)
            patch.setattr(_library, "warn_slow", lambda what, computes_in: None)
            assert ctc.align(*arguments, star=STAR)[0].log_prob == pytest.approx(found.log_prob, abs=1e-12)


def test_the_span_of_a_star_is_what_lies_between_its_neighbours():
    path = [0, 3, 1, 1, 0, 4, 4, 2, 0, 3]
    scores_BSV = 20.0 * torch.nn.functional.one_hot(torch.tensor([path]), 5)
    (found,) = ctc.align(scores_BSV, [[STAR, 1, STAR, STAR, 2, STAR]], [10], star=STAR)
    assert found.start_frames[1] == 2
    assert found.start_frames[4:] == [7, 8]
    spans = list(zip(found.start_frames, found.end_frames, strict=True))
    assert spans[0] == (0, 2)
    assert spans[2] == (found.end_frames[1], 7)
    assert spans[3] == (7, 7)
    assert spans[5] == (8, 10)
    assert found.scores == pytest.approx([0.0] * 6, abs=1e-6)


def test_an_alignment_names_what_does_not_fit_around_its_stars():
    with pytest.raises(ValueError, match=r"align: star: expected a number that is no class in \[0, 3\), found 1"):
        ctc.align(torch.zeros(1, 4, 3), [[1]], [4], star=1)
    with pytest.raises(ValueError, match="align: targets: item 1: 3 labels need at least 3 frames, found 2"):
        ctc.align(torch.zeros(2, 2, 3), [[1], [1, STAR, 1]], [2, 2], star=STAR)
    impossible = torch.zeros(2, 4, 3)
    impossible[1, :, 2] = -math.inf
    with pytest.raises(ValueError, match="align: log_probs_BSV: item 1: the best path has log-probability -inf"):
        ctc.align(impossible, [[1], [2, STAR]], [4, 4], star=STAR)


def test_a_star_that_is_a_class_is_refused():
    with pytest.raises(ValueError, match=r"star: expected a number that is no class in \[0, 3\), found 2"):
        ctc.ctc_loss(torch.zeros(4, 1, 3), torch.tensor([[1]]), [4], [1], star=2)
    with pytest.raises(
        ValueError, match=r"utterance 0: label 1: expected a class in \[0, 3\) other than blank, 0; fou"
    ):
        ctc.ctc_loss(torch.zeros(4, 1, 3), torch.tensor([[-2, -1]]), [4], [2], star=-2)
