"""The tests of the losses and of the decoder once more, on the CUDA kernels, that an emulator runs on the processor."""

import ctypes
import functools
import gc
import itertools
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import ctc
from benchmarks import decoders_cuda
from benchmarks import transducer_heads as heads
from common.benchmark import compare, peak_memory
from common.devices.graphs import RecordedGraph
from common.devices.precision import DTYPES
from common.recognition.decoding import DecodingOptions
from common.text.pieces import Pieces
from ctc.ngram import estimate
from fastconformer.attention.config import AttentionConfig
from fastconformer.config import EncoderConfig, ModelConfig
from fastconformer.hearing import searching
from fastconformer.transducer import _beam_library, _cuda_beam, _cuda_decoder, _library, reference
from fastconformer.transducer._library import LIBRARY
from fastconformer.transducer.beam import BeamCandidate, BeamSearch, TransducerBeamOptions
from fastconformer.transducer.decoder import Decoder, DecoderOptions
from fastconformer.transducer.loss import _cuda_library, joint_tiles, losses
from fastconformer.transducer.loss._loss_library import TransducerLossOptions, TransducerTargets
from fastconformer.transducer.loss.losses import rnnt_loss, tdt_loss
from fastconformer.transducer.weights import DecoderWeights, arrays_of
from tests import emulation
from tests.fastconformer.transducer import test_decoder as decoder_tests
from tests.fastconformer.transducer import test_fused_loss as fused_tests
from tests.fastconformer.transducer import test_losses as loss_tests

pytestmark = pytest.mark.slow  # the fixture compiles for some seconds
DURATIONS = (0, 1, 2, 3, 4)


@pytest.fixture(scope="module")
def kernels() -> ctypes.CDLL:
    return emulation.kernels_of(LIBRARY)


@pytest.fixture(autouse=True)
def path(kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> str:
    """Tensors of the CPU, that the emulated kernels compute with; tiles are small."""
    emulation.emulate(monkeypatch, _cuda_library, kernels)
    monkeypatch.setattr(_cuda_library, "serves", lambda tensor: True)
    monkeypatch.setattr(joint_tiles, "TILE_ROWS", 300)
    monkeypatch.setattr(_cuda_decoder, "STEPS_AT_ONCE", 4)
    return "emulated"


def test_a_batch_of_many_warps_is_that_of_the_processors_kernels(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(2)
    logits = (3 * torch.randn(3, 40, 36, 700)).requires_grad_()
    labels = (torch.randint(0, 694, (3, 35)), torch.tensor([40, 17, 38]), torch.tensor([35, 20, 0]))
    found = tdt_loss(logits, *labels, DURATIONS, sigma=0.05, reduction="none", fastemit=0.1)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    monkeypatch.setattr(_cuda_library, "serves", lambda tensor: False)
    expected = tdt_loss(logits, *labels, DURATIONS, sigma=0.05, reduction="none", fastemit=0.1)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), logits)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_every_type_is_as_good_as_the_processors(
    durations: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    batch = loss_tests.random_batch(durations=durations)
    batch = (batch[0].to(dtype), *batch[1:])
    found, gradient = loss_tests.loss_and_gradient(batch, durations)
    monkeypatch.setattr(_cuda_library, "serves", lambda tensor: False)
    expected, expected_gradient = loss_tests.loss_and_gradient(batch, durations)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    spacing = {torch.float64: 1e-12, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(gradient, expected_gradient, rtol=spacing, atol=1e-6)


@pytest.mark.parametrize("wrong", ["frames", "negative frames", "labels", "label", "blank as a label"])
def test_what_does_not_fit_makes_nan_and_nothing_else(wrong: str):
    logits, targets, frames, counts = loss_tests.random_batch()
    clean, clean_gradient = loss_tests.loss_and_gradient((logits, targets, frames, counts))
    targets, frames, counts = targets.clone(), frames.clone(), counts.clone()
    if "label" in wrong and wrong != "labels":
        targets[2, 1] = 7 if wrong == "label" else 6
    else:
        (counts if wrong == "labels" else frames)[2] = {"frames": 10, "negative frames": -1, "labels": 5}[wrong]
    labels, options = TransducerTargets(targets, frames, counts), TransducerLossOptions(blank=6)
    found, lattices = _cuda_library.losses(logits, labels, options)
    gradient = torch.zeros_like(logits)
    _cuda_library.gradient(logits, labels, options, torch.ones(5, dtype=torch.float64), lattices, gradient)
    others = [0, 1, 3, 4]
    assert found[2].isnan()
    assert gradient[2].isnan().all()
    assert torch.equal(found[others], clean[others])
    assert torch.equal(gradient[others], clean_gradient[others])


def test_more_labels_than_targets_are_wide_make_nan_and_read_nothing_behind_them():
    logits, _, frames, counts = loss_tests.random_batch()
    counts = torch.tensor([2, 1, 3, 0, 2])
    behind = torch.tensor([[1, 2], [3, 4], [5, 1], [2, 3], [4, 5]])
    labels, options = TransducerTargets(behind, frames, counts), TransducerLossOptions(blank=6)
    losses_B, lattices = _cuda_library.losses(logits, labels, options)
    gradient = torch.zeros_like(logits)
    _cuda_library.gradient(logits, labels, options, torch.ones(5, dtype=torch.float64), lattices, gradient)
    assert losses_B.isnan().tolist() == [False, False, True, False, False]
    assert gradient[2].isnan().all()
    assert gradient[[0, 1, 3, 4]].isfinite().all()


def test_without_a_gradient_the_loss_is_bitwise_the_same():
    batch = loss_tests.random_batch(durations=DURATIONS)
    expected, _ = loss_tests.loss_and_gradient(batch, DURATIONS)
    assert torch.equal(tdt_loss(*batch, DURATIONS, reduction="none"), expected)


def test_forty_durations_are_more_than_a_warp_has_lanes():
    durations = tuple(range(40))
    batch = loss_tests.random_batch(durations=durations)
    expected, expected_gradient = loss_tests.truth(batch, durations)
    found, gradient = loss_tests.loss_and_gradient(batch, durations, skip_below=0.0)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-13)


@pytest.mark.parametrize("sigma", [0.0, 0.05])
def test_the_kernels_skip_the_cells_that_the_cpu_skips(sigma: float, monkeypatch: pytest.MonkeyPatch):
    options = {"sigma": sigma, "skip_below": 1e-4}
    _, gradient = loss_tests.loss_and_gradient(loss_tests.sure_batch(), (0, 1), **options)
    monkeypatch.setattr(_cuda_library, "serves", lambda _: False)
    _, expected = loss_tests.loss_and_gradient(loss_tests.sure_batch(), (0, 1), **options)
    assert torch.equal((gradient == 0).all(-1), (expected == 0).all(-1))
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def test_what_is_too_large_for_the_kernels_goes_to_plain_torch(monkeypatch: pytest.MonkeyPatch):
    durations = tuple(range(_cuda_library.MOST_DURATIONS + 1))
    batch = loss_tests.random_batch(durations=durations)
    expected, _ = loss_tests.truth(batch, durations)
    torch.testing.assert_close(tdt_loss(*batch, durations, reduction="none"), expected)
    monkeypatch.setattr(_cuda_library, "MOST_CELLS", 5 * 9 * 5 - 1)
    with pytest.warns(ctc.SlowPathWarning, match="a test runs in plain torch, which is slower: it has no kernel"):
        assert not losses.is_native(batch[0], (5, 9, 5), TransducerLossOptions(blank=6), "a test")
    assert losses.is_native(batch[0], (5, 9, 4), TransducerLossOptions(blank=6), "a test")


def test_the_kernels_write_no_further_than_they_said():
    batch = loss_tests.random_batch(durations=DURATIONS)
    options, labels = TransducerLossOptions(blank=6, durations=DURATIONS), TransducerTargets(*batch[1:])
    sized = _cuda_library.Lattices(torch.float64, batch[0].shape, labels, options).memory
    guarded = torch.full((len(sized) + 4096,), 171, dtype=torch.uint8)
    lattices = _cuda_library.Lattices(torch.float64, batch[0].shape, labels, options, memory=guarded)
    lattices.begin()
    lattices.read(0, batch[0])
    lattices.walk()
    assert (guarded[len(sized) :] == 171).all()
    assert not (guarded[: len(sized)] == 171).all()


def test_logits_in_tiles_give_bitwise_what_they_give_as_a_whole():
    batch = loss_tests.random_batch(durations=DURATIONS)
    options, labels = TransducerLossOptions(blank=6, durations=DURATIONS), TransducerTargets(*batch[1:])
    scale_B = torch.linspace(1, 2, 5, dtype=torch.float64)
    expected, whole = _cuda_library.losses(batch[0], labels, options)
    expected_gradient, gradient = torch.empty_like(batch[0]), torch.empty_like(batch[0])
    _cuda_library.gradient(batch[0], labels, options, scale_B, whole, expected_gradient)
    lattices = _cuda_library.Lattices(batch[0].dtype, batch[0].shape, labels, options)
    lattices.begin()
    for first in (0, 4, 8):
        lattices.read(first, batch[0][:, first : first + 4].contiguous())
    assert torch.equal(lattices.walk(), expected)
    for first in (0, 4, 8):
        tile = batch[0][:, first : first + 4].contiguous()
        lattices.write_gradient(first, tile, scale_B, gradient[:, first : first + 4])
    assert torch.equal(gradient, expected_gradient)


@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_frames_behind_an_utterance_may_be_anything_to_the_joint(durations: tuple[int, ...]):
    (encoded, predicted, *layer), labels = fused_tests.random_problem()
    expected = fused_tests.fused(encoded, predicted, *layer, *labels, durations, reduction="none")
    expected_gradients = torch.autograd.grad(fused_tests.finite_sum(expected), (encoded, predicted, *layer))
    padded = [encoded.detach().clone(), predicted.detach().clone()]
    for n, (T, L) in enumerate(zip(labels[1].tolist(), labels[2].tolist(), strict=True)):
        padded[0][n, T:], padded[1][n, L + 1 :] = torch.nan, torch.inf
    inputs = [x.requires_grad_() for x in padded] + layer
    found = fused_tests.fused(*inputs, *labels, durations, reduction="none")
    assert torch.equal(found, expected)
    for one, other in zip(torch.autograd.grad(fused_tests.finite_sum(found), inputs), expected_gradients, strict=True):
        assert torch.equal(one, other)


def test_a_batch_of_the_joint_gives_what_its_utterances_give_alone():
    (encoded, predicted, *layer), (targets, frames, counts) = fused_tests.random_problem()
    together = fused_tests.fused(encoded, predicted, *layer, targets, frames, counts, reduction="none")
    gradients = torch.autograd.grad(fused_tests.finite_sum(together), (encoded, predicted))
    for n, (T, L) in enumerate(zip(frames.tolist(), counts.tolist(), strict=True)):
        own = (encoded[n : n + 1, :T], predicted[n : n + 1, : L + 1])
        alone = fused_tests.fused(*own, *layer, targets[n : n + 1, :L], [T], [L], reduction="none")
        torch.testing.assert_close(alone[0], together[n], rtol=1e-13, atol=0)
        if alone.isfinite():
            for one, other in zip(torch.autograd.grad(alone.sum(), own), gradients, strict=True):
                torch.testing.assert_close(one[0], other[n, : one.shape[1]], rtol=1e-11, atol=1e-13)
                assert not other[n, one.shape[1] :].any()


def test_dropout_of_the_joint_is_the_same_in_loss_and_gradient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joint_tiles, "TILE_ROWS", 17)
    random = torch.Generator().manual_seed(1)
    shapes = ((2, 6, 5), (2, 4, 5), (7, 5), (7,))
    inputs = [torch.randn(*shape, generator=random, dtype=torch.float64).requires_grad_() for shape in shapes]
    targets = torch.randint(0, 6, (2, 3), generator=random)

    def loss(*given: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return fused_tests.fused(*given, targets, [6, 4], [3, 2], dropout=0.4, reduction="sum", skip_below=0.0)

    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True)
    assert loss(*inputs).item() != fused_tests.fused(*inputs, targets, [6, 4], [3, 2], reduction="sum").item()


def test_logits_of_the_joint_are_never_there_as_a_whole():
    shapes = ((2, 150, 32), (2, 41, 32), (256, 32), (256,))
    inputs = [torch.randn(*shape).requires_grad_() for shape in shapes]
    labels = (torch.randint(0, 255, (2, 40)), [150, 140], [40, 39])
    needed = peak_memory(lambda: fused_tests.fused(*inputs, *labels).backward(), torch.device("cpu"))
    assert needed - sum(x.numel() * 4 for x in inputs) < 2 * 150 * 41 * 256 * 4 / 2


def test_targets_narrower_than_the_lattice_are_named():
    logits, targets, frames, counts = loss_tests.random_batch()
    with pytest.raises(ValueError, match="utterance 0: target length: expected at least 0 and at most 2, found 4"):
        rnnt_loss(logits, targets[:, :2], frames, counts)


@pytest.mark.parametrize(
    ("durations", "layers", "max_symbols"), [((), 1, 10), ((), 2, 1), (DURATIONS, 2, 2), ((0, 2), 1, 1)]
)
def test_the_decoder_finds_what_frame_looping_finds(
    path: str, durations: tuple[int, ...], layers: int, max_symbols: int
):
    decoder_tests.test_it_finds_what_frame_looping_finds(path, durations, layers, max_symbols)


@pytest.mark.parametrize(("name", "activation"), [("rnnt", "tanh"), ("tdt", "sigmoid")])
def test_the_decoder_finds_what_nemo_finds_and_knows_activations(path: str, name: str, activation: str):
    decoder_tests.test_tokens_frames_and_durations_are_those_of_nemo(path, name, 2, "_ms2")
    decoder_tests.test_every_activation_of_the_joint_is_known(path, activation)


@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_the_decoder_goes_on_where_it_was(path: str, durations: tuple[int, ...]):
    decoder_tests.test_with_its_state_it_goes_on_where_it_was(path, durations, [33, 0, 7])


@pytest.mark.parametrize(("durations", "internal_weight"), [((), 0.0), (DURATIONS, 0.0), ((), 0.4)])
def test_labels_are_chosen_with_what_scorers_add(path: str, durations: tuple[int, ...], internal_weight: float):
    decoder_tests.test_a_label_is_chosen_with_what_the_scorer_adds_once_it_is_known_that_it_is_one(
        path, durations, internal_weight
    )


@pytest.mark.parametrize("sharpness", [0.5, 8.0])
def test_of_many_labels_none_is_passed_over(sharpness: float):
    decoder_tests.test_of_many_labels_none_is_passed_over(sharpness)


def test_scorers_add_bitwise_the_same_in_every_batch_and_in_parts(path: str):
    decoder_tests.test_the_internal_language_model_is_taken_off_bitwise_alike_in_every_batch(DURATIONS)
    decoder_tests.test_a_scorer_goes_on_with_the_state(path)


@pytest.mark.parametrize("internal_weight", [0.0, 0.4])
def test_scorers_of_random_models_choose_what_they_choose_on_the_processor(
    internal_weight: float, monkeypatch: pytest.MonkeyPatch
):
    random = torch.Generator().manual_seed(7)
    options = DecoderOptions(internal_weight=internal_weight)
    for seed in range(6):
        weights, encoded_BSC, frames_B = decoder_tests.random_problem(durations=DURATIONS, layers=2, seed=seed)
        each = decoder_tests.scorers()
        each = [each[i] for i in torch.randperm(5, generator=random)]
        found = Decoder(weights, options)(encoded_BSC, frames_B, scorers=each)
        with monkeypatch.context() as patch:
            patch.setattr(_cuda_library, "serves", lambda tensor: False)
            decoder_tests.assert_same(found, Decoder(weights, options)(encoded_BSC, frames_B, scorers=each))


def test_decoding_with_phrases_stays_on_the_device_greedily_and_with_a_beam():
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    pieces = Pieces([chr(ord("a") + i) for i in range(40)])
    for beam in (0, 2):
        options = DecodingOptions(beam=beam, hot_words=("cab", "fig"))
        decode = searching.of_transducer(Decoder(weights, DecoderOptions(precision="bf16")), pieces, options)
        emulation.counts_of(LIBRARY)
        found = decode(encoded_BSC, frames_B)
        assert emulation.counts_of(LIBRARY).launches > 0
        assert sum(len(one.tokens) for one in found) > 5


def test_decoders_of_a_network_share_its_weights_rooms_and_language_model(tmp_path: Path):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    pieces, network = Pieces([chr(ord("a") + i) for i in range(40)]), Decoder(weights, DecoderOptions(max_symbols=3))
    ctc.write_arpa(tmp_path / "lm.arpa", estimate([["c", "a", "b"], ["f", "i", "g"]], order=2))
    known = DecodingOptions(language_model=tmp_path / "lm.arpa", weight=0.5)
    first = searching.of_transducer(network, pieces, known)
    first(encoded_BSC, frames_B)
    device = network.on_device
    placed, rooms = set(device._scorers._placed), list(device._rooms)
    for word in ("cab", "fig"):
        own = searching.of_transducer(network, pieces, replace(known, hot_words=(word,)), like=first)
        assert own.in_parts.decoder.on_device is device
        assert own.in_parts.decoder.options.max_symbols == 3
        own(encoded_BSC, frames_B)
        assert len(set(device._scorers._placed) - placed) == 6 + 4, "what is of phrases"
        assert list(device._rooms) == rooms
        del own
        gc.collect()
    assert set(device._scorers._placed) == placed


def test_a_scorer_is_on_the_device_as_long_as_it_lives_and_its_model_once(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    first = decoder_tests.scorers()[0]
    assert first is not None
    decode = Decoder(weights)
    scorers = decode.on_device._scorers
    decode(encoded_BSC, frames_B, scorers=first)
    before = len(scorers._placed)
    other = first.with_hot_words({"a": 2.0})
    found = decode(encoded_BSC, frames_B, scorers=other)
    assert len(scorers._placed) == before + 6 + 4, "six arrays of phrases, tables of these, of the model and of all; it"
    assert found == Decoder(weights)(encoded_BSC, frames_B, scorers=other)
    del first, other
    gc.collect()
    assert not scorers._placed


def half_of(weights: DecoderWeights, dtype: torch.dtype) -> DecoderWeights:
    """float32 of the numbers that matrices of `dtype` hold."""

    def rounded(matrix: torch.Tensor) -> torch.Tensor:
        return matrix.to(dtype).float()

    first, *others = weights.lstm
    lstm = [first._replace(hidden_weight=rounded(first.hidden_weight))]  # what it makes of a label is a table
    lstm += [
        own._replace(input_weight=rounded(own.input_weight), hidden_weight=rounded(own.hidden_weight)) for own in others
    ]
    names = ("encoder_weight", "prediction_weight", "output_weight")
    return weights._replace(lstm=tuple(lstm), **{name: rounded(getattr(weights, name)) for name in names})


@pytest.mark.parametrize("durations", [(), DURATIONS])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_matrices_decode_as_float32_ones_of_the_same_numbers(durations: tuple[int, ...], precision: str):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem(durations=durations, layers=2)
    scorers, same = decoder_tests.scorers(), half_of(weights, DTYPES[precision])
    for own in (None, scorers):
        found = Decoder(weights, DecoderOptions(precision=precision, internal_weight=0.3))(
            encoded_BSC, frames_B, scorers=own
        )
        assert found == Decoder(same, DecoderOptions(internal_weight=0.3))(encoded_BSC, frames_B, scorers=own)


@pytest.mark.parametrize(
    ("batch", "frames", "room"),
    [(0, 0, (1, 16)), (1, 16, (1, 16)), (3, 17, (4, 24)), (5, 25, (8, 32)), (8, 33, (8, 48)), (9, 400, (16, 512))],
)
def test_batches_of_about_the_same_size_share_a_room(batch: int, frames: int, room: tuple[int, int]):
    assert _cuda_decoder.room_for(batch, frames) == room
    most = _cuda_decoder.room_for(batch, 10 * frames)[1]
    assert 10 * frames <= most <= max(16, 15 * frames)


class Recorder:
    """Takes the place of CUDA graphs: what was launched while a room was empty is launched again by `replay`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recorded = self.replayed = 0
        monkeypatch.setattr(_cuda_decoder, "recorded", self)

    def __call__(self, network, arguments, memory):
        self.recorded += 1
        for _ in range(3):
            network(*arguments)
        assert not arguments[0].any(), "nothing is decoded yet"

        def replay() -> None:
            self.replayed += 1
            network(*arguments)

        return RecordedGraph(replay, arguments, None)


def test_batches_replay_what_was_recorded_for_their_room(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem(durations=DURATIONS, layers=2)
    eager, graphed, recorder = Decoder(weights), Decoder(weights), Recorder(monkeypatch)
    graphed.on_device.records = True
    each = decoder_tests.scorers()
    state, other = eager.start(2), graphed.start(2)
    for _ in range(2):
        for batch, frames, own in ((5, 40, None), (1, 40, None), (3, 7, None), (2, 31, each[:2]), (4, 33, None)):
            part_BSC, counts_B = encoded_BSC[:batch, :frames], frames_B[:batch].clamp(max=frames)
            assert graphed(part_BSC, counts_B, scorers=own) == eager(part_BSC, counts_B, scorers=own)
        part_BSC, counts_B = encoded_BSC[3:5, :9], frames_B[3:5]
        assert graphed(part_BSC, counts_B, state=other) == eager(part_BSC, counts_B, state=state)
    assert all(map(torch.equal, (state.network_BX, state.position_B3), (other.network_BX, other.position_B3)))
    assert recorder.recorded == 2 * 6, "two graphs a room: (8, 48), (1, 48), (4, 16), (2, 32), (4, 48), (2, 16)"
    assert recorder.replayed > recorder.recorded
    with pytest.raises(ValueError, match="encoded: utterance 0: its frames hold NaN"):
        graphed(encoded_BSC[:1] * torch.nan, frames_B[:1])
    assert graphed(encoded_BSC[:1], frames_B[:1]) == eager(encoded_BSC[:1], frames_B[:1]), "NaN does not stay"


def test_rooms_are_dropped_that_were_not_used_for_longest(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    monkeypatch.setattr(_cuda_decoder, "MOST_ROOMS", 2)
    decode = Decoder(weights)
    for batch in (1, 2, 1, 4):
        decode(encoded_BSC[:batch], frames_B[:batch])
    assert [key[0] for key in decode.on_device._rooms] == [1, 4]


def test_rooms_take_no_more_memory_than_they_may(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    decode = Decoder(weights)
    decode(encoded_BSC[:1], frames_B[:1])
    (alone,) = decode.on_device._rooms.values()
    monkeypatch.setattr(_cuda_decoder, "MOST_BYTES", 4 * alone.nbytes)
    for batch, kept in ((2, [1, 2]), (3, [4]), (5, [8]), (1, [1])):
        decode(encoded_BSC[:batch], frames_B[:batch])
        assert [key[0] for key in decode.on_device._rooms] == kept


def out_of_memory(*_: object) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 MiB")


@pytest.mark.parametrize("where", ["room", "graph", "scorer"])
def test_where_memory_is_short_rooms_go_and_a_batch_is_tried_once_more(where: str, monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    scorer = decoder_tests.scorers()[0]
    expected = Decoder(weights)(encoded_BSC, frames_B, scorers=scorer)
    decode, recorder = Decoder(weights), Recorder(monkeypatch)
    device = decode.on_device
    device.records = True
    decode(encoded_BSC[:1], frames_B[:1])

    def with_room_for_one(function):
        return lambda *given: out_of_memory() if device._rooms else function(*given)

    monkeypatch.setattr(_cuda_decoder, "recorded", recorder)
    at, name = {"room": (_cuda_decoder, "Room"), "graph": (_cuda_decoder, "recorded")}.get(
        where, (device._scorers, "address")
    )
    monkeypatch.setattr(at, name, with_room_for_one(getattr(at, name)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = decode(encoded_BSC, frames_B, scorers=scorer)
    assert found == expected
    assert device.records, "nobody refused graphs"
    assert [key[0] for key in device._rooms] == [8]


@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_a_scorer_too_large_for_the_device_decodes_on_the_host(durations, monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem(durations=durations, layers=2)
    each, options = decoder_tests.scorers(), DecoderOptions(internal_weight=0.3)
    whole, decode = Decoder(weights, options), Decoder(weights).with_options(options)
    expected, state = whole.start(5), decode.start(5)
    _library.warn_slow.cache_clear()
    first, second = encoded_BSC.split(20, 1)
    counts_B = frames_B.clamp(max=20)
    found = decode(first, counts_B, scorers=each, state=state)
    decoder_tests.assert_same(found, whole(first, counts_B, scorers=each, state=expected))
    monkeypatch.setattr(decode.on_device._scorers, "address", out_of_memory)
    counts_B = frames_B - counts_B
    with pytest.warns(ctc.SlowPathWarning, match="on the host, which is slower: the memory of the GPU"):
        found = decode(second, counts_B, scorers=each, state=state)
    decoder_tests.assert_same(found, whole(second, counts_B, scorers=each, state=expected))
    for one, other in zip(state.parts, expected.parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder_tests.assert_same(
            decode(encoded_BSC, frames_B, scorers=each), whole(encoded_BSC, frames_B, scorers=each)
        )


def test_a_language_model_that_does_not_fit_is_tried_once_and_rooms_stay(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    _library.warn_slow.cache_clear()
    own, small, *_ = decoder_tests.scorers()
    assert own is not None
    other = own.with_hot_words({"a": 2.0})
    decode = Decoder(weights)
    scorers, tried = decode.on_device._scorers, []
    place = scorers.address
    too_large = lambda scorer: scorer is not None and scorer.ngram is not None  # noqa: E731
    monkeypatch.setattr(
        scorers, "address", lambda one: tried.append(one) or (out_of_memory() if too_large(one) else place(one))
    )
    expected = [Decoder(arrays_of(weights))(encoded_BSC, frames_B, scorers=one) for one in (own, other, small)]
    with pytest.warns(ctc.SlowPathWarning, match="the memory of the GPU does not suffice for the language model"):
        decoder_tests.assert_same(decode(encoded_BSC, frames_B, scorers=own), expected[0])
    assert len(tried) == 1, "there were no rooms that could have gone"
    decoder_tests.assert_same(decode(encoded_BSC, frames_B, scorers=small), expected[2])
    rooms, tries = dict(decode.on_device._rooms), len(tried)
    for _ in range(3):
        decoder_tests.assert_same(decode(encoded_BSC, frames_B, scorers=other), expected[1])
    assert len(tried) == tries, "what shares the language model is not tried"
    assert rooms
    assert decode.on_device._rooms == rooms
    decoder_tests.assert_same(decode(encoded_BSC, frames_B, scorers=small), expected[2])


def test_a_language_model_that_did_not_fit_is_tried_again_once_more_memory_is_free(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    own, *_ = decoder_tests.scorers()
    decode, free, tried = Decoder(weights), [100], []
    device = decode.on_device
    place = device._scorers.address
    monkeypatch.setattr(device, "_free", lambda: free[0])
    monkeypatch.setattr(
        device._scorers,
        "address",
        lambda one: tried.append(free[0]) or (out_of_memory() if free[0] < 300 else place(one)),
    )
    expected = Decoder(arrays_of(weights))(encoded_BSC, frames_B, scorers=own)
    for free[0] in (100, 100, 90, 200, 150, 200, 300):
        decoder_tests.assert_same(decode(encoded_BSC, frames_B, scorers=own), expected)
    assert sorted({*tried}) == [100, 200, 300]
    assert tried.count(100) == tried.count(200) == 1
    assert device._rooms, "the last batch was decoded on the device"
    free[0] = 50
    tries = len(tried)
    decoder_tests.assert_same(decode(encoded_BSC, frames_B, scorers=own), expected)
    assert len(tried) > tries, "what fits is not refused"


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_language_model_that_leaves_no_room_drops_those_of_others_once(search: str, monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    own, *_ = decoder_tests.scorers()
    assert own is not None
    plain = Decoder(weights)
    device = plain.on_device
    expected = Decoder(arrays_of(weights))(encoded_BSC, frames_B)
    module, name = (_cuda_decoder, "Room") if search == "greedy" else (_cuda_beam, "_searched")
    real, tried = getattr(module, name), []

    def without_room(*given):
        scored = given[4] if search == "greedy" else any(given[4])
        return tried.append(1) or (out_of_memory() if scored else real(*given))

    monkeypatch.setattr(module, name, without_room)
    options, on_host = TransducerBeamOptions(beam=2), arrays_of(weights)
    decode, host = (
        (plain, Decoder(on_host))
        if search == "greedy"
        else (BeamSearch(weights, options, device=device), BeamSearch(on_host, options))
    )
    decoder_tests.assert_same(plain(encoded_BSC, frames_B), expected)
    for scorer in (own, own.with_hot_words({"a": 2.0}), own.with_hot_words({"b": 1.0})):
        assert decode(encoded_BSC, frames_B, scorers=scorer) == host(encoded_BSC, frames_B, scorers=scorer)
        if scorer is own:
            assert not device._rooms, "all rooms went before it was given up"
            decoder_tests.assert_same(plain(encoded_BSC, frames_B), expected)
            rooms, tries = dict(device._rooms), len(tried)
    assert rooms
    assert device._rooms == rooms
    assert len(tried) == tries, "neither is a search tried with as little memory"


def test_what_cannot_be_written_goes_to_the_device_without_a_copy_on_the_host():
    for array in (np.arange(5), np.zeros(0, np.float32)):
        array.flags.writeable = False
        assert _cuda_decoder._unguarded(array).ctypes.data == array.ctypes.data or not array.size
        assert _cuda_decoder._unguarded(array).tobytes() == array.tobytes()


def test_where_graphs_are_refused_launches_go_on_one_by_one_and_it_is_said_once(monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object) -> None:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")

    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    monkeypatch.setattr(_cuda_decoder, "recorded", refused)
    expected, decode = Decoder(weights)(encoded_BSC, frames_B), Decoder(weights)
    decode.on_device.records = True
    with pytest.warns(ctc.SlowPathWarning, match=r"graphs are refused \(CUDA error: .* is capturing\)$"):
        assert decode(encoded_BSC, frames_B) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode(encoded_BSC[:1], frames_B[:1]) == expected[:1]


@pytest.mark.parametrize("has_durations", [False, True])
def test_more_utterances_than_a_block_takes_are_decoded_as_on_the_processor(has_durations: bool):
    weights = heads.random_heads(has_durations=has_durations, encoder=24, hidden=70, joint=40, labels=70, layers=2)
    encoded_BSC, frames_B = heads.random_frames(weights, 19, 7)
    frames_B[5::6] = 0
    weights.output_bias[weights.blank] = 5.0
    decode = Decoder(weights, DecoderOptions(max_symbols=3))
    assert decode.on_device is not None
    found = decode(encoded_BSC, frames_B)
    decoder_tests.assert_same(found, reference.greedy(encoded_BSC, frames_B, weights, max_symbols=3))
    assert len({len(one.tokens) for one in found}) > 3
    assert decode(encoded_BSC[16:17], frames_B[16:17]) == found[16:17]


def test_a_length_that_does_not_fit_is_named():
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    for wrong in (41, -1):
        frames_B[3] = wrong
        with pytest.raises(ValueError, match=f"frames: utterance 3: expected at least 0 and at most 40, found {wrong}"):
            Decoder(weights)(encoded_BSC, frames_B)


def test_an_empty_batch_is_decoded():
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    assert Decoder(weights)(encoded_BSC[:0], frames_B[:0]) == []
    assert [one.tokens for one in Decoder(weights)(encoded_BSC[:, :0], 0 * frames_B)] == [[]] * 5


def test_a_network_too_large_for_the_kernels_is_decoded_on_the_processor(monkeypatch: pytest.MonkeyPatch):
    weights, *frames = decoder_tests.random_problem(layers=2)
    monkeypatch.setattr(_cuda_decoder, "MOST_LAYERS", 1)
    decode = Decoder(weights)
    assert decode.on_device is None
    decoder_tests.assert_same(decode(*frames), reference.greedy(*frames, weights))


def test_random_lattices_pass_under_sanitizers(tmp_path: Path):
    emulation.sanitize_lattices(LIBRARY, tmp_path, count=20)


@pytest.mark.parametrize(
    ("frames", "labels"), [(200, 50), pytest.param(2000, 400, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])]
)
@pytest.mark.parametrize(("durations", "scale"), [((), 3.0), (DURATIONS, 3.0), ((), 30.0), (DURATIONS, 0.03)])
def test_float32_is_as_exact_as_float64_on_long_utterances(
    frames: int, labels: int, durations: tuple[int, ...], scale: float, monkeypatch: pytest.MonkeyPatch
):
    random = torch.Generator().manual_seed(frames)
    logits = scale * torch.randn(1, frames, labels + 1, 8 + len(durations), generator=random)
    targets = torch.randint(0, 7, (1, labels), generator=random)
    batch = (logits, targets, torch.tensor([frames]), torch.tensor([labels]))
    options = {"sigma": 0.05, "skip_below": 0.0} if durations else {"skip_below": 0.0}
    found, gradient = loss_tests.loss_and_gradient(batch, durations, **options)
    monkeypatch.setattr(_cuda_library, "serves", lambda _: False)
    expected, expected_gradient = loss_tests.loss_and_gradient((logits.double(), *batch[1:]), durations, **options)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=0, atol=2e-6)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_step_of_the_decoder_is_three_launches_and_one_a_layer(layers: int, monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem(layers=layers)
    of_a_step = 3 + layers
    for steps in (1, 4, 16):
        monkeypatch.setattr(_cuda_decoder, "STEPS_AT_ONCE", steps)
        decode = Decoder(weights)
        emulation.counts_of(LIBRARY)
        decode(encoded_BSC, frames_B)
        counts = emulation.counts_of(LIBRARY)
        assert (counts.copies, counts.waits) == (0, 0)
        assert counts.launches > of_a_step * steps
        assert (counts.launches - 2 - layers - 1) % (of_a_step * steps) == 0


def test_a_loss_is_four_launches_and_its_gradient_one_and_neither_waits():
    batch = loss_tests.random_batch(durations=DURATIONS)
    emulation.counts_of(LIBRARY)
    loss_tests.loss_and_gradient(batch, DURATIONS)
    counts = emulation.counts_of(LIBRARY)
    assert (counts.launches, counts.copies, counts.waits) == (5, 0, 0)


def test_the_benchmark_of_decoders_measures_both_sides(monkeypatch: pytest.MonkeyPatch):
    small = functools.partial(heads.random_heads, encoder=32, hidden=32, joint=32, labels=40)
    monkeypatch.setattr(decoders_cuda, "random_heads", small)
    monkeypatch.setattr(
        decoders_cuda, "random_frames", lambda weights, batch, _: heads.random_frames(weights, batch, 3)
    )
    monkeypatch.setattr(decoders_cuda, "calibrate", lambda *_, **__: None)  # so few frames emit nothing
    monkeypatch.setattr(decoders_cuda, "compare", functools.partial(compare_once, compare))
    cfg = AttentionConfig(layers=1, width=8, heads=2, inner=8, classes=9)
    encoder = EncoderConfig(width=16, layers=1, heads=2, subsampling_channels=8)
    parakeet = ModelConfig(encoder=encoder, ctc=False, pieces=40, prediction_width=32, joint_width=32)
    found = list(decoders_cuda.rows(torch.device("cpu"), batches=(1, 2), attention=cfg, parakeet=(parakeet, 2, 1)))
    *_, beam, greedy = [found.pop(n) for n in (14, 13, 8, 7)]
    assert greedy.items() > {"what": "TDT 0.6 B, greedy, samples to labels", "precision": "bf16", "batch": 2}.items()
    assert beam["what"] == "TDT 0.6 B, beam of 6, samples to labels"
    assert greedy["times_real_time"] == pytest.approx(2e3 / greedy["ms"], rel=0.01, abs=0.51)
    assert [(row["what"], row["batch"]) for row in found[:4]] == [
        ("greedy TDT", 1), ("greedy TDT, 3-gram", 1), ("greedy TDT", 2), ("50 tokens of attention", 32)
    ]  # fmt: skip
    assert [row["precision"] for row in found[::4]] == ["fp32", "bf16", "fp16"]
    assert all({"graphs_ms", "launches_ms", "times_faster_than_launches"} <= row.keys() for row in found)


def compare_once(measure, sides, *, device, warmup, repeats):
    return measure(sides, device=device, warmup=0, repeats=1)


def searched(weights, options, batch, **given) -> list[list[BeamCandidate]]:
    """On the device, where nothing may go to the host."""
    search = BeamSearch(weights, options, device=Decoder(weights).on_device)
    search._native = search._native and mock.Mock(side_effect=AssertionError("the host"))
    return search(*batch, **given)


def assert_same_search(found: list[list[BeamCandidate]], expected: list[list[BeamCandidate]]) -> None:
    assert [len(own) for own in found] == [len(own) for own in expected]
    for own, other in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        decoder_tests.assert_same([own.decoded], [other.decoded])
        assert own[1:] == pytest.approx(other[1:], abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4, 7])
@pytest.mark.parametrize("internal_weight", [0.0, 0.3])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_beams_are_those_of_the_processor(durations: tuple[int, ...], internal_weight: float, beam: int):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem(durations=durations, layers=2 if beam == 4 else 1)
    frames_B[1] = 0
    options = TransducerBeamOptions(beam=beam, n_best=min(beam, 3), internal_weight=internal_weight)
    host = BeamSearch(arrays_of(weights), options)
    for scorers in (None, decoder_tests.scorers()):
        found = searched(weights, options, (encoded_BSC, frames_B), scorers=scorers)
        assert_same_search(found, host(encoded_BSC, frames_B, scorers=scorers))
        alone = searched(weights, options, (encoded_BSC[3:4], frames_B[3:4]), scorers=scorers and scorers[3])
        assert alone == found[3:4], "bitwise, whatever is beside it"


def test_a_beam_that_keeps_everything_and_one_that_needs_more_room_are_those_of_the_processor(
    monkeypatch: pytest.MonkeyPatch,
):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem(durations=DURATIONS)
    options = TransducerBeamOptions(beam=16, n_best=16, drop=-math.inf, max_symbols=2)
    expected = BeamSearch(arrays_of(weights), options)(encoded_BSC[:, :6], frames_B.clamp(max=6))
    assert_same_search(searched(weights, options, (encoded_BSC[:, :6], frames_B.clamp(max=6))), expected)
    monkeypatch.setattr(_cuda_beam, "NODES", 1)
    monkeypatch.setattr(_cuda_beam, "NODES_EACH", 3)
    search = BeamSearch(weights, options, device=Decoder(weights).on_device)
    assert_same_search(search(encoded_BSC[:, :6], frames_B.clamp(max=6)), expected)
    monkeypatch.setattr(_beam_library, "NODES", 1)
    monkeypatch.setattr(_beam_library, "NODES_EACH", 3)
    narrow = BeamSearch(weights, replace(options, memory=120_000), device=search.on_device)
    with pytest.raises(ValueError, match="^beam: utterance 1: sequences of 6 frames, 16 of them with little in common"):
        narrow(encoded_BSC[:, :6], torch.tensor([1, 6, 0, 1, 1]))


def test_what_no_beam_can_search_is_told_and_short_memory_means_the_host(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    search = BeamSearch(weights, device=Decoder(weights).on_device)
    wrong_BSC = encoded_BSC.clone()
    wrong_BSC[1, 30] = math.nan
    with pytest.raises(ValueError, match="encoded: utterance 1: its frames hold NaN"):
        search(wrong_BSC, frames_B)
    assert search(encoded_BSC[:0], frames_B[:0]) == []
    found = search(encoded_BSC[:2, :0], [0, 0])
    assert [[one.decoded.tokens for one in own] for own in found] == [[[]], [[]]]
    _library.warn_slow.cache_clear()
    monkeypatch.setattr(_cuda_beam, "search", out_of_memory)
    with pytest.warns(ctc.SlowPathWarning, match="BeamSearch runs on the host, which is slower: CUDA out of memory$"):
        found = search(encoded_BSC, frames_B)
    assert found == BeamSearch(arrays_of(weights))(encoded_BSC, frames_B)


@pytest.mark.parametrize(("durations", "precision"), [((), "bf16"), (DURATIONS, "fp16")])
def test_a_beam_wider_than_the_vocabulary_and_half_matrices(durations: tuple[int, ...], precision: str):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem(durations=durations)
    same = half_of(weights, DTYPES[precision])
    options, batch = (
        TransducerBeamOptions(beam=48, n_best=3, max_symbols=1),
        (encoded_BSC[:, :9], frames_B.clamp(max=9)),
    )
    search = BeamSearch(weights, options, device=Decoder(weights, DecoderOptions(precision=precision)).on_device)
    assert_same_search(search(*batch), searched(same, options, batch))
    assert_same_search(search(*batch), BeamSearch(arrays_of(same), options)(*batch))


def test_a_beam_has_the_memory_of_rooms_and_the_host_what_the_device_cannot_take(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem()
    greedy = Decoder(weights)
    greedy(encoded_BSC, frames_B)
    search, expected = (
        BeamSearch(weights, device=greedy.on_device),
        BeamSearch(arrays_of(weights))(encoded_BSC, frames_B),
    )
    empty = torch.empty

    def of_the_rest(*shape: int, **given: Any) -> torch.Tensor:
        return out_of_memory() if greedy.on_device._rooms else empty(*shape, **given)

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(torch, "empty", of_the_rest)
        assert_same_search(search(encoded_BSC, frames_B), expected)
    _library.warn_slow.cache_clear()
    monkeypatch.setattr(_cuda_beam, "MOST_BLOCKS", 5 * 4096 - 1)
    with pytest.warns(ctc.SlowPathWarning, match="so many sequences are more than its kernels take$"):
        assert search(encoded_BSC, frames_B) == expected
    with pytest.raises(ValueError, match="^beam: 4 sequences, 1 of them returned, take .* of `memory`"):
        BeamSearch(weights, TransducerBeamOptions(memory=1000), device=greedy.on_device)(encoded_BSC, frames_B)


def test_what_is_over_asks_the_prediction_network_for_nothing_more(monkeypatch: pytest.MonkeyPatch):
    weights, encoded_BSC, _ = decoder_tests.random_problem()
    device, options = Decoder(weights).on_device, TransducerBeamOptions(max_symbols=1)
    workspaces, seen, empty = [], [], torch.empty
    library = _cuda_beam._cuda_library.DEVICE.loaded()
    steps = library.transducer_beam_steps_cuda
    width = 2 * device.layers * device.hidden + device.joint
    first, count = 2 * 40 * device.joint, (2 * options.beam + 8) * width  # behind projected frames

    def spied(*given):
        steps(*given)
        seen.append(workspaces[0].view(torch.int32)[first : first + count].clone())

    monkeypatch.setattr(_cuda_beam, "STEPS_AT_ONCE", 1)
    monkeypatch.setattr(library, "transducer_beam_steps_cuda", spied)
    monkeypatch.setattr(
        torch, "empty", lambda *shape, **given: workspaces.append(empty(*shape, **given)) or workspaces[-1]
    )
    _cuda_beam.search(device, options, encoded_BSC[:2], np.array([1, 40]), [None, None])
    assert len(seen) >= 40
    assert seen[1].any()
    assert torch.equal(seen[1], seen[-1])


@pytest.mark.parametrize("internal_weight", [0.0, 0.3])
def test_a_step_of_a_beam_has_few_launches_and_no_wait(internal_weight: float):
    weights, encoded_BSC, frames_B = decoder_tests.random_problem(durations=DURATIONS)
    device, options = Decoder(weights).on_device, TransducerBeamOptions(internal_weight=internal_weight)
    emulation.counts_of(LIBRARY)
    _cuda_beam.search(device, options, encoded_BSC, frames_B.numpy(), [None] * len(frames_B))
    counts = emulation.counts_of(LIBRARY)
    extra = 2 if internal_weight else 0
    assert (counts.launches - 5 - extra) % (_cuda_beam.STEPS_AT_ONCE * (4 + extra)) == 0
    assert counts.waits == 0
