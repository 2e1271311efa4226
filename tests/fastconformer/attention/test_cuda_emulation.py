"""The step of an attention decoder on a GPU: its kernel in the emulator, and its graphs as calls that are repeated."""

import ctypes
import warnings

import pytest
import torch

import ctc
import fastconformer
from common.devices.graphs import RecordedGraph
from fastconformer.attention import _cuda_attention
from fastconformer.attention import step as step_module
from fastconformer.attention._library import LIBRARY
from fastconformer.attention.search import AttentionMemory, CachedToken, SearchOptions, decode
from fastconformer.attention.step import Steps, TorchStep, halved, keys_values, rows_for
from tests import emulation
from tests.fastconformer.attention import references as golden
from tests.fastconformer.attention import test_search as search_tests

pytestmark = pytest.mark.slow  # the fixture compiles for some seconds


@pytest.fixture(scope="module")
def kernels() -> ctypes.CDLL:
    return emulation.kernels_of(LIBRARY)


@pytest.fixture(autouse=True)
def _on_device(kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of the CPU, that the emulated kernels compute with."""
    emulation.emulate(monkeypatch, _cuda_attention, kernels)
    monkeypatch.setattr(_cuda_attention, "serves", lambda tensor: True)


def recordings(network, counts):
    draw = torch.Generator().manual_seed(0)
    return [AttentionMemory(keys_values(network, torch.randn(n, network.cfg.width, generator=draw))) for n in counts]


@pytest.mark.parametrize("beam", [1, 3])
def test_recordings_that_take_the_places_of_others_have_the_same_bits(beam: int):
    search_tests.test_recordings_that_take_the_places_of_others_have_the_same_bits(beam, "torch")


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.1), ("fp16", 0.01)])
@pytest.mark.parametrize(
    "settings", [{}, {"width": 36}, {"width": 128, "heads": 1}, {"width": 256, "heads": 1, "tied": False}], ids=str
)
@torch.no_grad()
def test_a_step_by_kernels_is_that_of_torch(settings, precision, tolerance, monkeypatch):
    network = halved(search_tests.decoder(3, **settings), precision)
    heard = recordings(network, (7, 1, 40))
    by_kernels, plain = TorchStep(network), TorchStep(network)
    assert by_kernels.has_kernels
    plain.has_kernels = False
    given = [[CachedToken(n, n, list(range(i, 40, 3)), one) for n in range(3)] for i, one in enumerate(heard)]
    first = ([*given[0], *given[1], *given[2]], [2, 5, 8])
    second = ([CachedToken(4, 3, own[0].slots, own[0].heard) for own in given], [0, 1, 2])
    emulation.counts_of(LIBRARY)
    for tokens, asked in (first, second):
        found, expected = (step(tokens, asked, 3, [search_tests.ALLOWED] * 3) for step in (by_kernels, plain))
        for one, other in zip(found, expected, strict=True):
            assert sorted(one.log_probs, reverse=True) == pytest.approx(other.log_probs, abs=tolerance)
            if precision == "fp32":
                assert one.labels == other.labels
    counts = emulation.counts_of(LIBRARY)
    assert (counts.launches, counts.copies, counts.waits) == (2 * 2 * network.cfg.layers, 0, 0), "two a layer and step"


class Recorder:
    """Takes the place of CUDA graphs: what a network computes of the arguments that it was recorded with."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, network, arguments, memory):
        self.recorded += 1
        result = network(*arguments)

        def replay() -> None:
            self.replayed += 1
            result.copy_(network(*arguments))

        return RecordedGraph(replay, arguments, result)


@pytest.mark.parametrize("beam", [1, 4])
@torch.no_grad()
def test_searches_replay_what_was_recorded_for_about_as_many_tokens(beam: int):
    network, options, recorder = search_tests.decoder(2), SearchOptions(beam=beam, n_best=beam), Recorder()
    wishes = [(search_tests.wish(4 + 5 * i), one) for i, one in enumerate(recordings(network, (3, 11, 5, 8, 2, 9)))]
    expected = decode(TorchStep(network), wishes, options)
    step = TorchStep(network, record=recorder)
    assert decode(step, wishes, options) == expected
    before = recorder.recorded
    assert before <= 4
    assert recorder.replayed > 3 * before
    assert decode(step, wishes[::-1], options) == expected[::-1]
    assert recorder.recorded == before, "other texts and recordings of other lengths are the same graphs"


def test_texts_of_one_recogniser_replay_what_those_before_them_recorded(monkeypatch: pytest.MonkeyPatch):
    recorder, said = Recorder(), {"source_language": "en", "times": "none"}

    class Recorded(TorchStep):
        def __init__(self, decoder):
            super().__init__(decoder, record=recorder)

    monkeypatch.setattr(step_module, "TorchStep", Recorded)
    asr = fastconformer.load(golden.path("canary2_agg"), device="cpu")
    expected, languages = asr.transcribe(golden.flacs(), **said), asr.identify(golden.flacs())
    asr._decoder._host = None  # as where the network is on a GPU
    before = 0
    for again in range(3):
        assert [own.text for own in asr.transcribe(golden.flacs(), **said)] == [own.text for own in expected]
        before = before if again else recorder.recorded
        assert asr.identify(golden.flacs()) == languages
        assert recorder.recorded == before > 0


@torch.no_grad()
def test_a_step_is_lent_to_one_search_at_a_time_and_not_after_an_error():
    steps = Steps(search_tests.decoder(2))
    steps._host = None
    with steps.lent() as first, steps.lent() as second:
        assert first is not second
    with steps.lent() as third:
        assert third in (first, second)
    with pytest.raises(ValueError, match="empty"), steps.lent() as broken:
        broken([], [broken.take(1)[0]], 1, [])
    with steps.lent() as fourth, steps.lent() as fifth:
        assert broken not in (fourth, fifth)


@torch.no_grad()
def test_steps_that_nobody_has_keep_no_large_stores(monkeypatch):
    steps = Steps(search_tests.decoder(2))
    steps._host = None
    with steps.lent() as small, steps.lent() as large:
        large.take(large.size + 1)
    assert steps._idle == [large, small], "both are small enough"
    monkeypatch.setattr(step_module, "MOST_IDLE_BYTES", large.store.nbytes - 1)
    with steps.lent(), steps.lent():
        pass
    assert steps._idle == [small]


@torch.no_grad()
def test_a_store_that_has_grown_is_recorded_anew():
    network, recorder = search_tests.decoder(2), Recorder()
    (heard,) = recordings(network, (9,))
    step, plain = TorchStep(network, record=recorder), TorchStep(network)
    for _ in range(2):
        tokens = [CachedToken(n, n, [5, 1, 2], heard) for n in range(3)]
        assert step(tokens, [2], 3, [search_tests.ALLOWED]) == plain(tokens, [2], 3, [search_tests.ALLOWED])
        step.take(step.size + 1)
    assert recorder.recorded == 2


@torch.no_grad()
def test_where_graphs_are_refused_the_step_goes_on_without_and_says_so_once():
    def refused(*_: object) -> RecordedGraph:
        raise RuntimeError("CUDA error: out of memory\nmore")

    network = search_tests.decoder(2)
    (heard,) = recordings(network, (9,))
    tokens, allowed = [CachedToken(n, n, [5, 1, 2], heard) for n in range(3)], [search_tests.ALLOWED]
    expected, step = TorchStep(network)(tokens, [2], 3, allowed), TorchStep(network, record=refused)
    with pytest.warns(ctc.SlowPathWarning, match=r"attention decoder .* refused \(CUDA error: out of memory\)$"):
        assert step(tokens, [2], 3, allowed) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert step(tokens, [2], 3, allowed) == expected


def test_few_graphs_serve_all_numbers_of_tokens():
    assert [rows_for(n) for n in (1, 32, 33, 64, 65, 1000)] == [32, 32, 64, 64, 128, 1024]
