"""Normalisation, sum, ReLU and dropout in one pass: values, gradients and statistics against float64."""

import pytest
import torch
from torch import nn

from common.convolution import native, products
from common.devices import distributed
from common.lengths import inside
from common.training.layers.batch_norm import SyncBatchNorm1d, is_one_pass, normalized, synchronized
from common.training.layers.dropout import dropout
from tests.processes import fork

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native library was never built")


def norms_of(count: int, channels: int) -> list[nn.BatchNorm1d]:
    norms = [nn.BatchNorm1d(channels, eps=1e-3) for _ in range(count)]
    for norm in norms:
        nn.init.normal_(norm.weight, 1.0, 0.3)
        nn.init.normal_(norm.bias)
    return norms


def defined(norms: list[nn.BatchNorm1d], xs: list[torch.Tensor], mask: torch.Tensor) -> torch.Tensor:
    return (torch.stack([norm(x) for norm, x in zip(norms, xs, strict=True)]).sum(0) * mask).relu()


@pytest.mark.parametrize("probability", [0.0, 0.25])
@pytest.mark.parametrize(("branches", "shape"), [(1, (8, 40, 105)), (3, (3, 33, 350)), (2, (2, 4, 1)), (1, (1, 3, 2))])
def test_values_gradients_and_statistics_are_those_of_the_sum_as_it_is_defined(branches, shape, probability):
    torch.manual_seed(0)
    utterances, channels, frames = shape
    norms, xs = norms_of(branches, channels), [torch.randn(shape) + 3 for _ in range(branches)]
    exact_norms = norms_of(branches, channels)
    for norm, exact in zip(norms, exact_norms, strict=True):
        exact.load_state_dict(norm.state_dict())
        exact.double()
    mask_B1T = inside(torch.randint(1, frames + 1, (utterances,)), frames)[:, None].float()
    leaves, exact_leaves = [x.requires_grad_() for x in xs], [x.detach().double().requires_grad_() for x in xs]
    torch.manual_seed(1)
    found = normalized(norms, leaves, mask_B1T, probability)
    torch.manual_seed(1)
    kept = dropout(torch.ones(shape), probability, training=True)
    wanted = defined(exact_norms, exact_leaves, mask_B1T.double()) * kept.double()
    grad = torch.randn(shape)
    ours = torch.autograd.grad(found, [*leaves, *(p for norm in norms for p in norm.parameters())], grad)
    theirs = [*exact_leaves, *(p for norm in exact_norms for p in norm.parameters())]
    for mine, exact in zip((found, *ours), (wanted, *torch.autograd.grad(wanted, theirs, grad.double())), strict=True):
        torch.testing.assert_close(
            mine.double(), exact, rtol=0, atol=3e-6 * max(1.0, float(exact.detach().abs().max()))
        )
    for norm, exact in zip(norms, exact_norms, strict=True):
        for mine, reference in zip(norm.buffers(), exact.buffers(), strict=True):
            torch.testing.assert_close(mine.double(), reference.double(), rtol=1e-6, atol=1e-6)


def test_what_is_not_a_number_stays_so():
    norms, x_BCT = norms_of(1, 3), torch.randn(2, 3, 40)
    x_BCT[1, 2, 5] = torch.nan
    found = normalized(norms, [x_BCT], torch.ones(2, 1, 40))
    assert found[:, 2].isnan().all()
    assert not found[:, :2].isnan().any()


def test_a_mask_may_be_of_booleans_and_has_to_fit():
    norms, x_BCT, mask_B1T = norms_of(1, 6), torch.randn(2, 6, 40), torch.rand(2, 1, 40) > 0.5
    torch.testing.assert_close(normalized(norms, [x_BCT], mask_B1T), normalized(norms, [x_BCT], mask_B1T.float()))
    with pytest.raises(ValueError, match=r"expected equal ones \[B, C, T\], and of the mask \[B, 1, T\]"):
        normalized(norms, [x_BCT], mask_B1T[..., :39])


def test_inputs_may_have_gaps():
    norms, wide = norms_of(1, 6), torch.randn(2, 6, 80)
    mask_B1T = torch.ones(2, 1, 40)
    narrow, grad = wide[..., ::2], torch.randn(40, 6, 2).permute(2, 1, 0)
    leaf = narrow.clone().requires_grad_()
    torch.testing.assert_close(normalized(norms, [narrow], mask_B1T), normalized(norms, [leaf], mask_B1T))
    (found,) = torch.autograd.grad(normalized(norms, [leaf], mask_B1T), leaf, grad)
    (wanted,) = torch.autograd.grad(defined(norms, [leaf], mask_B1T), leaf, grad)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("instructions", ["generic", "avx2", "avx512"])
def test_instructions_and_threads_change_no_more_than_rounding(threads, instructions, monkeypatch):
    number = native.INSTRUCTIONS[instructions]
    if number > native.INSTRUCTIONS[native.best_instructions()]:
        pytest.skip(f"this processor lacks {instructions}")
    monkeypatch.setitem(native.INSTRUCTIONS, "automatic", number)
    norms, x_BCT, mask_B1T = norms_of(2, 9), torch.randn(3, 9, 37, requires_grad=True), torch.ones(3, 1, 37)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    found = normalized(norms, [x_BCT, x_BCT], mask_B1T, 0.0)
    wanted, grad = defined(norms, [x_BCT, x_BCT], mask_B1T), torch.randn(3, 9, 37)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    ours, theirs = (torch.autograd.grad(y, x_BCT, grad) for y in (found, wanted))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda norms, xs: (norms, [xs[0], xs[1].bfloat16()]), "torch.bfloat16 on cpu.*: expected each, and its norm,"),
        (lambda norms, xs: (norms, [x.double() for x in xs]), "torch.float64 on cpu.*: expected each, and its norm, "),
        (lambda norms, xs: ([norms[0], norms[1].bfloat16()], xs), "expected each, and its norm, to be float32"),
        (
            lambda norms, xs: ([norms[0], nn.BatchNorm1d(3)], xs),
            r"a norm of C channels for each; found norms of \[4, 3\]",
        ),
        (lambda norms, xs: (norms, xs[:1]), r"found norms of \[4, 4\]"),
    ],
)
def test_what_the_library_would_read_beyond_is_refused(change, expected):
    norms, xs = change(norms_of(2, 4), [torch.randn(2, 4, 8), torch.randn(2, 4, 8)])
    with pytest.raises(ValueError, match=expected):
        normalized(norms, xs, torch.ones(2, 1, 8))


def in_two() -> None:
    """What each of two processes finds."""
    torch.manual_seed(0)
    with distributed.start("cpu") as world:
        for mean, deviation in ((0, 1), (1e3, 1), (3e3, 1), (-1e5, 10)):
            whole = mean + deviation * torch.randn(5, 3, 40, dtype=torch.float64)
            whole[3:] += deviation  # processes need not have the same distribution, nor as much of it
            grad, rows = torch.randn_like(whole), slice(0, 3) if world.rank == 0 else slice(3, 5)
            whole, plain = whole.float().double().requires_grad_(), nn.BatchNorm1d(3).double()
            ours = nn.Sequential(nn.BatchNorm1d(3))
            synchronized(ours)
            assert type(ours[0]) is SyncBatchNorm1d
            wanted = plain(whole)
            (wanted_grad,) = torch.autograd.grad(wanted, whole, grad)
            x = whole[rows].detach().float().requires_grad_()
            found = ours(x)
            (found_grad,) = torch.autograd.grad(found, x, grad[rows].float())
            off = [(found - wanted[rows]).abs().max(), (found_grad - wanted_grad[rows]).abs().max() * deviation]
            off.append((ours[0].running_var - plain.running_var).abs().max() / deviation**2)
            off.append((ours[0].running_mean - plain.running_mean).abs().max() / max(abs(mean), 1))
            rounded = 2.0**-24 * (abs(mean) / deviation + 10)  # of the values themselves
            assert max(off) < 20 * rounded, (mean, off, rounded)


def test_statistics_of_two_processes_are_those_of_one_also_far_from_zero():
    statuses, told = fork(in_two)
    assert statuses == [0, 0], told


def test_other_normalisations_stay_as_they_are():
    x_BCT, plain = torch.randn(2, 4, 8), nn.BatchNorm1d(4)
    assert is_one_pass([plain], x_BCT)
    assert is_one_pass([plain, nn.BatchNorm1d(4)], x_BCT)
    others = nn.BatchNorm1d(4).eval(), nn.BatchNorm1d(4, affine=False), nn.BatchNorm1d(4, momentum=None)
    assert not any(is_one_pass([other], x_BCT) for other in others)
    assert not is_one_pass([plain, nn.BatchNorm1d(4, momentum=0.2)], x_BCT)
    assert not is_one_pass([plain], torch.randn(1, 4, 1))  # of which torch refuses to make statistics
    assert not is_one_pass([plain], x_BCT.double())
    assert not is_one_pass([nn.BatchNorm1d(4).bfloat16()], x_BCT)
    assert not is_one_pass([plain], torch.randn(2, 0, 8))
    with products.left_to_torch():
        assert not is_one_pass([plain], x_BCT)
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_one_pass([plain], x_BCT)
