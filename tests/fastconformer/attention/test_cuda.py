"""What only a GPU can show of attention decoders: the kernel and real graphs, against the step of the CPU."""

import pytest
import torch

from fastconformer.attention import _cuda_attention
from fastconformer.attention.search import SearchOptions, decode
from fastconformer.attention.step import Steps, TorchStep
from tests.fastconformer.attention import test_search as search_tests

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """Otherwise plain torch would pass these tests."""
    assert _cuda_attention.why_missing(torch.device("cuda")) is None


def searched(network, options, precision="fp32", *, graphs=True):
    steps = Steps(network, on_device=precision)
    step, draw = steps(), torch.Generator().manual_seed(0)
    if not graphs:
        assert isinstance(step, TorchStep)
        step.forget_graphs()
    frames = [torch.randn(n, network.cfg.width, generator=draw) for n in (3, 11, 5, 8, 2, 9)]
    heard = [steps.hear(encoded_SC.to(network.bias.device)) for encoded_SC in frames]
    return decode(step, [(search_tests.wish(4 + 5 * i), one) for i, one in enumerate(heard)], options)


@pytest.mark.parametrize("beam", [1, 4])
@torch.no_grad()
def test_texts_are_those_of_the_cpu_with_graphs_and_without(beam):
    options = SearchOptions(beam=beam, n_best=beam)
    expected = searched(search_tests.decoder(2), options)
    network = search_tests.decoder(2).cuda()
    found = searched(network, options)
    assert found == searched(network, options, graphs=False), "bitwise"
    for one, other in zip(found, expected, strict=True):
        assert [text.labels for text in one.found] == [text.labels for text in other.found]
        assert [text.score for text in one.found] == pytest.approx([text.score for text in other.found], abs=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@torch.no_grad()
def test_halves_are_decoded_and_their_scores_are_about_the_same(precision):
    network = search_tests.decoder(2, width=128).cuda()
    expected, found = (searched(network, SearchOptions(), own) for own in ("fp32", precision))
    for one, other in zip(found, expected, strict=True):
        assert one.found[0].log_probs[0] == pytest.approx(other.found[0].log_probs[0], abs=0.1)
