"""Beam search against every label sequence there is, and the native search against the one in Python."""

import functools
import itertools
import math
import random
import time

import numpy as np
import pytest
import torch

import ctc
from ctc.bindings import _native
from ctc.decoding.beam import BeamOptions, search_native, search_python
from ctc.inputs import on_host
from ctc.language_models.arpa import BackoffModel, Level
from ctc.language_models.scorer import Scorer, ScorerOptions
from ctc.language_models.tables import NONE, ngram_automaton, phrases
from ctc.ngram import estimate
from tests.ctc.enumeration import index_ngrams, log10_prob, prefix_log_probs
from tests.timing import quickest

EVERYTHING = BeamOptions(beam=4000, n_best=4000, token_log_prob=-math.inf, beam_log_prob=-math.inf)
LABELS = ("a", "b", " ", "c")  # blank 4 is left out
# Weights above 1, which no smoothing makes but a file may hold: a longer history then gives more than a shorter one.
BACKING_UP = BackoffModel(
    ("<s>", "</s>", "<unk>", "ab", "c"),
    (
        Level(np.arange(5)[:, None], np.log10([0.1, 0.1, 0.1, 0.3, 0.4]), np.log10([1.0, 1.0, 1.0, 2.5, 0.5])),
        Level(np.array([[0, 3], [3, 4]]), np.log10([0.5, 0.2]), np.log10([3.0, 0.9])),
        Level(np.array([[0, 3, 4]]), np.log10([0.6]), np.zeros(1)),
    ),
)
NO_WORDS = BackoffModel((), (Level(np.empty((0, 1), np.int32), np.empty(0), np.empty(0)),))
SENTENCES = [line.split() for line in ("ab ba", "ab c", "c ab ba", "cab ab", "ab ab c", "ba c", "b a")]


def logits(*shape, seed=0, scale=3.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def searches():
    """The implementations that must agree, of tensors."""
    library = _native.load()
    found = [search_python]
    if library is not None:
        found.append(lambda *arguments: search_native(library, *arguments))
    return [functools.partial(of_arrays, search) for search in found]


def of_arrays(search, scores_BSV, frames_B, *arguments):
    return search(on_host(scores_BSV), frames_B.numpy(), *arguments)


def assert_searches_agree(*arguments, within=1e-5):
    """In labels, their frames and, within so much, scores and their parts."""
    first, *others = [search(*arguments) for search in searches()]
    for other in others:
        for left, right in zip(first, other, strict=True):
            for name in ("labels", "start_frames", "end_frames"):
                assert [getattr(h, name) for h in left] == [getattr(h, name) for h in right]
            for name in ("score", "log_prob", "external"):
                assert [getattr(h, name) for h in left] == pytest.approx([getattr(h, name) for h in right], abs=within)


def lm_score(model: BackoffModel, options: ScorerOptions, text: str) -> float:
    """What a word model adds to a finished text, by the definition."""
    index, number = index_ngrams(model), {word: n for n, word in enumerate(model.vocabulary)}
    history, score = [number["<s>"]], 0.0
    for word in text.split():
        known = number.get(word, number["<unk>"])
        score += options.weight * math.log(10) * log10_prob(model, index, history, known) + options.word_bonus
        score += options.unknown_penalty * len(word) if word not in number else 0.0
        history.append(known)
    return score + options.weight * math.log(10) * log10_prob(model, index, history, number["</s>"])


@pytest.mark.parametrize(("frames", "vocabulary"), [(1, 2), (2, 2), (7, 2), (5, 3), (6, 3), (5, 4)])
@pytest.mark.parametrize("scale", [0.0, 2.0, 30.0])
def test_a_wide_beam_finds_every_sequence_with_its_probability(frames, vocabulary, scale):
    for blank in range(vocabulary):
        logits_BSV = logits(1, frames, vocabulary, seed=blank, scale=scale)
        expected = prefix_log_probs(logits_BSV.log_softmax(-1)[0], blank)
        for search in searches():
            hypotheses = search(logits_BSV, torch.tensor([frames]), blank, None, EVERYTHING)[0]
            assert {tuple(h.labels): h.log_prob for h in hypotheses} == pytest.approx(expected, abs=1e-9)
            assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
            assert hypotheses[0].log_prob == pytest.approx(max(expected.values()), abs=1e-9)


def test_the_best_sequence_may_differ_from_that_of_the_best_path():
    probs_BSV = torch.tensor([[[0.4, 0.6], [0.4, 0.6]]])
    assert ctc.greedy(probs_BSV.log(), [2], blank=1)[0].labels == []
    assert ctc.beam_search(probs_BSV.log(), [2], blank=1)[0][0].labels == [0]


@pytest.mark.parametrize(
    "options", [BeamOptions(beam=n, n_best=1) for n in (1, 2, 5)] + [BeamOptions(beam=30, n_best=30)]
)
def test_native_and_python_search_agree_where_the_beam_is_narrow(options):
    frames_B = torch.tensor([25, 0, 13, 1])
    for seed in range(10):
        assert_searches_agree(logits(4, 25, 6, seed=seed), frames_B, 3, None, options, within=1e-9)


def word_scorer(**changes):
    options = ScorerOptions(unknown_penalty=-3.0, **changes)
    return Scorer(LABELS, model=estimate(SENTENCES, order=3), options=options), options


def test_a_word_model_adds_what_its_definition_says():
    scorer, options = word_scorer()
    model = estimate(SENTENCES, order=3)
    logits_BSV = logits(1, 6, 5)
    for search in searches():
        for hypothesis in search(logits_BSV, torch.tensor([6]), 4, scorer, EVERYTHING)[0]:
            text = "".join(LABELS[label] for label in hypothesis.labels)
            assert not text.startswith(" ")
            assert "  " not in text
            assert hypothesis.external == pytest.approx(lm_score(model, options, text), abs=1e-4), text
            assert hypothesis.score == pytest.approx(hypothesis.log_prob + hypothesis.external, abs=1e-9)


@pytest.mark.parametrize("labels", [tuple("acehstvw "), (*"acehstvw", "▁", "▁have", "▁t")])
def test_unknown_words_beside_a_small_model_stay_apart_and_none_is_empty(labels):
    space = "▁" if "▁" in labels else " "
    scorer = Scorer(labels, model=estimate([["the", "cat"]], order=2))
    text = f"what{space}_{space}have{space}the"  # a blank between two boundaries
    logits_SV = torch.full((len(text), len(labels) + 1), -4.0)
    for frame, letter in enumerate(text):
        logits_SV[frame, len(labels) if letter == "_" else labels.index(letter)] = 1.0
    for search in searches():
        best = search(logits_SV[None], torch.tensor([len(text)]), len(labels), scorer, BeamOptions(beam=50))[0][0]
        assert "".join(labels[label] for label in best.labels).replace("▁", " ").strip() == "what have the"


def test_the_penalty_of_an_unknown_word_grows_with_its_letters_however_far_it_is_known():
    scorer, options = word_scorer(weight=0.0, word_bonus=0.0)
    for word in ("cc", "cabb", "aab", "ca", "abababab"):  # "cab" is known; "ca" only begins as a word
        state, total = scorer.start(), 0.0
        for letter in word:
            gain, state = scorer.extend(state, LABELS.index(letter))
            total += gain
        assert total + scorer.finish(state) == pytest.approx(options.unknown_penalty * len(word))


def test_many_long_phrases_are_built_in_linear_time():
    draw = random.Random(0)
    short, long = ({"".join(draw.choice("ab") for _ in range(n)): 1.0 for _ in range(200)} for n in (45, 360))

    def ratio() -> float:
        times = []
        for words in (short, long):
            began = time.process_time()
            Scorer(LABELS, hot_words=words)
            times.append(time.process_time() - began)
        return times[1] / times[0]

    assert quickest(24, ratio) < 24


def test_a_token_model_adds_what_its_definition_says():
    model = estimate([list("|".join(words)) for words in SENTENCES], order=3)
    options = ScorerOptions(unit="token", weight=0.7, word_bonus=0.3)
    scorer = Scorer(LABELS, model=model, options=options)
    for search in searches():
        for hypothesis in search(logits(1, 5, 5), torch.tensor([5]), 4, scorer, EVERYTHING)[0]:
            text = " ".join("abc|"[[0, 1, 3, 2][label]] for label in hypothesis.labels)
            assert hypothesis.external == pytest.approx(lm_score(model, options, text), abs=1e-4), text


def test_a_language_model_chooses_between_words_that_sound_alike():
    model = estimate([["the", "cat"]] * 9 + [["the", "kat"]], order=2)
    labels = ("a", "c", "e", "h", "k", "s", "t", " ")
    logits_SV = torch.full((10, 9), -8.0)
    for frame, text in enumerate("the_ _kat_"):
        logits_SV[frame, 8 if text == "_" else labels.index(text)] = 0.0
    logits_SV[6, labels.index("c")] = -0.5  # k is likelier by ear
    texts = []
    for scorer in (None, Scorer(labels, model=model)):
        best = ctc.beam_search(logits_SV[None], [10], blank=8, scorer=scorer)[0][0]
        texts.append("".join(labels[label] for label in best.labels).strip())
    assert texts == ["the kat", "the cat"]


def test_a_language_model_learnt_from_text_mends_what_is_heard_badly():
    draw = random.Random(0)
    nouns, verbs = ["cat", "cap", "can", "car", "man", "map"], ["ran", "rat", "sat", "sap"]
    usual = dict(zip(nouns, itertools.cycle(verbs)))  # each does one thing, mostly

    def sentence():
        noun = draw.choice(nouns)
        return f"the {noun} {usual[noun] if draw.random() < 0.9 else draw.choice(verbs)}"

    labels = "acehmnprst "
    scorer = Scorer(labels, model=estimate([sentence().split() for _ in range(300)], order=3))
    spoken = [sentence() for _ in range(40)]
    frames = max(map(len, spoken)) * 2
    logits_BSV = 1.5 * torch.randn(len(spoken), frames, len(labels) + 1, generator=torch.Generator().manual_seed(1))
    for logits_SV, text in zip(logits_BSV, spoken, strict=True):
        for position in range(frames):
            character = text[position // 2] if position % 2 == 0 and position // 2 < len(text) else ""
            logits_SV[position, labels.index(character) if character else len(labels)] += 4.0
    found = {
        name: ctc.beam_search(logits_BSV, [frames] * len(spoken), blank=len(labels), scorer=each)
        for name, each in (("alone", None), ("with the model", scorer))
    }
    wrong = {
        name: sum(
            left != right
            for text, hypotheses in zip(spoken, every, strict=True)
            for left, right in itertools.zip_longest(
                text.split(), "".join(labels[label] for label in hypotheses[0].labels).split()
            )
        )
        for name, every in found.items()
    }
    assert wrong["alone"] > 30
    assert wrong["with the model"] < wrong["alone"] / 4


def test_a_closed_list_of_words_admits_nothing_else():
    words = {"ab", "ba", "c"}
    scorer = Scorer(LABELS, words=words)
    for search in searches():
        hypotheses = search(logits(1, 6, 5), torch.tensor([6]), 4, scorer, EVERYTHING)[0]
        texts = {"".join(LABELS[label] for label in h.labels) for h in hypotheses}
        assert {word for text in texts for word in text.split()} == words
        assert "ab c" in texts
        assert not any(text.startswith(" ") or "  " in text for text in texts)
        assert all(h.external == pytest.approx(1.5 * len(hypothesis_words(h))) for h in hypotheses)


def test_a_closed_list_whose_words_the_beam_cannot_finish_is_searched_more_widely():
    scorer = Scorer("abcdefgh ", words=["abcdefgh", "b"])
    logits_SV = torch.full((8, 10), -9.0)
    logits_SV[:7, :7].fill_diagonal_(0.0)  # says "abcdefg" and then silence: not a word
    logits_SV[7, 9] = 0.0
    (best, *_), (other, *_) = ctc.beam_search(
        torch.stack([logits_SV, logits_SV]), [8, 7], blank=9, scorer=scorer, options=BeamOptions(beam=1)
    )
    assert best.labels == [*range(8)]
    assert set("".join("abcdefgh "[label] for label in other.labels).split()) == {"b"}


def test_words_that_cannot_be_spelled_are_left_out_with_a_warning():
    words = ["abc", "", "café", "x", "c", "y1", "y2", "y3", "y2"]
    told = r"^words: the labels cannot spell 6 of 8, which are left out: '', 'café', 'x', 'y1', 'y2', …$"
    with pytest.warns(UserWarning, match=told):
        scorer = Scorer(LABELS, words=iter(words))
    (hypotheses,) = ctc.beam_search(logits(1, 8, 5), [8], blank=4, scorer=scorer, options=BeamOptions(n_best=20))
    assert hypotheses
    assert {word for hypothesis in hypotheses for word in hypothesis_words(hypothesis)} <= {"abc", "c"}


def hypothesis_words(hypothesis):
    return "".join(LABELS[label] for label in hypothesis.labels).split()


@pytest.mark.parametrize("hot_words", [{"ab": 2.0}, {"ab": 2.0, "ab c": 3.0, "b": 1.0}, {"a": 0.5, "a a": 1.0}])
def test_hot_words_add_their_boost_once_for_every_whole_occurrence(hot_words):
    scorer = Scorer(LABELS, hot_words=hot_words)
    for search in searches():
        for hypothesis in search(logits(1, 6, 5), torch.tensor([6]), 4, scorer, EVERYTHING)[0]:
            text = " " + "".join(LABELS[label] for label in hypothesis.labels) + " "
            occurrences = {word: sum(text.startswith(f" {word} ", at) for at in range(len(text))) for word in hot_words}
            expected = sum(boost * occurrences[word] for word, boost in hot_words.items())
            assert hypothesis.external == pytest.approx(expected, abs=1e-5), text


def test_hot_words_match_anywhere_without_a_boundary_label():
    scorer = Scorer(("x", "y", "z"), hot_words={"xy": 1.0, "yzy": 2.0})
    for search in searches():
        for hypothesis in search(logits(1, 5, 4), torch.tensor([5]), 3, scorer, EVERYTHING)[0]:
            text = "".join("xyz"[label] for label in hypothesis.labels)
            expected = sum(text.startswith("xy", i) + 2 * text.startswith("yzy", i) for i in range(len(text)))
            assert hypothesis.external == pytest.approx(expected, abs=1e-5), text


@pytest.mark.parametrize("beam", [1, 3, 20])
@pytest.mark.parametrize("with_hot_words", [False, True])
def test_native_and_python_search_agree_with_everything_on(beam, with_hot_words):
    hot_words = {"ba c": 2.5, "ab": 1.0} if with_hot_words else None
    options = BeamOptions(beam=beam, n_best=beam)
    for unit in ("word", "token"):
        text = SENTENCES if unit == "word" else [list("|".join(words)) for words in SENTENCES]
        scorer = Scorer(LABELS, model=estimate(text, order=3), hot_words=hot_words, options=ScorerOptions(unit=unit))
        for seed in range(4):
            assert_searches_agree(logits(2, 20, 5, seed=seed), torch.tensor([20, 11]), 4, scorer, options)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize("vocabulary", [5, 70])
def test_native_and_python_search_agree_however_flat_or_steep_the_scores(scale, vocabulary):
    options = BeamOptions(beam=12, n_best=12, token_log_prob=-math.inf, beam_log_prob=-math.inf)
    labels = [*LABELS, *map(chr, range(0x400, 0x400 + vocabulary - 5))]
    text = [[*words, labels[-1] + "b"] for words in SENTENCES]
    hot_words = {"ab c": 40.0, "b": 0.5}  # a boost far above all scores
    for scorer in (None, Scorer(labels, model=estimate(text, order=3)), Scorer(labels, hot_words=hot_words)):
        scores_BSV = logits(2, 14, vocabulary, scale=scale)
        assert_searches_agree(scores_BSV, torch.tensor([14, 9]), vocabulary - 1, scorer, options)


def test_no_history_gives_a_word_more_than_its_bound():
    for model in (estimate(SENTENCES, order=3), BACKING_UP):
        automaton = ngram_automaton(model)
        for word, bound in enumerate(automaton.word_bound.tolist()):
            found = max(automaton.step(state, word)[0] for state in range(len(automaton.backoff)))
            assert found <= bound == pytest.approx(found, abs=2.0)


def test_no_label_adds_more_than_the_bound_of_its_phrase():
    automaton = phrases({(0, 1, 0, 2): 3.0, (1, 0): 1.0, (0,): 0.25}, boundary=NONE)
    for node, bound in enumerate(automaton.bound.tolist()):
        assert bound == pytest.approx(max(automaton.step(node, label)[0] for label in range(4)), abs=1e-6)
        assert bound >= max(automaton.step(node, label)[0] for label in range(4))


def test_the_defaults_lose_little_of_the_best_score_on_confident_scores():
    generator = torch.Generator().manual_seed(5)
    logits_BSV = torch.randn(8, 120, 29, generator=generator)
    logits_BSV.scatter_add_(2, torch.randint(0, 29, (8, 120, 1), generator=generator), torch.full((8, 120, 1), 7.0))
    wide = BeamOptions(beam=1000, token_log_prob=-math.inf, beam_log_prob=-math.inf)
    for narrow, best in zip(
        ctc.beam_search(logits_BSV, [120] * 8), ctc.beam_search(logits_BSV, [120] * 8, options=wide), strict=True
    ):
        assert narrow[0].labels == best[0].labels
        assert narrow[0].score == pytest.approx(best[0].score, abs=0.05)


def test_threads_batches_and_padding_do_not_change_the_result():
    scorer, _ = word_scorer()
    frames = [30, 12, 0, 29, 1]
    logits_BSV = logits(5, 30, 5).float()
    for item, length in enumerate(frames):
        logits_BSV[item, length:] = math.nan
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = ctc.beam_search(logits_BSV, frames, blank=4, scorer=scorer, options=BeamOptions(n_best=3))
        torch.set_num_threads(4)
        four = ctc.beam_search(logits_BSV, frames, blank=4, scorer=scorer, options=BeamOptions(n_best=3))
    finally:
        torch.set_num_threads(threads)
    assert one == four
    for item, length in enumerate(frames):
        alone = logits_BSV[item, None, :length]
        assert ctc.beam_search(alone, [length], blank=4, scorer=scorer, options=BeamOptions(n_best=3)) == [one[item]]


def test_empty_batches_and_recordings_have_the_empty_hypothesis():
    assert ctc.beam_search(torch.zeros(0, 5, 3), []) == []
    assert ctc.beam_search(torch.zeros(2, 0, 3), [0, 0]) == [[([], 0.0, 0.0, 0.0, [], [])]] * 2


def test_a_prefix_that_leaves_the_beam_and_returns_is_one_hypothesis():
    for seed in range(30):
        logits_BSV = logits(1, 14, 3, seed=seed, scale=1.0)
        for beam in (2, 3, 4, 6):
            hypotheses = ctc.beam_search(logits_BSV, [14], options=BeamOptions(beam=beam, n_best=beam))[0]
            assert len({tuple(h.labels) for h in hypotheses}) == len(hypotheses)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BeamOptions(beam=3, n_best=4), "n_best: expected between 1 and the beam of 3, found 4"),
        (lambda: BeamOptions(token_log_prob=1.0), "token_log_prob: expected at most 0, found 1.0"),
        (lambda: BeamOptions(beam_log_prob=math.nan), "beam_log_prob: expected at most 0, found nan"),
        (lambda: ScorerOptions(weight=-1.0), "weight: expected at least 0, found -1.0"),
        (lambda: ScorerOptions(unknown_penalty=1.0), "unknown_penalty: expected at most 0, found 1.0"),
        (lambda: Scorer("ab", words=["a"]), "boundary: expected a label between words, found no ' ' in the labels"),
        (lambda: Scorer("ab ", words=["ax"]), r"word 'ax': expected characters among the labels, found \['x'\]"),
        (lambda: Scorer("ab ", hot_words={" ": 1.0}), r"word ' ': is empty; expected letters"),
        (
            lambda: Scorer("ab ", hot_words={"a": -1.0}),
            "hot word 'a': expected a boost above 0 .* found -1.0",
        ),
        (lambda: Scorer("ab ", hot_words={"a": 1e300}), "hot word 'a': expected a boost above 0 and up to .*1e.300"),
        (
            lambda: Scorer("ab ", hot_words={"a": math.inf}),
            "hot word 'a': expected a boost above 0 .* found inf",
        ),
        (lambda: ScorerOptions(word_bonus=math.inf), "word_bonus: expected a number up to 1e.06, found inf"),
        (lambda: ScorerOptions(weight=math.inf), "weight: expected a number up to 1e.06, found inf"),
        (
            lambda: ScorerOptions(unknown_penalty=-math.inf),
            "unknown_penalty: expected a number .* found -inf",
        ),
        (lambda: Scorer("xy ", model=estimate(SENTENCES, order=1)), "model: the labels 'xy ' spell none of its words"),
        (lambda: Scorer("ab ", model=NO_WORDS), "model: expected words in it, found none"),
    ],
)
def test_wrong_options_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_scorers_for_other_labels_are_refused():
    with pytest.raises(ValueError, match="beam_search: scorer: expected 7 labels, found 4"):
        ctc.beam_search(torch.zeros(1, 2, 7), [2], blank=0, scorer=Scorer(LABELS, words=["a"]))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_utterance_that_is_not_numbers_costs_itself_alone(value):
    logits_BSV = logits(3, 4, 3)
    expected = ctc.beam_search(logits_BSV, [4] * 3)
    logits_BSV[1, 2, 1] = value
    for search in searches():
        found = search(logits_BSV, torch.tensor([4] * 3), 0, None, BeamOptions())
        assert found[1] == []
        assert [h.labels for h in (*found[0], *found[2])] == [h.labels for h in (*expected[0], *expected[2])]


def test_a_closed_list_of_which_nothing_fits_has_no_hypotheses():
    logits_BSV = logits(2, 3, 5)
    logits_BSV[0, :, 4] = -math.inf  # no blank, and fewer frames than the word has letters
    found = ctc.beam_search(logits_BSV, [2, 3], blank=4, scorer=Scorer(LABELS, words=["abc"]))
    assert found[0] == []
    assert found[1]


def test_the_frames_are_those_of_the_best_path_where_the_beam_keeps_all():
    for seed in range(10):
        logits_BSV = logits(1, 6, 4, seed=seed)
        for hypothesis in ctc.beam_search(logits_BSV, [6], options=EVERYTHING)[0][:50]:
            (path,) = ctc.align(logits_BSV, [hypothesis.labels], [6])
            assert (hypothesis.start_frames, hypothesis.end_frames) == (path.start_frames, path.end_frames)


def test_frames_of_a_long_utterance_are_in_order_and_its_memory_is_bounded():
    library = _native.load() or pytest.skip("no C++ compiler")
    native = _native.BeamSearchOptions(0, 1, 20, 1, -7.0, -16.0)
    assert library.ctc_beam_workspace(10**9, 5, native) == library.ctc_beam_workspace(3000, 5, native)
    frames = 20_000
    generator = torch.Generator().manual_seed(0)
    logits_BSV = torch.randn(1, frames, 5, generator=generator)
    logits_BSV.scatter_add_(
        2, torch.randint(0, 5, (1, frames, 1), generator=generator), torch.full((1, frames, 1), 6.0)
    )
    (best,) = ctc.beam_search(logits_BSV, [frames], options=BeamOptions(beam=20))[0]
    spans = list(zip(best.start_frames, best.end_frames, strict=True))
    assert len(spans) == len(best.labels) > 10_000
    assert all(start < end for start, end in spans)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    (path,) = ctc.align(logits_BSV, [best.labels], [frames])
    assert sum(a == b for a, b in zip(best.start_frames, path.start_frames, strict=True)) > 0.99 * len(spans)


def test_a_search_that_would_take_more_memory_than_it_may_is_refused():
    with pytest.raises(ValueError, match="memory: expected at least .* bytes for a beam of 100000, found 1000000"):
        ctc.beam_search(logits(1, 9, 5), [9], options=BeamOptions(beam=100_000, memory=1_000_000))
    with pytest.raises(ValueError, match="memory: expected at least 1 byte, found 0"):
        BeamOptions(memory=0)


def test_a_large_vocabulary_is_searched_like_a_small_one():
    draw = random.Random(0)
    logits_BSV = torch.full((1, 12, 3000), -20.0)
    path = [draw.randrange(1, 3000) for _ in range(12)]
    for frame, label in enumerate(path):
        logits_BSV[0, frame, label] = 5.0
    assert ctc.beam_search(logits_BSV, [12])[0][0].labels == path
