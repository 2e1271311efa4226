import pytest

from fastpitch.front.inputs import find_phrases
from fastpitch.front.phrases import PhraseError


@pytest.mark.parametrize("text", ["Hello.", "Go.", "Well, see readme.txt now", "and/or", "A.B.C.", "x" * 5000, "a\0.b"])
def test_texts_are_said_themselves(text):
    (item,) = find_phrases([text]).items
    assert (item.phrase.text, item.phrase.output, item.where) == (text, "audio_0.wav", "text 1")


@pytest.mark.parametrize("name", ["notes.md", "talk.SSML", "a/b.txt", "list.tsv", "book.html"])
def test_what_looks_like_a_file_is_never_said(name):
    with pytest.raises(PhraseError, match=f"{name}: cannot be read .No such file or directory"):
        find_phrases([name])


def test_a_document_is_one_phrase_and_is_named_by_its_file(tmp_path):
    (tmp_path / "my notes.rst").write_text("One.\nTwo.\n")
    (item,) = find_phrases([str(tmp_path / "my notes.rst")]).items
    assert (item.phrase.text, item.phrase.output) == ("One.\nTwo.\n", "my notes.wav")
    (tmp_path / "x.pdf").write_text("")
    with pytest.raises(PhraseError, match="not a file of text; expected .txt, .tsv, .ssml or another"):
        find_phrases([str(tmp_path / "x.pdf")])


def test_a_document_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "a.md").write_bytes(b"a\xff")
    with pytest.raises(PhraseError, match=r"a.md: not text in UTF-8 \(byte 0xff at 2\)"):
        find_phrases([str(tmp_path / "a.md")])
