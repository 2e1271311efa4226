"""Finding the format, stopping or skipping, filtering and writing."""

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.data.manifest import ManifestError, Utterance, read_manifest, read_sources, select, write_jsonl


@pytest.fixture
def clip(tmp_path) -> Path:
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 16000)
    return tmp_path / "a.wav"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.jsonl", '{"audio_filepath": "a.wav", "text": "hi"}'),
        ("m.json", '{"audio_filepath": "a.wav", "text": "hi"}'),
        ("m.json", '\n [{"transcript": "hi", "files": [{"fname": "a.wav"}]}]'),
        ("m.json", '[{"audio_filepath": "a.wav", "text": "hi"}]'),
        ("m.txt", "a.wav|hi"),
        ("m.psv", "\ufeffa.wav|hi\r\n"),
        ("m.tsv", ".\na.wav\t8000"),
        ("m.tsv", "client_id\tpath\tsentence\n\ta.wav\thi\n"),
        ("m.csv", 'wav_filename,wav_filesize,transcript\r\n"a.wav",3,"hi"\r\n'),
        ("m.csv", "text;path\nhi;a.wav\n"),
        ("m.csv", "a.wav|hi"),
        ("metadata.csv", "file_name,transcription\na.wav,hi"),
        ("m.jsonl", '{"path": "a.wav", "sentence": "hi"}'),
        ("m.jsonl", '{"key": "a", "wav": "a.wav", "txt": "hi"}'),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_format_is_found_from_name_and_content(clip, name, content, encoding):
    content = content.removeprefix("\ufeff") if encoding != "utf-8" else content
    (clip.parent / name).write_text(content, encoding=encoding)
    text = "" if content.startswith(".\n") else "hi"
    expected = [Utterance(id="a", audio=clip, seconds=0.5, text=text)]
    assert read_manifest(clip.parent / name).utterances == expected


def test_folders_and_files_that_are_no_manifest_are_refused(tmp_path):
    with pytest.raises(
        ManifestError, match=r"has neither metadata\.csv \(LJSpeech\) nor a \*\.trans\.txt \(LibriSpeech\) nor wav"
    ):
        read_manifest(tmp_path)
    with pytest.raises(ManifestError, match=r"missing\.jsonl: no such file or folder; expected a manifest"):
        read_manifest(tmp_path / "missing.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ManifestError, match=r"empty\.jsonl: no utterance in it"):
        read_manifest(tmp_path / "empty.jsonl")


def test_bad_entries_stop_or_are_skipped_and_listed(clip):
    (clip.parent / "bad.wav").write_text("no audio")
    manifest = clip.parent / "m.txt"
    manifest.write_text("a.wav|one\nmissing.wav|two\nbad.wav|three\na.wav|four\n")
    with pytest.raises(ManifestError, match=r"m\.txt:2: utterance missing: no such audio file: .*missing\.wav"):
        read_manifest(manifest)
    utterances, skipped = read_manifest(manifest, on_error="skip")
    assert [utterance.text for utterance in utterances] == ["one", "four"]
    assert len(skipped) == 2
    assert "m.txt:3: utterance bad: " in skipped[1]
    assert "cannot be read as audio (Format not recognised)" in skipped[1]


def test_a_manifest_without_one_usable_entry_is_an_error(tmp_path):
    (tmp_path / "m.txt").write_text("x.wav|one\ny.wav|two\n")
    with pytest.raises(ManifestError, match=r"none of its 2 utterances can be used; .*m\.txt:1: utterance x: no such"):
        read_manifest(tmp_path / "m.txt", on_error="skip")


def test_many_entries_keep_their_order(clip):
    (clip.parent / "m.txt").write_text("".join(f"a.wav|{number}\n" for number in range(1000)))
    texts = [utterance.text for utterance in read_manifest(clip.parent / "m.txt").utterances]
    assert texts == [str(number) for number in range(1000)]


def test_a_table_of_a_spreadsheet_and_one_of_common_voice(clip):
    for name in ("x.mp3", "Größe 1.wav"):
        (clip.parent / "clips").mkdir(exist_ok=True)
        (clip.parent / "clips" / name).write_bytes(clip.read_bytes())
    table = clip.parent / "m.csv"
    table.write_text('id,path,text,seconds,note\n1,clips/x.mp3,"a, ""b""\nc",0.25,\n\n2,a.wav,d,,n\n')
    assert read_manifest(table).utterances == [
        Utterance(id="1", audio=clip.parent / "clips/x.mp3", seconds=0.25, text='a, "b"\nc'),
        Utterance(id="2", audio=clip, seconds=0.5, text="d"),
    ]
    voices = clip.parent / "validated.tsv"
    voices.write_text('client_id\tpath\tsentence\tage\nme\tx.mp3\tSay "x.\t\nme\tGröße 1.wav\ty\t\n', encoding="utf-8")
    assert [(u.id, u.text, u.speaker) for u in read_manifest(voices).utterances] == [
        ("x", 'Say "x.', "me"),
        ("Größe 1", "y", "me"),
    ]


def test_a_text_has_its_quotes_and_ends_of_lines_that_are_none(clip):
    table = clip.parent / "m.csv"
    table.write_text("path,text\na.wav,one\u2028two\x85three\x0cfour\n", encoding="utf-8")
    assert [u.text for u in read_manifest(table).utterances] == ["one\u2028two\x85three\x0cfour"]
    table.write_text('path,text\n\na.wav,"x\ny"\nmissing.wav,"x\ny"\n')
    assert f"{table}:5: utterance missing: no such" in read_manifest(table, on_error="skip").skipped[0]
    voices = clip.parent / "v.tsv"
    voices.write_text('path\tsentence\na.wav\t"""Hi,"" he said."\na.wav\t"Hi," he said, "you"\na.wav\t"\n')
    assert [u.text for u in read_manifest(voices).utterances] == ['"Hi," he said.', '"Hi," he said, "you"', '"']
    listed = clip.parent / "m.txt"
    listed.write_text("a.wav|so, path, as it is\n")
    assert [u.text for u in read_manifest(listed).utterances] == ["so, path, as it is"]


@pytest.mark.parametrize(("row", "what"), [("0,25;0.1", "offset is '0,25'"), ("0.25;0,1", "duration is '0,1'")])
def test_a_piece_whose_place_is_no_number_is_not_the_whole_recording(clip, row, what):
    (clip.parent / "m.csv").write_text(f"path;text;offset;duration\na.wav;x;{row}\n")
    with pytest.raises(ManifestError, match=f"m.csv:2: {what}; expected a number of seconds"):
        read_manifest(clip.parent / "m.csv")


def test_a_column_of_recordings_alone_is_enough_to_transcribe(clip):
    (clip.parent / "m.csv").write_text("path\na.wav\n")
    (found,) = read_manifest(clip.parent / "m.csv", with_text=False).utterances
    assert (found.audio, found.has_text) == (clip, False)
    (clip.parent / "m.json").write_text('[{"path": "a.wav"}]')
    assert not read_manifest(clip.parent / "m.json", with_text=False).utterances[0].has_text


def test_a_folder_of_kaldi(clip):
    (clip.parent / "wav.scp").write_text(f"rec1  a.wav\nrec2\t{clip}\n")
    found = read_manifest(clip.parent, with_text=False).utterances
    assert [(u.id, u.audio, u.seconds, u.has_text) for u in found] == [
        ("rec1", clip, 0.5, False),
        ("rec2", clip, 0.5, False),
    ]
    (clip.parent / "segments").write_text("u1 rec1 0.00 0.20\nu2 rec2 0.25 0.50\n")
    (clip.parent / "text").write_text("u1 ONE TWO\nu2 THREE\n")
    (clip.parent / "utt2spk").write_text("u1 ann\n")
    first, second = read_manifest(clip.parent / "wav.scp").utterances
    assert (first.id, first.audio, first.text, first.speaker) == ("u1", clip, "ONE TWO", "ann")
    assert (second.offset_seconds, second.seconds, second.speaker) == (0.25, 0.25, "")
    (clip.parent / "text").write_text("u1 ONE TWO\n")
    found = read_manifest(clip.parent, with_text=False).utterances
    assert [(u.id, u.text, u.has_text) for u in found] == [("u1", "ONE TWO", True), ("u2", "", False)]
    (clip.parent / "segments").write_text("u1 rec1 0 -1\n")
    with pytest.raises(ManifestError, match="-1 s from 0 s; expected a duration > 0"):
        read_manifest(clip.parent)


def test_names_in_another_form_of_unicode_or_with_backslashes_are_found(clip):
    (clip.parent / "wav").mkdir()
    apart = unicodedata.normalize("NFD", "Größe é")
    for name in (f"{apart}.wav", "世界.wav", "日本 ü.wav"):
        (clip.parent / "wav" / name).write_bytes(clip.read_bytes())
    (clip.parent / "m.txt").write_text("wav/Größe é.wav|a\nwav\\世界.wav|b\nwav\\Größe é.wav|c\nwav/日本 ü.wav|d\n")
    found = read_manifest(clip.parent / "m.txt").utterances
    assert [(u.audio.name, u.text) for u in found] == [
        (f"{apart}.wav", "a"),
        ("世界.wav", "b"),
        (f"{apart}.wav", "c"),
        ("日本 ü.wav", "d"),
    ]


def test_different_recordings_of_one_name_are_told_apart_by_their_paths(clip):
    for speaker in ("ann", "bob"):
        (clip.parent / speaker).mkdir()
        (clip.parent / speaker / "1.wav").write_bytes(clip.read_bytes())
    (clip.parent / "m.txt").write_text("ann/1.wav|one\nbob/1.wav|two\na.wav|a\na.wav|a\n")
    assert [u.id for u in read_manifest(clip.parent / "m.txt").utterances] == ["ann/1.wav", "bob/1.wav", "a", "a"]
    pieces = [{"id": "x", "path": "a.wav", "text": "", "offset": offset, "duration": 0.1} for offset in (0, 0.25)]
    (clip.parent / "m.jsonl").write_text("\n".join(map(json.dumps, pieces)))
    assert [u.id for u in read_manifest(clip.parent / "m.jsonl").utterances] == ["a.wav", "a.wav@0.25"]


def test_filters_count_what_they_drop():
    def utterance(seconds: float, text: str = "x") -> Utterance:
        return Utterance(id="u", audio=Path("a.wav"), seconds=seconds, text=text)

    durations = [0.05, 0.1, 5.0, 16.7, 16.8, 20.0]
    utterances = [utterance(seconds) for seconds in durations] + [utterance(5.0, text="")]
    selection = select(utterances, max_seconds=16.7, need_text=True)
    assert [kept.seconds for kept in selection.utterances] == [0.1, 5.0, 16.7]
    assert selection.dropped == "left out of 7 utterances: 1 without text, 1 shorter than 0.1 s, 2 longer than 16.7 s"
    assert select(utterances[1:]) == (utterances[1:], "")


def test_what_was_written_is_read_back(clip, tmp_path):
    soundfile.write(tmp_path / "b.flac", np.zeros(1600), 16000)
    plain = Utterance(id="a", audio=clip, seconds=0.5, text="")
    utterances = [
        plain,
        replace(plain, id="β", text='says "naïve"\u2028', speaker="7", offset_seconds=0.1, seconds=1 / 3),
        replace(plain, speeds=((0.9, tmp_path / "b.flac"), (1.1, clip))),
        replace(plain, id="start", offset_seconds=0.0, seconds=0.2),
    ]
    utterances[1] = replace(utterances[1], text=utterances[1].text.strip())
    (tmp_path / "lists").mkdir()
    for manifest in (tmp_path / "m.jsonl", tmp_path / "lists/m.jsonl"):
        write_jsonl(manifest, utterances)
        assert read_manifest(manifest).utterances == utterances
    assert '"audio_filepath": "a.wav"' in (tmp_path / "m.jsonl").read_text()
    assert list((tmp_path / "lists").iterdir()) == [tmp_path / "lists/m.jsonl"]


def test_sources_are_read_together_below_their_root_and_selected_for_training_alone(tmp_path):
    for name, seconds in (("a", 1), ("b", 3)):
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(16000 * seconds), 16000)
    (tmp_path / "one.txt").write_text("a.wav|x|anna\nmissing.wav|y|anna\n")
    (tmp_path / "two.txt").write_text("b.wav|z|berta\na.wav||anna\n")
    options = {"root": tmp_path, "on_error": "skip", "max_seconds": 2.0, "need_text": True}
    found = read_sources(("one.txt", "two.txt"), training=True, **options)
    assert [u.text for u in found.utterances] == ["x"]
    assert found.skipped[0].startswith(f"{tmp_path}/one.txt:2: utterance missing: no such audio file")
    assert found.skipped[1] == "left out of 3 utterances: 1 without text, 1 longer than 2 s"
    assert [u.text for u in read_sources(("one.txt", "two.txt"), training=False, **options).utterances] == [
        "x",
        "z",
        "",
    ]
    assert [
        u.text for u in read_sources(("two.txt",), root=tmp_path, training=True, speakers={"berta"}).utterances
    ] == ["z"]
    with pytest.raises(ManifestError, match="no utterance to train on: two.txt; name manifests with --data.train"):
        read_sources(("two.txt",), root=tmp_path, training=True, speakers={"carla"})
    with pytest.raises(ManifestError, match="no utterance to validate on: none is named; .*--data.validation"):
        read_sources((), training=False)


def test_a_corpus_folder_below_a_root_has_its_recordings_beside_its_table(tmp_path):
    folder = tmp_path / "corpora" / "LJ"
    (folder / "wavs").mkdir(parents=True)
    soundfile.write(folder / "wavs" / "c0.wav", np.zeros(1600), 16000)
    (folder / "metadata.csv").write_text("c0|zero|zero\n")
    for source in ("corpora/LJ", "corpora/LJ/metadata.csv"):
        (utterance,) = read_sources((source,), root=tmp_path, training=True).utterances
        assert utterance.audio == folder / "wavs" / "c0.wav"


def test_what_nobody_wrote_down_is_still_unknown_after_writing(clip):
    known = Utterance(id="a", audio=clip, seconds=0.5, text="")
    for utterance in (known, replace(known, has_text=False)):
        write_jsonl(clip.parent / "m.jsonl", [utterance])
        (found,) = read_manifest(clip.parent / "m.jsonl", with_text=False).utterances
        assert (found.text, found.has_text) == ("", utterance.has_text)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ('{"version": {"data": [1]}, "data": [\n%s,\n%s]}', (2, 3)),
        ('{"data": [%s, %s]}\n', (1, 1)),
        ('{"tags": ["x"], "empty": [], "utterances":\n\n[%s,%s], "n": 2}', (3, 3)),
        ("{indent}{indent}", (1, 5)),
        ("\n{indent}, {indent}\n", (2, 6)),
        ("[%s, %s]", (1, 1)),
    ],
)
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_json_in_other_layouts_than_a_record_a_line(clip, content, lines, suffix):
    """One object around all records, records over several lines, an array; errors name the line of their record."""
    good = {"audio_filepath": "a.wav", "text": "hi"}
    bad = good | {"audio_filepath": "lost.wav"}
    if "{indent}" in content:
        first, second = (json.dumps(record, indent=2) + "\n" for record in (good, bad))
        filled = content.replace("{indent}", first, 1).replace("{indent}", second, 1)
    else:
        filled = content % (json.dumps(good), json.dumps(bad))
    manifest = clip.parent / f"m.{suffix}"
    manifest.write_text(filled)
    found = read_manifest(manifest, on_error="skip")
    assert found.utterances == [Utterance(id="a", audio=clip, seconds=0.5, text="hi")]
    assert found.skipped == [f"{manifest}:{lines[1]}: utterance lost: no such audio file: {clip.parent / 'lost.wav'}"]


def test_json_that_breaks_off_is_no_shorter_manifest(clip):
    record = json.dumps({"audio_filepath": "a.wav", "text": "hi"}, indent=1)
    for content in (f'{{"data": [{record}', f"{record}\n{record[:-5]}", f"{record}]\n{record}", f"[{record},"):
        (clip.parent / "m.json").write_text(content)
        with pytest.raises(ManifestError, match=r"m\.json:\d+: not JSON"):
            read_manifest(clip.parent / "m.json")


def test_of_several_arrays_in_one_object_none_is_taken_in_silence(clip):
    record = {"audio_filepath": "a.wav", "text": "hi"}
    (clip.parent / "m.json").write_text(json.dumps({"train": [record], "test": [record]}))
    with pytest.raises(ManifestError, match=r"m\.json:1: found arrays called train, test; expected one, or a file for"):
        read_manifest(clip.parent / "m.json")
    (clip.parent / "m.json").write_text(json.dumps({"authors": [{"name": "x"}], "clips": [record]}))
    assert [u.id for u in read_manifest(clip.parent / "m.json").utterances] == ["a"]


def test_one_channel_of_several_that_an_entry_names_is_not_passed_over(clip):
    soundfile.write(clip.parent / "two.wav", np.zeros((8000, 2), np.float32), 16000)
    entries = [{"audio_filepath": name, "text": "", "channel": 1} for name in ("two.wav", clip.name)]
    (clip.parent / "m.jsonl").write_text("\n".join(map(json.dumps, entries)))
    (clip.parent / "m.csv").write_text(f"path,text,channel\ntwo.wav,,1\n{clip.name},,1\n")
    for name, line in (("m.jsonl", 1), ("m.csv", 2)):
        found = read_manifest(clip.parent / name, on_error="skip")
        assert [utterance.audio for utterance in found.utterances] == [clip]
        assert found.skipped[0].endswith(
            f"{name}:{line}: utterance two: names channel 1 of 2, which an entry cannot; write that one to a file"
        )
