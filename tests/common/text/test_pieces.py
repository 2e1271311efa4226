"""Pieces of words are SentencePiece's."""

import random
import sys
import tarfile
from pathlib import Path

import pytest
import sentencepiece

from common.text.pieces import Pieces, is_spoken, read_pieces, train_pieces, word_groups
from common.text.vocabulary import VocabularyError
from tests.data import shared

TEXTS = ["the cat sat on the mat, and the dog sat too.", "a dog and a cat met on a mat", "what did the cat do then?"]


def _of_nemo(name: str) -> bytes:
    with tarfile.open(shared("golden/transducer") / f"{name}.nemo") as archive:
        (member,) = [m for m in archive.getnames() if m.endswith("tokenizer.model")]
        return archive.extractfile(member).read()


@pytest.mark.parametrize("name", ["ctc", "tdt_ctc"])  # BPE, unigram
def test_texts_are_those_of_sentencepiece(name: str) -> None:
    model = _of_nemo(name)
    pieces, reference = read_pieces(model), sentencepiece.SentencePieceProcessor(model_proto=model)
    draw = random.Random(0)
    for _ in range(200):
        indices = [draw.randrange(pieces.blank) for _ in range(draw.randrange(15))]
        assert pieces.decode(indices) == reference.decode(indices)
    text = "if the reader will excuse me i will say nothing"
    assert pieces.encode(text) == reference.encode(text)
    assert pieces.decode(pieces.encode(text)) == text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_trained_pieces_spell_what_they_were_trained_on(kind: str, tmp_path: Path) -> None:
    pieces = train_pieces(TEXTS, size=24, kind=kind)
    assert len(pieces) == 25 == pieces.blank + 1
    assert [pieces.decode(pieces.encode(text)) for text in TEXTS] == TEXTS
    (tmp_path / "pieces.model").write_bytes(pieces.model)
    assert read_pieces(tmp_path / "pieces.model") == pieces
    assert train_pieces(TEXTS, size=24, kind=kind) == pieces


def test_words_begin_at_a_space_and_keep_the_punctuation_after_them() -> None:
    pieces = Pieces(("<unk>", "▁the", "▁c", "at", ",", "▁", ".", "▁sat", "'s"), unknown=frozenset({0}))
    indices = [1, 2, 3, 8, 4, 7, 5, 6, 0, 1]
    words = [pieces.decode([indices[p] for p in group]) for group in word_groups(pieces, indices)]
    assert words == ["the", "cat's,", "sat .", " ⁇ ", "the"]
    assert [is_spoken(pieces, i) for i in (1, 4, 5, 6, 0)] == [True, False, False, False, True]
    assert word_groups(pieces, []) == []
    assert word_groups(pieces, [4, 6]) == [range(2)]


def test_characters_that_are_spelled_in_bytes_are_put_together() -> None:
    pieces = Pieces(("<s>", "▁", "<0xC3>", "<0xA9>", "t"), control=frozenset({0}))
    assert pieces.decode([0, 1, 4, 2, 3, 4]) == "tét"
    assert pieces.decode([2]) == "�"


def test_what_is_wrong_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = train_pieces(TEXTS, size=24)
    with pytest.raises(VocabularyError, match="'xz' in 'the xz' is in none of the 24 pieces"):
        pieces.encode("the xz")
    with pytest.raises(VocabularyError, match="24 is no piece: expected 0 to 23"):
        pieces.decode([3, 24])
    with pytest.raises(VocabularyError, match="cannot be cut into pieces without a SentencePiece model"):
        Pieces(pieces.labels).encode("the")
    with pytest.raises(VocabularyError, match="no such SentencePiece model"):
        read_pieces(tmp_path / "no.model")
    for rubbish in (b"", b"garbage"):
        with pytest.raises(VocabularyError, match=f"damaged or not a SentencePiece model of {len(rubbish)} bytes"):
            read_pieces(rubbish)
    with pytest.raises(VocabularyError, match="^the SentencePiece model: damaged: one of its pieces is no text$"):
        read_pieces(pieces.model.replace("▁".encode(), b"\xff\xfe\xfd", 1))
    with pytest.raises(VocabularyError, match="5000 unigram pieces cannot be learned from these texts: Vocabulary"):
        train_pieces(TEXTS, size=5000)
    with pytest.raises(VocabularyError, match="no text to learn pieces from"):
        train_pieces([" "], size=10)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(VocabularyError, match="need the package sentencepiece: pip install sentencepiece"):
        read_pieces(pieces.model)
