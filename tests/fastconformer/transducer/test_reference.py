"""The slow references: that they are NeMo's results, test_losses.py and test_decoder.py show too."""

import itertools
import math

import pytest
import torch

from fastconformer.transducer import reference
from fastconformer.transducer.weights import arrays_of
from tests.fastconformer import golden
from tests.fastconformer.transducer import definition


@pytest.mark.parametrize("name", golden.TRANSDUCERS)
def test_prediction_network_and_joint_are_those_of_nemo(name: str) -> None:
    arrays, weights = golden.arrays(name), arrays_of(golden.decoder_weights(name))
    outputs, state = [], reference.start_state(weights)
    for token in [weights.blank, *arrays["targets_2"][:8].tolist()]:
        output_H, state = reference.predict(token, state, weights)
        outputs.append(torch.from_numpy(output_H))
    expected = torch.from_numpy(arrays["pred_net_output"])
    torch.testing.assert_close(torch.stack(outputs), expected, rtol=0, atol=golden.tolerance("joint_logits"))
    encoded_SC = arrays["encoder_alone_2"].T
    for t, u in itertools.product(range(8), range(9)):
        expected_W = torch.from_numpy(arrays["joint_logits"][t, u])
        logits_W = torch.from_numpy(reference.joint(encoded_SC[t], outputs[u].numpy(), weights))
        torch.testing.assert_close(logits_W, expected_W, rtol=0, atol=golden.tolerance("joint_logits"))


@pytest.mark.parametrize("durations", [(0, 1, 2), (1, 3), (0, 2), (0, 1)])
def test_the_tdt_loss_sums_over_all_paths(durations: tuple[int, ...]) -> None:
    logits = torch.randn(1, 4, 3, 4 + len(durations), generator=torch.Generator().manual_seed(1)).double()
    targets = torch.tensor([[2, 0]])
    loss = definition.tdt_losses(logits, targets, [4], [2], durations, sigma=0.1)
    tokens, jumps = logits[0, ..., :4].log_softmax(-1) - 0.1, logits[0, ..., 4:].log_softmax(-1)
    total = _probability(0, 0, [2, 0], tokens, jumps, durations)
    assert float(loss) == pytest.approx(-math.log(total) if total else math.inf, abs=1e-10)


def _probability(t: int, u: int, labels: list[int], tokens, jumps, durations: tuple[int, ...]) -> float:
    if t >= len(tokens):
        return float(t == len(tokens) and u == len(labels))
    total = 0.0
    for i, d in enumerate(durations):
        step = float(jumps[t, u, i].exp())
        if d:
            total += step * float(tokens[t, u, 3].exp()) * _probability(t + d, u, labels, tokens, jumps, durations)
        if u < len(labels) and t + d < len(tokens):
            label = float(tokens[t, u, labels[u]].exp())
            total += step * label * _probability(t + d, u + 1, labels, tokens, jumps, durations)
    return total


def test_blank_may_be_any_class() -> None:
    logits = torch.randn(1, 5, 3, 6, generator=torch.Generator().manual_seed(2))
    swapped = logits[..., [5, 0, 1, 2, 3, 4]]
    last = definition.rnnt_losses(logits, torch.tensor([[0, 3]]), [5], [2])
    first = definition.rnnt_losses(swapped, torch.tensor([[1, 4]]), [5], [2], blank=0)
    torch.testing.assert_close(last, first)


def test_an_utterance_without_frames_costs_infinity() -> None:
    logits = torch.zeros(1, 4, 2, 5)
    assert definition.rnnt_losses(logits, torch.tensor([[1]]), [0], [1]).tolist() == [math.inf]
    assert definition.rnnt_losses(logits[:0], torch.zeros(0, 1), [], []).shape == (0,)


@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
def test_decoding_ends_whatever_the_weights(durations: tuple[int, ...]) -> None:
    weights = golden.random_weights(labels=8, durations=durations, layers=2)
    encoded = torch.randn(3, 20, 12, generator=torch.Generator().manual_seed(3))
    for found, frames in zip(reference.greedy(encoded, [20, 1, 0], weights, max_symbols=3), (20, 1, 0), strict=True):
        assert len(found.tokens) == len(found.frames) == len(found.confidence)
        assert found.frames == sorted(found.frames)
        assert all(frame < frames for frame in found.frames)
        assert (found.durations is None) == (not durations)
