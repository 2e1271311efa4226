"""Lists of utterances as records: what comes back, what processes share, what is kept, and ten million of them."""

import json
import multiprocessing
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from common.data.batching import bucketed_batches
from common.data.digest import digest
from common.data.lists import keeping
from common.data.lists.index import RECORD, Builder, Index, IndexFileError
from common.data.lists.utterances import Utterances
from common.data.manifest import Utterance, read_manifest, read_sources
from common.files.stores import Stored
from common.recognition.spelled import spelled
from common.text.language import Spelling
from tests.timing import assert_takes_less

names = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=8)
utterances_ = st.builds(
    Utterance,
    id=st.text(max_size=5),
    audio=st.builds(lambda a, b: Path("/") / a / b, names, names)
    | names.map(Path)
    | st.builds(Stored, names, st.integers(0, 2**60), st.integers(0, 2**32 - 1), st.none() | st.integers(0, 2**32 - 1)),
    seconds=st.floats(1e-3, 1e6),
    text=st.text(st.characters(), max_size=9) | st.just("a\0\ud800\udc80\u2028"),
    speaker=st.sampled_from(["", "ann", "bob\0"]),
    offset_seconds=st.none() | st.floats(0, 1e6),
    speeds=st.lists(st.tuples(st.floats(0.5, 2), names.map(Path)), max_size=2).map(tuple),
    word_ends=st.lists(st.floats(0, 10), max_size=3).map(tuple),
    has_text=st.booleans(),
)


@settings(deadline=None)
@given(st.lists(utterances_, max_size=6))
def test_what_was_put_in_comes_out(tmp_path_factory, utterances):
    builder = Builder()
    for utterance in utterances:
        builder.add(utterance)
    path = tmp_path_factory.mktemp("x") / "i.index"
    for found in (Utterances([builder.finish(path, {"a": 1})]), Utterances.of(utterances)):
        assert found == utterances
        assert [u.has_text for u in found] == [u.has_text for u in utterances]
        assert found.seconds.tolist() == [u.seconds for u in utterances]
        assert found.text_bytes.tolist() == [len(u.text.encode(errors="surrogatepass")) for u in utterances]
        speakers = found.speakers()
        assert [speakers.names[n] for n in speakers.numbers] == [u.speaker for u in utterances]
        assert Utterances.joined([found, found[1:], found[:0]]) == utterances + utterances[1:]
        assert pickle.loads(pickle.dumps(found[::-1])) == utterances[::-1]
        twice = np.tile(np.arange(len(found)), 2)
        assert digest(Utterances.joined([found, found]))["hash"] == digest(found[twice])["hash"]
    assert Index(path).about == {"a": 1}


def test_a_file_that_is_cut_or_another_is_no_index(tmp_path):
    builder = Builder()
    builder.add(Utterance(id="a", audio=Path("a"), seconds=1.0, text="x"))
    index = builder.finish(tmp_path / "i")
    opened = pickle.dumps(index)
    content = (tmp_path / "i").read_bytes()
    for cut in (b"", content[:40], content[:-1], b"x" + content):
        (tmp_path / "cut").write_bytes(cut)
        with pytest.raises(IndexFileError, match="cut: "):
            Index(tmp_path / "cut")
    builder = Builder()
    builder.add(Utterance(id="b", audio=Path("a"), seconds=1.0, text="x"))
    builder.finish(tmp_path / "i")
    assert index.key != Index(tmp_path / "i").key
    assert index[0].id == "a"  # what is open stays as it was
    with pytest.raises(IndexFileError, match="was written anew while it was being used"):
        pickle.loads(opened)[0]


def test_ranks_that_write_the_same_list_do_not_disturb_each_other(tmp_path):
    """As on a file system without locks: the second takes the place of the first one's file."""
    opened = []
    for _ in range(2):
        builder = Builder()
        builder.add(Utterance(id="a", audio=Path("a"), seconds=1.0, text="x"))
        opened.append(pickle.dumps(builder.finish(tmp_path / "i", {"files": []})))
    assert [pickle.loads(one)[0].id for one in opened] == ["a", "a"]


@pytest.fixture
def manifest(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(keeping, "LONG_BYTES", 0)
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 16000)
    lines = [{"audio_filepath": "a.wav", "text": f"Öl {i}", "id": str(i), "duration": 0.5 + i} for i in range(9)]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, [*lines, {"audio_filepath": "lost.wav", "text": "x"}])))
    return tmp_path / "m.jsonl"


def test_a_long_list_is_read_once_and_again_when_it_or_the_way_it_is_read_is_another(manifest, monkeypatch):
    first = read_manifest(manifest, on_error="skip")
    assert len(first.utterances) == 9
    assert len(first.skipped) == 1
    parsed = []
    monkeypatch.setattr(
        "common.data.lists.recordings.checked", lambda *_: parsed.append(1) or (_ for _ in ()).throw(OSError)
    )
    again = read_manifest(manifest, on_error="skip")
    assert (again.utterances, again.skipped) == first
    assert digest(again.utterances)["hash"] == digest(first.utterances)["hash"]
    assert not parsed
    for changed in (
        lambda: manifest.write_bytes(manifest.read_bytes()),
        lambda: manifest.rename(manifest.with_name("n")),
    ):
        changed()
        with pytest.raises((OSError, ValueError)):
            read_manifest(manifest, on_error="skip")
    manifest.with_name("n").rename(manifest)
    with pytest.raises(OSError):
        read_manifest(manifest, on_error="skip", root=manifest.parent)


def test_a_lock_of_another_user_does_not_keep_a_list_from_being_read(manifest):
    read_manifest(manifest, on_error="skip")
    (lock,) = manifest.parent.glob(".*.lock")
    lock.unlink()
    lock.mkdir()  # cannot be opened, not even by root
    assert len(read_manifest(manifest, on_error="skip").utterances) == 9


def test_texts_that_were_spelled_once_are_kept_with_the_letters_that_are_no_labels(manifest):
    found = read_sources([str(manifest)], training=True, max_seconds=7.5, on_error="skip").utterances
    for _ in range(2):
        spelling = Spelling("abcdefghijklmnopqrstuvwxyz ", language="none")
        texts = [u.text for u in spelled(found, spelling)]
        assert len(texts) == 8
        assert (texts[0], spelling.unknown["ö"], spelling.texts) == ("öl 0", 8, 8)
    kept = sorted(path.suffix for path in manifest.parent.iterdir() if path.name.startswith("."))
    assert kept == [".index"] * 2 + [".lock"] * 2


TEN_MILLION = 10_000_000


@pytest.fixture(scope="module")
def ten_million(tmp_path_factory) -> Path:
    """An index of ten million utterances, written as arrays: making them one by one takes minutes."""
    path = tmp_path_factory.mktemp("ten") / "ten.index"
    builder = Builder()
    for i in range(2):
        builder.add(Utterance(id=f"utterance {i}", audio=Path(f"/corpus/{i}.flac"), seconds=1.0, text="what was said"))
    small = builder.finish()
    header = bytearray(small.source[:64])
    header[16:24] = TEN_MILLION.to_bytes(8, "little")
    strings = small.source[64 + 2 * (24 + RECORD.itemsize) :]
    with path.open("wb") as file:
        file.write(header)
        np.random.default_rng(0).lognormal(2.3, 0.6, TEN_MILLION).clip(0.3, 16).tofile(file)
        np.zeros((TEN_MILLION, 4), np.uint32).tofile(file)
        for _ in range(TEN_MILLION // 1_000_000):
            small.records[np.arange(1_000_000) % 2].tofile(file)
        file.write(strings)
    return path


def _private_megabytes() -> float:
    """Of this process alone, without pages of files, which belong to the page cache."""
    total, is_of_a_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        fields = line.split()
        if not fields[0].endswith(":"):
            is_of_a_file = fields[4] != "0"
        elif fields[0] == "Private_Dirty:" and not is_of_a_file:
            total += int(fields[1])
    return total / 1024


def _looks_up(utterances: Utterances, results) -> None:
    before = _private_megabytes()
    for row in np.random.default_rng(1).integers(len(utterances), size=50_000).tolist():
        assert utterances[row].text == "what was said"
    results.put(_private_megabytes() - before)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_has_no_objects_of_its_own(ten_million, method):
    context = multiprocessing.get_context(method)
    chosen = Utterances([Index(ten_million)])
    chosen = chosen[np.flatnonzero(chosen.seconds < 15.9)]
    results = context.SimpleQueue()
    process = context.Process(target=_looks_up, args=(chosen, results))
    process.start()
    assert results.get() <= 50
    process.join()


def test_ten_million_are_planned_in_seconds_and_two_hundred_megabytes(ten_million):
    before, kept = _private_megabytes(), []

    def planned() -> None:
        utterances = Utterances([Index(ten_million)])
        batches = bucketed_batches(utterances.seconds, max_seconds=400.0, seed=0, epoch=3, ranks=64, rank=5)
        kept[:] = [utterances, batches, [utterances[i] for i in batches[0]]]

    assert_takes_less(6, planned)  # 3 on an idle machine
    assert kept[-1][0].text == "what was said"
    assert _private_megabytes() - before <= 200


def test_rows_and_records_are_as_the_page_says():
    assert RECORD.itemsize == 80
    one = Utterance(id="a", audio=Path("/x/a.wav"), seconds=1.0, text="")
    assert Utterances.of([one, replace(one, audio=Path("/x/b.wav"))])[-1].audio == Path("/x/b.wav")
    with pytest.raises(IndexError, match="utterance 2 of 2"):
        Utterances.of([one, one])[2]


def test_labels_that_were_counted_are_kept_and_counted_again_where_the_file_is_damaged(monkeypatch, tmp_path):
    monkeypatch.setattr(keeping, "MANY", 1)
    monkeypatch.setattr(keeping, "cache_folder", lambda: tmp_path)
    texts = Utterances.of([Utterance(id=text, audio=Path("a"), seconds=1.0, text=text) for text in ("ab", "", "abc")])
    calls = []

    def encode(text: str) -> list[int]:
        calls.append(text)
        return [0] * len(text)

    for content, expected in ((None, 3), (None, 0), (b"", 3), (b"damaged", 3)):
        if content is not None:
            next(tmp_path.glob("*.labels.npy")).write_bytes(content)
        assert keeping.counted(texts, encode, "letters").tolist() == [2, 0, 3]
        assert len(calls) == expected
        calls.clear()
