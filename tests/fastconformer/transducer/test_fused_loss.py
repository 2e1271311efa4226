"""The loss fused with the joint is that of its logits, and so are the gradients, whatever is skipped or dropped."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from common.benchmark import peak_memory
from fastconformer.transducer.loss import _loss_library, fused_loss, losses

fused = fused_loss.joint_loss
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]
Labels = tuple[Tensor, Tensor, Tensor]
DURATIONS = (0, 1, 2, 3, 4)


@pytest.fixture(params=["native", "plain torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain torch":
        monkeypatch.setattr(fused_loss, "is_native", lambda *_: False)
        monkeypatch.setattr(losses, "is_native", lambda *_: False)
    elif _loss_library.functions() is None:
        pytest.skip("no compiler")
    return request.param


def random_problem(*, outputs: int = 12, dtype: torch.dtype = torch.float64) -> tuple[Inputs, Labels]:
    """Four utterances, one without labels and one without frames."""
    random = torch.Generator().manual_seed(0)
    shapes = ((4, 70, 9), (4, 12, 9), (outputs, 9), (outputs,))
    inputs = tuple(torch.randn(*shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes)
    targets_BL = torch.randint(0, 6, (4, 11), generator=random)
    return inputs, (targets_BL, torch.tensor([70, 31, 9, 0]), torch.tensor([11, 5, 0, 0]))  # type: ignore[return-value]


def unfused(inputs: Inputs, labels: Labels, durations: tuple[int, ...], activation: str, **options) -> Tensor:
    encoded_BTJ, predicted_BUJ, weight_WJ, bias_W = inputs
    hidden_BTUJ = fused_loss.ACTIVATIONS[activation](encoded_BTJ[:, :, None] + predicted_BUJ[:, None])
    logits_BTUW = F.linear(hidden_BTUJ, weight_WJ, bias_W)
    if durations:
        return losses.tdt_loss(logits_BTUW, *labels, durations, sigma=0.05, **options)
    return losses.rnnt_loss(logits_BTUW, *labels, **options)


def sure_problem(sharpness: float, *, durations: tuple[int, ...] = (), frames: int = 60) -> tuple[Inputs, Labels]:
    """Two utterances in float32 whose targets have nearly all of the probability, the second with a target of its own.

    Unit u is 1 where label u is due and 0 elsewhere, but for some noise; a label takes no time and a blank one frame.
    """
    random = torch.Generator().manual_seed(2)
    positions, classes = 9, 12
    due_T = torch.arange(frames) * positions // frames
    encoded_TJ = F.one_hot(due_T, positions).float() + 0.01 * torch.randn(frames, positions, generator=random)
    predicted_UJ = torch.eye(positions) - 1
    targets_L = torch.randint(0, classes - 1, (positions - 1,), generator=random)
    weight_WJ = 0.1 * torch.randn(classes + len(durations), positions, generator=random)
    weight_WJ[targets_L, torch.arange(positions - 1)] += 2 * sharpness
    bias_W = torch.zeros(classes + len(durations))
    bias_W[classes - 1] = sharpness
    if durations:
        bias_W[classes + durations.index(1)] = sharpness
        weight_WJ[classes + durations.index(0), :-1] += 2 * sharpness
    inputs = (encoded_TJ.expand(2, -1, -1), predicted_UJ.expand(2, -1, -1), weight_WJ, bias_W)
    targets_BL = torch.stack([targets_L, targets_L])
    labels = (targets_BL, torch.tensor([frames, frames // 2]), torch.tensor([positions - 1, positions // 2]))
    return tuple(x.clone().requires_grad_() for x in inputs), labels  # type: ignore[return-value]


def finite_sum(losses_B: Tensor) -> Tensor:
    return losses_B[losses_B.isfinite()].sum()


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_losses_and_gradients_are_those_of_the_logits(path: str, durations: tuple[int, ...], activation: str):
    inputs, labels = random_problem()
    options = {"reduction": "none", "blank": 6, "skip_below": 0.0}
    sigma = {"sigma": 0.05} if durations else {}
    found = fused(*inputs, *labels, durations, activation=activation, **sigma, **options)  # type: ignore[arg-type]
    expected = unfused(inputs, labels, durations, activation, **options)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad(finite_sum(found), inputs)
    expected_gradients = torch.autograd.grad(finite_sum(expected), inputs)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("durations", [(), (0, 1, 2), (2, 5)])
def test_the_native_joint_computes_what_float64_does(durations: tuple[int, ...], activation: str):
    (encoded, predicted, weight, bias), (targets, *_) = random_problem()
    wide = tuple(x.detach().clone().requires_grad_() for x in (encoded, predicted, 4 * weight, bias))
    inputs = tuple(x.detach().float().requires_grad_() for x in wide)
    labels = (targets, torch.tensor([70, 1, 9, 3]), torch.tensor([11, 5, 0, 1]))
    options = {"reduction": "none", "fastemit": 0.3, "activation": activation, "sigma": 0.05 if durations else 0.0}
    found = fused(*inputs, *labels, durations, **options)  # type: ignore[arg-type]
    expected = fused(*wide, *labels, durations, skip_below=0.0, **options)  # type: ignore[arg-type]
    assert found.isinf().tolist() == ([False, True, False, True] if durations == (2, 5) else [False] * 4)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-5)
    gradients = torch.autograd.grad(finite_sum(found), inputs)
    for gradient, wanted in zip(gradients, torch.autograd.grad(finite_sum(expected), wide), strict=True):
        assert (gradient - wanted).norm() <= 2e-6 * wanted.norm()


@pytest.mark.usefixtures("native")
def test_the_gradient_of_an_utterance_is_bitwise_the_same_alone_and_in_a_batch():
    (encoded_BTJ, predicted_BUJ, *layer), (targets_BL, frames_B, counts_B) = random_problem(dtype=torch.float32)
    together = fused(encoded_BTJ, predicted_BUJ, *layer, targets_BL, frames_B, counts_B, reduction="none")
    gradients = torch.autograd.grad(finite_sum(together), (encoded_BTJ, predicted_BUJ))
    for n, (T, L) in enumerate(zip(frames_B.tolist(), counts_B.tolist(), strict=True)):
        own = (encoded_BTJ[n : n + 1, :T], predicted_BUJ[n : n + 1, : L + 1])
        alone = fused(*own, *layer, targets_BL[n : n + 1, :L], [T], [L], reduction="none")
        assert torch.equal(alone[0], together[n])
        if alone.isfinite():
            own_gradients = torch.autograd.grad(alone.sum(), own)
            assert torch.equal(own_gradients[0][0], gradients[0][n, :T])
            assert torch.equal(own_gradients[1][0], gradients[1][n, : L + 1])
        assert not gradients[0][n, T:].any()
        assert not gradients[1][n, L + 1 :].any()


def read_cells(inputs: Inputs, labels: Labels, durations: tuple[int, ...], **options) -> list[int]:
    """Of how many cells of each utterance the joint was computed: they have a sum of exponentials."""
    own = _loss_library.TransducerLossOptions(blank=11, durations=durations, **options)
    found = _loss_library.joint_losses(
        *(x.detach() for x in inputs), _loss_library.TransducerTargets(*labels), own, "relu"
    )
    counts = []
    for lattice, T, L in zip(found.lattices.split(found.sizes_B2[:, 0].tolist()), *labels[1:], strict=True):
        stride, planes = -(-(int(L) + 1) // 8) * 8, 5 + len(durations)
        planes_TPU = lattice.view(torch.float64)[: int(T) * planes * stride].view(int(T), planes, stride)
        counts.append(int((planes_TPU[:, 4] > 0).sum()))
    return counts


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("sharpness", [1.0, 8.0, 16.0])
@pytest.mark.parametrize("durations", [(), (0, 1, 2)])
def test_cells_that_nothing_reaches_are_not_computed_and_nothing_is_missing(
    durations: tuple[int, ...], sharpness: float
):
    inputs, labels = sure_problem(sharpness, durations=durations)
    whole, most = (
        fused(*inputs, *labels, durations, reduction="none", skip_below=skip_below) for skip_below in (0.0, 1e-9)
    )
    assert torch.equal(most, whole)
    wide = tuple(x.detach().double() for x in inputs)
    expected = fused(*wide, *labels, durations, reduction="none", skip_below=0.0)
    torch.testing.assert_close(most.double(), expected, rtol=1e-5, atol=5e-6)
    for n in range(2):
        gradients, wanted = (torch.autograd.grad(x[n], inputs, retain_graph=True) for x in (most, whole))
        for gradient, own in zip(gradients, wanted, strict=True):
            assert (gradient - own).norm() <= 1e-6 * own.norm()
    all_cells = [T * (L + 1) for T, L in zip(*(x.tolist() for x in labels[1:]), strict=True)]
    assert read_cells(inputs, labels, durations, skip_below=0) == all_cells
    if sharpness > 1:
        assert read_cells(inputs, labels, durations)[0] < 0.6 * all_cells[0]


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("instruction_set", ["generic", "avx2", "avx512"])
def test_every_instruction_set_leaves_out_the_same(instruction_set: str):
    inputs, labels = sure_problem(8.0, durations=(0, 1, 2))
    try:
        found = read_cells(inputs, labels, (0, 1, 2), instruction_set=instruction_set)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert found == read_cells(inputs, labels, (0, 1, 2), instruction_set="generic")


@pytest.mark.usefixtures("native")
def test_a_bad_number_spoils_its_utterance_though_every_path_jumps_over_it():
    inputs, labels = sure_problem(12.0, durations=(0, 1, 2))
    with torch.no_grad():
        inputs[3][12:] = torch.tensor([12.0, 0.0, 24.0])  # a blank takes two frames
        inputs[0][1, 7] = torch.nan
    found = fused(*inputs, *labels, (0, 1, 2), reduction="none")
    assert found[0].isfinite()
    assert found[1].isnan()
    encoded, *_ = torch.autograd.grad(found.sum(), inputs)
    assert encoded[0].isfinite().all()
    assert encoded[1, :30].isnan().any(1).all()  # where the activation lets a gradient through


@pytest.mark.usefixtures("native")
def test_targets_without_a_path_cost_infinity_and_have_no_gradient():
    inputs, (targets, _, counts) = sure_problem(4.0, durations=(0, 1))
    found = fused(*inputs, targets, [59, 31], counts, (2, 4), reduction="none")
    assert found.tolist() == [torch.inf, torch.inf]
    assert not any(x.any() for x in torch.autograd.grad(found.sum(), inputs))


@pytest.mark.usefixtures("native")
def test_threads_and_batches_do_not_change_a_bit_of_what_is_left_out(monkeypatch: pytest.MonkeyPatch):
    (encoded, predicted, *layer), (targets, frames, counts) = sure_problem(8.0, frames=300)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    together = fused(encoded, predicted, *layer, targets, frames, counts, reduction="none")
    gradients = torch.autograd.grad(together.sum(), (encoded, predicted))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    T, L = int(frames[1]), int(counts[1])
    own = (encoded[1:, :T], predicted[1:, : L + 1])
    alone = fused(*own, *layer, targets[1:, :L], [T], [L], reduction="none")
    assert torch.equal(alone[0], together[1])
    for gradient, whole in zip(torch.autograd.grad(alone.sum(), own), gradients, strict=True):
        assert torch.equal(gradient[0], whole[1, : gradient.shape[1]])


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_dropout_is_the_same_in_loss_and_gradient(activation: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fused_loss, "TILE_ROWS", 7)
    random = torch.Generator().manual_seed(1)
    shapes = ((2, 6, 5), (2, 4, 5), (7, 5), (7,))
    inputs = [torch.randn(*shape, generator=random, dtype=torch.float64).requires_grad_() for shape in shapes]
    targets = torch.randint(0, 6, (2, 3), generator=random)

    def loss(*given: Tensor) -> Tensor:
        torch.manual_seed(3)
        options = {"dropout": 0.4, "reduction": "sum", "skip_below": 0.0, "activation": activation}
        return fused(*given, targets, [6, 4], [3, 2], **options)

    assert torch.autograd.gradcheck(loss, inputs)
    torch.manual_seed(4)
    assert fused(*inputs, targets, [6, 4], [3, 2], dropout=0.4).item() != loss(*inputs).item()


@pytest.mark.usefixtures("native")
def test_half_types_give_gradients_of_their_type():
    inputs, labels = random_problem()
    halves = tuple(x.detach().bfloat16().requires_grad_() for x in inputs)
    found = finite_sum(fused(*halves, *labels, reduction="none"))
    expected = finite_sum(fused(*inputs, *labels, reduction="none"))
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=1e-2)
    with torch.autocast("cpu", torch.bfloat16):
        assert fused(*(x.float() for x in inputs), *labels, reduction="none").dtype == torch.float32
    for half, whole in zip(torch.autograd.grad(found, halves), torch.autograd.grad(expected, inputs), strict=True):
        assert half.dtype == torch.bfloat16
        assert (half.double() - whole).norm() < 0.05 * whole.norm()


@pytest.mark.usefixtures("native")
def test_neither_logits_nor_their_gradient_are_ever_there_as_a_whole():
    shapes = ((1, 150, 32), (1, 41, 32), (256, 32), (256,))
    inputs = [torch.randn(*shape).requires_grad_() for shape in shapes]
    labels = (torch.randint(0, 255, (1, 40)), [150], [40])
    needed = peak_memory(lambda: fused(*inputs, *labels).backward(), torch.device("cpu"))
    given = sum(x.numel() * 4 for x in inputs)
    assert needed - given < 150 * 41 * 256 * 4 / 2


@pytest.mark.usefixtures("native")
def test_the_operators_keep_to_the_rules_of_torch():
    inputs, labels = random_problem()
    labels = (labels[0][:3], labels[1][:3], labels[2][:3])
    inputs = tuple(x.detach()[:3].clone().requires_grad_() if i < 2 else x for i, x in enumerate(inputs))  # type: ignore[assignment]
    arguments = (
        *inputs,
        *_loss_library.given(
            _loss_library.TransducerTargets(*labels), _loss_library.TransducerLossOptions(blank=6, skip_below=0.0)
        ),
        "relu",
        0.0,
        labels[1],
    )
    torch.library.opcheck(torch.ops.transducer.joint_losses.default, arguments)


def test_an_empty_batch_is_no_special_case(path: str):
    (encoded_BTJ, predicted_BUJ, *layer), (targets_BL, frames_B, counts_B) = random_problem()
    loss = fused(encoded_BTJ[:0], predicted_BUJ[:0], *layer, targets_BL[:0], frames_B[:0], counts_B[:0])
    loss.backward()
    assert loss.item() == 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"encoded": torch.zeros(4, 70, 8)}, ValueError, "encoded and predicted: expected"),
        ({"bias": torch.zeros(3)}, ValueError, r"weight and bias: expected \[output, 9\] and \[output\], found"),
        ({"dropout": 1.0}, ValueError, "dropout: expected at least 0 and less than 1, found 1.0"),
        ({"bias": torch.zeros(12)}, TypeError, "encoded, predicted, weight, bias: expected one floating-point type"),
        ({"frames": [71, 1, 1, 1]}, ValueError, "utterance 0: frames: expected at least 0 and at most 70, found 71"),
    ],
)
def test_arguments_that_do_not_fit_are_named(path: str, change: dict, error: type[Exception], message: str):
    (encoded, predicted, weight, bias), (targets, frames, counts) = random_problem()
    given = {"encoded": encoded, "bias": bias, "frames": frames} | change
    options = {"dropout": change["dropout"]} if "dropout" in change else {}
    with pytest.raises(error, match=message):
        fused(given["encoded"], predicted, weight, given["bias"], targets, given["frames"], counts, **options)
