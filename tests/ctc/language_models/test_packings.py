"""Models and texts as people have them: packed in any way, with marks, from Windows."""

import bz2
import gzip
import io
import lzma
import subprocess
import sys

import pytest

import ctc
from ctc.language_models.arpa import ArpaError, write_arpa
from ctc.language_models.packings import DamagedError
from ctc.ngram import estimate, main, read_sentences

TEXT = [["a", "b"], ["b", "ä"]]
PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.fixture
def arpa(tmp_path):
    write_arpa(tmp_path / "lm.arpa", estimate(TEXT, order=2))
    return tmp_path / "lm.arpa"


@pytest.mark.parametrize("suffix", PACKED)
def test_models_are_packed_by_their_names_and_unpacked_by_their_first_bytes(arpa, suffix):
    whole = ctc.read_arpa(arpa)
    write_arpa(arpa.with_name(f"x{suffix}"), whole)
    packed = arpa.with_name(f"x{suffix}").read_bytes()
    assert packed[:2] == PACKED[suffix](b"")[:2]
    arpa.with_name("y").write_bytes(packed)
    for name in (f"x{suffix}", "y"):
        assert ctc.read_arpa(arpa.with_name(name)).vocabulary == whole.vocabulary
    arpa.with_name(f"plain{suffix}").write_bytes(arpa.read_bytes())
    assert ctc.read_model(arpa.with_name(f"plain{suffix}")).vocabulary == whole.vocabulary
    flipped = packed[:20] + b"\xff" * 8 + packed[28:]
    for damaged in (packed[:-9], packed[:30], flipped, b"text", PACKED[suffix](bytes(1 << 26))):
        arpa.with_name(f"z{suffix}").write_bytes(damaged)
        with pytest.raises(ArpaError, match=rf"z{suffix}: expected a whole {suffix} file, found a damaged one"):
            ctc.read_arpa(arpa.with_name(f"z{suffix}"))


def test_models_with_marks_or_windows_ends_of_lines_are_read(arpa):
    text = arpa.read_text(encoding="utf-8")
    for content in (f"\ufeff{text}".encode(), text.encode("utf-16"), text.replace("\n", "\r\n").encode()):
        arpa.with_name("other").write_bytes(content)
        assert ctc.read_arpa(arpa.with_name("other")).vocabulary == ctc.read_arpa(arpa).vocabulary
    arpa.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    with pytest.raises(ArpaError, match="is a binary file of kenlm; expected the ARPA file that it was made of"):
        ctc.read_arpa(arpa)


def test_texts_to_count_may_be_packed_and_of_windows(tmp_path):
    for name, content in (
        ("a", "a b\r\n\r\nb ä\r\n".encode("utf-8-sig")),
        ("b", "a b\nb ä".encode("utf-16")),
        *((f"c{suffix}", pack("a b\nb ä\n".encode())) for suffix, pack in PACKED.items()),
    ):
        (tmp_path / name).write_bytes(content)
        assert list(read_sentences([tmp_path / name], unit="word")) == TEXT
    for content, message in (
        (b"a\xff", "is not text in UTF-8"),
        (gzip.compress(b"a b\n" * 99)[:-5], "a damaged one"),
        (gzip.compress(b"a b\n" * 99)[:-8] + bytes(8), "a damaged one"),
        (bz2.compress(b"a b\n" * 99)[:20] + bytes(40), "a damaged one"),
    ):
        (tmp_path / "d").write_bytes(content)
        with pytest.raises(DamagedError, match=rf"/d: .*{message}"):
            list(read_sentences([tmp_path / "d"], unit="word"))


def test_a_model_that_cannot_be_written_costs_a_line(tmp_path):
    (tmp_path / "text").write_text("a b\n")
    command = [sys.executable, "-m", "ctc.ngram", str(tmp_path / "text"), "-o", str(tmp_path / "none" / "lm.arpa")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"ctc.ngram: {tmp_path / 'none' / 'lm.arpa'}: No such file or directory\n"


def test_texts_come_from_pipes_and_are_not_written_to(tmp_path, monkeypatch, capsys):
    text, output = tmp_path / "text", tmp_path / "lm.arpa"
    text.write_text("a b\nb a\n")

    def told(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["ctc.ngram", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return str(ended.value.code)

    assert told(text, "-o", tmp_path / "." / "text").endswith("text is read; expected another output")
    assert text.read_text() == "a b\nb a\n"
    monkeypatch.setattr(sys, "argv", ["ctc.ngram", str(text), "-o", str(output)])
    main()
    expected = output.read_text()
    assert told("compile", output, "-o", output).endswith("lm.arpa is read; expected another output")
    assert output.read_text() == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"a b\nb a\n"))))
    monkeypatch.setattr(sys, "argv", ["ctc.ngram", "-", "-o", str(tmp_path / "piped.arpa")])
    main()
    assert (tmp_path / "piped.arpa").read_text() == expected
    capsys.readouterr()
