"""What only a GPU can show: no waiting, graphs; and its losses against those of the CPU."""

import warnings

import pytest
import torch

import ctc
from benchmarks import transducer_heads as heads
from fastconformer.transducer.beam import BeamSearch, TransducerBeamOptions
from fastconformer.transducer.decoder import Decoder, DecoderOptions
from fastconformer.transducer.loss import _cuda_library
from fastconformer.transducer.loss.losses import rnnt_loss, tdt_loss
from tests.fastconformer.transducer.test_decoder import assert_same, scorers
from tests.fastconformer.transducer.test_decoder import random_problem as decoding_problem
from tests.fastconformer.transducer.test_fused_loss import finite_sum, fused, random_problem
from tests.fastconformer.transducer.test_losses import loss_and_gradient, random_batch, truth

pytestmark = pytest.mark.gpu
DURATIONS = (0, 1, 2, 3, 4)


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """Otherwise plain torch would pass most of these tests."""
    assert _cuda_library.why_missing(torch.device("cuda")) is None


def on_device(batch):
    return tuple(x.cuda() for x in batch)


@pytest.mark.parametrize("durations", [(), DURATIONS, tuple(range(40))])
def test_loss_and_gradient_are_those_of_the_definition(durations):
    batch = random_batch(durations=durations)
    expected, expected_gradient = truth(batch, durations)
    found, gradient = loss_and_gradient(on_device(batch), durations, skip_below=0.0)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient.cpu(), expected_gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("durations", [(), DURATIONS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_large_batch_is_that_of_the_cpu(durations, dtype):
    torch.manual_seed(0)
    logits = (2 * torch.randn(8, 200, 51, 1025 + len(durations))).to(dtype)
    labels = (torch.randint(0, 1024, (8, 50)), torch.randint(50, 201, (8,)), torch.randint(0, 51, (8,)))
    expected, expected_gradient = loss_and_gradient((logits, *labels), durations)
    found, gradient = loss_and_gradient(on_device((logits, *labels)), durations)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=0)
    spacing = {torch.float32: 0.0, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(gradient.cpu(), expected_gradient, rtol=spacing, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_utterance_is_bitwise_the_same_alone_and_in_a_batch(dtype):
    logits, targets, frames, counts = random_batch(durations=DURATIONS)
    batch = on_device((logits.to(dtype), targets, frames, counts))
    together, gradient = loss_and_gradient(batch, DURATIONS)
    for n, (T, L) in enumerate(zip(frames.tolist(), counts.tolist(), strict=True)):
        alone = (batch[0][n : n + 1, :T, : L + 1], batch[1][n : n + 1, :L], [T], [L])
        loss, own_gradient = loss_and_gradient(alone, DURATIONS)
        assert torch.equal(loss[0], together[n])
        assert torch.equal(own_gradient[0], gradient[n, :T, : L + 1])


def test_neither_losses_nor_gradients_wait_for_the_device():
    batch = on_device(random_batch(durations=DURATIONS))
    inputs, labels = random_problem()
    inputs = [x.detach().cuda().requires_grad_() for x in inputs]
    labels = on_device(labels)
    x = batch[0].requires_grad_()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        tdt_loss(x, *batch[1:], DURATIONS, reduction="sum").backward()
        fused(*inputs, *labels, reduction="sum").backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(tensor.grad is not None for tensor in (x, *inputs))


def test_a_graph_computes_what_its_inputs_hold_at_replay():
    x, *labels = on_device(random_batch())
    x.requires_grad_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.autograd.grad(rnnt_loss(x, *labels, reduction="none").nan_to_num(posinf=0).sum(), x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = rnnt_loss(x, *labels, reduction="none")
        (gradient,) = torch.autograd.grad(losses.sum(), x)
    for seed in (1, 2):
        other = random_batch(seed=seed)
        with torch.no_grad():
            x.copy_(other[0])
        labels[0].copy_(other[1])
        graph.replay()
        expected, expected_gradient = loss_and_gradient(other)
        torch.testing.assert_close(losses.cpu(), expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient.cpu(), expected_gradient, rtol=0, atol=1e-9)


@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_the_joint_gives_what_it_gives_on_the_cpu(durations):
    inputs, labels = random_problem()
    on_gpu = [x.detach().cuda().requires_grad_() for x in inputs]
    expected = fused(*inputs, *labels, durations, reduction="none", skip_below=0.0)
    found = fused(*on_gpu, *on_device(labels), durations, reduction="none", skip_below=0.0)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-11, atol=1e-11)
    gradients = torch.autograd.grad(finite_sum(found), on_gpu)
    for one, other in zip(gradients, torch.autograd.grad(finite_sum(expected), inputs), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-9, atol=1e-11)


def test_labels_and_lengths_that_do_not_fit_are_named_on_the_host_and_nan_on_the_device():
    logits, targets, frames, counts = random_batch()
    frames = torch.tensor([9, 7, 10, 1, 0])
    with pytest.raises(ValueError, match="utterance 2: frames: expected at least 0 and at most 9, found 10"):
        rnnt_loss(logits.cuda(), targets, frames, counts)
    found, gradient = loss_and_gradient(on_device((logits, targets, frames, counts)))
    assert found.isnan().tolist() == [False, False, True, False, False]
    assert gradient[2].isnan().all()
    assert gradient[[0, 1, 3, 4]].isfinite().all()


@pytest.mark.parametrize("max_symbols", [1, 2, 10])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_the_decoder_finds_what_it_finds_on_the_cpu(durations, max_symbols):
    weights, *frames = decoding_problem(durations=durations, layers=2)
    options = DecoderOptions(max_symbols=max_symbols)
    found = Decoder(moved(weights), options)(*on_device(frames))
    expected = Decoder(weights, options)(*frames)
    assert [one[:3] for one in found] == [one[:3] for one in expected]
    assert Decoder(moved(weights), options)(*frames) == found, "frames on the host are moved"


@pytest.mark.parametrize("has_durations", [False, True])
def test_a_large_batch_is_decoded_bitwise_as_its_utterances_alone(has_durations):
    weights = heads.random_heads(has_durations=has_durations)
    weights.output_bias[weights.blank] = 3.0
    encoded_BSC, frames_B = on_device(heads.random_frames(weights, 70, 60))
    decode = Decoder(moved(weights))
    together = decode(encoded_BSC, frames_B)
    for n in (0, 33, 69):
        assert decode(encoded_BSC[n : n + 1], frames_B[n : n + 1]) == together[n : n + 1]


def moved(weights):
    """The same weights on the GPU."""
    lstm = tuple(type(layer)(*on_device(layer)) for layer in weights.lstm)
    own = {name: value.cuda() for name, value in weights._asdict().items() if isinstance(value, torch.Tensor)}
    return weights._replace(lstm=lstm, **own)


@pytest.mark.parametrize("internal_weight", [0.0, 0.4])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_scorers_choose_the_labels_that_they_choose_on_the_cpu(durations, internal_weight):
    weights, *frames = decoding_problem(durations=durations, seed=4)
    options, each = DecoderOptions(internal_weight=internal_weight), scorers()
    found = Decoder(moved(weights), options)(*on_device(frames), scorers=each)
    assert_same(found, Decoder(weights, options)(*frames, scorers=each))


@pytest.mark.parametrize("internal_weight", [0.0, 0.3])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_beams_are_those_of_the_cpu(durations, internal_weight):
    weights, *frames = decoding_problem(durations=durations, layers=2)
    options = TransducerBeamOptions(n_best=3, internal_weight=internal_weight)
    search = BeamSearch(moved(weights), options, device=Decoder(moved(weights)).on_device)
    host = BeamSearch(weights, options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ctc.SlowPathWarning)
        for each in (None, scorers()):
            for found, expected in zip(
                search(*on_device(frames), scorers=each), host(*frames, scorers=each), strict=True
            ):
                assert_same([one.decoded for one in found], [one.decoded for one in expected])
                assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_graphs_replay_what_launches_compute(precision):
    weights, encoded_BSC, frames_B = on_device_with(decoding_problem(durations=DURATIONS, layers=2))
    options = DecoderOptions(precision=precision)
    graphs, launches = Decoder(weights, options), Decoder(weights, options)
    launches.on_device.records = False
    for batch in (5, 1, 3, 5):
        for each in (None, scorers()[:batch]):
            found = graphs(encoded_BSC[:batch], frames_B[:batch], scorers=each)
            assert found == launches(encoded_BSC[:batch], frames_B[:batch], scorers=each)
    assert graphs.on_device.records, "graphs were not refused"


def on_device_with(problem):
    weights, *frames = problem
    return moved(weights), *on_device(frames)
