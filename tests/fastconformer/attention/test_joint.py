"""Joint scores of CTC and attention: against sums over all alignments, and all texts there are."""

import itertools

import numpy as np
import pytest
import torch

import ctc
from fastconformer.attention.joint import CtcPrefixes, JointScorer, log_likelihood
from fastconformer.attention.search import SearchOptions, decode
from fastconformer.attention.step import Steps
from tests.fastconformer.attention.test_search import decoder, every_text, wish

BLANK = 4


def log_probs(seed: int, count: int, classes: int = 5) -> np.ndarray:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(count, classes, generator=draw).mul(2).log_softmax(-1).numpy()


def test_the_likelihood_is_the_sum_over_all_alignments():
    random = np.random.default_rng(0)
    for labels, count in itertools.product(([], [1], [1, 1], [1, 2, 1], [2, 2, 2]), (1, 4, 7)):
        log_probs_SV = torch.from_numpy(random.standard_normal((count, 4))).log_softmax(-1)
        lengths = torch.tensor([count]), torch.tensor([len(labels)])
        loss = torch.nn.functional.ctc_loss(
            log_probs_SV[:, None], torch.tensor([labels], dtype=torch.int64), *lengths, blank=3, reduction="none"
        )
        assert log_likelihood(log_probs_SV.numpy(), labels, blank=3) == pytest.approx(-loss.item(), abs=1e-9)


def of_all_paths(log_probs_SV: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of every text, by definition."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(log_probs_SV.shape[1]), repeat=len(log_probs_SV)):
        text = tuple(label for label, _ in itertools.groupby(path) if label != BLANK)
        found[text] = found.get(text, 0.0) + float(np.exp(log_probs_SV[range(len(path)), path].sum(dtype=np.float64)))
    return found


def test_a_prefix_has_the_probability_of_all_texts_that_begin_so():
    log_probs_SV = log_probs(0, 5)
    exact = of_all_paths(log_probs_SV)
    prefixes = CtcPrefixes(log_probs_SV, BLANK)
    for labels in itertools.product(range(BLANK), repeat=3):
        prefix = prefixes.start()
        for count, label in enumerate(labels, start=1):
            prefix = prefixes.extended(prefix, label)
            begun = sum(own for text, own in exact.items() if text[:count] == labels[:count])
            assert np.exp(prefix.score) == pytest.approx(begun, rel=1e-4, abs=1e-12)
            assert np.exp(prefixes.whole(prefix)) == pytest.approx(exact.get(labels[:count], 0.0), rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("words", [None, {"c": 2.0}])
def test_a_wide_beam_finds_the_best_of_all_texts_by_both(words):
    network, encoded_SC = decoder(1), torch.randn(7, 8, generator=torch.Generator().manual_seed(3))
    log_probs_SV = log_probs(1, 7)
    known = ctc.Scorer(["a", "b", "c", "d"], hot_words=words) if words else None
    with torch.no_grad():
        by_attention = every_text(network, encoded_SC, 4)
        steps = Steps(network)
        scorer = JointScorer(CtcPrefixes(log_probs_SV, BLANK), 0.4, known)
        options = SearchOptions(beam=200, n_best=200)
        (found,) = decode(steps(), [(wish(4, scorer=scorer, share=0.6), steps.hear(encoded_SC))], options)
    expected = {}
    for text, score in by_attention.items():
        expected[text] = 0.6 * score + 0.4 * log_likelihood(log_probs_SV, text, blank=BLANK)
        expected[text] += 0.6 * 2.0 * text.count(2) if words else 0.0
    ranked = sorted(expected, key=lambda text: -expected[text])
    ended = [one for one in found.found if one.is_ended]
    assert [tuple(one.labels) for one in ended[:5]] == ranked[:5]
    assert [one.score for one in ended] == pytest.approx([expected[tuple(one.labels)] for one in ended], abs=1e-4)


def test_more_labels_than_frames_are_impossible_and_finite():
    scorer = JointScorer(CtcPrefixes(log_probs(2, 2), BLANK), 0.5)
    state, gains = scorer.start(), []
    for label in (0, 0, 1):
        gain, state = scorer.extend(state, label)
        gains.append(gain)
    assert np.isfinite([*gains, scorer.finish(state)]).all()
    assert gains[1] < -1e5


def test_no_frames_have_no_text():
    assert log_likelihood(np.zeros((0, 5), np.float32), [], blank=BLANK) == 0.0
    assert log_likelihood(np.zeros((0, 5), np.float32), [1], blank=BLANK) == -np.inf
