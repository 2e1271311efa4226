"""A device without kernels computes the same by other ways, and says once why."""

import warnings

import numpy as np
import pytest
import torch

import ctc
from fastconformer.attention import step as attention_step
from fastconformer.attention.search import AttentionMemory, CachedToken
from fastconformer.transducer import _cuda_decoder
from fastconformer.transducer import _library as transducer_library
from fastconformer.transducer.decoder import Decoder
from fastconformer.transducer.loss.losses import rnnt_loss
from tests.fastconformer.attention import test_search
from tests.fastconformer.transducer import test_decoder

WHY = "there are none for mirror"


def loss(device):
    logits_BTUW = torch.randn(1, 4, 3, 5, device=device)
    return rnnt_loss(logits_BTUW, torch.tensor([[0, 1]], device=device), [4], [2])


def ctc_loss(device):
    return ctc.ctc_loss(
        torch.randn(6, 1, 4, device=device), torch.tensor([[1, 2]]), torch.tensor([6]), torch.tensor([2])
    )


def greedy(device):
    return ctc.greedy(torch.randn(1, 6, 4, device=device), [6], blank=3)


def align(device):
    return ctc.align(torch.randn(1, 6, 4, device=device).log_softmax(-1), [[0, 1]], [6], blank=3)


def decode(device):
    weights, *frames = test_decoder.random_problem()
    lstm = tuple(type(layer)(*(part.to(device) for part in layer)) for layer in weights.lstm)
    own = {name: part.to(device) for name, part in weights._asdict().items() if isinstance(part, torch.Tensor)}
    found = Decoder(weights._replace(lstm=lstm, **own))(*frames)
    test_decoder.assert_same(found, Decoder(weights)(*frames))


@torch.no_grad()
def attend(device):
    network = test_search.decoder(1)
    encoded_SC = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    found = []
    for place in (device, "cpu"):
        step = attention_step.TorchStep(network.to(place))
        heard = AttentionMemory(attention_step.keys_values(step.decoder, encoded_SC.to(place)))
        found.append(step([CachedToken(n, n, [0, 1], heard) for n in range(2)], [1], 2, [test_search.ALLOWED]))
    assert found[0][0].labels == found[1][0].labels
    assert np.allclose(found[0][0].log_probs, found[1][0].log_probs, atol=1e-5)


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (ctc_loss, f"ctc_loss runs in plain torch, which is slower: {WHY}"),
        (greedy, f"ctc.greedy runs in plain C++ on the processor, which is slower: {WHY}"),
        (align, f"ctc.align runs in plain C++ on the processor, which is slower: {WHY}"),
        (loss, f"the transducer loss runs in plain torch, which is slower: {WHY}"),
        (decode, f"fastconformer.Decoder runs on the host, which is slower: {WHY}"),
        (attend, f"an attention decoder runs in plain torch, which is slower: {WHY}"),
    ],
)
def test_a_device_without_kernels_says_once_why(device, use, told):
    for warn in (ctc.bindings._library.warn_slow, transducer_library.warn_slow, attention_step._warn_slow):
        warn.cache_clear()
    with pytest.warns(ctc.SlowPathWarning) as heard:
        use("mirror")
    assert [str(one.message) for one in heard if one.category is ctc.SlowPathWarning] == [told]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ctc.SlowPathWarning)
        use("mirror")


def test_a_network_too_large_for_the_kernels_hears_it():
    weights, *_ = test_decoder.random_problem(layers=9)
    assert _cuda_decoder.why_missing(weights) == "its kernels take 8 layers and a joint of 1024 at most"
