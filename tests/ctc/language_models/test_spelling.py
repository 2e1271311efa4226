"""Labels of several letters: what they spell, and searches with words, phrases and language models over them."""

import itertools
import math

import pytest
import torch

import ctc
from ctc.bindings import _native
from ctc.decoding.beam import search_native, search_python
from ctc.language_models.spelling import spelling
from ctc.ngram import estimate
from tests.ctc.enumeration import prefix_log_probs

STYLES = {
    "sentencepiece": ("▁a", "b", "▁ab", "▁", "a", "<unk>"),
    "byte-level": ("Ġa", "b", "Ġab", "Ġ", "a", "[UNK]"),
    "wordpiece": ("a", "##b", "ab", "[PAD]", "##a", "[UNK]"),
    "subword-nmt": ("a@@", "b", "ab", "b@@", "a", "<unk>"),
    "sennrich": ("a", "b</w>", "ab</w>", "b", "a</w>", "<unk>"),
    "spaces": ("a ", "b", "ab", " ", "a", "<unk>"),
}


@pytest.mark.parametrize(
    ("style", "texts"),
    [
        ("sentencepiece", [" a", "b", " ab", " ", "a", ""]),
        ("byte-level", [" a", "b", " ab", " ", "a", ""]),
        ("wordpiece", [" a", "b", " ab", "", "a", ""]),
        ("subword-nmt", ["a", "b ", "ab ", "b", "a ", ""]),
        ("sennrich", ["a", "b ", "ab ", "b", "a ", ""]),
        ("spaces", ["a ", "b", "ab", " ", "a", ""]),
    ],
)
def test_every_style_marks_where_words_begin_and_end(style: str, texts: list[str]):
    assert ctc.label_texts(STYLES[style]) == texts


def test_a_boundary_of_its_own_and_bytes_are_known():
    assert ctc.label_texts(("|", "th", "<0xE2>", "<s>"), boundary="|") == [" ", "th", "\ufffd", ""]
    known = spelling(("▁a", "b"))
    assert [known.of(label) for label in range(3)] == [
        [known.unit_of[" "], known.unit_of["a"]],
        [known.unit_of["b"]],
        [],
    ]


def scorers(labels: tuple[str, ...]) -> dict[str, ctc.Scorer]:
    model = estimate([["ab", "a"], ["a", "ab", "b"], ["ab", "ab"]], order=2)
    options = ctc.ScorerOptions(weight=0.8, word_bonus=0.7, unknown_penalty=-1.5)
    return {
        "model": ctc.Scorer(labels, model=model, options=options),
        "words": ctc.Scorer(labels, words=["ab", "a"]),
        "phrases": ctc.Scorer(labels, hot_words={"AB": 2.0, "a b": 1.0}),
        "all": ctc.Scorer(labels, model=model, words=["ab", "b"], hot_words={"ab": 1.5}, options=options),
    }


def of_text(scorer: ctc.Scorer, text: str) -> float:
    """What a scorer of letters says of a text."""
    state, total = scorer.start(), 0.0
    for letter in text:
        gain, state = scorer.extend(state, scorer.labels.index(letter))
        total += gain
    return total + scorer.finish(state)


@pytest.mark.parametrize("style", ["sentencepiece", "wordpiece", "subword-nmt"])
@pytest.mark.parametrize("knows", ["model", "words", "phrases", "all"])
def test_pieces_score_as_the_letters_that_they_spell(style: str, knows: str):
    letters = scorers(("a", "b", " "))[knows]
    pieces = scorers(STYLES[style])[knows]
    texts = ctc.label_texts(STYLES[style])
    for labels in itertools.product(range(5), repeat=3):
        text = " ".join("".join(texts[label] for label in labels).split())
        state, total = pieces.start(), 0.0
        for label in labels:
            gain, state = pieces.extend(state, label)
            total += gain
        has_empty_word = "  " in "".join(texts[label] for label in labels) and knows != "phrases"
        expected = -math.inf if has_empty_word else of_text(letters, text)
        assert total + pieces.finish(state) == pytest.approx(expected, abs=1e-6), text


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("knows", ["model", "words", "phrases", "all"])
def test_the_native_search_finds_what_the_python_one_does_and_the_best_of_all(style: str, knows: str):
    library = _native.load()
    if library is None:
        pytest.skip("no C++ compiler")
    scorer = scorers(STYLES[style])[knows]
    scores_BSV = 2 * torch.randn(4, 5, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    frames_B = torch.tensor([5, 4, 3, 1])
    for options in (
        ctc.BeamOptions(beam=6, n_best=4),
        ctc.BeamOptions(beam=4000, n_best=3, token_log_prob=-math.inf, beam_log_prob=-math.inf),
    ):
        found = search_native(library, scores_BSV.numpy(), frames_B.numpy(), 6, scorer, options)
        if options.beam == 6:
            expected = search_python(scores_BSV.numpy(), frames_B.numpy(), 6, scorer, options)
            for one, other in zip(found, expected, strict=True):
                assert [h.labels for h in one] == [h.labels for h in other]
                assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-9)
            continue
        for b, frames in enumerate(frames_B.tolist()[2:], 2):
            everything = prefix_log_probs(scores_BSV[b, :frames].log_softmax(1), 6)
            best = -math.inf
            for labels, log_prob in everything.items():
                state, total = scorer.start(), log_prob
                for label in labels:
                    gain, state = scorer.extend(state, label)
                    total += gain
                best = max(best, total + scorer.finish(state))
            assert (found[b][0].score if found[b] else -math.inf) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(("labels", "word"), [("cafe\u0301 ", "caf\u00e9"), ("caf\u00e9 ", "cafe\u0301")])
def test_hot_words_are_in_the_form_of_unicode_that_the_labels_have(labels, word):
    assert ctc.Scorer(labels, hot_words={word: 1.0}).phrases is not None


def test_other_hot_words_share_all_else():
    scorer = scorers(STYLES["sentencepiece"])["model"]
    other = scorer.with_hot_words({"ab": 3.0})
    assert (other.lexicon, other.ngram) == (scorer.lexicon, scorer.ngram)
    assert scorer.phrases is None
    assert other.phrases is not None
    assert scorer.with_hot_words({}).phrases is None


def test_what_no_piece_can_spell_is_named():
    with pytest.raises(ValueError, match=r"word 'xy': expected characters among the labels, found \['x', 'y'\]"):
        ctc.Scorer(STYLES["sentencepiece"], hot_words={"XY": 1.0})
