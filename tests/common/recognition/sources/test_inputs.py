import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from common.data.manifest import ManifestError, Utterance, read_manifest, write_jsonl
from common.data.shards.writing import write
from common.recognition.sources.inputs import find_recordings
from common.recognition.sources.recordings import read


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A FLAC file and a deeper WAV file in one folder."""
    folder = tmp_path / "speech"
    (folder / "deeper").mkdir(parents=True)
    soundfile.write(folder / "a.flac", np.zeros(16_000), 16_000)
    soundfile.write(folder / "deeper" / "b.WAV", np.zeros(8_000), 8_000)
    return [folder / "a.flac", folder / "deeper" / "b.WAV"]


def names(*inputs: Path, **options) -> list[str]:
    return [item.name for item in find_recordings(inputs, **options).items]


def test_files_of_the_same_name_do_not_overwrite_each_other(files):
    assert names(files[0], files[0].parent, files[0]) == ["a", "a-2", "deeper/b", "a-3"]
    soundfile.write(files[0].with_name("a-2.flac"), np.zeros(16_000), 16_000)
    assert names(files[0], files[0], files[0].with_name("a-2.flac"), files[0]) == ["a", "a-2", "a-2-2", "a-3"]
    assert names(files[0].with_name("a-2.flac"), files[0], files[0]) == ["a-2", "a", "a-3"]


@pytest.mark.parametrize(
    ("id", "name"), [("../../x", "x"), ("/etc/x", "etc/x"), ("a:b*c", "a_b_c"), ("a.b-c@1", "a.b-c@1")]
)
def test_a_name_never_leads_out_of_the_folder(files, tmp_path, id, name):
    write_jsonl(tmp_path / "m.jsonl", [Utterance(id=id, audio=files[0], seconds=1.0, text="")])
    assert names(tmp_path / "m.jsonl") == [name]


def test_data_sets_of_shards_are_inputs_too(files, tmp_path):
    write_jsonl(tmp_path / "m.jsonl", [Utterance(id="u", audio=files[0], seconds=1.0, text="said")])
    write(read_manifest(tmp_path / "m.jsonl").utterances, tmp_path / "shards")
    for named in (tmp_path / "shards", tmp_path / "shards/data.index"):
        found = find_recordings([named])
        assert found.problems == []
        assert [(item.name, item.reference) for item in found.items] == [("u", "said")]
        assert len(read(found.items[0].source, sample_rate=16_000).samples_N) == 16_000


def test_long_utterances_of_manifests_can_be_left_out(files, tmp_path):
    write_jsonl(tmp_path / "m.jsonl", [Utterance(id=f"{s}", audio=files[0], seconds=s, text="x") for s in (0.5, 1.0)])
    assert names(tmp_path / "m.jsonl", max_seconds=0.7) == ["0.5"]
    found = find_recordings([tmp_path / "m.jsonl"], max_seconds=0.3)
    assert found.problems == [f"{tmp_path}/m.jsonl: all its 2 utterances are longer than 0.3 s"]


def test_fairseq_lists_have_the_references_of_their_letters(files, tmp_path):
    (tmp_path / "test.tsv").write_text(f"{files[0].parent}\na.flac\t16000\n")
    (tmp_path / "test.ltr").write_text("H I | Y O U |\n")
    (item,) = find_recordings([tmp_path / "test.tsv"]).items
    assert (item.name, item.reference) == ("a", "HI YOU")


def test_a_list_of_any_suffix_may_have_texts(files, tmp_path):
    (tmp_path / "m.lst").write_text(f"{files[0]}|hello\n")
    (item,) = find_recordings([tmp_path / "m.lst"]).items
    assert (item.name, item.reference) == ("a", "hello")


def test_a_list_whose_first_recording_is_damaged_is_told(files, tmp_path):
    (tmp_path / "x.wav").write_bytes(b"no audio")
    (tmp_path / "x.tsv").write_text(f"{tmp_path}\nx.wav\t16000\n")
    found = find_recordings([tmp_path / "x.tsv", files[0]])
    assert [item.name for item in found.items] == ["a"]
    assert found.problems[0].startswith(f"{tmp_path}/x.tsv: {tmp_path}/x.wav: cannot be read as audio")


def test_what_holds_no_recordings_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.txt").write_bytes(b"\xff")
    (tmp_path / "cut.txt").write_bytes(b"\xff\xfe\x00")
    found = find_recordings([tmp_path / name for name in ("empty", "list.txt", "cut.txt", "no.jsonl")])
    assert found.items == []
    assert found.problems == [
        f"{tmp_path}/empty: no audio in this folder",
        f"{tmp_path}/list.txt:1: byte 0xff is not UTF-8; convert it to UTF-8",
        f"{tmp_path}/cut.txt:1: byte 0x0 is not UTF-16-LE; convert it to UTF-8",
        f"{tmp_path}/no.jsonl: no such file or folder; expected a manifest",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["list.txt", "list.LST"])
def test_a_list_of_paths_as_windows_writes_it(files, name, encoding):
    listed = files[0].parent / name
    listed.write_bytes("a.flac \r\n\r\ndeeper\\b.WAV\r\n".encode(encoding))
    assert [item.source for item in find_recordings([listed]).items] == files
    listed.write_bytes("path,speaker\na.flac,x\n".encode(encoding))
    assert names(listed.rename(listed.with_suffix(".csv"))) == ["a"]
    listed.write_bytes("\r\n".encode(encoding))
    assert find_recordings([listed]).problems == [f"{listed}: is empty; expected a list of recordings"]


def test_recordings_of_a_folder_that_cannot_be_read_are_not_passed_over(files):
    (files[0].parent / "call.M4A").write_bytes(b"\0\0\0\x20ftypM4A ")
    (files[0].parent / "film.mp4").write_bytes(b"\0\0\0\x20ftypisom")
    assert names(files[0].parent) == ["a", "call", "deeper/b", "film"]


def test_a_folder_of_kaldi_is_a_corpus(files):
    (files[0].parent / "wav.scp").write_text("one a.flac\n")
    assert names(files[0].parent) == ["one"]
    (files[0].parent / "train.scp").write_text("two a.flac\n")
    assert names(files[0].parent / "train.scp") == ["two"]


def test_a_dash_is_standard_input(files, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(files[0].read_bytes())))
    (item,) = find_recordings([Path("-")]).items
    assert (item.name, item.reference, str(item.source)) == ("stdin", None, "standard input")
    assert len(read(item.source, 16_000).samples_N) == 16_000


def test_manifests_need_not_say_what_was_said_and_an_empty_text_is_known(files, tmp_path):
    rows = [{"audio_filepath": str(files[0]), "id": id_, **text} for id_, text in (("a", {}), ("b", {"text": ""}))]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = find_recordings([tmp_path / "m.jsonl"])
    assert found.problems == []
    assert [(item.name, item.reference) for item in found.items] == [("a", None), ("b", "")]
    with pytest.raises(ManifestError, match="m.jsonl:1: utterance a: text is missing; expected a string"):
        read_manifest(tmp_path / "m.jsonl")  # as a training does


def test_lists_of_paths_may_have_blanks(files, tmp_path):
    (tmp_path / "list.txt").write_text(f"\n  {files[0]}  \n\n{files[1]}\t\r\n \n")
    assert names(tmp_path / "list.txt") == ["a", "b"]
    assert [item.source for item in find_recordings([tmp_path / "list.txt"]).items] == files


def test_paths_may_start_from_where_one_stands_as_ls_and_find_write_them(files, tmp_path, monkeypatch):
    (tmp_path / "lists").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lists" / "m.jsonl").write_text('{"audio_filepath": "speech/a.flac", "offset": null, "speaker": 3}')
    (tmp_path / "lists" / "l.txt").write_text('speech/a.flac\r\n"speech/deeper/b.WAV"\r\nspeech/none.wav\r\n')
    for folder in (Path("lists"), tmp_path / "lists"):
        sources = [item.source for item in find_recordings([folder / "l.txt"]).items]
        assert sources == [Path("speech/a.flac"), Path("speech/deeper/b.WAV"), folder / "speech" / "none.wav"]
        (item,) = find_recordings([folder / "m.jsonl"]).items
        assert (item.source.audio, item.source.offset_seconds) == (Path("speech/a.flac"), None)
    found = find_recordings([Path("lists/l.txt")], root=tmp_path / "lists")
    assert next(item.source for item in found.items) == tmp_path / "lists" / "speech" / "a.flac"
    assert find_recordings([Path("lists/m.jsonl")], root=tmp_path / "lists").items == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.txt", "{}\thello there\n"),
        ("m.lst", "{}\thello there\tann\n"),
        ("m.csv", ",path,text\n0,{},hello there\n"),
        ("m.jsonl", '{{"audio_filepath": "{}", "text_filepath": "said.txt"}}'),
    ],
)
def test_tables_and_manifests_as_programs_write_them_have_texts(files, tmp_path, name, content):
    (tmp_path / "said.txt").write_text("hello there\n")
    (tmp_path / name).write_text(content.format(files[0]))
    (item,) = find_recordings([tmp_path / name]).items
    assert (item.name, item.reference) == ("a", "hello there")


def test_a_closed_standard_input_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert find_recordings([Path("-")]).problems == ["standard input: it is closed; expected audio"]


def test_a_recording_in_a_store_is_no_data_set_that_is_looked_up_there():
    (found,) = find_recordings([Path("http://127.0.0.1:9/a.wav")]).items
    assert found.name == "a"
