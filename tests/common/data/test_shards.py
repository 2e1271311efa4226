"""Shards: written to the same bytes whoever is killed, read by all, indexed in place, and damage that loses its own."""

import dataclasses
import gzip
import io
import itertools
import json
import shutil
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.audio import waveform
from common.data.digest import digest
from common.data.lists.entries import ManifestError
from common.data.lists.index import Builder, IndexFileError
from common.data.lists.utterances import Utterances
from common.data.loading import SpeechDataset
from common.data.manifest import Utterance, read_manifest, write_jsonl
from common.data.shards import foreign, writing
from common.data.shards.__main__ import main
from common.data.shards.tar import Damage, members, write_end, write_member
from common.files import stores
from common.files.stores import OutageError, Stored, StoreError
from tests.processes import fork_module
from tests.stores import hub, s3


def flac(number: int, seconds: float = 0.1) -> bytes:
    file = io.BytesIO()
    samples = np.random.default_rng(number).integers(-9000, 9000, int(16000 * seconds)).astype(np.int16)
    soundfile.write(file, samples, 16000, format="FLAC")
    return file.getvalue()


@pytest.fixture
def manifest(tmp_path) -> Path:
    (tmp_path / "audio").mkdir()
    utterances = []
    for i in range(12):
        (tmp_path / f"audio/{i}.flac").write_bytes(flac(i, 0.1 + i / 50))
        text, speaker = f"text {i}", str(i % 3)
        path = tmp_path / f"audio/{i}.flac"
        utterances.append(Utterance(id=f"a/{i}.x", audio=path, seconds=0.1 + i / 50, text=text, speaker=speaker))
    write_jsonl(tmp_path / "m.jsonl", utterances)
    return tmp_path / "m.jsonl"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tar"))}


def write(manifest: Path, out: Path, **options) -> list[str]:
    return writing.write(read_manifest(manifest).utterances, out, shard_bytes=9000, **options)


def test_training_from_shards_sees_what_it_sees_from_plain_files(manifest, tmp_path):
    assert write(manifest, tmp_path / "out") == []
    plain, shards = read_manifest(manifest).utterances, read_manifest(tmp_path / "out").utterances
    assert len(contents(tmp_path / "out")) > 2
    assert digest(plain)["hash"] == digest(shards)["hash"]  # a run that was begun with one goes on with the other
    ours, theirs = SpeechDataset(plain), SpeechDataset(shards)
    for i in range(12):
        assert np.array_equal(ours[i].samples, theirs[i].samples)
        assert (shards[i].text, shards[i].speaker, shards[i].id) == (plain[i].text, plain[i].speaker, plain[i].id)
    moved = (tmp_path / "out").rename(tmp_path / "elsewhere")
    assert np.array_equal(SpeechDataset(read_manifest(moved).utterances)[3].samples, ours[3].samples)


def test_a_recording_with_several_texts_is_stored_once(manifest, tmp_path):
    with manifest.open("a") as file:
        file.write('{"audio_filepath": "audio/3.flac", "duration": 0.16, "text": "Satz", "target_lang": "de"}\n')
    assert write(manifest, tmp_path / "out") == []
    plain, shards = read_manifest(manifest).utterances, read_manifest(tmp_path / "out").utterances
    assert digest(plain)["hash"] == digest(shards)["hash"]
    assert shards[12].audio == shards[3].audio
    assert [u.text for u in shards] == [u.text for u in plain]


def test_a_writer_sees_every_change_of_the_list(manifest, tmp_path):
    line = '{"audio_filepath": "audio/3.flac", "duration": 0.16, "text": "%s", "target_lang": "%s"}\n'
    before = manifest.read_text()
    for text, language in (("Satz", "de"), ("Sätze", "de"), ("Sätze", "fr")):
        manifest.write_text(before + line % (text, language))
        assert write(manifest, tmp_path / "out") == []
        found = read_manifest(tmp_path / "out").utterances[12]
        assert (found.text, dict(found.wanted)["target_lang"]) == (text, language)
    manifest.write_text(before.replace('"text": "text 3"', '"text": "text 3", "word_ends": [0.1]'))
    assert write(manifest, tmp_path / "out") == []
    assert list(read_manifest(tmp_path / "out").utterances) == [
        dataclasses.replace(u, audio=read_manifest(tmp_path / "out").utterances[i].audio)
        for i, u in enumerate(read_manifest(manifest).utterances)
    ]


def test_other_programs_read_the_shards(manifest, tmp_path):
    write(manifest, tmp_path / "out")
    seen = {}
    for path in (tmp_path / "out").glob("*.tar"):
        with tarfile.open(path) as tar:
            files = {member.name: tar.extractfile(member).read() for member in tar}
        assert {name[:9] for name in files} == {name[:9] for name in files if name.endswith(".json")}
        for name, content in files.items():
            if name.endswith(".json"):
                seen[json.loads(content)["id"]] = files[name[:9] + ".flac"]
    assert seen == {f"a/{i}.x": (tmp_path / f"audio/{i}.flac").read_bytes() for i in range(12)}
    builder = Builder()
    assert foreign.index([str(path) for path in (tmp_path / "out").glob("*.tar")], builder) == []
    again = {u.id: u for u in Utterances([builder.finish()])}
    assert {id: u.audio.read() for id, u in again.items()} == seen  # as WebDataset
    assert again["a/7.x"].text == "text 7"


def test_a_writer_that_was_killed_goes_on_to_the_same_bytes_with_any_number_of_processes(manifest, tmp_path):
    write(manifest, tmp_path / "whole")
    write(manifest, tmp_path / "killed", workers=2)
    expected = contents(tmp_path / "whole")
    assert contents(tmp_path / "killed") == expected
    shards = sorted((tmp_path / "killed").glob("*.tar"))
    shards[0].unlink()
    shards[1].write_bytes(shards[1].read_bytes()[:-1])
    shards[2].with_suffix(".index").unlink()
    untouched = shards[3].stat().st_mtime_ns
    (tmp_path / "killed/data.index").unlink()
    (tmp_path / "killed/.shard-00001.tar.123.tmp").write_bytes(bytes(5000))
    write(manifest, tmp_path / "killed")
    assert contents(tmp_path / "killed") == expected
    assert not list((tmp_path / "killed").glob(".*.tmp"))
    assert shards[3].stat().st_mtime_ns == untouched
    assert read_manifest(tmp_path / "killed").utterances[5].audio.read() == flac(5, 0.2)
    write(manifest, tmp_path / "other", seed=2)
    assert contents(tmp_path / "other") != expected


def test_what_cannot_be_read_is_named_and_pieces_are_cut(manifest, tmp_path, capsys):
    (tmp_path / "audio/3.flac").write_bytes(b"no audio at all")
    with manifest.open("a") as file:
        file.write('{"audio_filepath": "audio/11.flac", "offset": 0.1, "duration": 0.05, "text": "cut", "id": "cut"}\n')
    assert main(["write", str(manifest), "--out", str(tmp_path / "out"), "--workers", "1"]) == 3
    assert "utterance a/3.x: " in capsys.readouterr().err
    found = read_manifest(tmp_path / "out").utterances
    assert [u.id for u in found] == [f"a/{i}.x" for i in range(12) if i != 3] + ["cut"]
    whole = waveform.read(tmp_path / "audio/11.flac").samples
    assert np.array_equal(waveform.read(found[-1].audio).samples, whole[1600:2400])


def test_a_damaged_recording_is_lost_alone_named_and_repaired(manifest, tmp_path, capsys):
    write(manifest, tmp_path / "out")
    victim = read_manifest(tmp_path / "out").utterances[7].audio
    with Path(victim.file).open("r+b") as file:
        file.seek(victim.start + victim.size // 2)
        file.write(b"\xff\x00\xff")
    found = SpeechDataset(read_manifest(tmp_path / "out").utterances, on_error="skip")
    results = [found[i] for i in range(12)]
    assert [i for i, result in enumerate(results) if hasattr(result, "message")] == [7]
    assert "utterance a/7.x: " in results[7].message
    assert "damaged: CRC32" in results[7].message
    assert main(["check", str(tmp_path / "out")]) == 3
    assert capsys.readouterr().out == "12 recordings read, 1 damaged\n"
    assert main(["repair", str(tmp_path / "out"), "--from", str(manifest)]) == 0
    assert main(["check", str(tmp_path / "out")]) == 0


def test_a_check_reads_the_index_too(manifest, tmp_path):
    write(manifest, tmp_path / "out")
    assert main(["check", str(tmp_path / "out")]) == 0
    path = tmp_path / "out/data.index"
    content = bytearray(path.read_bytes())
    for at in (70, 64 + 12 * 24 + 50, len(content) - 5):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises((IndexFileError, ValueError)):
            main(["check", str(tmp_path / "out")])


def tar_of(files: dict[str, bytes], path: Path) -> Path:
    with path.open("wb") as file:
        for name, content in files.items():
            write_member(file, name, content)
        write_end(file)
    return path


def indexed(*sources: object) -> tuple[Utterances, list[str]]:
    builder = Builder()
    problems = foreign.index([str(source) for source in sources], builder)
    return Utterances([builder.finish()]), problems


def test_every_byte_of_a_header_may_be_flipped_and_only_its_member_is_lost(tmp_path):
    files = {f"{i}.flac": bytes([i]) * (700 * i) for i in range(1, 6)}
    whole = tar_of(files, tmp_path / "x.tar").read_bytes()
    start = whole.index(b"3.flac")
    for at in range(512):
        for mask in (0x01, 0x80, 0xFF):
            broken = bytearray(whole)
            broken[start + at] ^= mask
            found = list(members(lambda a, n, b=broken: bytes(b[a : a + n]), len(broken)))
            names = [member.name for member in found if not isinstance(member, Damage)]
            if at == 155:  # the only byte that nothing is read from
                assert names == list(files)
                continue
            assert names == ["1.flac", "2.flac", "4.flac", "5.flac"], (at, mask)
            assert [d for d in found if isinstance(d, Damage)] == [Damage(start, whole.index(b"4.flac"))]
    zeroed = whole[:start] + bytes(512) + whole[start + 512 :]
    assert len([m for m in members(lambda a, n: zeroed[a : a + n], len(zeroed)) if not isinstance(m, Damage)]) == 4


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_others_have_long_names_and_folders(tmp_path, format):
    names = ["a.flac", "ü/" + "x" * 80 + "/b.flac", *(["y" * 150 + ".flac"] if format != tarfile.USTAR_FORMAT else [])]
    with tarfile.open(tmp_path / "x.tar", "w", format=format) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for i, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = 1000 + i
            tar.addfile(info, io.BytesIO(bytes(1000 + i)))
    content = (tmp_path / "x.tar").read_bytes()
    found = list(members(lambda a, n: content[a : a + n], len(content)))
    assert [(member.name, member.size) for member in found] == [(name, 1000 + i) for i, name in enumerate(names)]


def test_sizes_below_zero_and_sizes_that_are_none_end_no_reader_of_tars():
    """A header whose next one would be itself, and extended headers that say no number."""

    def header(name: bytes, kind: bytes, size: bytes) -> bytes:
        fields = name.ljust(100, b"\0") + bytes(24) + size.ljust(12, b"\0") + bytes(12)
        rest = (kind + bytes(100) + b"ustar\x0000").ljust(356, b"\0")
        return fields + b"%06o\0 " % (sum(fields) + sum(rest) + 8 * 32) + rest

    file = io.BytesIO()
    file.write(header(b"a", b"0", b"-0000001000"))
    for told in (b"-512", b"many", b"9" * 5000):
        record = b"size=" + told + b"\n"
        count = len(record) + len(str(len(record))) + 2
        content = b"%d %s" % (count, record)
        file.write(header(b"x", b"x", b"%011o" % len(content)) + content.ljust(-(-len(content) // 512) * 512, b"\0"))
        write_member(file, "b", b"content")
    write_end(file)
    content = file.getvalue()
    found = list(itertools.islice(members(lambda a, n: content[a : a + n], len(content)), 9))
    assert found[0] == Damage(0, 512)
    assert [(each.name, each.size) for each in found[1:]] == [("b", 7)] * 3


@pytest.mark.parametrize("layout", ["shards", "one", "folder"])
def test_tarred_sets_of_nemo(tmp_path, layout):
    rows = [[{"audio_filepath": f"s{n}_{i}.flac", "duration": 0.1, "text": f"{n} {i}", "shard_id": n} for i in range(3)]
            for n in range(2)]  # fmt: skip
    more = {"duration": 0.1, "shard_id": 0}
    rows[0] += [more | {"audio_filepath": "long-sub1.flac", "offset": 0.05, "text": "p1", "source_lang": "de"},
                more | {"audio_filepath": "long-sub2.flac", "offset": 0.2, "text": "p2"},
                more | {"audio_filepath": "gone.flac", "text": "no", "_skipme": "noise"}]  # fmt: skip
    for n in range(2):
        names = [f"s{n}_{i}.flac" for i in (2, 0, 1)] + (["long.flac"] if n == 0 else [])
        tar_of({name: flac(n, 0.4) for name in names}, tmp_path / f"audio_{n}.tar")
    lists = [tmp_path / "sharded_manifests/manifest_0.json", tmp_path / "sharded_manifests/manifest_1.json"]
    if layout == "shards":
        lists[0].parent.mkdir()
        for path, own in zip(lists, rows, strict=True):
            path.write_text("\n".join(map(json.dumps, own)))
        sources = [lists[0].parent / "manifest__OP_0..1_CL_.json", tmp_path / "audio_{0..1}.tar"]
    else:
        path = tmp_path / "tarred_audio_manifest.json"
        path.write_text("\n".join(json.dumps(row) for own in rows for row in own))
        sources = [tmp_path] if layout == "folder" else [path, tmp_path / "audio__OP_0..1_CL_.tar"]
    found, problems = indexed(*sources)
    assert problems == []
    assert {u.text: dict(u.wanted).get("source_lang") for u in found if u.wanted} == {"p1": "de"}
    assert sorted(u.text for u in found) == sorted(["0 0", "0 1", "0 2", "1 0", "1 1", "1 2", "p1", "p2"])
    piece = next(u for u in found if u.text == "p2")
    assert SpeechDataset([piece])[0].samples.tolist() == waveform.read(
        waveform.Held(flac(0, 0.4)), offset_seconds=0.2, seconds=0.1
    ).samples.tolist()  # fmt: skip
    content = bytearray((tmp_path / "audio_1.tar").read_bytes())
    content[content.index(b"s1_0.flac") + 3] ^= 1
    (tmp_path / "audio_1.tar").write_bytes(content)
    found, problems = indexed(*sources)
    assert len(found) == 7
    assert any("utterance s1_0: s1_0.flac is not in" in problem for problem in problems)
    assert any("audio_1.tar: damaged header" in problem for problem in problems)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_shar_of_lhotse_is_joined_by_names(tmp_path, suffix):
    said = [{"text": "one", "speaker": "ann"}, {"text": "two"}]
    cuts = [
        {"id": f"c.{i}-0", "start": 3.0, "duration": 0.1, "type": "MonoCut", "supervisions": said} for i in range(4)
    ]
    cuts.append({"id": "m", "type": "MixedCut"})
    content = "\n".join(map(json.dumps, cuts)).encode()
    (tmp_path / f"cuts.000000{suffix}").write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    files = {name: body for i in range(4) for name, body in ((f"c.{i}-0.flac", flac(i)), (f"c.{i}-0.json", b"{}"))}
    whole = tar_of(files, tmp_path / "recording.000000.tar").read_bytes()
    found, problems = indexed(tmp_path)
    assert [(u.id, u.text, u.speaker) for u in found] == [(f"c.{i}-0", "one two", "ann") for i in range(4)]
    assert [u.audio.read() for u in found] == [flac(i) for i in range(4)]
    assert problems == [f"{tmp_path}/cuts.000000{suffix}:5: utterance m: a MixedCut; expected one recording"]
    broken = whole.replace(b"c.1-0.flac", b"c.1-1.flac")
    (tmp_path / "recording.000000.tar").write_bytes(broken)
    found, problems = indexed(tmp_path)
    assert [u.id for u in found] == ["c.0-0", "c.2-0", "c.3-0"]
    assert any("utterance c.1-0: has no recording in" in problem for problem in problems)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_tables_of_hugging_face(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"audio": {"bytes": None if i == 7 else flac(i), "path": f"{i}.flac"}, "text": f"t{i}", "id": f"u{i}",
             "speaker_id": 7} for i in range(8)]  # fmt: skip
    table = pyarrow.Table.from_pylist(rows)
    path = tmp_path / ("x.parquet" if kind == "parquet" else "x.arrow")
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=3)
    else:
        new = pyarrow.ipc.new_file if kind == "arrow" else pyarrow.ipc.new_stream
        with new(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    found, problems = indexed(tmp_path)
    assert [(u.id, u.text, u.speaker) for u in found] == [(f"u{i}", f"t{i}", "7") for i in range(7)]
    assert [u.audio.read() for u in found] == [flac(i) for i in range(7)]
    assert problems == [f"{path}: row 7: utterance u7: has no bytes of audio"]


def test_what_archives_lose_is_named_and_the_rest_stays(tmp_path, monkeypatch):
    members_ = [(f"{i}{suffix}", content) for i in range(4) for suffix, content in ((".flac", flac(i)), (".txt", b"t"))]
    whole = tar_of(dict(members_), tmp_path / "x.tar").read_bytes()
    cases = {
        whole[: whole.index(b"2.flac")]: "cut short, or damaged up to its end",  # between two members
        whole[: whole.index(b"2.flac") + 700]: "cut short, or damaged up to its end",
        whole[: whole.index(b"2.txt") + 512] + b"\xff" + whole[whole.index(b"2.txt") + 513 :]: "byte 0xff is not UTF-8",
    }
    with (tmp_path / "x.tar").open("wb") as file:
        for name, content in (*members_[:4], *members_[2:4]):
            write_member(file, name, content)
        write_end(file)
    cases[(tmp_path / "x.tar").read_bytes()] = "1.txt is in it twice"
    for content, message in cases.items():
        (tmp_path / "x.tar").write_bytes(content)
        stores._opened.cache_clear()
        found, problems = indexed(tmp_path / "x.tar")
        assert len(found) in (2, 3), message
        assert any(message in problem for problem in problems), problems
    monkeypatch.chdir(tmp_path)
    found, _ = indexed("x.tar")
    assert found[0].audio.file == f"{tmp_path}/x.tar"  # also from another folder


def test_braces_mean_what_they_mean_in_bash():
    """`bash -c "echo NAME"`, but for the brackets that stand for braces where a shell would take them."""
    for name, expected in {
        "a_{2..0}.tar": "a_2.tar a_1.tar a_0.tar",
        "a_{08..10}": "a_08 a_09 a_10",
        "a_{0..10}x{a,,b}": " ".join(f"a_{n}x{letter}" for n in range(11) for letter in ("a", "", "b")),
        "{00..100}": " ".join(f"{n:03d}" for n in range(101)),
        "{1..1}": "1",
        "x__OP_3..2_CL_.tar": "x_3.tar x_2.tar",
        "plain": "plain",
    }.items():
        assert foreign.expanded(name) == expected.split(" "), name
    for name, count in (("a_{0..9999999999}.tar", "10,000,000,000"), ("{0..1999}{0..1999}{9..0}", "40,000,000")):
        with pytest.raises(ManifestError, match=f"stands for {count} names; expected at most"):
            foreign.expanded(name)


def test_recordings_of_one_id_in_several_archives_are_told_apart(tmp_path, capsys):
    for name in ("a", "b"):
        tar_of({"same.flac": flac(ord(name)), "same.txt": b"t"}, tmp_path / f"{name}.tar")
    assert main(["index", str(tmp_path / "{a,b}.tar"), "--out", str(tmp_path / "i")]) == 0
    assert [u.id for u in read_manifest(tmp_path / "i").utterances] == ["a/same@512", "b/same@512"]
    assert capsys.readouterr().out.endswith("2 utterances, 0.00 h, 0 problems\n")


def test_archives_of_kaldi(tmp_path):
    wave = io.BytesIO()
    soundfile.write(wave, np.zeros(1600), 16000, format="WAV", subtype="PCM_16")
    (tmp_path / "w.ark").write_bytes(b"u0 " + wave.getvalue() + b"u1 " + wave.getvalue())
    places = [3, 6 + len(wave.getvalue()), 9]
    lines = "".join(f"u{i} {tmp_path}/w.ark:{place}\n" for i, place in enumerate(places))
    (tmp_path / "wav.scp").write_text(lines)
    (tmp_path / "text").write_text("u0 A\nu1 B\nu2 C\n")
    found, problems = indexed(tmp_path / "wav.scp")
    assert [(u.id, u.text, u.seconds) for u in found] == [("u0", "A", 0.1), ("u1", "B", 0.1)]
    assert [u.audio.read() for u in found] == [wave.getvalue()] * 2
    assert "utterance u2: " in problems[0]
    assert "byte 9: expected a WAV file" in problems[0]


def test_an_index_in_place_is_taken_like_a_manifest(tmp_path, capsys):
    tar_of({"a.flac": flac(1), "a.txt": b" hello \n", "b.flac": flac(2)}, tmp_path / "x.tar")
    assert main(["index", str(tmp_path / "x.tar"), "--out", str(tmp_path / "i")]) == 3
    utterances, skipped = read_manifest(tmp_path / "i")
    assert [(u.id, u.text, u.seconds) for u in utterances] == [("a", "hello", 0.1)]
    assert skipped == [f"utterance b: {tmp_path}/x.tar: has neither .json nor .txt"]
    assert skipped[0] in capsys.readouterr().err
    (tmp_path / "i/data.index").write_bytes(b"x")
    with pytest.raises(ManifestError, match="1 bytes; expected an index of utterances; write or index the data anew"):
        read_manifest(tmp_path / "i")
    (tmp_path / "z.tar").write_bytes(gzip.compress((tmp_path / "x.tar").read_bytes()))
    with pytest.raises(ManifestError, match=r"z\.tar: is compressed, so that nothing in it has a place; unpack it"):
        indexed(tmp_path / "z.tar")


class Faulty:
    """A store that fails by schedule: errors, answers that are cut, silence."""

    def __init__(self, content: bytes, faults: list[object]):
        self.content, self.faults = content, faults

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        if fault == "silence":
            time.sleep(3)
        return self.content[start : end - 1 if fault == "cut" else end]


def test_a_store_is_asked_again_and_one_that_stays_silent_ends_the_run(monkeypatch):
    monkeypatch.setattr(stores, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(stores, "PAUSE_SECONDS", 0.001)
    content = flac(1)
    for faults in ([ConnectionResetError("reset")] * 5, ["cut", "silence", OSError("500")], []):
        monkeypatch.setattr(stores, "store_at", lambda *_, faults=faults: Faulty(content, [*faults]))
        store = Faulty(content, [*faults])
        monkeypatch.setattr(stores, "store_at", lambda *_, store=store: store)
        assert Stored("s3://b/x.tar", 0, len(content)).read() == content
    lasting = Faulty(content, ["silence"] * 9)
    monkeypatch.setattr(stores, "store_at", lambda *_: lasting)
    stored = Stored("s3://b/x.tar", 0, len(content))
    monkeypatch.setattr(stores, "TIMEOUT_SECONDS", 0.02)
    with pytest.raises(OutageError, match=r"^s3://b/x\.tar, bytes 0-\d+: no answer in 0\.02 s, 6 times$"):
        stored.read()
    monkeypatch.setattr(stores, "TIMEOUT_SECONDS", 60.0)
    lasting.faults = [OSError("500")] * 9
    dataset = SpeechDataset([Utterance(id="u", audio=stored, seconds=0.1, text="")], on_error="skip")
    assert dataset[0].stops is True
    lasting.faults = [FileNotFoundError("no such key"), "never asked"]
    with pytest.raises(StoreError, match="no such key"):
        stored.read()
    assert lasting.faults == ["never asked"]


@pytest.mark.parametrize("store", [s3, hub])
def test_a_real_store_with_errors_gives_the_same_bytes(manifest, tmp_path, monkeypatch, store):
    write(manifest, tmp_path / "out")
    stores.store_of.cache_clear()
    stores._length.cache_clear()
    monkeypatch.setattr(stores, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(stores, "TIMEOUT_SECONDS", 1.0)
    expected = {f"a/{i}.x": (tmp_path / f"audio/{i}.flac").read_bytes() for i in range(12)}
    with store(monkeypatch, tmp_path / "out") as faults:
        faults.share, faults.seconds, faults.kinds = 0.1, 2.0, (*faults.kinds, "short")
        found, problems = indexed(*(f"{faults.url}/{path.name}" for path in (tmp_path / "out").glob("*.tar")))
        assert problems == []
        assert {u.id: u.audio.read() for u in found} == expected
        assert sum(faults.came[kind] for kind in faults.kinds) > 3
        named = read_manifest(Path(f"{faults.url}/"))  # as a folder, which a path has taken a slash from
        assert {u.id: u.audio.read() for u in named.utterances} == expected
        assert named.utterances.in_store
        found, problems = indexed(f"{faults.url}/")  # all tars of a folder
        assert problems == []
        assert {u.id: u.audio.read() for u in found} == expected
        with pytest.raises(ManifestError, match=r"^\w+://.*/nowhere/data\.index: no such file$"):
            read_manifest(f"{faults.url}/nowhere")
    stores.store_of.cache_clear()


def test_a_hub_is_asked_for_no_more_than_is_read(manifest, tmp_path, monkeypatch):
    write(manifest, tmp_path / "out")
    stores.store_of.cache_clear()
    with hub(monkeypatch, tmp_path / "out") as faults:
        audio = read_manifest(f"{faults.url}/").utterances[3].audio
        faults.asked.clear()
        for _ in range(3):
            audio.read()
        parts = [part for _, part in faults.asked if part]
        assert parts == [f"bytes={audio.start}-{audio.start + audio.size - 1}"] * 3
        assert len(faults.asked) <= 3 + 2  # what it is, once
    stores.store_of.cache_clear()


@pytest.mark.parametrize("way", ["offline", "unreachable"])
def test_a_data_set_of_a_hub_that_was_copied_once_is_read_without_the_hub(tmp_path, way, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    copy = tmp_path / "cache/datasets--me--corpus"
    (copy / "refs").mkdir(parents=True)
    (copy / "refs/main").write_text("0" * 40)
    (copy / "snapshots" / ("0" * 40)).mkdir(parents=True)
    rows = [{"audio": {"bytes": flac(i, 0.3), "path": "x"}, "text": "t", "id": f"u{i}"} for i in range(3)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), copy / "snapshots" / ("0" * 40) / "train.parquet")
    half = tmp_path / "cache/datasets--me--half"  # whose download broke off
    shutil.copytree(copy, half)
    tables = half / "snapshots" / ("0" * 40)
    (tables / "train.parquet").rename(tables / "train-00000-of-00002.parquet")
    settings = {
        "HF_HUB_CACHE": tmp_path / "cache",
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HUB_OFFLINE": way == "offline",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, str(int(value) if value is True or value is False else value))
        monkeypatch.setattr(constants, name.replace("HF_ENDPOINT", "ENDPOINT"), value)  # read where it was imported
    told = {}
    for name, expected in (("me/corpus", 0), ("me/other", 2), ("me/half", 2)):
        ran = fork_module("common.data.shards", "index", name, "--out", tmp_path / "x")
        assert ran.statuses == [expected], ran.said
        told[name] = ran.said
    assert "me/other: no such file, and no data set of the hub: " in told["me/other"]
    broke_off = "me/half: its download broke off: missing are train-00001-of-00002.parquet"
    assert broke_off in told["me/half"]
    assert [u.id for u in read_manifest(tmp_path / "x").utterances] == ["u0", "u1", "u2"]


def test_the_command_says_what_it_can_do():
    said = fork_module("common.data.shards", "mend")
    assert said == ([2], [["error: mend: expected one of write, index, check, repair; see --help"]])
