"""A thorough beam search beside the rule of flashlight's decoder without a lexicon, in our own words."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import ctc
from ctc.decoding.beam import BeamOptions
from ctc.language_models.scorer import Scorer, ScorerOptions
from ctc.ngram import estimate
from tests.ctc.decoding.test_beam import LABELS, SENTENCES, assert_searches_agree, logits, searches
from tests.ctc.enumeration import prefix_log_probs

BLANK = 4
SUM, BEST = np.logaddexp, max


def scorers():
    model = estimate([list("|".join(words)) for words in SENTENCES], order=3)
    letters = Scorer(LABELS, model=model, options=ScorerOptions(unit="token", weight=0.7, word_bonus=1.2))
    words = ScorerOptions(unknown_penalty=-3.0)
    return [None, letters, Scorer(LABELS, model=estimate(SENTENCES, order=3), hot_words={"cab": 2.0}, options=words)]


def options(beam, **changes):
    return BeamOptions(**{"token_log_prob": -math.inf, "beam_log_prob": -math.inf} | changes, beam=beam, thorough=True)


def decoded_as_by_flashlight(log_probs_SV, scorer, beam, add):
    """The labels of the best of `beam` hypotheses: labels and whether a path ends in blank; equal ones are added up."""

    def external(labels):
        if labels not in known:
            before, state = external(labels[:-1])
            gain, state = scorer.extend(state, labels[-1])
            known[labels] = before + gain, state
        return known[labels]

    known = {(): (0.0, scorer.start() if scorer else None)}
    found = {((), True): 0.0}
    for log_probs_V in log_probs_SV.tolist():
        after = {}
        for (labels, is_blank), log_prob in found.items():
            for label, more in enumerate(log_probs_V):
                is_held = labels[-1:] == (label,) and not is_blank
                longer = labels if label == BLANK or is_held else (*labels, label)
                state = longer, label == BLANK
                after[state] = add(after[state], log_prob + more) if state in after else log_prob + more
        gain = {labels: external(labels)[0] if scorer else 0.0 for labels, _ in after}
        best = sorted(after, key=lambda state: -after[state] - gain[state[0]])[:beam]
        found = {state: after[state] for state in best}

    def finished(state):
        labels = state[0]
        return found[state] + (external(labels)[0] + scorer.finish(external(labels)[1]) if scorer else 0.0)

    return list(max(found, key=finished)[0])


def exact_score(log_probs_SV, scorer, labels):
    targets = torch.tensor([labels], dtype=torch.int64).reshape(1, -1)
    loss = ctc.ctc_loss(log_probs_SV[:, None], targets, [len(log_probs_SV)], [len(labels)], BLANK, "sum")
    if scorer is None:
        return -float(loss)
    external, state = 0.0, scorer.start()
    for label in labels:
        gain, state = scorer.extend(state, label)
        external += gain
    return external + scorer.finish(state) - float(loss)


@pytest.mark.parametrize("beam", [1, 2, 5, 20])
@pytest.mark.parametrize("which", range(3))
def test_it_is_never_worse_than_flashlights_rule_at_the_same_beam(which, beam):
    scorer = scorers()[which]
    is_better = 0
    for seed in range(40):
        scale = (0.3, 1.0, 2.0, 4.0)[seed % 4]
        log_probs_BSV = logits(1, 3 + seed, 5, seed=seed, scale=scale).log_softmax(-1)
        best = ctc.beam_search(log_probs_BSV, [3 + seed], blank=BLANK, scorer=scorer, options=options(beam))[0][0]
        assert best.score == pytest.approx(exact_score(log_probs_BSV[0], scorer, best.labels), abs=1e-6)
        for add in (SUM, BEST):
            theirs = decoded_as_by_flashlight(log_probs_BSV[0], scorer, beam, add)
            score = exact_score(log_probs_BSV[0], scorer, theirs)
            assert best.score >= score - 1e-6, (seed, best.labels, theirs)
            is_better += best.score > score + 1e-6
    assert is_better > 0


@pytest.mark.parametrize("cuts", [{}, {"token_log_prob": -3.0, "beam_log_prob": -6.0}])
@pytest.mark.parametrize("which", range(3))
def test_native_and_python_search_agree(which, cuts):
    frames_B = torch.tensor([25, 0, 13, 1])
    for seed, beam in enumerate((1, 2, 5, 12)):
        logits_BSV = logits(4, 25, 5, seed=seed, scale=1.0)
        wanted = BeamOptions(beam=beam, n_best=beam, thorough=True, **cuts)
        assert_searches_agree(logits_BSV, frames_B, BLANK, scorers()[which], wanted, within=1e-9)


@pytest.mark.parametrize("scale", [0.0, 2.0, 30.0, 300.0])
def test_hypotheses_are_summed_over_all_alignments_however_narrow_the_beam(scale):
    log_probs_BSV = logits(1, 6, 3, scale=scale).log_softmax(-1)
    expected = prefix_log_probs(log_probs_BSV[0], 2)
    for search in searches():
        for hypothesis in search(log_probs_BSV, torch.tensor([6]), 2, None, options(3, n_best=3))[0]:
            assert hypothesis.log_prob == pytest.approx(expected[tuple(hypothesis.labels)], abs=1e-9)


def test_an_hour_is_searched_in_the_memory_of_a_minute():
    found = ctc.beam_search(logits(1, 9000, 5, scale=2.0), [9000], blank=BLANK, options=options(4, n_best=4))[0]
    assert len(found) == 4
    assert found[0].start_frames == sorted(found[0].start_frames)
    assert found[0].end_frames[-1] <= 9000


def test_a_stream_refuses_it():
    with pytest.raises(
        ValueError, match="BeamStream: thorough: expected False, for a thorough search needs all frames"
    ):
        ctc.BeamStream(5, blank=BLANK, options=options(4))


@pytest.mark.parametrize("cuts", [{}, {"token_log_prob": -4.0, "beam_log_prob": -8.0}])
@pytest.mark.parametrize("which", range(3))
def test_it_is_never_worse_than_the_plain_search_of_the_same_beam(which, cuts):
    """What others keep takes no places from what the plain search keeps alone."""
    scorer = scorers()[which]
    for seed in range(120):
        beam, frames = (1, 2, 5, 10)[seed % 4], 20 + seed % 40
        log_probs_BSV = logits(1, frames, 5, seed=seed, scale=(0.5, 1.0, 2.0)[seed % 3]).log_softmax(-1)
        plain, thorough = (
            ctc.beam_search(
                log_probs_BSV, [frames], blank=BLANK, scorer=scorer, options=replace(options(beam, **cuts), thorough=t)
            )[0][0]
            for t in (False, True)
        )
        assert thorough.score >= exact_score(log_probs_BSV[0], scorer, plain.labels) - 1e-6, seed
