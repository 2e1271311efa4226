"""What PyTorch's own test suite asks of `torch.nn.functional.ctc_loss` on a CPU, asked of ours in our own words.

Its tests are those of the function and its module in test_nn and test_autograd, and of its samples in test_ops,
test_modules, test_jit, functorch's and the compiler's. Where ours differs, the test that says so is among the last
ones, from `test_not_as_torch_an_empty_batch_costs_nothing` on, and `ctc/README.md` lists it.
"""

import copy
import io
import itertools
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import ctc

REDUCTIONS = ("none", "mean", "sum")


def log_probs(T, B, V, *, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(T, B, V, generator=generator, dtype=torch.float64).log_softmax(2).to(dtype).requires_grad_()


def both(x, *arguments, **options):
    """Losses and gradients of torch and of ours for log-probabilities; torch's is projected as its log_softmax does."""
    found = []
    for function in (F.ctc_loss, ctc.ctc_loss):
        y = x.detach().requires_grad_()
        loss = function(y.log_softmax(2), *arguments, **options)
        found.append((loss.detach(), torch.autograd.grad(loss.sum(), y)[0]))
    return found


def assert_same(*arguments, **options):
    (loss, gradient), (our_loss, our_gradient) = both(*arguments, **options)
    torch.testing.assert_close(our_loss, loss)
    torch.testing.assert_close(our_gradient, gradient)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("blank", [0, 7, 19])
def test_fifty_frames_thirty_labels_are_torchs(reduction, blank):
    targets = torch.randint(0, 19, (16, 30), generator=torch.Generator().manual_seed(1))
    targets += targets >= blank
    frames, labels = torch.full((16,), 50), torch.randint(1, 31, (16,), generator=torch.Generator().manual_seed(2))
    x = log_probs(50, 16, 20)
    assert_same(x, targets, frames, labels, blank=blank, reduction=reduction, zero_infinity=True)
    if reduction != "none":
        expected = F.ctc_loss(x, targets, frames, labels, blank, reduction, True)
        torch.testing.assert_close(ctc.ctc_loss(x, targets, frames, labels, blank, reduction, True), expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("is_flat", [False, True])
def test_targets_and_lengths_are_taken_in_every_form(dtype, is_list, is_flat):
    targets, frames, labels = torch.tensor([[1, 2, 2, 5], [3, 1, 0, 0]]), [20, 18], [4, 2]
    expected = F.ctc_loss(log_probs(20, 2, 9), targets, frames, labels)
    if is_flat:
        targets = torch.tensor([1, 2, 2, 5, 3, 1])
    lengths = (frames, labels) if is_list else (torch.tensor(frames, dtype=dtype), torch.tensor(labels, dtype=dtype))
    for cast in (dtype, torch.float32, torch.float64):
        torch.testing.assert_close(ctc.ctc_loss(log_probs(20, 2, 9), targets.to(cast), *lengths), expected)


def test_every_argument_is_taken_by_torchs_name():
    named = {
        "log_probs": log_probs(20, 2, 9),
        "targets": torch.tensor([[1, 2], [3, 1]]),
        "input_lengths": (20, 18),
        "target_lengths": (2, 2),
        "blank": 0,
        "reduction": "sum",
        "zero_infinity": True,
    }
    torch.testing.assert_close(ctc.ctc_loss(**named), F.ctc_loss(**named))
    given = dict(list(named.items())[:4])
    torch.testing.assert_close(ctc.CTCLoss()(**given), torch.nn.CTCLoss()(**given))


@pytest.mark.parametrize(("length", "vary"), [(150, False), (50, True)])
def test_gradients_pass_gradcheck_with_lengths_that_vary_and_are_zero(length, vary):
    generator = torch.Generator().manual_seed(0)
    few = torch.randn(10, generator=generator, dtype=torch.float64, requires_grad=True)
    place = torch.randint(0, 10, (length, 16, 101), generator=generator)
    factor = torch.randn(length, 16, 101, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 16, (16,), generator=generator) if vary else torch.full((16,), 15)
    targets = torch.randint(1, 101, (int(labels.sum()),), generator=generator)
    frames = torch.randint(length - 10, length + 1, (16,), generator=generator) if vary else torch.full((16,), length)

    def loss(few):
        return ctc.ctc_loss((few[place] * factor).log_softmax(2), targets, frames, labels)

    assert torch.autograd.gradcheck(loss, few)


def test_one_utterance_without_a_batch_is_a_batch_of_one():
    x, targets = log_probs(50, 1, 20), torch.randint(1, 20, (1, 30), generator=torch.Generator().manual_seed(0))
    for reduction in ("none", "mean", "sum"):
        for frames, labels in ((torch.tensor(50), torch.tensor(30)), ((50,), (30,)), (torch.tensor([50]), [30])):
            found = ctc.ctc_loss(x.squeeze(1), targets.squeeze(0), frames, labels, reduction=reduction)
            expected = F.ctc_loss(x.squeeze(1), targets.squeeze(0), (50,), (30,), reduction=reduction)
            assert found.shape == expected.shape
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("targets", "frames", "labels", "error"),
    [
        (torch.ones(2, 3, dtype=torch.int64), torch.tensor([5.0, 5.0]), torch.tensor([3, 3]), TypeError),
        (torch.ones(2, 3, dtype=torch.int64), torch.tensor([5, 5]), torch.tensor([3.0, 3.0]), TypeError),
        (torch.ones(2, 3, dtype=torch.int64), torch.tensor([True, True]), torch.tensor([3, 3]), TypeError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 6], [3, 3], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, -1], [3, 3], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 5], [3, 4], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 5], [3, -1], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 5, 5], [3, 3], ValueError),
        (torch.ones(2, 3, dtype=torch.int64), [5, 5], [3], ValueError),
        (torch.ones(7, dtype=torch.int64), [5, 5], [3, 3], ValueError),
        (torch.ones(5, dtype=torch.int64), [5, 5], [3, 3], ValueError),
    ],
)
def test_what_torch_refuses_is_refused(targets, frames, labels, error):
    with pytest.raises(RuntimeError):
        F.ctc_loss(log_probs(5, 2, 4), targets, frames, labels)
    with pytest.raises(error):
        ctc.ctc_loss(log_probs(5, 2, 4), targets, frames, labels)


@pytest.mark.parametrize("is_native", [True, False])
def test_concatenated_targets_longer_than_their_lengths_are_named(is_native, monkeypatch):
    if not is_native:
        monkeypatch.setattr(ctc.loss.function._compiled_loss, "function", lambda: None)
        monkeypatch.setattr(ctc.loss.function._loss_operator._loss_library, "is_available", lambda: False)
        monkeypatch.setattr(ctc.loss.function._loss_operator, "warn_slow", lambda what, missing: None)
    message = "targets: expected 5 concatenated labels, as target_lengths add up to, found 6"
    with pytest.raises(ValueError, match=message):
        ctc.ctc_loss(log_probs(9, 2, 4), torch.tensor([1, 2, 3, 1, 2, 3]), [9, 9], [3, 2])
    with pytest.raises(ValueError, match="targets: expected 2 concatenated labels, as .* found 3"):
        ctc.ctc_loss(log_probs(9, 1, 4)[:, 0], torch.tensor([1, 2, 3]), [9], [2])


@pytest.mark.parametrize("value", [-1e10, -1e15, -1e20, -1e30, -3e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_emission_as_improbable_as_a_float_can_say_costs_what_it_costs_torch(value, dtype):
    x = log_probs(5, 2, 4, dtype=dtype).detach()
    x[:, :, 2] = value
    targets = torch.tensor([[1, 2], [1, 3]])
    losses = ctc.ctc_loss(x.requires_grad_(), targets, [5, 5], [2, 2], reduction="none")
    expected = F.ctc_loss(x.log_softmax(2), targets, [5, 5], [2, 2], reduction="none")
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=0)
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient.sum(2), torch.zeros(5, 2, dtype=dtype), rtol=0, atol=1e-6)


# What torch asks of every function, of samples of this one: 50 frames, 16 utterances, 20 classes, 10 to 30 labels.


def samples(dtype=torch.float64):
    """Log-probabilities and all other arguments: every reduction, with lengths as lists and as tensors."""
    targets = torch.randint(1, 20, (16, 30), generator=torch.Generator().manual_seed(1))
    labels = torch.randint(10, 31, (16,), generator=torch.Generator().manual_seed(2))
    for reduction, zero_infinity, is_list in itertools.product(REDUCTIONS, (True, False), (True, False)):
        lengths = (torch.full((16,), 50), labels)
        options = {"reduction": reduction, "zero_infinity": zero_infinity}
        yield (
            log_probs(50, 16, 20, dtype=dtype).detach(),
            (targets, *((x.tolist() for x in lengths) if is_list else lengths)),
            options,
        )


@pytest.fixture(params=list(samples()), ids=lambda sample: f"{sample[2]} {type(sample[1][1]).__name__}")
def sample(request):
    """The loss of one sample as a function of its log-probabilities, and these."""
    x, arguments, options = request.param
    return lambda y: ctc.ctc_loss(y, *arguments, **options), x


def gradient_of(loss, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(loss(x).sum(), x)[0]


def test_samples_pass_gradcheck_as_log_probabilities(sample):
    loss, x = sample
    few = x[:12, :2].clone().requires_grad_()

    def of_few(few):
        return loss(torch.cat((torch.cat((few, x[:12, 2:]), 1), x[12:])).log_softmax(2))

    assert torch.autograd.gradcheck(of_few, few, fast_mode=True)


def test_samples_are_the_same_mapped_and_differentiated_by_torch_func(sample):
    loss, x = sample
    expected, gradient = loss(x), gradient_of(loss, x)
    many = torch.stack((x, x.flip(0)))
    torch.testing.assert_close(torch.func.vmap(loss)(many), torch.stack([loss(y) for y in many]))
    torch.testing.assert_close(torch.func.grad(lambda y: loss(y).sum())(x), gradient)
    found, backward = torch.func.vjp(loss, x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(backward(torch.ones_like(found))[0], gradient)
    _, tangent = torch.func.jvp(lambda y: loss(y).sum(), (x,), (gradient,))
    torch.testing.assert_close(tangent, (gradient * gradient).sum())


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_samples_are_traced_with_all_their_arguments(reduction, mode):
    x, arguments, _ = next(taken for taken in samples() if isinstance(taken[1][1], torch.Tensor))

    def loss(*given):
        return ctc.ctc_loss(*given, reduction=reduction)

    fewer = (arguments[0].flip(0), arguments[1] - 1, arguments[2].clamp(max=12))
    traced = make_fx(loss, tracing_mode=mode)(x.flip(0), *fewer)
    torch.testing.assert_close(traced(x, *arguments), loss(x, *arguments))
    gradient = make_fx(torch.func.grad(lambda *given: loss(*given).sum()), tracing_mode=mode)(x, *fewer)
    torch.testing.assert_close(gradient(x, *arguments), gradient_of(lambda y: loss(y, *arguments), x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_samples_are_compiled_in_one_graph(dynamic):
    for x, arguments, options in itertools.islice(samples(), 0, None, 7):
        torch.compiler.reset()
        compiled = torch.compile(ctc.ctc_loss, backend="aot_eager", fullgraph=True, dynamic=dynamic)
        torch.testing.assert_close(compiled(x, *arguments, **options), ctc.ctc_loss(x, *arguments, **options))
        found = gradient_of(lambda y: compiled(y, *arguments, **options), x)  # noqa: B023
        torch.testing.assert_close(found, gradient_of(lambda y: ctc.ctc_loss(y, *arguments, **options), x))  # noqa: B023


# What torch asks of every module.


def modules():
    for options in ({}, {"reduction": "sum"}, {"reduction": "mean"}, {"reduction": "none"}, {"blank": 14}):
        for dtype, is_list, is_flat in itertools.product((torch.int32, torch.int64), (True, False), (True, False)):
            low = 0 if "blank" in options else 1
            targets = torch.randint(low, low + 14, (3, 30), generator=torch.Generator().manual_seed(3), dtype=dtype)
            labels = (30, 25, 20)
            if is_flat:
                targets = torch.cat([row[:n] for row, n in zip(targets, labels, strict=True)])
            lengths = ((50, 50, 50), labels) if is_list else (torch.tensor((50, 50, 50)), torch.tensor(labels))
            yield options, (log_probs(50, 3, 15).detach(), targets, *lengths)


def test_modules_are_torchs_in_every_form_of_their_arguments():
    for options, arguments in modules():
        torch.testing.assert_close(ctc.CTCLoss(**options)(*arguments), torch.nn.CTCLoss(**options)(*arguments))


def test_a_module_is_copied_pickled_saved_and_moved_and_trains_as_it_evaluates():
    _, arguments = next(modules())
    module = ctc.CTCLoss(reduction="sum", zero_infinity=True)
    expected = module(*arguments)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), saved, module.double(), module.eval()):
        assert again(*arguments) == expected
        assert (again.blank, again.reduction, again.zero_infinity) == (0, "sum", True)
    assert not module.state_dict()
    assert repr(module) == repr(torch.nn.CTCLoss()) == "CTCLoss()"


# Where ours differs.


def test_not_as_torch_an_empty_batch_costs_nothing():
    none = torch.zeros(0, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="must not be empty"):
        F.ctc_loss(torch.rand(0, 0, 4), torch.zeros(0, 0, dtype=torch.int64), none, none)
    for x in (torch.rand(0, 0, 4), torch.rand(5, 0, 4)):
        assert ctc.ctc_loss(x, torch.zeros(0, 0, dtype=torch.int64), none, none) == 0
    assert not ctc.ctc_loss(torch.rand(0, 2, 4), torch.zeros(2, 0, dtype=torch.int64), [0, 0], [0, 0], reduction="sum")


def test_not_as_torch_an_impossible_utterance_has_no_gradient():
    targets = torch.tensor([[1, 1, 1]])
    (loss, gradient), (our_loss, our_gradient) = both(log_probs(4, 1, 5), targets, [4], [3])
    assert our_loss == loss == math.inf
    assert gradient.isnan().any()
    assert not our_gradient.any()


@pytest.mark.parametrize("label", [-1, 0, 9])
def test_not_as_torch_a_label_that_is_blank_or_no_class_is_an_error(label):
    with pytest.raises(ValueError, match=f"utterance 0: label 1: expected a class .* found {label}"):
        ctc.ctc_loss(log_probs(9, 1, 9), torch.tensor([[1, label]]), [9], [2])


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64])
def test_not_as_torch_errors_of_types_are_type_errors(dtype):
    arguments = torch.tensor([[1, 2]]), [9], [2]
    with pytest.raises(NotImplementedError):
        F.ctc_loss(torch.ones(9, 1, 9).to(dtype), *arguments)
    with pytest.raises(TypeError, match="logits: expected float32, float64, float16 or bfloat16"):
        ctc.ctc_loss(torch.ones(9, 1, 9).to(dtype), *arguments)
    with pytest.raises(TypeError, match="targets: expected a tensor, found list"):
        ctc.ctc_loss(torch.ones(9, 1, 9), [[1, 2]], [9], [2])


def test_not_as_torch_a_gradient_needs_no_log_softmax_before_it():
    x = log_probs(20, 2, 9).detach()
    arguments = torch.tensor([[1, 2], [3, 1]]), [20, 18], [2, 2]
    torch.testing.assert_close(
        gradient_of(lambda y: ctc.ctc_loss(y, *arguments), x),
        gradient_of(lambda y: F.ctc_loss(y.log_softmax(2), *arguments), x),
    )
    assert torch.autograd.gradcheck(lambda y: ctc.ctc_loss(y, *arguments), x.requires_grad_())


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_not_as_torch_a_module_is_traced_or_exported_and_not_scripted():
    with pytest.raises(Exception, match="Unsupported annotation"):
        torch.jit.script(ctc.CTCLoss())
