"""What only a GPU can show: streams, graphs, no waiting; and its loss, decoding and alignment against the CPU's."""

import pytest
import torch
import torch.nn.functional as F

import ctc
from ctc.bindings import _cuda_library
from tests.ctc.alignment.test_align import random_batch as random_alignments
from tests.ctc.decoding.test_greedy import random_scores
from tests.ctc.losses import assert_exact, ours, random_batch, relative_error, truth

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """Otherwise plain torch would pass most of these tests."""
    assert _cuda_library.why_missing(torch.device("cuda")) is None


@pytest.fixture
def without_waiting():
    """What waits for the device raises an error."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def on_device(*tensors):
    return [tensor.cuda() for tensor in tensors]


@pytest.mark.usefixtures("without_waiting")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_neither_loss_nor_backward_waits_for_the_device(dtype, reduction):
    torch.cuda.set_sync_debug_mode("default")
    logits, *rest = on_device(*random_batch(40, 9, 28, 3))
    x = logits.to(dtype).requires_grad_()
    torch.cuda.set_sync_debug_mode("error")
    loss = ctc.ctc_loss(x, *rest, reduction=reduction)
    (2 * loss).sum().backward()
    torch.cuda.set_sync_debug_mode("default")
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("classes", [28, 3000])
def test_a_graph_computes_what_its_inputs_hold_at_replay(classes):
    logits, targets, frames, labels = on_device(*random_batch(60, 12, classes, 4))
    x = logits.requires_grad_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.autograd.grad(ctc.ctc_loss(x, targets, frames, labels, reduction="sum"), x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = ctc.ctc_loss(x, targets, frames, labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
    for seed in (1, 2):
        other, other_targets, _, _ = random_batch(60, 12, classes, 4, seed=seed)
        with torch.no_grad():
            x.copy_(other)
        targets.copy_(other_targets)
        frames.copy_(torch.tensor([60, 40, 30, 60 - seed]))
        labels.copy_(torch.tensor([12, 9, 0, seed]))
        graph.replay()
        expected, expected_gradient = truth(other, other_targets, frames.cpu(), labels.cpu())
        torch.testing.assert_close(loss.cpu().double(), expected.sum(), rtol=1e-6, atol=0)
        assert relative_error(gradient.cpu(), expected_gradient) <= 1e-6


def test_streams_do_not_meet():
    batches = [on_device(*random_batch(90, 20, 28, 4, seed=seed)) for seed in range(6)]
    expected = [ours(*batch, "cuda")[1] for batch in batches]
    streams = [torch.cuda.Stream() for _ in batches]
    found = []
    torch.cuda.synchronize()
    for batch, stream in zip(batches, streams, strict=True):
        with torch.cuda.stream(stream):
            x = batch[0].detach().requires_grad_()
            found.append(torch.autograd.grad(ctc.ctc_loss(x, *batch[1:], reduction="sum"), x)[0])
    torch.cuda.synchronize()
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.cpu(), other)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_a_second_device_computes_the_same():
    batch = random_batch(40, 9, 28, 3)
    x = batch[0].to("cuda:1").requires_grad_()
    loss = ctc.ctc_loss(x, *(a.to("cuda:1") for a in batch[1:]), reduction="sum")
    (gradient,) = torch.autograd.grad(loss, x)
    assert torch.equal(gradient.cpu(), ours(*batch, "cuda")[1])


def test_a_second_backward_with_another_factor_is_as_exact_as_the_first():
    batch = random_batch(40, 9, 28, 3)
    x, *rest = on_device(*batch)
    x.requires_grad_()
    loss = ctc.ctc_loss(x, *rest, reduction="sum")
    first, second = (torch.autograd.grad(loss, x, torch.tensor(by).cuda(), retain_graph=True)[0] for by in (3.0, 5.0))
    expected = truth(*batch)[1]
    assert relative_error(first.cpu(), 3 * expected) <= 1e-6
    assert relative_error(second.cpu(), 5 * expected) <= 1e-6


def test_a_second_backward_in_place_is_refused():
    x, *rest = on_device(*random_batch(40, 9, 28, 3))
    x = x.requires_grad_() * 1
    loss = ctc.ctc_loss(x, *rest, reduction="sum", in_place=True)
    torch.autograd.grad(loss, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="a second backward needs the logits, which in_place=True has overwritten"):
        torch.autograd.grad(loss, x)


def test_stars_cost_what_they_cost_on_the_processor():
    logits, targets, frames, labels = random_batch(12, 3, 8, 2)
    targets[0, 1] = -1
    losses, gradient = ours(logits, targets, frames, labels, "cuda", star=-1)
    expected_losses, expected_gradient = ours(logits, targets, frames, labels, star=-1)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


def test_labels_and_lengths_that_do_not_fit_make_nan():
    logits, targets, frames, labels = on_device(*random_batch(12, 3, 8, 4))
    targets[1, 1], frames[2] = 8, 13
    x = logits.requires_grad_()
    losses = ctc.ctc_loss(x, targets, frames, labels, reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    assert losses.isnan().tolist() == [False, True, True, False]
    assert gradient.isnan().all(2).all(0).tolist() == [False, True, True, False]
    assert gradient[:, [0, 3]].isfinite().all()


def test_more_memory_than_an_int_counts_is_addressed():
    frames, batch, classes = 1100, 4, 500_000
    if torch.cuda.mem_get_info()[0] < 12e9:
        pytest.skip("12 GB of GPU memory are not free")
    logits = torch.randn(frames, batch, classes, dtype=torch.bfloat16, device="cuda").requires_grad_()
    targets = torch.randint(1, classes, (batch, 5)).cuda()
    arguments = targets, torch.full((batch,), frames).cuda(), torch.full((batch,), 5).cuda()
    (gradient,) = torch.autograd.grad(ctc.ctc_loss(logits, *arguments, reduction="sum"), logits)
    own = logits.detach()[:, 3:].contiguous().requires_grad_()
    alone = ctc.ctc_loss(own, targets[3:], arguments[1][3:], arguments[2][3:], reduction="sum")
    assert torch.equal(torch.autograd.grad(alone, own)[0][:, 0], gradient[:, 3])


def test_many_random_lattices_are_exact():
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        sizes = (20, 300), (0, 150), (2, 300), (1, 40)
        T, L, V, B = (int(torch.randint(low, high, (), generator=generator)) for low, high in sizes)
        logits, targets, _, _ = random_batch(T, L, V, B, scale=10.0 ** (seed % 4 - 1), seed=seed)
        frames = torch.randint(1, T + 1, (B,), generator=generator)
        labels = torch.randint(0, L + 1, (B,), generator=generator)
        batch = logits, targets, frames, labels
        losses, gradient = ours(*batch, "cuda")
        expected_losses, expected = truth(*batch)
        torch.testing.assert_close(losses.double(), expected_losses, rtol=1e-6, atol=1e-6)
        assert float((gradient.double() - expected).norm() / (expected.norm() + (T * B) ** 0.5 / 8)) <= 1e-6


@pytest.mark.parametrize("labels", [1023, 1024, 2047, 2048, 3000])
def test_the_largest_transcripts_of_every_kernel_are_exact(labels):
    assert_exact(random_batch(labels + labels // 8, labels, 60, 2), "cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_greedy_equals_that_of_the_processor(dtype):
    for vocabulary in (1, 29, 5000):
        logits_BSV = random_scores(5, 300, vocabulary, dtype=dtype)
        frames = [300, 0, 1, 299, 128]
        for one, other in zip(ctc.greedy(logits_BSV.cuda(), frames), ctc.greedy(logits_BSV, frames), strict=True):
            assert one.labels == other.labels
            assert (one.start_frames, one.end_frames) == (other.start_frames, other.end_frames)
            assert one.confidence == pytest.approx(other.confidence, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_alignments_equal_those_of_the_processor(dtype):
    for seed in range(10):
        logits_BSV, targets_BU, frames, target_lengths = random_alignments(seed, dtype)
        found = ctc.align(logits_BSV.cuda(), targets_BU, frames, target_lengths, blank=4)
        expected = ctc.align(logits_BSV, targets_BU, frames, target_lengths, blank=4)
        for one, other in zip(found, expected, strict=True):
            assert one[:2] == other[:2]
            assert one.log_prob == pytest.approx(other.log_prob, rel=1e-6)


def test_training_with_a_grad_scaler_and_autocast_reaches_a_low_loss():
    torch.manual_seed(0)
    features = torch.randn(50, 4, 16, device="cuda")
    _, targets, frames, labels = on_device(*random_batch(50, 10, 12, 4))
    model = torch.nn.Linear(16 + 50, 12).cuda()
    position = F.one_hot(torch.arange(50)).float().cuda()[:, None].expand(50, 4, 50)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cuda")
    losses = []
    for _ in range(150):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = ctc.ctc_loss(model(torch.cat([features, position], 2)), targets, frames, labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
