"""Language models: their probabilities add up, and are those of the formula."""

import itertools
import math
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

from ctc.language_models import arpa
from ctc.language_models.arpa import END, START, UNKNOWN, ArpaError, read_arpa, write_arpa
from ctc.language_models.tables import automaton_in_python, ngram_automaton
from ctc.ngram import FALLBACK_DISCOUNTS, estimate, read_sentences
from tests.ctc.enumeration import index_ngrams, log10_prob
from tests.data import shared

TEXT = [line.split() for line in ("a b a c", "b a b", "a", "c c a b a c d", "d a b a", "b b", "a b e")]


def predicted(model):
    """All that a history may be followed by: the vocabulary without the start of a sentence."""
    return [word for word, text in enumerate(model.vocabulary) if text != START]


def assert_adds_up(model, histories):
    index = index_ngrams(model)
    for history in histories:
        total = sum(10 ** log10_prob(model, index, history, word) for word in predicted(model))
        assert total == pytest.approx(1, abs=1e-5), history  # files keep seven digits


@pytest.mark.parametrize("prune", [(), (0, 0, 1), (0, 1)])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_of_every_history_add_up_to_one(order, prune):
    model = estimate(TEXT, order=order, prune=prune)
    words = range(len(model.vocabulary))
    histories = [h for length in range(order) for h in itertools.product(words, repeat=length)]
    assert_adds_up(model, histories)


def test_probabilities_of_a_real_text_add_up_to_one(tmp_path):
    path = shared("data/text/librispeech-dev-clean.text")
    lines = [line.split()[1:] for line in path.read_text().splitlines()[:400]]
    model = estimate(lines, order=4)
    write_arpa(tmp_path / "lm.arpa.gz", model)
    model = read_arpa(tmp_path / "lm.arpa.gz")
    draw = random.Random(0)
    seen = [model.levels[2].words[draw.randrange(len(model.levels[2].words))].tolist() for _ in range(20)]
    unseen = [draw.choices(range(len(model.vocabulary)), k=3) for _ in range(20)]
    assert_adds_up(model, [[], *seen, *unseen])


def test_bigram_probabilities_are_those_of_the_formula():
    model = estimate(TEXT, order=2)
    index = index_ngrams(model)
    number = {text: word for word, text in enumerate(model.vocabulary)}
    sentences = [[START, *words, END] for words in TEXT]
    bigrams = [pair for words in sentences for pair in itertools.pairwise(words)]
    counts = {pair: bigrams.count(pair) for pair in bigrams}
    before = {word: len({left for left, right in counts if right == word}) for word in number}

    def discount(count, values):
        n = [sum(value == k for value in values) for k in (1, 2, 3, 4)]
        y = n[0] / (n[0] + 2 * n[1])
        formula = [k - (k + 1) * y * n[k] / n[k - 1] for k in (1, 2, 3)]
        is_usable = all(0 < step < k for k, step in enumerate(formula, 1))
        return (0, *(formula if is_usable else FALLBACK_DISCOUNTS))[min(count, 3)]

    before_values = list(before.values())
    free = sum(discount(value, before_values) for value in before_values)
    unigram = {
        word: (value - discount(value, before_values) + free / (len(number) - 1)) / sum(before_values)
        for word, value in before.items()
    }
    values = list(counts.values())
    for (left, right), count in counts.items():
        total = sum(value for (first, _), value in counts.items() if first == left)
        freed = sum(discount(value, values) for (first, _), value in counts.items() if first == left)
        expected = (count - discount(count, values) + freed * unigram[right]) / total
        assert 10 ** index[number[left], number[right]][0] == pytest.approx(expected, rel=1e-12)


def test_an_unknown_word_and_the_end_have_probability_and_the_start_has_none():
    model = estimate(TEXT, order=3)
    index = index_ngrams(model)
    number = {text: word for word, text in enumerate(model.vocabulary)}
    assert 0 < 10 ** index[(number[UNKNOWN],)][0] < 10 ** index[(number["e"],)][0]
    assert index[(number[START],)][0] == -99
    assert index[number["b"], number["e"], number[END]][0] < 0


def test_a_written_model_reads_back(tmp_path):
    model = estimate(TEXT, order=3)
    write_arpa(tmp_path / "lm.arpa", model)
    again = read_arpa(tmp_path / "lm.arpa")
    assert again.vocabulary == model.vocabulary
    for left, right in zip(model.levels, again.levels, strict=True):
        assert (left.words == right.words).all()
        assert left.log10_prob == pytest.approx(right.log10_prob, rel=1e-6)
        assert left.log10_backoff == pytest.approx(right.log10_backoff, rel=1e-6, abs=1e-7)
    assert [path.name for path in tmp_path.iterdir()] == ["lm.arpa"]


def test_the_command_writes_a_model(tmp_path):
    (tmp_path / "text").write_text("ab c\n\nb ca\n")
    command = [sys.executable, "-m", "ctc.ngram", "text", "-o", "lm.arpa", "--order", "2", "--unit", "character"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == "lm.arpa: 7 1-grams, 8 2-grams\n"
    assert set(read_arpa(tmp_path / "lm.arpa").vocabulary) == {UNKNOWN, START, END, "a", "b", "c", "|"}


def test_a_model_goes_down_a_pipe_alone_and_a_reader_who_leaves_ends_it_quietly(tmp_path):
    (tmp_path / "text").write_text("ab c\n")
    command = [sys.executable, "-m", "ctc.ngram", "text", "-o", "/dev/stdout", "--order", "1"]
    reader, writer = os.pipe()
    os.close(reader)
    left = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (left.returncode, left.stderr) == (128 + signal.SIGPIPE, b"")
    command[command.index("/dev/stdout")] = "-"
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n\\end\\\n")
    assert done.stderr == "/dev/stdout: 5 1-grams\n"


def test_the_command_names_a_missing_file(tmp_path):
    command = [sys.executable, "-m", "ctc.ngram", "nothing", "-o", "lm.arpa"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "ctc.ngram: nothing: No such file or directory\n"


def test_lines_are_sentences_of_words_or_characters(tmp_path):
    (tmp_path / "text").write_text("  ab  c\n\n")
    assert list(read_sentences([tmp_path / "text"], unit="word")) == [["ab", "c"]]
    assert list(read_sentences([tmp_path / "text"], unit="character")) == [["a", "b", "|", "c"]]


@pytest.mark.parametrize(
    ("sentences", "options", "message"),
    [
        (TEXT, {"order": 0}, "order: expected at least 1, found 0"),
        (TEXT, {"order": 3, "prune": (2, 1)}, r"prune: expected thresholds that do not decrease, found \[2, 1\]"),
        ([["a", "</s>"]], {"order": 3}, "sentence 1: </s> is not a word: it is added here"),
        ([[], []], {"order": 3}, "expected text to count n-grams in, found no word"),
    ],
)
def test_wrong_arguments_are_named(sentences, options, message):
    with pytest.raises(ValueError, match=message):
        estimate(sentences, **options)


HEAD = "\\data\\\nngram 1=2\nngram 2=1\n\n"


ONE = HEAD + "\\1-grams:\n-1 a\n-1 b\n\n"
WHOLE = ONE + "\\2-grams:\n-1 a b\n\n\\end\\\n"


@pytest.fixture(params=["native", "Python"])
def reader(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(arpa._native, "load", lambda: None)
        monkeypatch.setattr(arpa._library, "warn_slow", lambda what: None)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"lm: expected \\data\\ before all else, found the end of the file"),
        ("nothing\n" + WHOLE, r"lm: expected \\data\\ before all else, found 'nothing' in line 1"),
        ("\\data\\\n\n", "lm:2: expected `ngram 1=...`, found ''"),
        ("\\data\\\n", "lm:1: expected `ngram 1=...`, found the end of the file"),
        ("\\data\\\nngram 2=1\n", "lm:2: expected `ngram 1=...`, found 'ngram 2=1'"),
        ("\\data\\\nngram 1=-1\n", "lm:2: expected `ngram 1=...`, found 'ngram 1=-1'"),
        ("\\data\\\nngram 1=" + "9" * 5000, "lm:2: expected `ngram 1=...`, found 'ngram 1=999"),
        ("\\data\\\nngram 1=99999999999\n", "lm: expected 99999999999 1-grams, found only 27 bytes"),
        (HEAD + "\\2-grams:\n", r"lm:5: expected \\1-grams:, found '\\\\2-grams:'"),
        (HEAD + "\\1-grams:\n-1 a\n-1\n", "lm:7: expected 2 1-grams, found '-1' after 1 of them"),
        (HEAD + "\\1-grams:\n-1 a b c\n-1\n", "lm:6: expected finite numbers up to 1e30, found '-1 a b c'"),
        (HEAD + "\\1-grams:\n-1 a\n\n-1 b\n", "lm:7: expected 2 1-grams, found '' after 1 of them"),
        (HEAD + "\\1-grams:\n-1 a\n-1 b\n-1 c\n", r"lm:8: expected \\2-grams:, found '-1 c'"),
        (HEAD + "\\1-grams:\n-1 a\nx b\n", "lm:7: expected finite numbers up to 1e30, found 'x b'"),
        (HEAD + "\\1-grams:\n-1 a\n-1 a\n", "lm:7: expected every word once, found it again: '-1 a'"),
        (ONE + "\\2-grams:\n-1 a c\n", "lm:10: expected words that are 1-grams, found '-1 a c'"),
        (ONE, r"lm:8: expected \\2-grams:, found the end of the file"),
        (WHOLE[:-7], r"lm: expected \\end\\, found the end of the file"),
        (WHOLE + "-1 a b\n", "lm:13: expected the end of the file, found '-1 a b'"),
        (WHOLE.replace("-1 a b", "1e-3 a b"), "lm:10: expected the logarithm of a probability, at most 0, found '1e-3"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "lm").write_text(text)
    with pytest.raises(ArpaError, match=message):
        read_arpa(tmp_path / "lm")


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e300", "-1e31", "0x10", "1_0", "--1", "1e", "."])
@pytest.mark.parametrize("place", ["probability", "back-off"])
def test_numbers_that_are_not_finite_are_refused(tmp_path, number, place):
    line = f"{number} a" if place == "probability" else f"-1 a {number}"
    (tmp_path / "lm").write_text(WHOLE.replace("-1 a", line, 1))
    with pytest.raises(ArpaError, match=r"lm:6: expected finite numbers up to 1e30, found"):
        read_arpa(tmp_path / "lm")


@pytest.mark.usefixtures("reader")
def test_only_blanks_and_tabs_separate(tmp_path):
    odd = "a\u00a0b\u2003\x0b"
    text = WHOLE.replace("-1 b", f"-1\t{odd} \t-.5e+0").replace("-1 a b", f"-1.25 a\t{odd}").replace("\n", "\r\n")
    (tmp_path / "lm").write_bytes(text.encode())
    model = read_arpa(tmp_path / "lm")
    assert model.vocabulary == ("a", odd)
    assert model.levels[0].log10_backoff.tolist() == [0, -0.5]
    assert model.levels[1].log10_prob.tolist() == [-1.25]


@pytest.mark.usefixtures("reader")
def test_words_that_are_not_utf8_are_shown(tmp_path):
    (tmp_path / "lm").write_bytes(
        WHOLE.replace("-1 b", "-1 gr\xfc\xdf").replace("a b", "a gr\xfc\xdf").encode("latin-1")
    )
    with pytest.raises(ArpaError, match=r"lm: expected words in UTF-8, found b'gr\\xfc\\xdf'"):
        read_arpa(tmp_path / "lm")


def test_both_readers_make_the_same_of_a_written_model(tmp_path, monkeypatch):
    write_arpa(tmp_path / "lm.arpa", estimate(TEXT, order=4))
    native = read_arpa(tmp_path / "lm.arpa")
    monkeypatch.setattr(arpa._native, "load", lambda: None)
    monkeypatch.setattr(arpa._library, "warn_slow", lambda what: None)
    python = read_arpa(tmp_path / "lm.arpa")
    assert native.vocabulary == python.vocabulary
    for left, right in zip(native.levels, python.levels, strict=True):
        for one, other in zip(left, right, strict=True):
            assert (one == other).all()


@pytest.mark.parametrize("prune", [(), (0, 0, 1)])
def test_both_automata_score_alike(prune):
    model = estimate(TEXT, order=4, prune=prune)
    sparse = model._replace(
        levels=(
            *model.levels[:2],
            model.levels[2]._replace(**{name: column[::2] for name, column in model.levels[2]._asdict().items()}),
            model.levels[3],
        )
    )  # 4-grams whose beginnings are no 3-grams
    for each in (model, sparse, model._replace(levels=model.levels[:1])):
        native, python = ngram_automaton(each), automaton_in_python(each)
        assert len(native.backoff) == len(python.backoff)
        assert native.word_bound == pytest.approx(python.word_bound, abs=1e-5)
        draw, states = random.Random(0), [native.start_state, python.start_state]
        for _ in range(2000):
            word = draw.randrange(len(each.vocabulary))
            (left, states[0]), (right, states[1]) = native.step(states[0], word), python.step(states[1], word)
            assert left == right


def test_an_ngram_that_is_listed_twice_is_named(monkeypatch):
    model = estimate(TEXT, order=2)
    twice = model.levels[1]._replace(**{n: np.concatenate([c, c[:1]]) for n, c in model.levels[1]._asdict().items()})
    model = model._replace(levels=(model.levels[0], twice))
    first = " ".join(model.vocabulary[word] for word in model.levels[1].words[0])
    with pytest.raises(ValueError, match=f"model: expected every n-gram once, found the 2-gram '{first}' twice"):
        ngram_automaton(model)
    with pytest.raises(ValueError, match="model: expected every n-gram once, found one that ends in '.*' twice"):
        automaton_in_python(model)


@pytest.mark.parametrize(
    ("column", "value"), [("log10_prob", 0.5), ("log10_prob", math.nan), ("log10_backoff", math.inf)]
)
def test_a_model_whose_numbers_are_none_is_refused(column, value):
    model = estimate(TEXT, order=2)
    getattr(model.levels[0], column)[1] = value
    with pytest.raises(ValueError, match="model: 1-grams: expected finite numbers and probabilities of at most 1"):
        ngram_automaton(model)


def test_a_model_of_words_it_does_not_list_is_refused():
    model = estimate(TEXT, order=2)
    model.levels[1].words[0, 0] = 99
    with pytest.raises(ValueError, match="model: expected 8 1-grams and n-grams of their words"):
        ngram_automaton(model)
