"""Compiled language models: what is mapped is what was written, and damage is found."""

import subprocess
import sys
import zlib

import numpy as np
import pytest
import torch

import ctc
from ctc.language_models.arpa import ArpaError, write_arpa
from ctc.language_models.compiled import HEADER, compile_model, map_model, read_model, write_model
from ctc.language_models.packed import Packed, pack
from ctc.ngram import estimate

TEXT = [line.split() for line in ("a b a c", "b a b", "a", "c c a b a c d", "d a b a", "b b", "a b é")]


@pytest.fixture
def model():
    return compile_model(estimate(TEXT, order=3))


def test_what_is_mapped_is_what_was_written(tmp_path, model):
    write_model(tmp_path / "lm.ngram", model)
    mapped = read_model(tmp_path / "lm.ngram")
    assert mapped.vocabulary == model.vocabulary
    for left, right in zip(mapped.automaton, model.automaton, strict=True):
        assert np.array_equal(left, right)
    assert [path.name for path in tmp_path.iterdir()] == ["lm.ngram"]


def test_a_scorer_takes_it_like_the_model_it_is_made_of(tmp_path, model):
    write_model(tmp_path / "lm.ngram", model)
    write_arpa(tmp_path / "lm.arpa", estimate(TEXT, order=3))
    scores = np.random.default_rng(0).standard_normal((1, 12, 7)).astype(np.float32)
    found = [
        ctc.beam_search(torch.from_numpy(scores), [12], blank=6, scorer=ctc.Scorer("abcdé ", model=each))
        for each in (model, read_model(tmp_path / "lm.ngram"), read_model(tmp_path / "lm.arpa"))
    ]
    assert found[0] == found[1]
    assert found[0][0][0].labels == found[2][0][0].labels


def test_the_command_compiles_an_arpa_file(tmp_path, model):
    write_arpa(tmp_path / "lm.arpa.gz", estimate(TEXT, order=3))
    command = [sys.executable, "-m", "ctc.ngram", "compile", "lm.arpa.gz", "-o", "lm.ngram"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    size = (tmp_path / "lm.ngram").stat().st_size
    assert done.stderr == f"lm.ngram: 8 words, {len(model.automaton.arc_word)} n-grams, {size} bytes\n"
    (tmp_path / "lm.arpa.gz").write_bytes(b"text")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("ctc.ngram: lm.arpa.gz: expected a whole .gz file")


def test_a_file_of_an_older_version_is_to_be_compiled_again(tmp_path, model):
    write_model(tmp_path / "lm", model)
    content = bytearray((tmp_path / "lm").read_bytes())
    content[7:8] = b"1"
    (tmp_path / "lm").write_bytes(content)
    with pytest.raises(ArpaError, match="lm: expected .*, found one of another kind or version; compile it again"):
        read_model(tmp_path / "lm")


def test_widths_that_no_number_has_are_refused(tmp_path, model):
    write_model(tmp_path / "lm", model)
    content = bytearray((tmp_path / "lm").read_bytes())
    for width in (0, 58, -1):
        content[HEADER.size - 8 : HEADER.size] = width.to_bytes(8, "little", signed=True)
        (tmp_path / "lm").write_bytes(content)
        with pytest.raises(ArpaError, match="lm: expected numbers of 1 to 57 bits, found others: it is damaged"):
            map_model(tmp_path / "lm")


def test_every_damage_is_found(tmp_path, model):
    write_model(tmp_path / "lm", model)
    whole = (tmp_path / "lm").read_bytes()
    for at in range(0, len(whole), 7):
        (tmp_path / "lm").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        if HEADER.size <= at < HEADER.size + -HEADER.size % 64:
            continue  # nothing is there
        with pytest.raises(ArpaError):
            map_model(tmp_path / "lm")
    for size in (0, 5, HEADER.size, len(whole) // 2, len(whole) - 1):
        (tmp_path / "lm").write_bytes(whole[:size])
        with pytest.raises(ArpaError, match=r"lm: expected .*, found"):
            map_model(tmp_path / "lm")


@pytest.mark.parametrize(
    ("field", "value"),
    [("arc_next", 10**9), ("arc_word", 9), ("first_arc", 10**12), ("backoff_state", 10**9), ("backoff", np.nan),
     ("arc_log_prob", np.inf), ("word_bound", np.nan)],
)  # fmt: skip
def test_tables_that_lead_nowhere_are_refused_although_their_checksum_is_right(tmp_path, model, field, value):
    array = getattr(model.automaton, field)
    is_packed = isinstance(array, Packed)
    array = np.array(array)
    array[-1] = value
    array = pack(array) if is_packed else array
    write_model(tmp_path / "lm", model._replace(automaton=model.automaton._replace(**{field: array})))
    with pytest.raises(ArpaError, match="lm: expected tables that lead from one to the other, found others"):
        map_model(tmp_path / "lm")


def test_words_that_are_not_utf8_are_refused(tmp_path, model):
    write_model(tmp_path / "lm", model)
    content = bytearray((tmp_path / "lm").read_bytes())
    content[content.index("é".encode()) + 1] = 0x20
    begin = HEADER.size + -HEADER.size % 64
    content[8:12] = zlib.crc32(content[begin:], zlib.crc32(content[12 : HEADER.size])).to_bytes(4, "little")
    (tmp_path / "lm").write_bytes(content)
    with pytest.raises(ArpaError, match="lm: expected words in UTF-8, found invalid continuation byte"):
        map_model(tmp_path / "lm")
