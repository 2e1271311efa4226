"""Every manifest format: what it holds, and what is said of a bad entry."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.data.manifest import Format, ManifestError, Utterance, read_manifest, read_sources
from common.recognition.sources.inputs import find_recordings
from tests.data import shared


def sound(path: Path, seconds: float = 0.5, rate: int = 16000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(round(seconds * rate)), rate)
    return path


def lines(path: Path, *content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(content) + "\n", encoding="utf-8")
    return path


def test_jsonl(tmp_path):
    copy = sound(tmp_path / "slow/a.wav")
    a, b = sound(tmp_path / "clips/a.wav"), sound(tmp_path / "clips/b.flac", seconds=2)
    manifest = lines(
        tmp_path / "m.jsonl",
        '{"audio_filepath": "clips/a.wav", "duration": 0.5, "text":"é", "speaker":7, "speeds": {"0.9": "slow/a.wav"}}',
        "",
        '{"audio_filepath": "clips/b.flac", "text": "", "offset": 0.25}',
        '{"id": "x.y", "audio_filepath": "clips/b.flac", "text": "c", "offset": 0.25, "duration": 1}',
        '{"audio_filepath": "clips/b.flac", "text": "d", "offset": 0, "duration": 0.5}',
    )
    assert read_manifest(manifest).utterances == [
        Utterance(id="a", audio=a, seconds=0.5, text="é", speaker="7", speeds=((0.9, copy),)),
        Utterance(id="b@0.25", audio=b, seconds=1.75, text="", offset_seconds=0.25),
        Utterance(id="x.y", audio=b, seconds=1, text="c", offset_seconds=0.25),
        Utterance(id="b", audio=b, seconds=0.5, text="d", offset_seconds=0.0),
    ]


def test_librispeech_json(tmp_path):
    files = [
        {"fname": "dev-wav/a-0.9.wav", "speed": 0.9, "duration": 0.556},
        {"fname": "dev-wav/a.wav", "speed": 1, "duration": 0.5, "channels": 1},
        {"fname": "dev-wav/a-1.1.wav", "speed": 1.1, "duration": 0.455},
    ]
    for file in files:
        sound(tmp_path / "data" / file["fname"])
    sound(tmp_path / "data/b.wav")
    lines(tmp_path / "data/b.txt", "from a file")
    items = [
        {"transcript": " hello you ", "files": files, "original_duration": 0.5},
        {"text_filepath": "b.txt", "files": [{"fname": "b.wav"}], "original_duration": 0.25, "offset": 0.125},
    ]
    manifest = tmp_path / "dev.json"
    manifest.write_text(json.dumps(items, indent=2))
    root = tmp_path / "data"
    assert read_manifest(manifest, root=root).utterances == [
        Utterance(
            id="a",
            audio=root / "dev-wav/a.wav",
            seconds=0.5,
            text="hello you",
            speeds=((0.9, root / "dev-wav/a-0.9.wav"), (1.1, root / "dev-wav/a-1.1.wav")),
        ),
        Utterance(id="b", audio=root / "b.wav", seconds=0.25, text="from a file", offset_seconds=0.125),
    ]


def test_a_librispeech_folder_whole_or_in_part():
    corpus = shared("data/librispeech-mini/LibriSpeech")
    whole = read_manifest(corpus).utterances
    assert len(whole) == len(list(corpus.rglob("*.flac")))
    part = read_manifest(corpus / "dev-clean/2412/153948").utterances
    assert part == [utterance for utterance in whole if "dev-clean" in utterance.audio.parts]
    assert part[1].id == "2412-153948-0001"
    assert part[1].speaker == "2412"
    assert part[1].text.startswith("IT WILL BE SEEN THAT I DID NOT SUCCEED")
    assert part[1].seconds == pytest.approx(10.51)


def test_an_ljspeech_folder_and_its_table():
    corpus = shared("data/ljspeech-mini/LJSpeech-1.1")
    utterances = read_manifest(corpus).utterances
    assert utterances == read_manifest(corpus / "metadata.csv").utterances
    assert utterances[1].id == "LJ001-0002"
    assert utterances[1].text == "in being comparatively modern."
    assert utterances[1].seconds == pytest.approx(1.8995, abs=1e-4)


def test_the_normalised_text_of_ljspeech_is_taken_where_there_is_one(tmp_path):
    for name in "abc":
        sound(tmp_path / f"wavs/{name}.wav")
    lines(tmp_path / "metadata.csv", "a|Dr. X|Doctor X", "b|only", "c|raw|")
    assert [utterance.text for utterance in read_manifest(tmp_path).utterances] == ["Doctor X", "only", "raw"]


def test_a_pipe_list(tmp_path):
    for name in "abc":
        sound(tmp_path / f"wavs/{name}.wav")
    manifest = lines(tmp_path / "l.txt", "wavs/a.wav|one", "wavs/b.wav|two|6", "wavs/c.wav|pitch/c.pt|three|7")
    found = [(utterance.id, utterance.text, utterance.speaker) for utterance in read_manifest(manifest).utterances]
    assert found == [("a", "one", ""), ("b", "two", "6"), ("c", "three", "7")]


def test_a_pipe_list_with_the_names_of_its_columns(tmp_path):
    sound(tmp_path / "wavs/a.wav")
    manifest = lines(tmp_path / "list.txt", "wav|pitch|text|speaker_id", "wavs/a.wav|pitch/a.pt| Hello. |3")
    assert read_manifest(manifest).utterances == [
        Utterance(id="a", audio=tmp_path / "wavs/a.wav", seconds=0.5, text="Hello.", speaker="3")
    ]


def test_a_real_pipe_list():
    utterances = read_manifest(shared("data/digits/manifest.psv")).utterances
    assert (utterances[0].id, utterances[0].text, utterances[0].seconds) == ("0_george_0", "zero", 0.298)


@pytest.mark.parametrize("absolute", [True, False])
def test_fairseq(tmp_path, absolute):
    a, b = sound(tmp_path / "audio/x/a.wav", rate=8000), sound(tmp_path / "audio/b.wav", rate=8000)
    root = str(tmp_path / "audio") if absolute else "../audio"
    manifest = lines(tmp_path / "lists/train.tsv", root, "x/a.wav\t4000", "b.wav\t4000")
    lines(tmp_path / "lists/train.ltr", "I T ' S | M E |", "Y O U |")
    lines(tmp_path / "lists/dict.ltr.txt", *(f"{letter} 1" for letter in "ITSMEYOU|'"))
    utterances = read_manifest(manifest).utterances
    assert [(u.audio.resolve(), u.seconds, u.text) for u in utterances] == [(a, 0.5, "IT'S ME"), (b, 0.5, "YOU")]


def test_fairseq_without_letters_has_no_text_and_root_replaces_the_first_line(tmp_path):
    a = sound(tmp_path / "audio/a.wav")
    manifest = lines(tmp_path / "train.tsv", "/elsewhere", "a.wav\t8000")
    utterance = Utterance(id="a", audio=a, seconds=0.5, text="")
    assert read_manifest(manifest, root=tmp_path / "audio").utterances == [utterance]


def test_fairseq_counts_samples_at_the_rate_of_the_first_recording_that_can_be_read(tmp_path):
    sound(tmp_path / "c.wav", rate=8000)
    (tmp_path / "a.wav").write_bytes(b"no sound")
    manifest = lines(tmp_path / "m.tsv", ".", "a.wav\t4000", "missing.wav\t4000", "c.wav\t4000")
    found = read_manifest(manifest, on_error="skip")
    assert [(u.id, u.seconds) for u in found.utterances] == [("c", 0.5)]
    too_long = lines(tmp_path / "long.tsv", ".", f"{'a' * 3000}.wav\t4000", "c.wav\t4000")
    assert [(u.id, u.seconds) for u in read_manifest(too_long, on_error="skip").utterances] == [("c", 0.5)]
    bad, missing = found.skipped
    assert bad.startswith(f"{manifest}:2: utterance a: {tmp_path}/a.wav: cannot be read as audio")
    assert missing.startswith(f"{manifest}:3: utterance missing: no such audio file")
    with pytest.raises(ManifestError, match=r"m\.tsv:2: utterance a: .*a\.wav: cannot be read as audio"):
        read_manifest(manifest)
    lines(manifest, ".", "a.wav\t4000")
    with pytest.raises(ManifestError, match=r"m\.tsv: .*a\.wav: cannot .*; no other recording tells the sample rate"):
        read_manifest(manifest, on_error="skip")


def test_fairseq_blank_lines_of_a_list_are_none_of_its_entries_and_an_empty_line_of_letters_says_nothing(tmp_path):
    for name in "abc":
        sound(tmp_path / f"{name}.wav")
    manifest = lines(tmp_path / "m.tsv", ".", "a.wav\t8000", "", "b.wav\t8000", "c.wav\t8000", "")
    for last in ("", "Y O U |"):
        lines(tmp_path / "m.ltr", "M E |", "", last)
        assert [(u.id, u.text) for u in read_manifest(manifest).utterances] == [
            ("a", "ME"),
            ("b", ""),
            ("c", last.replace(" ", "").strip("|")),
        ]
    (tmp_path / "m.ltr").write_bytes(b"M E |\r\n\r\nY O U")
    assert [u.text for u in read_manifest(manifest).utterances] == ["ME", "", "YOU"]


GOOD = '{"audio_filepath": "a.wav", "text": "a"}'
BAD_ENTRIES: list[tuple[str, str, Format, str]] = [
    (
        "m.jsonl",
        f'{GOOD}\n\n{{"id": "b", "text"',
        "jsonl",
        "m.jsonl:3: not JSON (Expecting ':' delimiter at column 19)",
    ),
    ("m.jsonl", "[1]", "jsonl", "m.jsonl:1: found '[1]'; expected an object with audio_filepath, duration and text"),
    ("m.jsonl", '{"text": "a"}', "jsonl", "m.jsonl:1: audio_filepath is missing; expected a string"),
    ("m.jsonl", '{"audio_filepath": "a.wav"}', "jsonl", ":1: utterance a: text is missing; expected a string"),
    ("m.jsonl", GOOD[:-1] + ', "duration": "3"}', "jsonl", ":1: utterance a: duration is '\"3\"'; expected a number"),
    ("m.jsonl", GOOD[:-1] + ', "duration": NaN}', "jsonl", "utterance a: duration is 'NaN'; expected a number"),
    (
        "m.jsonl",
        GOOD[:-1] + ', "duration": -1}',
        "jsonl",
        "a: -1 s from 0 s; expected a duration > 0 and an offset >= 0",
    ),
    ("m.jsonl", GOOD[:-1] + ', "offset": 9}', "jsonl", "utterance a@9: -8.5 s from 9 s; expected a duration > 0"),
    ("m.jsonl", GOOD[:-1] + ', "speeds": ["b"]}', "jsonl", 'utterance a: speeds is \'["b"]\'; expected {"0.9": path'),
    ("m.jsonl", GOOD.replace("a.wav", "b.wav"), "jsonl", "m.jsonl:1: utterance b: no such audio file: "),
    ("m.jsonl", GOOD[:-1] + ', "speeds": {"0.9": "b.wav"}}', "jsonl", "utterance a: no such audio file: "),
    ("m.json", '[\n{"files": 3}]', "librispeech-json", "m.json:2: found '{\"files\": 3}'; expected an object with"),
    (
        "m.json",
        '[{"files": [],\n "transcript": ""},\n 4]',
        "librispeech-json",
        "m.json:1: 0 of its files () have speed 1",
    ),
    (
        "m.json",
        '[{"files": [{"fname": "a.wav"}], "transcript": 3}]',
        "librispeech-json",
        "a: transcript is '3'; expected",
    ),
    ("m.json", '[{"files": [{"fname": "a.wav"}], "text_filepath": "x"}]', "librispeech-json", "text_filepath: no such"),
    ("1-2.trans.txt", "a ONE\nb TWO", "librispeech", "1-2.trans.txt:2: utterance b: neither b.flac nor b.wav is in "),
    ("1-2.trans.txt", "", "librispeech", "1-2.trans.txt:0: utterance a: has audio but no transcript in this file"),
    ("metadata.csv", "a", "ljspeech", "metadata.csv:1: found 'a'; expected id|text or id|text|normalised text"),
    ("m.txt", "audio|text|speaker\na.wav|x", "pipe", "m.txt:2: found 'a.wav|x'; expected audio|text|speaker, as"),
    ("m.csv", "path,text\n,x", "table", "m.csv:2: path is empty; expected a recording"),
    ("wav.scp", "a a.wav\nb sox b.sph -t wav - |", "kaldi", "utterance b: 'sox b.sph -t wav - |' is a command; run it"),
    ("segments", "a a 0 0.3\nb x 0 1", "kaldi", "segments:2: utterance b: recording 'x' is not in "),
    ("segments", "a a 0 0.3\nb", "kaldi", "segments:2: utterance b: recording '' is not in "),
    (
        "segments",
        "a a 0 0.3\nb a 1",
        "kaldi",
        "segments:2: utterance b: found 'a 1'; expected recording, start and end",
    ),
    ("text", "c C", "kaldi", "wav.scp:1: utterance a: has no line in "),
    ("m.txt", "a.wav|x\na.wav|x|y|z", "pipe", "m.txt:2: found 'a.wav|x|y|z'; expected path|text or path|text|speaker"),
    ("m.tsv", ".\na.wav 3", "fairseq", "m.tsv:2: utterance a: found 'a.wav 3'; expected path, tab, samples"),
    ("m.tsv", ".\na.wav\t" + "7" * 5000, "fairseq", "m.tsv:2: utterance a: found 'a.wav\t777"),
]


def test_a_name_that_kaldi_has_twice_is_told_and_neither_is_lost(tmp_path):
    lines(tmp_path / "wav.scp", "a a.wav", "b b.wav", "a c.wav")
    with pytest.raises(ManifestError, match=r"wav\.scp:3: 'a' is in line 1 too; expected it once"):
        read_manifest(tmp_path, with_text=False)


@pytest.mark.parametrize(("name", "content", "format", "message"), BAD_ENTRIES)
def test_a_bad_entry_is_named_with_its_file_and_line(tmp_path, name, content, format, message):
    sound(tmp_path / "a.wav")
    if format == "kaldi":
        lines(tmp_path / "wav.scp", "a a.wav")
        lines(tmp_path / "text", "a A", "b B")
    (tmp_path / name).write_text(content)
    path = tmp_path if format in ("librispeech", "kaldi") else tmp_path / name
    with pytest.raises(ManifestError, match=re.escape(message)) as caught:
        read_manifest(path, format=format)
    assert str(caught.value).startswith(str(tmp_path / ("wav.scp" if name == "text" else name)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.json", '[{"files": []},\n\n {"files" 3}]', "m.json:3: not JSON (Expecting ':' delimiter at column 11)"),
        ("m.json", '[{"files": []}', "m.json:1: not JSON"),
        ("m.jsonl", b"\n\xff", "m.jsonl:2: byte 0xff is not UTF-8; convert it to UTF-8"),
        ("m.tsv", "a.wav\t3", "m.tsv:1: found 'a.wav\t3'; expected the root folder"),
        ("m.tsv", "", "m.tsv:1: found nothing; expected the root folder"),
        (
            "m.csv",
            "a.wav,hello",
            "m.csv:1: found 'a.wav,hello'; expected names of columns, such as path,text,speaker, in",
        ),
        (
            "m.csv",
            "path,speaker\na.wav,x",
            "m.csv:1: no column of texts among path, speaker; expected text or transcript, or its name after",
        ),
        ("m.csv", 'path,text\na.wav,"' + "x" * 200_000, "m.csv:2: cannot be read as a table: field larger than field"),
        ("m.csv", 'path,text\na.wav,"x\nb.wav,y\n', "m.csv:3: cannot be read as a table: unexpected end of data"),
        ("wav.scp", "a a.wav", ": no file text in it; expected one with what was said, beside wav.scp"),
    ],
)
def test_where_nothing_can_be_read_any_more_skipping_does_not_help(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ManifestError, match=re.escape(message)):
        read_manifest(tmp_path / name, on_error="skip")


def test_fairseq_letters_must_match_the_list_and_the_dictionary(tmp_path):
    sound(tmp_path / "a.wav")
    manifest = lines(tmp_path / "m.tsv", ".", "a.wav\t8000")
    lines(tmp_path / "m.ltr", "A |", "B |")
    with pytest.raises(ManifestError, match=r"m\.ltr: 2 lines; expected 1, one for each entry of the \.tsv"):
        read_manifest(manifest)
    lines(manifest, ".", "a.wav\t8000", "a.wav\t8000")
    lines(tmp_path / "m.ltr", "A |")
    with pytest.raises(ManifestError, match=r"m\.ltr: 1 lines; expected 2, one for each entry of the \.tsv"):
        read_manifest(manifest)
    lines(manifest, ".", "a.wav\t8000")
    lines(tmp_path / "m.ltr", "A É |")
    lines(tmp_path / "dict.ltr.txt", "A 10", "| 5")
    with pytest.raises(
        ManifestError, match=r"m\.tsv:2: utterance a: m\.ltr has É, which .*dict\.ltr\.txt does not list"
    ):
        read_manifest(manifest)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, "not JSON that can be read"),
        ('{"duration": ' + "7" * 5000 + "}", "not JSON that can be read"),
        ('{"audio_filepath": "a.wav", "text": "a", "duration": ' + "7" * 400 + "}", "expected a number"),
        ('{"audio_filepath": "a.wav", "text": "a", "duration": 1, "speeds": {"0": "b.wav"}}', "speeds is"),
        ('{"audio_filepath": "' + "a" * 300 + '", "text": "a", "duration": 1}', "no such audio file"),
        ('{"audio_filepath": "a\\u0000", "text": "a", "duration": 1}', "no such audio file"),
    ],
)
def test_lines_that_python_itself_cannot_read_cost_themselves(tmp_path, line, message):
    soundfile.write(tmp_path / "good.wav", np.zeros(16000), 16000)
    good = '{"audio_filepath": "good.wav", "text": "good", "duration": 1}'
    (tmp_path / "list.jsonl").write_text(f"{line}\n{good}\n")
    with pytest.raises(ManifestError, match=message):
        read_manifest(tmp_path / "list.jsonl")
    found = read_manifest(tmp_path / "list.jsonl", on_error="skip")
    assert [utterance.text for utterance in found.utterances] == ["good"]


def test_an_array_that_python_itself_cannot_read_is_named(tmp_path):
    for content in ("[" * 100_000, '[{"a": ' + "7" * 5000 + "}]"):
        (tmp_path / "list.json").write_text(content)
        with pytest.raises(ManifestError, match=r"list.json:1: not JSON that can be read"):
            read_manifest(tmp_path / "list.json")


def test_columns_of_a_table_are_named_after_its_file(tmp_path):
    sound(tmp_path / "a.wav")
    (tmp_path / "m.csv").write_text("Nr,Clip,Said,path\n1,a.wav,hello there,other.wav\n")
    source = f"{tmp_path}/m.csv?audio=Clip&text=said"
    for found in (read_manifest(source), read_sources(["m.csv?audio=clip&text=said"], root=tmp_path, training=True)):
        assert [(u.audio, u.text) for u in found.utterances] == [(tmp_path / "a.wav", "hello there")]
    assert [item.source.text for item in find_recordings([Path(source)]).items] == ["hello there"]
    for named, told in (
        ("audio=clip&text=sung", "m.csv:1: no column sung; found 'Nr,Clip,Said,path'"),
        ("sound=clip", r"m.csv\?sound=clip: sound is nothing that a column may be; expected audio, text, speaker"),
    ):
        with pytest.raises(ManifestError, match=told):
            read_manifest(f"{tmp_path}/m.csv?{named}")


def test_subsets_of_librispeech_may_be_links_and_links_may_go_round(tmp_path):
    chapter = tmp_path / "disk" / "dev-clean" / "1" / "2"
    chapter.mkdir(parents=True)
    soundfile.write(chapter / "1-2-0000.flac", np.zeros(8000), 16000)
    (chapter / "1-2.trans.txt").write_text("1-2-0000 A WORD\n")
    corpus = tmp_path / "LibriSpeech"
    corpus.mkdir()
    (corpus / "dev-clean").symlink_to(chapter.parents[1])
    (corpus / "round").symlink_to(corpus)
    (utterance,) = read_manifest(corpus).utterances
    assert (utterance.id, utterance.text) == ("1-2-0000", "A WORD")
    assert utterance.audio == corpus / "dev-clean" / "1" / "2" / "1-2-0000.flac"
