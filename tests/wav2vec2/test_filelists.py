"""Fairseq's lists of a corpus."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.config import ConfigError
from common.data.manifest import ManifestError, read_manifest
from wav2vec2 import filelists
from wav2vec2.corpus.letters import read_dictionary
from wav2vec2.filelists import FilelistsConfig


def test_the_three_training_sets_together_are_one_list_and_a_set_without_texts_has_no_letters(tmp_path, corpus):
    root = tmp_path / "LibriSpeech"
    for part in filelists.COMBINED["train-full-960"]:
        (root / part).mkdir(parents=True)
        shutil.copy(corpus / "dev" / "dev-00.wav", root / part / f"{part}.wav")
    filelists.main(FilelistsConfig(corpus=root))
    assert [u.id for u in read_manifest(root / "train-full-960.tsv").utterances] == list(
        filelists.COMBINED["train-full-960"]
    )
    assert list(root.glob("*.ltr")) == []


def speak(path: Path, *, samples: int = 8000, rate: int = 16000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.ones(samples), rate)


def test_a_text_belongs_to_the_recording_beside_it_whatever_others_are_called(tmp_path):
    for speaker in "ab":
        speak(tmp_path / "train" / speaker / "001.wav")
        (tmp_path / "train" / speaker / "x.trans.txt").write_text(f"001 {speaker.upper()}\r\n")
    filelists.main(FilelistsConfig(corpus=tmp_path))
    assert [u.text for u in read_manifest(tmp_path / "train.tsv").utterances] == ["A", "B"]
    assert (tmp_path / "dict.ltr.txt").read_text() == "| 2\nA 1\nB 1\n"
    speak(tmp_path / "train" / "c.wav")
    filelists.main(FilelistsConfig(corpus=tmp_path))
    assert not (tmp_path / "train.ltr").exists()  # that of the list before would not fit


def test_an_empty_transcript_and_another_rate_come_back_from_a_list_as_they_are(tmp_path):
    speak(tmp_path / "train" / "ü.wav")
    speak(tmp_path / "train" / "b.wav", samples=44100, rate=44100)
    (tmp_path / "train" / "x.trans.txt").write_text("ü \nb HI\n", encoding="utf-8")
    filelists.main(FilelistsConfig(corpus=tmp_path, output=tmp_path / "lists"))
    found = read_manifest(tmp_path / "lists" / "train.tsv").utterances
    assert [(u.id, u.text, u.seconds) for u in found] == [("b", "HI", 1.0), ("ü", "", 0.5)]


def test_what_cannot_be_listed_is_left_out_and_makes_the_status_other_than_0(tmp_path, capsys):
    speak(tmp_path / "train" / "a.wav")
    speak(tmp_path / "train" / "b\tb.wav")
    (tmp_path / "train" / "c.wav").write_bytes(b"no sound")
    with pytest.raises(ManifestError, match=r"2 recordings left out, the first: .*no list can hold this name; rename"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    told = capsys.readouterr().out
    assert "train.tsv: 1 recordings; texts of 0, none of" in told
    assert told.count("left out: ") == 2
    assert [u.id for u in read_manifest(tmp_path / "train.tsv").utterances] == ["a"]


def test_lists_of_evaluation_leave_the_dictionary_of_training_as_it_is(tmp_path, capsys):
    for subset, text in (("train-a", "AAB"), ("dev", "ZZZ")):
        speak(tmp_path / subset / "1.wav")
        (tmp_path / subset / "1.trans.txt").write_text(f"1 {text}\n")
    filelists.main(FilelistsConfig(corpus=tmp_path, subsets=("dev",)))
    assert read_dictionary(tmp_path / "dict.ltr.txt")[4:] == ("Z", "|")
    with pytest.raises(ConfigError, match=r"dict.ltr.txt: has 2 symbols already, which are not the 3 of these texts"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    filelists.main(FilelistsConfig(corpus=tmp_path, overwrite=True))
    filelists.main(FilelistsConfig(corpus=tmp_path, subsets=("dev",)))
    assert (tmp_path / "dict.ltr.txt").read_text() == "A 2\nB 1\n| 1\n"


def test_letters_of_the_whole_training_set_are_not_counted_again_in_its_parts(tmp_path):
    for i, part in enumerate(filelists.COMBINED["train-full-960"]):
        speak(tmp_path / part / f"{i}.wav")
        (tmp_path / part / f"{i}.trans.txt").write_text(f"{i} A\n")
    filelists.main(FilelistsConfig(corpus=tmp_path))
    assert (tmp_path / "dict.ltr.txt").read_text() == "A 3\n| 3\n"


def test_a_dictionary_counts_the_letters_of_several_lists(tmp_path, corpus):
    filelists.main(FilelistsConfig(dictionary=(corpus / "train.ltr", corpus / "dev.ltr"), output=tmp_path))
    symbols = [line.split() for line in (tmp_path / "dict.ltr.txt").read_text().splitlines()]
    counts = [int(count) for _, count in symbols]
    assert counts == sorted(counts, reverse=True)
    text = (corpus / "train.ltr").read_text() + (corpus / "dev.ltr").read_text()
    assert dict(symbols) == {symbol: str(text.split().count(symbol)) for symbol in set(text.split())}


def test_what_cannot_be_listed_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"name either the folder of a corpus, or .ltr files with --dictionary"):
        FilelistsConfig()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ManifestError, match=r"no .flac or .wav files in a folder of it"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    with pytest.raises(ManifestError, match="missing: no such folder"):
        filelists.main(FilelistsConfig(corpus=tmp_path, subsets=("missing",)))
    (tmp_path / "empty" / "a.wav").write_bytes(b"")
    with pytest.raises(ManifestError, match=r"1 recordings left out, the first: .*a.wav: the file is empty"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    with pytest.raises(ManifestError, match="empty: no .flac files in it that can be listed"):
        filelists.main(FilelistsConfig(corpus=tmp_path, subsets=("empty",), extension=("flac",)))
    with pytest.raises(ManifestError, match="nowhere: no such folder"):
        filelists.main(FilelistsConfig(corpus=tmp_path / "nowhere"))
    (tmp_path / "empty" / "a.trans.txt").write_bytes(b"a CAF\xc9\n")
    with pytest.raises(ManifestError, match=r"a.trans.txt:1: byte 0xc9 is not UTF-8; convert it to UTF-8"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    (tmp_path / "no.ltr").write_text("\n")
    with pytest.raises(ManifestError, match=r"no.ltr: not one letter in it"):
        filelists.main(FilelistsConfig(dictionary=(tmp_path / "no.ltr",)))
    with pytest.raises(ManifestError, match="cannot be read"):
        filelists.main(FilelistsConfig(dictionary=(tmp_path / "missing.ltr",)))
