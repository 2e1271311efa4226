"""Losses and gradients are those of float64 by the definition, traps included, natively and in plain torch."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fastconformer.transducer.loss import _loss_library, losses
from fastconformer.transducer.loss._loss_library import TransducerLossOptions, TransducerTargets
from fastconformer.transducer.loss.losses import rnnt_loss, tdt_loss
from tests.ctc.losses import random_layout
from tests.data import shared
from tests.fastconformer.transducer import definition

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
DURATIONS = [(), (0, 1, 2, 3, 4), (1, 2), (0, 2, 7), (0, 3)]


@pytest.fixture(params=["native", "plain torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain torch":
        monkeypatch.setattr(losses, "is_native", lambda *_: False)
    elif _loss_library.functions() is None:
        pytest.skip("no compiler")
    return request.param


def random_batch(*, durations: tuple[int, ...] = (), blank: int = -1, seed: int = 0, scale: float = 2.0) -> Batch:
    """Five utterances, one of them without labels and one without frames; float64."""
    generator = torch.Generator().manual_seed(seed)
    classes = 7
    logits = scale * torch.randn(5, 9, 5, classes + len(durations), generator=generator, dtype=torch.float64)
    targets = torch.randint(0, classes - 1, (5, 4), generator=generator)
    targets += targets >= blank % classes
    return logits, targets, torch.tensor([9, 7, 4, 1, 0]), torch.tensor([4, 0, 4, 2, 0])


def loss_of(batch: Batch, durations: tuple[int, ...] = (), *, sigma: float = 0.0, **options) -> Tensor:
    if durations:
        return tdt_loss(*batch, durations, sigma=sigma, **options)
    return rnnt_loss(*batch, **options)


def loss_and_gradient(batch: Batch, durations: tuple[int, ...] = (), **options) -> tuple[Tensor, Tensor]:
    logits = batch[0].detach().clone().requires_grad_()
    found = loss_of((logits, *batch[1:]), durations, reduction="none", **options)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    return found.detach(), gradient


def truth(batch: Batch, durations: tuple[int, ...] = (), **options) -> tuple[Tensor, Tensor]:
    logits = batch[0].detach().double().requires_grad_()
    batch = (logits, *batch[1:])
    expected = (
        definition.tdt_losses(*batch, durations, **options) if durations else definition.rnnt_losses(*batch, **options)
    )
    (gradient,) = torch.autograd.grad(torch.where(expected.isfinite(), expected, 0.0).sum(), logits)
    return expected.detach(), gradient


@pytest.mark.parametrize("blank", [-1, 0, 2])
@pytest.mark.parametrize("durations", DURATIONS)
def test_loss_and_gradient_are_those_of_the_definition(path: str, durations: tuple[int, ...], blank: int):
    batch = random_batch(durations=durations, blank=blank)
    options = {"sigma": 0.05} if durations else {}
    expected, expected_gradient = truth(batch, durations, blank=blank, **options)
    found, gradient = loss_and_gradient(batch, durations, blank=blank, skip_below=0.0, **options)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-13)
    single = (batch[0].float(), *batch[1:])
    expected, expected_gradient = truth(single, durations, blank=blank, **options)
    found, gradient = loss_and_gradient(single, durations, blank=blank, **options)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=0, atol=1e-6)


@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
def test_long_utterances_are_as_exact(durations: tuple[int, ...]):
    torch.manual_seed(3)
    logits = torch.randn(1, 200, 51, 64 + len(durations))
    batch = (logits, torch.randint(0, 63, (1, 50)), torch.tensor([200]), torch.tensor([50]))
    x = logits.double().requires_grad_()
    options = TransducerLossOptions(blank=63, durations=durations)
    expected = losses.plain_losses(x, TransducerTargets(*batch[1:]), options)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), x)
    found, gradient = loss_and_gradient(batch, durations)
    assert abs(found.double() - expected).item() <= 1e-6 * expected.item()
    assert (gradient - expected_gradient).abs().max().item() <= 2e-6


def test_losses_are_those_of_nemo_and_transformers(path: str):
    golden = np.load(shared("golden/transducer") / "losses.npz")
    labels = [torch.from_numpy(golden[name]).long() for name in ("targets", "input_lens", "target_lens")]
    cases = {
        "rnnt": ("rnnt", "_f64", (), {}),
        "rnnt_fastemit001": ("rnnt", "", (), {"fastemit": 0.01}),
        "tdt_d01234_sigma0": ("tdt_d01234", "_f64", (0, 1, 2, 3, 4), {}),
        "tdt_d01234_sigma0.05": ("tdt_d01234", "_f64", (0, 1, 2, 3, 4), {"sigma": 0.05}),
    }
    for name, (logits, suffix, durations, options) in cases.items():
        batch = (torch.from_numpy(golden[f"{logits}_logits"]), *labels)
        found, gradient = loss_and_gradient(batch, durations, **options)
        np.testing.assert_allclose(found, golden[f"{name}_loss{suffix}"], atol=2e-5, err_msg=name)
        np.testing.assert_allclose(gradient, golden[f"{name}_grad{suffix}"], atol=2e-5, err_msg=name)


def test_rnnt_on_the_labels_of_tdt_is_what_omega_chooses(path: str):
    golden = np.load(shared("golden/transducer") / "losses.npz")
    labels = [torch.from_numpy(golden[name]).long() for name in ("targets", "input_lens", "target_lens")]
    logits = torch.from_numpy(golden["tdt_d01234_logits"])[..., :17]  # a view with gaps
    found, gradient = loss_and_gradient((logits, *labels))
    np.testing.assert_allclose(found, golden["tdt_d01234_omega_rnnt_loss"], atol=2e-5)
    np.testing.assert_allclose(gradient, golden["tdt_d01234_omega_rnnt_grad"][..., :17], atol=2e-5)


def test_fastemit_raises_loss_and_gradient_of_labels(path: str):
    batch = random_batch()
    expected, expected_gradient = truth(batch, fastemit=0.3)
    found, gradient = loss_and_gradient(batch, fastemit=0.3, skip_below=0.0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("instruction_set", ["generic", "avx2", "avx512"])
def test_every_instruction_set_gives_the_same(durations: tuple[int, ...], instruction_set: str):
    for dtype, tolerance in (
        (torch.float64, 1e-12),
        (torch.float32, 1e-6),
        (torch.bfloat16, 4e-3),
        (torch.float16, 5e-4),
    ):
        torch.manual_seed(1)
        logits = (2 * torch.randn(3, 12, 6, 150 + len(durations))).to(dtype)
        labels = TransducerTargets(torch.randint(0, 149, (3, 5)), torch.tensor([12, 9, 5]), torch.tensor([5, 2, 4]))
        options = TransducerLossOptions(blank=149, durations=durations, skip_below=0, instruction_set=instruction_set)
        try:
            found, lattices = _loss_library.losses(logits, labels, options)
        except RuntimeError as error:
            pytest.skip(str(error))
        gradient = torch.empty_like(logits)
        _loss_library.gradient(logits, labels, options, torch.ones(3, dtype=torch.float64), lattices, gradient)
        x = logits.double().requires_grad_()
        expected = losses.plain_losses(x, labels, options)
        torch.testing.assert_close(found, expected.detach(), rtol=2e-7, atol=1e-10)
        expected_gradient = torch.autograd.grad(expected.sum(), x)[0]
        torch.testing.assert_close(gradient.double(), expected_gradient, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
def test_an_utterance_has_bitwise_the_same_loss_and_gradient_alone_and_in_any_batch(
    durations: tuple[int, ...], dtype: torch.dtype
):
    logits, targets, frames, counts = random_batch(durations=durations)
    logits = logits.to(dtype)
    together, gradient = loss_and_gradient((logits, targets, frames, counts), durations)
    for n, (T, L) in enumerate(zip(frames.tolist(), counts.tolist(), strict=True)):
        alone = (logits[n : n + 1, :T, : L + 1], targets[n : n + 1, :L], frames[n : n + 1], counts[n : n + 1])
        loss, own_gradient = loss_and_gradient(alone, durations)
        assert torch.equal(loss[0], together[n])
        assert torch.equal(own_gradient[0], gradient[n, :T, : L + 1])
        assert not gradient[n, T:].any()
        assert not gradient[n, :, L + 1 :].any()


def test_threads_do_not_change_a_bit():
    torch.manual_seed(0)
    batch = (torch.randn(6, 40, 20, 60), torch.randint(0, 59, (6, 19)), torch.full((6,), 40), torch.full((6,), 19))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one, gradient_of_one = loss_and_gradient(batch)
        torch.set_num_threads(3)
        three, gradient_of_three = loss_and_gradient(batch)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one, three)
    assert torch.equal(gradient_of_one, gradient_of_three)


@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
def test_what_lies_behind_the_lengths_has_no_effect(path: str, durations: tuple[int, ...]):
    logits, targets, frames, counts = random_batch(durations=durations)
    expected, expected_gradient = loss_and_gradient((logits, targets, frames, counts), durations)
    logits, targets = logits.clone(), targets.clone()
    for n, (T, L) in enumerate(zip(frames.tolist(), counts.tolist(), strict=True)):
        logits[n, T:] = torch.nan
        logits[n, :, L + 1 :] = torch.inf
        targets[n, L:] = 10**9
    found, gradient = loss_and_gradient((logits, targets, frames, counts), durations)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=0)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
def test_a_bad_number_spoils_its_own_utterance_and_no_other(path: str, durations: tuple[int, ...], value: float):
    logits, targets, frames, counts = random_batch(durations=durations)
    clean, clean_gradient = loss_and_gradient((logits, targets, frames, counts), durations)
    logits = logits.clone()
    logits[1, 3, 0, -1] = value
    found, gradient = loss_and_gradient((logits, targets, frames, counts), durations)
    others = [0, 2, 3, 4]
    assert found[1].isnan()
    assert gradient[1, :7, :1].isnan().all()
    assert not gradient[1, 7:].any()
    assert not gradient[1, :, 1:].any()
    assert torch.equal(found[others], clean[others])
    assert torch.equal(gradient[others], clean_gradient[others])


def test_a_target_without_a_path_costs_infinity_and_has_no_gradient(path: str):
    logits, targets, frames, counts = random_batch()
    logits[0, :, :, targets[0, 2]] = -torch.inf  # a class that it needs
    logits[2, 0, 0] = -torch.inf  # nothing is possible in its first cell
    found, gradient = loss_and_gradient((logits, targets, frames, counts))
    assert found.isinf().tolist() == [True, False, True, False, True]  # the last has no frames
    assert found[found.isinf()].min() > 0
    assert not gradient[[0, 2, 4]].any()
    assert gradient.isfinite().all()


def test_durations_that_cannot_add_up_to_the_frames_are_impossible(path: str):
    logits, targets, _, _ = random_batch(durations=(0, 3))
    frames, counts = torch.tensor([9, 8, 7, 6, 3]), torch.tensor([4, 4, 4, 4, 4])
    found, gradient = loss_and_gradient((logits, targets, frames, counts), (0, 3))
    assert found.isinf().tolist() == [False, True, True, False, False]
    assert not gradient[[1, 2]].any()


def test_logits_at_minus_infinity_that_nobody_needs_have_no_effect(path: str):
    logits, targets, frames, counts = random_batch()
    targets = targets.clamp(max=4)
    logits[..., 5] = -torch.inf
    found, gradient = loss_and_gradient((logits, targets, frames, counts), skip_below=0.0)
    without = torch.cat([logits[..., :5], logits[..., 6:]], dim=-1)
    expected, expected_gradient = loss_and_gradient((without, targets, frames, counts), skip_below=0.0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert not gradient[..., 5].any()
    torch.testing.assert_close(gradient[..., 6], expected_gradient[..., 5], rtol=0, atol=1e-12)


def test_cells_that_are_skipped_have_gradient_0_and_the_rest_is_as_it_was():
    torch.manual_seed(0)
    logits = torch.randn(2, 30, 8, 20, dtype=torch.float64)
    logits[..., 19] += 4  # long waits for the first label
    batch = (logits, torch.randint(0, 19, (2, 7)), torch.tensor([30, 22]), torch.tensor([7, 5]))
    _, whole = loss_and_gradient(batch, skip_below=0.0)
    _, gradient = loss_and_gradient(batch, skip_below=1e-3)
    is_skipped = (gradient == 0).all(-1)
    assert is_skipped.sum() > (whole == 0).all(-1).sum()
    assert torch.equal(gradient[~is_skipped], whole[~is_skipped])
    assert whole[is_skipped].abs().max() < 1e-3


@pytest.mark.parametrize("sigma", [0.0, 0.05])
def test_what_is_skipped_is_little_of_a_gradient_that_is_little_itself(sigma: float):
    """A model that is sure of its targets: what is skipped is compared with what is left to other sequences."""
    logits, targets, frames, counts = sure_batch()
    options = {"sigma": sigma, "skip_below": 1e-4}
    found, gradient = loss_and_gradient((logits, targets, frames, counts), (0, 1), **options)
    _, whole = loss_and_gradient((logits, targets, frames, counts), (0, 1), **(options | {"skip_below": 0.0}))
    assert found.item() - sigma * 27 < 2e-2
    assert (gradient == 0).all(-1).sum() > (whole == 0).all(-1).sum()
    assert (gradient - whole).norm() <= 1e-3 * whole.norm()


def sure_batch() -> Batch:
    """An utterance whose label u is due at frame 3 u; durations 0 and 1."""
    torch.manual_seed(0)
    targets = torch.randint(0, 11, (1, 7))
    logits = torch.randn(1, 20, 8, 14, dtype=torch.float64)
    logits[..., 11] += 14
    logits[..., 13] += 14
    for u, label in enumerate(targets[0].tolist()):
        logits[0, 3 * u, u, label] += 28
        logits[0, 3 * u, u, 12] += 28
    return logits, targets, torch.tensor([20]), torch.tensor([7])


def test_reductions_are_the_losses_their_sum_and_their_mean_over_utterances(path: str):
    batch = random_batch(durations=(0, 1))
    batch = (batch[0][:4], *(x[:4] for x in batch[1:]))
    none, gradient = loss_and_gradient(batch, (0, 1))
    for reduction, factor in (("sum", 1.0), ("mean", 0.25)):
        x = batch[0].clone().requires_grad_()
        loss = loss_of((x, *batch[1:]), (0, 1), reduction=reduction)
        assert loss.item() == pytest.approx(factor * none.sum().item(), rel=1e-12)
        (found,) = torch.autograd.grad(3 * loss, x)
        torch.testing.assert_close(found, 3 * factor * gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("durations", [(), (0, 1, 2)])
@pytest.mark.parametrize("compiles", [False, True])
def test_logits_of_any_layout_have_a_gradient_with_memory_of_its_own(durations, compiles):
    call = torch.compile(loss_of, backend="aot_eager", dynamic=False) if compiles else loss_of
    for seed in range(4 if compiles else 200):
        B, T, L, V, dtype = (
            1 + seed % 3,
            1 + seed % 4,
            seed % 3,
            2 + seed % 4,
            (torch.float32, torch.bfloat16)[seed % 2],
        )
        x = random_layout((B, T, L + 1, V + len(durations)), seed, dtype)
        rest = torch.zeros(B, L, dtype=torch.int64), torch.full((B,), T), torch.full((B,), L)
        leaf = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(call((leaf, *rest), durations), leaf)
        copy_of_x = x.clone(memory_format=torch.contiguous_format).requires_grad_()
        (wanted,) = torch.autograd.grad(loss_of((copy_of_x, *rest), durations), copy_of_x)
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=0, msg=f"seed {seed}, strides {x.stride()}")


def test_in_place_on_shared_memory_is_refused():
    logits, *rest = random_batch()
    shared_logits = logits[:1].expand(5, -1, -1, -1).requires_grad_()
    with pytest.raises(ValueError, match="in_place: expected logits whose elements have memory of their own, found"):
        rnnt_loss(shared_logits, *rest, in_place=True)


@pytest.mark.usefixtures("native")
def test_in_place_the_gradient_takes_the_place_of_the_logits():
    batch = random_batch()
    _, expected = loss_and_gradient(batch)
    leaf = batch[0].clone().requires_grad_()
    logits = leaf * 1
    rnnt_loss(logits, *batch[1:], reduction="sum", in_place=True).backward()
    assert torch.equal(leaf.grad, expected)
    assert torch.equal(logits.detach(), expected)


@pytest.mark.usefixtures("native")
def test_a_second_derivative_is_an_error():
    batch = random_batch()
    x = batch[0].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(rnnt_loss(x, *batch[1:], reduction="sum"), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        gradient.sum().backward()


@pytest.mark.usefixtures("native")
def test_the_operators_keep_to_the_rules_of_torch():
    logits, targets, frames, counts = random_batch(durations=(0, 1))
    x = logits.clone().requires_grad_()
    options = TransducerLossOptions(blank=6, durations=(0, 1), skip_below=0.0)
    own = _loss_library.given(TransducerTargets(targets, frames, counts), options)
    assert _loss_library.taken((*own, True)) == ((targets, frames, counts), options, (True,))
    arguments = (x, *own, True, False)
    torch.library.opcheck(torch.ops.transducer.losses.default, arguments)
    _, lattices = torch.ops.transducer.losses(*arguments)
    scale = torch.ones(5, dtype=torch.float64)
    torch.library.opcheck(torch.ops.transducer.gradient.default, (logits, *own, scale, lattices))


def test_empty_batches_and_batches_without_labels_are_no_special_case(path: str):
    logits = torch.randn(0, 4, 3, 5, requires_grad=True)
    nothing = torch.zeros(0, dtype=torch.int64)
    loss = rnnt_loss(logits, torch.zeros(0, 2, dtype=torch.int64), nothing, nothing, reduction="mean")
    loss.backward()
    assert loss.item() == 0
    logits = torch.randn(2, 4, 1, 5, requires_grad=True)
    loss = rnnt_loss(logits, torch.zeros(2, 0, dtype=torch.int64), [4, 3], [0, 0], reduction="sum")
    blanks = logits.detach().log_softmax(-1)[:, :, 0, -1]
    assert loss.item() == pytest.approx(-(blanks[0].sum() + blanks[1, :3].sum()).item(), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"logits": torch.zeros(5, 9, 7)},
            r"logits: expected \[utterance, frame, position, output\], found shape \[5, 9, 7\]",
        ),
        ({"logits": torch.zeros(5, 9, 0, 7)}, "logits: expected one position at least"),
        ({"targets": torch.zeros(4, 4, dtype=torch.int64)}, r"targets: expected \[5, labels\], found shape \[4, 4\]"),
        ({"frames": torch.tensor([9, 7])}, r"frames: expected one for each of 5 utterances, found \[2\]"),
        ({"frames": [9, 7, 10, 1, 0]}, "utterance 2: frames: expected at least 0 and at most 9, found 10"),
        ({"counts": [4, 0, 4, 5, 0]}, "utterance 3: target length: expected at least 0 and at most 4, found 5"),
        (
            {"targets": torch.full((5, 4), 6)},
            r"utterance 0: label 0: expected a class in \[0, 7\) other than blank, 6; found 6",
        ),
        ({"blank": 7}, "blank: expected one of 7 classes, found 7"),
        ({"reduction": "all"}, "reduction: expected 'none', 'mean' or 'sum', found 'all'"),
        ({"fastemit": -0.1}, "fastemit: expected a number that is not negative, found -0.1"),
        ({"skip_below": float("nan")}, "skip_below: expected a number that is not negative, found nan"),
    ],
)
def test_arguments_that_do_not_fit_are_named(path: str, change: dict[str, object], message: str):
    logits, targets, frames, counts = random_batch()
    given = {"logits": logits, "targets": targets, "frames": frames, "counts": counts} | change
    options = {name: value for name, value in given.items() if name not in ("logits", "targets", "frames", "counts")}
    with pytest.raises(ValueError, match=message):
        rnnt_loss(given["logits"], given["targets"], given["frames"], given["counts"], **options)


@pytest.mark.parametrize("durations", [(), (0,), (1, 1), (2, 1), (-1, 2)])
def test_durations_have_to_ascend(durations: tuple[int, ...]):
    with pytest.raises(
        ValueError, match="durations: expected ascending numbers of frames, one above 0 at least, found"
    ):
        tdt_loss(*random_batch(), durations)


def test_sigma_has_to_be_finite():
    with pytest.raises(ValueError, match="sigma: expected a finite number, found inf"):
        tdt_loss(*random_batch(), (0, 1), sigma=float("inf"))


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (0, "logits: expected float32, float64, float16 or bfloat16, found torch.int64"),
        (1, "targets: expected integers, found torch.float32"),
        (2, "frames: expected integers, found torch.float32"),
        (3, "target_lengths: expected integers, found torch.float32"),
    ],
)
def test_types_that_do_not_fit_are_named(which: int, message: str):
    batch = list(random_batch())
    batch[which] = batch[which].long() if which == 0 else batch[which].float()
    with pytest.raises(TypeError, match=message):
        rnnt_loss(*batch)
