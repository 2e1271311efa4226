"""Damage of every format, before it is indexed and after: it costs its own utterances, which are named."""

import gzip
import io
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile

from common.data.lists.index import IndexFileError
from common.data.lists.utterances import Utterances
from common.data.loading import Failure, LoadingError, SpeechDataset, loader
from common.data.manifest import Utterance, read_manifest
from common.data.shards import writing
from common.files import columns, stores
from common.files.gzipped import gunzipped
from tests.common.data.test_shards import flac, indexed, tar_of

COUNT, VICTIM = 12, 5


class Corpus(NamedTuple):
    """The same utterances in some format."""

    sources: list[Path]
    file: Path
    """Which is damaged."""
    header: int
    """A byte of the header of the VICTIM's."""


def content(number: int) -> bytes:
    return flac(number, 0.3)


def webdataset(folder: Path) -> Corpus:
    files = {f"u{i}{end}": body for i in range(COUNT) for end, body in ((".flac", content(i)), (".txt", b"t"))}
    tar = tar_of(files, folder / "x.tar")
    return Corpus([tar], tar, tar.read_bytes().index(b"u5.flac") + 3)


def nemo(folder: Path) -> Corpus:
    tar = tar_of({f"u{i}.flac": content(i) for i in range(COUNT)}, folder / "audio_0.tar")
    rows = [{"audio_filepath": f"u{i}.flac", "duration": 0.3, "text": "t"} for i in range(COUNT)]
    (folder / "m.json").write_text("\n".join(map(json.dumps, rows)))
    return Corpus([folder / "m.json", tar], tar, tar.read_bytes().index(b"u5.flac") + 3)


def shar(folder: Path) -> Corpus:
    tar = tar_of({f"u{i}.flac": content(i) for i in range(COUNT)}, folder / "recording.000000.tar")
    (folder / "cuts.000000.jsonl").write_bytes(cuts(COUNT))
    return Corpus([folder], tar, tar.read_bytes().index(b"u5.flac") + 3)


def cuts(count: int) -> bytes:
    rows = [{"id": f"u{i}", "duration": 0.3, "supervisions": [{"text": f"{i} {i * i}"}]} for i in range(count)]
    return "\n".join(map(json.dumps, rows)).encode()


def table(folder: Path, kind: str) -> Corpus:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"audio": {"bytes": content(i), "path": "x"}, "text": "t", "id": f"u{i}"} for i in range(COUNT)]
    found = pyarrow.Table.from_pylist(rows)
    path = folder / ("x.arrow" if kind in ("arrow", "stream") else "x.parquet")
    if kind == "plain":  # as it comes by default
        parquet.write_table(found, path, row_group_size=4)
        header = 0
    elif kind == "parquet":
        parquet.write_table(
            found, path, row_group_size=4, data_page_size=1, write_batch_size=1, use_dictionary=False,
            compression="none", write_page_checksum=True,
        )  # fmt: skip
        header = path.read_bytes().index(content(VICTIM)) - 10
    else:
        new = pyarrow.ipc.new_file if kind == "arrow" else pyarrow.ipc.new_stream
        with new(str(path), found.schema) as writer:
            writer.write_table(found, max_chunksize=4)
        before = path.read_bytes()
        end = before.index(content(3)) + len(content(3))
        header = before.index(b"\xff\xff\xff\xff", end) + 9
    return Corpus([path], path, header)


def kaldi(folder: Path) -> Corpus:
    places, archive = [], io.BytesIO()
    for i in range(COUNT):
        archive.write(f"u{i} ".encode())
        places.append(archive.tell())
        samples = soundfile.read(io.BytesIO(content(i)))[0]
        file = io.BytesIO()
        soundfile.write(file, samples, 16000, format="WAV")
        archive.write(file.getvalue())
    (folder / "w.ark").write_bytes(archive.getvalue())
    (folder / "wav.scp").write_text("".join(f"u{i} {folder}/w.ark:{place}\n" for i, place in enumerate(places)))
    (folder / "text").write_text("".join(f"u{i} t\n" for i in range(COUNT)))
    return Corpus([folder / "wav.scp"], folder / "w.ark", places[VICTIM] + 1)


FORMATS: dict[str, Callable[[Path], Corpus]] = {
    "webdataset": webdataset,
    "nemo": nemo,
    "shar": shar,
    "kaldi": kaldi,
    "parquet": lambda folder: table(folder, "parquet"),
    "arrow": lambda folder: table(folder, "arrow"),
    "stream": lambda folder: table(folder, "stream"),
}
AFTER = list(range(VICTIM, COUNT))
LOST = {  # header before indexing, after; record; truncation before, after
    "webdataset": ([5], [], [5], AFTER, AFTER),
    "nemo": ([5], [], [5], AFTER, AFTER),
    "shar": ([5], [], [5], AFTER, AFTER),
    "kaldi": ([5], [5], [5], AFTER, AFTER),
    "parquet": ([5, 6, 7], [5, 6, 7], [5, 6, 7], list(range(COUNT)), list(range(COUNT))),  # its pages have checksums
    "arrow": ([4, 5, 6, 7], [], [5], AFTER[:0] + list(range(4, COUNT)), AFTER),
    "stream": ([4, 5, 6, 7], [], [5], AFTER[:0] + list(range(4, COUNT)), AFTER),
}
NO_NAMES = {("webdataset", "truncation"), ("parquet", "truncation"),
            *((kind, damage) for kind in ("arrow", "stream") for damage in ("header", "truncation"))}  # fmt: skip


def damaged(corpus: Corpus, damage: str) -> None:
    before = corpus.file.read_bytes()
    start = before.index(content(VICTIM)) if corpus.file.suffix != ".ark" else corpus.header + 60
    after = bytearray(before)
    if damage == "truncation":
        after = after[: start + 1000]
    elif damage == "header":
        after[corpus.header] ^= 0xFF
    else:
        after[start + 1000 : start + 1020] = bytes(20)
    corpus.file.write_bytes(after)
    stores._opened.cache_clear()
    columns._group.cache_clear()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("damage", ["header", "record", "truncation"])
@pytest.mark.parametrize("format", FORMATS)
def test_damage_costs_its_own_utterances_and_each_is_named(tmp_path, format, damage, when):
    corpus = FORMATS[format](tmp_path)
    whole, problems = indexed(*corpus.sources)
    assert problems == []
    samples = {
        u.id: item.samples for u, item in zip(whole, map(SpeechDataset(whole).__getitem__, range(COUNT)), strict=True)
    }
    before_h, after_h, record, before_t, after_t = LOST[format]
    is_before = when == "before"
    lost = {"header": before_h if is_before else after_h, "record": record,
            "truncation": before_t if is_before else after_t}[damage]  # fmt: skip
    damaged(corpus, damage)
    found = whole
    if is_before and len(lost) < COUNT:
        found, problems = indexed(*corpus.sources)
    results = [SpeechDataset(found)[i] for i in range(len(found))]
    messages = problems + [result.message for result in results if isinstance(result, Failure)]
    heard = {result.id: result.samples for result in results if not isinstance(result, Failure)}
    is_silent = format == "kaldi" and damage == "record" and is_before  # other samples, which nothing tells
    assert set(samples) - set(heard) == ({f"u{i}" for i in lost} if not is_silent else set())
    assert all(np.array_equal(heard[id], samples[id]) for id in heard if not is_silent or id != f"u{VICTIM}")
    if is_before and (format, damage) in NO_NAMES:
        assert not lost or any(str(corpus.file) in message for message in messages)
        return
    named = {id for id in samples if any(f"utterance {id}: " in message for message in messages)}
    assert named == set(samples) - set(heard)


def test_one_file_that_nothing_can_be_read_from_leaves_the_others(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        table(tmp_path / name, "parquet")
    broken = tmp_path / "b/x.parquet"
    broken.write_bytes(broken.read_bytes()[:-20])
    found, problems = indexed(tmp_path)
    assert len(found) == 2 * COUNT
    assert len(problems) == 1
    assert problems[0].startswith(f"{broken}: cannot be read: ")


@pytest.mark.parametrize("seeds", [range(40)])
@pytest.mark.parametrize("kind", ["parquet", "plain", "arrow", "stream"])
def test_random_damage_of_tables_ends_no_reader_and_changes_no_other_utterance(tmp_path, kind, seeds):
    corpus = table(tmp_path, kind)
    good = corpus.file.read_bytes()
    for seed in seeds:
        damage_at_random(corpus, good, seed)


def damage_at_random(corpus: Corpus, good: bytes, seed: int) -> None:
    whole = bytearray(good)
    draw = random.Random(seed)
    places = draw.choice((1, 3))
    for _ in range(places):
        place, size = draw.randrange(len(whole) - 8), draw.choice((1, 8))
        whole[place : place + size] = draw.randbytes(size)
    corpus.file.write_bytes(whole)
    columns._group.cache_clear()
    try:
        rows = [row for row in columns.rows(corpus.file) if not isinstance(row, str)]
    except columns.ColumnsError:
        return
    known = {content(i) for i in range(COUNT)}
    assert sum(row.content not in known for row in rows) <= 4 * places  # some, or those of a group


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_text_that_is_no_utf_8_costs_its_own_row_of_parquet(tmp_path, dictionary):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"audio": {"path": f"path {i}", "bytes": content(i)}, "text": f"text {i}", "id": f"u{i}"} for i in range(COUNT)
    ]
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, compression="none", use_dictionary=dictionary,
                        write_statistics=False)  # fmt: skip
    good = path.read_bytes()
    for spoiled, lost in ((b"text 5", {"u5"}), (b"path 5", set())):
        at = good.index(spoiled)
        path.write_bytes(good[:at] + b"\xff" + good[at + 1 :])
        columns._group.cache_clear()
        found, problems = indexed(path)
        assert {u.id: u.audio.read() for u in found} == {
            f"u{i}": content(i) for i in range(COUNT) if f"u{i}" not in lost
        }
        assert len(problems) == len(lost)
        assert all(problem.startswith(f"{path}: row 5: ") and "damaged: " in problem for problem in problems)


def test_a_damaged_list_loses_its_own_lines_and_each_is_named(tmp_path):
    lines = cuts(200)
    tar_of({f"u{i}.flac": content(1) for i in range(200)}, tmp_path / "recording.000000.tar")
    split = lines.split(b"\n")
    members = [gzip.compress(b"".join(line + b"\n" for line in split[at : at + 20])) for at in range(0, 200, 20)]
    packed = gzip.compress(lines)
    broken = members[3][:90] + bytes(8) + members[3][98:]
    for name, content_, lost, message in (
        ("cuts.000000.jsonl", lines.replace(b'"7 49"', b'"\xff"'), range(7, 8), "cuts.000000.jsonl:8: not JSON"),
        ("cuts.000000.jsonl.gz", b"".join(members), range(0), ""),  # as whoever appends to a list makes it
        ("cuts.000000.jsonl.gz", packed[:-40], range(180, 200), "damaged (cut short): what begins at line"),
        ("cuts.000000.jsonl.gz", packed[:-60] + b"\xff" * 20 + packed[-40:], range(180, 200), "damaged (Error -"),
        ("cuts.000000.jsonl.gz", b"".join([*members[:3], broken, *members[4:]]), range(60, 80), "damaged (Error -"),
        *(
            (
                "cuts.000000.jsonl.gz",
                b"".join([*members[:3], spoiled(members[3], at), *members[4:]]),
                range(60, 80),
                "(Err",
            )
            for at in (0, 2)
        ),
        ("cuts.000000.jsonl.gz", b"".join([*members[:9], members[9][:9]]), range(180, 200), "(cut short): what"),
        ("cuts.000000.jsonl.gz", b"".join([*members[:9], members[9][:100]]), range(180, 200), "(cut short): what"),
    ):
        for path in tmp_path.glob("cuts.*"):
            path.unlink()
        (tmp_path / name).write_bytes(content_)
        found, problems = indexed(tmp_path)
        heard = {u.id: u.text for u in found}
        assert {f"u{i}" for i in range(200) if i not in lost} <= set(heard), name
        assert all(heard[id] == f"{id[1:]} {int(id[1:]) ** 2}" for id in heard)
        named = {f"u{i}" for i in range(200) if any(f"utterance u{i}: its line in" in p for p in problems)}
        assert named == {f"u{i}" for i in range(200)} - set(heard)
        assert len(named) > 0 or not lost
        assert message in (problems or [""])[0]


def spoiled(member: bytes, at: int) -> bytes:
    return member[:at] + bytes([member[at] ^ 0xFF]) + member[at + 1 :]


@pytest.mark.parametrize("place", [0, 2, 3, -1])
def test_no_member_of_gzip_is_lost_without_a_word(place):
    first, second, third = map(gzip.compress, (b"one", b"two", b"three"))
    if place < 0:
        assert list(gunzipped(first + second[:9])) == [b"one", "cut short"]
        return
    found = list(gunzipped(first + spoiled(second, place) + third))
    assert (found[0], found[-1]) == (b"one", b"three")
    assert [type(part) for part in found[1:-1]] == [str]


def test_what_gzip_packed_is_read_as_gzip_reads_it():
    parts = [random.Random(i).randbytes(200_000) for i in range(3)]
    packed = b"".join(map(gzip.compress, parts))
    assert b"".join(gunzipped(packed + bytes(100))) == gzip.decompress(packed + bytes(100)) == b"".join(parts)
    assert next(gunzipped(b"no gzip at all")).startswith("Error -3")
    assert list(gunzipped(b"")) == []


def test_a_damaged_shard_or_index_of_ours_loses_its_own(tmp_path):
    utterances = [Utterance(id=f"u{i}", audio=tmp_path / f"{i}.flac", seconds=0.3, text=f"t{i}") for i in range(COUNT)]
    for i in range(COUNT):
        (tmp_path / f"{i}.flac").write_bytes(content(i))
    writing.write(Utterances.of(utterances), tmp_path / "out")
    tar = tmp_path / "out/shard-00000.tar"
    whole = tar.read_bytes()
    places = {u.id: u.audio.start for u in read_manifest(tmp_path / "out").utterances}
    for damage in ("record", "truncation"):
        start = places[f"u{VICTIM}"]
        tar.write_bytes(whole[: start + 900] if damage == "truncation" else
                        whole[: start + 900] + bytes(9) + whole[start + 909 :])  # fmt: skip
        stores._opened.cache_clear()
        found = SpeechDataset(read_manifest(tmp_path / "out").utterances)
        results = {f"u{i}": found[i] for i in range(COUNT)}
        lost = {id for id, result in results.items() if isinstance(result, Failure)}
        assert lost == ({id for id in places if places[id] >= start} if damage == "truncation" else {f"u{VICTIM}"})
        assert all(results[id].message.startswith(f"utterance {id}: ") for id in lost)
    tar.write_bytes(whole)
    stores._opened.cache_clear()
    index = tmp_path / "out/data.index"
    good = index.read_bytes()
    at = good.index(b"u5t5")
    index.write_bytes(good[:at] + b"\xff" + good[at + 1 :])
    found = read_manifest(tmp_path / "out").utterances
    assert [found[i].id for i in (4, 6)] == ["u4", "u6"]
    message = f"{index}: damaged: number 5 in it; write or index the data anew"
    with pytest.raises(IndexFileError, match=re.escape(message)):
        found[VICTIM]
    for workers in (0, 1):
        dataset = SpeechDataset(found, on_error="skip")
        batches = list(loader(dataset, [[4, 5, 6]], workers=workers))
        assert [batch.ids for batch in batches] == [["u4", "u6"]]
        assert dataset.skipped == {VICTIM: message}
        with pytest.raises(LoadingError, match=re.escape(message)):
            list(loader(SpeechDataset(found), [[4, 5, 6]], workers=workers))
