"""Compact tables that a beam search walks: a language model as an automaton, words and phrases as trees of labels.

They are the arrays that `include/ctc_decode.h` describes, so that the native search and the Python one read the same.
"""

import ctypes
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctc.bindings import _native
from ctc.language_models._arpa_text import LARGEST
from ctc.language_models.arpa import END, START, UNKNOWN, BackoffModel, Level
from ctc.language_models.packed import Packed, pack

NONE = -1
Labels = tuple[int, ...]


class NgramAutomaton(NamedTuple):
    """`ctc_ngram`: a state per history, an arc per n-gram; state 0 knows no history and has an arc for every word."""

    first_arc: Packed
    arc_word: Packed
    arc_log_prob: np.ndarray
    arc_next: Packed
    backoff: np.ndarray
    backoff_state: Packed
    word_bound: np.ndarray
    start_state: int
    unknown_word: int
    end_word: int

    def step(self, history: int, word: int) -> tuple[float, int]:
        """(log p(word | history), the longest known history that ends in the word)."""
        log_prob = 0.0
        while history != 0:
            last = self.first_arc[history + 1]
            place = bisect_left(self.arc_word, word, self.first_arc[history], last)
            if place < last and self.arc_word[place] == word:
                return log_prob + float(self.arc_log_prob[place]), self.arc_next[place]
            log_prob += float(self.backoff[history])
            history = self.backoff_state[history]
        return log_prob + float(self.arc_log_prob[word]), self.arc_next[word]


def ngram_automaton(model: BackoffModel) -> NgramAutomaton:
    """The automaton of `model`. A model without <unk> gives unknown words the probability of its rarest word.

    Raises ValueError for numbers that are not finite or not what probabilities are, and for n-grams listed twice.
    """
    for order, level in enumerate(model.levels, 1):
        numbers = (level.log10_prob, level.log10_backoff)
        if not all(bool((np.abs(column) <= LARGEST).all()) for column in numbers) or (level.log10_prob > 0).any():
            raise ValueError(f"model: {order}-grams: expected finite numbers and probabilities of at most 1")
    if UNKNOWN not in model.vocabulary:
        first = model.levels[0]
        rarest = min((log10 for log10 in first.log10_prob.tolist() if log10 > -99), default=-99.0)
        words = np.vstack([first.words, [[len(model.vocabulary)]]]).astype(np.int32)
        columns = np.append(first.log10_prob, rarest), np.append(first.log10_backoff, 0.0)
        model = BackoffModel((*model.vocabulary, UNKNOWN), (Level(words, *columns), *model.levels[1:]))
    library = _native.load()
    return automaton_in_python(model) if library is None else automaton_native(library, model)


def native_ngram(automaton: NgramAutomaton, place: _native.Place = _native.in_memory) -> _native.NgramTable:
    """`ctc_ngram`, which points to where `place` puts the arrays of `automaton`."""
    fields: dict[str, Any] = automaton._asdict()
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            fields[name] = place(value)
        elif isinstance(value, Packed):
            fields[name] = value.native(place)
    states, words, arcs = (len(part) for part in (automaton.backoff, automaton.word_bound, automaton.arc_log_prob))
    return _native.NgramTable(states=states, words=words, arcs=arcs, **fields)


def is_valid_automaton(library: ctypes.CDLL, automaton: NgramAutomaton) -> bool:
    """Whether every index leads somewhere and all numbers are finite (`ctc_scorer_check`)."""
    no_words = _lexicon({})
    arrays = (no_words.tree.first_child, no_words.tree.label, no_words.word)
    lexicon_table = _native.LexiconTable(1, *(array.ctypes.data for array in arrays))
    table = _native.ScorerTable(
        ngram=ctypes.pointer(native_ngram(automaton)), lexicon=ctypes.pointer(lexicon_table), boundary=NONE
    )
    return bool(library.ctc_scorer_check(table, 1) == 0)


def automaton_native(library: ctypes.CDLL, model: BackoffModel) -> NgramAutomaton:
    """`ngram_automaton` of a model with <unk>, in C++ (csrc/decode_ngram.cpp)."""
    levels = [
        Level(
            np.ascontiguousarray(level.words, np.int32),
            np.ascontiguousarray(level.log10_prob, np.float64),
            np.ascontiguousarray(level.log10_backoff, np.float64),
        )
        for level in model.levels
    ]
    fields = [(len(level.words), *(column.ctypes.data for column in level)) for level in levels]
    rows = (_native.LevelTable(*row) for row in fields)
    table = _native.ModelTable(model.order, len(model.vocabulary), (_native.LevelTable * model.order)(*rows))
    workspace = np.zeros(library.ctc_ngram_workspace(table), np.uint8)
    states, arcs, twice = ctypes.c_int32(), ctypes.c_int64(), (ctypes.c_int64 * 2)()
    status = library.ctc_ngram_plan(table, workspace, states, arcs, twice)
    if twice[0]:
        ngram = " ".join(model.vocabulary[word] for word in levels[twice[0] - 1].words[twice[1]])
        raise ValueError(f"model: expected every n-gram once, found the {twice[0]}-gram {ngram!r} twice")
    if status != 0:
        raise ValueError(f"model: expected {len(model.vocabulary)} 1-grams and n-grams of their words")
    index = {word: number for number, word in enumerate(model.vocabulary)}
    first_arc, start_state = np.empty(states.value + 1, np.int64), ctypes.c_int32()
    arc_word, arc_next = np.empty((2, arcs.value), np.int32)
    arc_log_prob = np.empty(arcs.value, np.float32)
    backoff, backoff_state = np.empty(states.value, np.float32), np.empty(states.value, np.int32)
    word_bound = np.empty(len(model.vocabulary), np.float32)
    arrays = (first_arc, arc_word, arc_log_prob, arc_next, backoff, backoff_state, word_bound)
    library.ctc_ngram_fill(table, workspace, index.get(START, NONE), *arrays, start_state)
    return NgramAutomaton(
        first_arc=pack(first_arc, library),
        arc_word=pack(arc_word, library),
        arc_log_prob=arc_log_prob,
        arc_next=pack(arc_next, library),
        backoff=backoff,
        backoff_state=pack(backoff_state, library),
        word_bound=word_bound,
        start_state=start_state.value,
        unknown_word=index[UNKNOWN],
        end_word=index.get(END, NONE),
    )


def automaton_in_python(model: BackoffModel) -> NgramAutomaton:
    """`ngram_automaton` of a model with <unk>, for where there is no compiler, and to compare with."""
    states = _histories(model)

    def longest(ngram: Labels) -> int:
        while ngram not in states:
            ngram = ngram[1:]
        return states[ngram]

    arcs: list[tuple[int, int, float, int]] = []
    backoff = np.zeros(len(states), np.float32)
    for level in model.levels:
        rows = zip(
            map(tuple, level.words.tolist()), level.log10_prob.tolist(), level.log10_backoff.tolist(), strict=True
        )
        for ngram, log10_prob, log10_backoff in rows:
            arcs.append((states[ngram[:-1]], ngram[-1], log10_prob, longest(ngram)))
            if ngram in states:
                backoff[states[ngram]] = log10_backoff * math.log(10)
    index = {word: number for number, word in enumerate(model.vocabulary)}
    arcs.sort()
    state, word, log10_prob, next_state = (np.array(column) for column in zip(*arcs, strict=True))
    repeated = np.flatnonzero((np.diff(state) == 0) & (np.diff(word) == 0))
    if len(repeated):
        last = model.vocabulary[word[repeated[0]]]
        raise ValueError(f"model: expected every n-gram once, found one that ends in {last!r} twice")
    arc_log_prob = (log10_prob * math.log(10)).astype(np.float32)
    backoff_state = np.array([0, *[longest(ngram[1:]) for ngram in list(states)[1:]]], np.int32)
    return NgramAutomaton(
        first_arc=pack(np.searchsorted(state, np.arange(len(states) + 1))),
        arc_word=pack(word),
        arc_log_prob=arc_log_prob,
        arc_next=pack(next_state),
        backoff=backoff,
        backoff_state=pack(backoff_state),
        word_bound=_word_bounds(word, arc_log_prob.astype(float) + _backoff_bounds(backoff, backoff_state)[state]),
        start_state=longest((index[START],)) if START in index else 0,
        unknown_word=index[UNKNOWN],
        end_word=index.get(END, NONE),
    )


def _histories(model: BackoffModel) -> dict[Labels, int]:
    """{history: state}: n-grams that others continue, or that have a back-off weight of their own."""
    states: dict[Labels, int] = {(): 0}
    for order, level in enumerate(model.levels, 1):
        ngrams = [tuple(row) for row in level.words.tolist()]
        for ngram in ngrams:
            states.setdefault(ngram[:-1], len(states))
        if order < model.order:
            for ngram, log10_backoff in zip(ngrams, level.log10_backoff.tolist(), strict=True):
                if log10_backoff != 0:
                    states.setdefault(ngram, len(states))
    return states


def _backoff_bounds(backoff: np.ndarray, backoff_state: np.ndarray) -> np.ndarray:
    """[states] the most that back-off weights add up to on the way from a longer history, or from none, to each."""
    bounds = np.zeros(len(backoff))
    for _ in range(len(backoff)):  # as often as histories are long
        before = bounds.copy()
        np.maximum.at(bounds, backoff_state[1:], bounds[1:] + backoff[1:])
        if np.array_equal(before, bounds):
            break
    return bounds


def _word_bounds(arc_word: np.ndarray, arc_bound: np.ndarray) -> np.ndarray:
    """[words] the largest of the bounds of each word's arcs, rounded up to float32."""
    bounds = np.full(arc_word.max() + 1, -np.inf)
    np.maximum.at(bounds, arc_word, arc_bound)
    return np.nextafter(bounds.astype(np.float32), np.float32(np.inf))


class Tree(NamedTuple):
    """Label sequences that share their beginnings, numbered level by level: children of node n are side by side."""

    first_child: np.ndarray
    label: np.ndarray

    def child(self, node: int, label: int) -> int:
        """The node after `label`, or NONE."""
        first, last = self.first_child[node : node + 2]
        found = first + np.searchsorted(self.label[first:last], label)
        return int(found) if found < last and self.label[found] == label else NONE

    def depth(self, node: int) -> int:
        """How many labels lead to the node."""
        depth = first = 0  # of the nodes that so many lead to
        while self.first_child[first] <= node:
            depth, first = depth + 1, self.first_child[first]
        return depth


class Lexicon(NamedTuple):
    """`ctc_lexicon`: where words end in the tree, and which word of the language model each is."""

    tree: Tree
    word: np.ndarray


def lexicon(words: Mapping[Labels, int]) -> Lexicon:
    """The lexicon of {spelling: number of the word}."""
    return _lexicon({"".join(map(chr, spelling)): number for spelling, number in words.items()})


def lexicon_of_texts(words: Mapping[str, int], number_of: Mapping[str, int]) -> Lexicon:
    """The lexicon of {word: its number}, of those words alone that labels of one character, `number_of`, can spell."""
    letters = {text: number for text, number in number_of.items() if len(text) == 1}
    spelling = str.maketrans({text: chr(number) for text, number in letters.items()})
    known = frozenset(letters)
    return _lexicon(
        {word.translate(spelling): number for word, number in words.items() if word and known.issuperset(word)}
    )


def _lexicon(words: Mapping[str, int]) -> Lexicon:
    """`words`: spelled with the characters whose codes are the numbers of the labels."""
    ordered = sorted(words)
    labels = np.frombuffer("".join(ordered).encode("utf-32-le", "surrogatepass"), np.int32)
    lengths = np.fromiter(map(len, ordered), np.int64, len(ordered))
    starts = np.cumsum(lengths) - lengths
    node = np.zeros(len(ordered), np.int64)  # of every word, so far
    parents, leading, size = [np.array([NONE])], [np.array([NONE])], 1
    active = np.flatnonzero(lengths > 0)
    for depth in range(int(lengths.max(initial=0))):  # words are in order, so those of one beginning are neighbours
        label, above = labels[starts[active] + depth], node[active]
        is_new = np.ones(len(active), bool)
        is_new[1:] = (label[1:] != label[:-1]) | (above[1:] != above[:-1])
        node[active] = size - 1 + np.cumsum(is_new)
        parents.append(above[is_new])
        leading.append(label[is_new])
        size += int(is_new.sum())
        active = active[lengths[active] > depth + 1]
    word = np.full(size, NONE, np.int32)
    word[node] = np.fromiter((words[text] for text in ordered), np.int32, len(ordered))
    first_child = np.searchsorted(np.concatenate(parents), np.arange(size + 1)).astype(np.int32)
    return Lexicon(Tree(first_child, np.concatenate(leading).astype(np.int32)), word)


class Phrases(NamedTuple):
    """`ctc_phrases`: phrases to favour, as an automaton over labels (Aho and Corasick 1975)."""

    tree: Tree
    fail: np.ndarray
    promise: np.ndarray
    reward: np.ndarray
    bound: np.ndarray
    start: int

    def step(self, node: int, label: int) -> tuple[float, int]:
        """(what one more label adds to the score, the node after it)."""
        promised = float(self.promise[node])
        after = self.tree.child(node, label)
        while after == NONE and node != 0:
            node = int(self.fail[node])
            after = self.tree.child(node, label)
        after = max(after, 0)
        return float(self.promise[after]) - promised + float(self.reward[after]), after


def phrases(boosts: Mapping[Labels, float], boundary: int) -> Phrases:
    """The automaton of {labels: boost}. With a boundary label (not NONE) they only match whole words.

    What a prefix has matched of a phrase earns that share of the boost, which is taken back if the phrase breaks off.
    """
    edge = () if boundary == NONE else (boundary,)
    children: list[dict[int, int]] = [{}]  # {label: node}, numbered as they come
    promise, reward = [0.0], [0.0]
    for labels, boost in boosts.items():
        node = 0
        for length, label in enumerate((*edge, *labels, *edge)):
            matched = min(max(length - len(edge), 0), len(labels))
            promise[node] = max(promise[node], boost * matched / len(labels))
            node = children[node].setdefault(label, len(children))
            if node == len(children):
                children.append({})
                promise.append(0.0)
                reward.append(0.0)
        reward[node] += boost
    order, leading, fail = [0], [NONE], [0] * len(children)  # level by level: shorter beginnings come first
    for node in order:
        shorter = fail[node]
        promise[node] = max(promise[node], promise[shorter])
        reward[node] += reward[shorter] if node else 0.0
        for label, after in sorted(children[node].items()):
            order.append(after)
            leading.append(label)
            if node:
                suffix = shorter
                while suffix and label not in children[suffix]:
                    suffix = fail[suffix]
                fail[after] = children[suffix].get(label, 0)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    sizes = [len(children[node]) for node in order]
    spelled = Tree(np.cumsum([1, *sizes], dtype=np.int32), np.array(leading, np.int32))
    promise_N, reward_N = (np.array(values, np.float32)[order] for values in (promise, reward))
    fail_N = place[np.array(fail)[order]]
    start = int(place[children[0].get(boundary, 0)]) if edge else 0
    bound_N = _phrase_bounds(spelled.first_child, fail_N, promise_N, reward_N)
    return Phrases(spelled, fail_N, promise_N, reward_N, bound_N, start)


def _phrase_bounds(first_child: np.ndarray, fail: np.ndarray, promise: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """[nodes] the most that a label adds: it leads to a child of the node or of a shorter suffix, or to the root."""
    earned, first = (promise.astype(float) + reward).tolist(), first_child.tolist()
    best: list[float] = []
    for node, shorter in enumerate(fail.tolist()):  # suffixes are shorter, so they come first
        most = max(earned[first[node] : first[node + 1]], default=0.0)
        best.append(max(most, best[shorter] if node else 0.0))
    return np.nextafter((best - promise).astype(np.float32), np.float32(np.inf))


def as_labels(word: Sequence[str], number_of: Mapping[str, int]) -> Labels | None:
    """`word` spelled with the labels of a model, or None where a character has none."""
    labels = tuple(number_of.get(character, NONE) for character in word)
    return None if NONE in labels else labels
