"""Tables of a scorer that come from outside: what the check refuses would have been walked."""

import ctypes
import math

import numpy as np
import pytest

from ctc.bindings import _native
from ctc.language_models.packed import Packed, pack
from ctc.language_models.scorer import Scorer, ScorerOptions
from ctc.ngram import estimate

LABELS = ("a", "b", " ", "c")
SENTENCES = [line.split() for line in ("ab ba", "ab c", "c ab ba", "cab ab", "ab ab c", "ba c", "b a")]


@pytest.fixture
def scorer():
    return Scorer(LABELS, model=estimate(SENTENCES, order=3), hot_words={"ab": 1.0, "ba c": 2.0})


def is_valid(table) -> bool:
    library = _native.load()
    if library is None:
        pytest.skip("no C++ compiler")
    return library.ctc_scorer_check(table, 5) == 0


def test_tables_of_a_scorer_pass(scorer):
    assert is_valid(scorer.table())
    tokens = estimate([list("|".join(words)) for words in SENTENCES], order=2)
    assert is_valid(Scorer(LABELS, model=tokens, options=ScorerOptions(unit="token")).table())
    assert is_valid(Scorer(LABELS, words=["ab", "c"]).table())


@pytest.mark.parametrize(
    ("part", "field", "place", "value"),
    [
        ("ngram", "first_arc", 1, 3),
        ("ngram", "first_arc", -1, 10**9),
        ("ngram", "arc_word", 0, 5),
        ("ngram", "arc_next", 2, 10**9),
        ("ngram", "arc_log_prob", 2, math.nan),
        ("ngram", "backoff", 1, math.inf),
        ("ngram", "backoff_state", 1, 1),
        ("ngram", "word_bound", 0, math.nan),
        ("lexicon", "word", 1, 99),
        ("phrases", "fail", 1, 1),
        ("phrases", "promise", 1, math.inf),
        ("phrases", "reward", 1, math.nan),
        ("phrases", "bound", 0, math.nan),
    ],
)
def test_a_number_that_leads_nowhere_is_found(scorer, part, field, place, value):
    table = getattr(scorer, part)
    array = getattr(table, field)
    if isinstance(array, Packed):
        changed = np.array(array)
        changed[place] = value
        scorer.ngram = table._replace(**{field: pack(changed)})
    else:
        array[place] = value
    assert not is_valid(scorer.table())


@pytest.mark.parametrize("width", [0, -1, 58, 64])
def test_numbers_of_no_width_are_found(scorer, width):
    arcs = scorer.ngram.arc_next
    scorer.ngram = scorer.ngram._replace(arc_next=Packed(arcs.bits, width, len(arcs)))
    assert not is_valid(scorer.table())


@pytest.mark.parametrize(("part", "field"), [("lexicon", "first_child"), ("lexicon", "label"), ("phrases", "label")])
def test_a_tree_that_leads_nowhere_is_found(scorer, part, field):
    array = getattr(getattr(scorer, part).tree, field)
    for value in (-5, 10**6):
        kept = array[1]
        array[1] = value
        assert not is_valid(scorer.table())
        array[1] = kept
    assert is_valid(scorer.table())


@pytest.mark.parametrize(
    ("field", "value"),
    [("boundary", 5), ("boundary", -2), ("weight", math.inf), ("weight", -1.0), ("word_bonus", math.nan),
     ("unknown_penalty", -math.inf)],
)  # fmt: skip
def test_a_scorer_with_a_wrong_number_is_found(scorer, field, value):
    table = scorer.table()
    setattr(table, field, value)
    assert not is_valid(table)


def test_any_change_of_any_table_is_found_or_harmless(scorer):
    """Whatever passes the check is searched without a crash."""
    library = _native.load()
    if library is None:
        pytest.skip("no C++ compiler")
    draw = np.random.default_rng(0)
    scores = draw.standard_normal((1, 9, 5)) * 3
    described = _native.Scores(scores.ctypes.data, 1, 1, 9, 5, 45, 5)
    options = _native.BeamSearchOptions(4, 1, 8, 1, -math.inf, -math.inf)
    workspace = np.empty(library.ctc_beam_workspace(9, 5, options), np.uint8)
    labels, lengths, numbers, counts = np.empty(9, np.int32), np.empty(1, np.int32), np.empty(2), np.empty(1, np.int32)
    trees = [part.tree for part in (scorer.lexicon, scorer.phrases)]
    parts = [a for part in (scorer.ngram, scorer.lexicon, scorer.phrases, *trees) for a in part]
    arrays = [a.bits if isinstance(a, Packed) else a for a in parts if isinstance(a, np.ndarray | Packed)]
    frames = np.array([9])
    passed = 0
    for _ in range(3000):
        array = arrays[draw.integers(len(arrays))]
        place, kept = draw.integers(len(array)), array.copy()
        array.view(np.uint8)[array.itemsize * place + draw.integers(array.itemsize)] ^= 1 << draw.integers(8)
        if library.ctc_scorer_check(scorer.table(), 5) == 0:
            passed += 1
            outputs = [array.ctypes.data for array in (labels, lengths, numbers, numbers[1:], counts)]
            arguments = [frames.ctypes.data, scorer.table(), options, *outputs, None, None]
            assert library.ctc_beam_search(described, *arguments, workspace.ctypes.data, len(workspace)) == 0
        array[:] = kept
    assert 100 < passed < 3000
    assert isinstance(scorer.table(), ctypes.Structure)


def test_a_library_of_other_sources_is_refused(monkeypatch):
    class Library:
        @staticmethod
        def ctc_decode_version():
            return 1

    _native.load.cache_clear()
    for other in (Library(), object()):
        monkeypatch.setattr(_native._library, "load_cpu", lambda other=other: other)
        with pytest.raises(RuntimeError, match=r"libctc.so was built from other sources: run `python -m ctc.build`"):
            _native.load()
    monkeypatch.undo()
    _native.load.cache_clear()
