"""Parts of files in stores: asked for together, and kept in blocks."""

import zlib

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from common.files import blocks, stores
from common.files.stores import OutageError, Stored, StoreError

CONTENT = np.random.default_rng(0).bytes(1 << 20)


@pytest.fixture
def asked(monkeypatch) -> list[tuple[int, int]]:
    """A store with one file, and what it is asked for."""
    found = []

    def read_range(file, start, size):
        if file != "s3://b/x.tar":
            raise FileNotFoundError("no such key")
        found.append((start, size))
        return CONTENT[start : start + size]

    monkeypatch.setattr(stores, "read_range", read_range)
    monkeypatch.setattr(stores, "size", lambda file: len(CONTENT))
    monkeypatch.setattr(blocks, "BLOCK", 1 << 16)
    stores._length.cache_clear()
    return found


def part(start: int, size: int, file: str = "s3://b/x.tar") -> Stored:
    return Stored(file, start, size, zlib.crc32(CONTENT[start : start + size]))


def test_neighbours_are_one_request_and_others_are_asked_for_at_once(asked):
    parts = [part(0, 1000), part(1000, 500), part(2000, 10), part(500_000, 10), part(0, 1000), part(900_000, 7)]
    stores.fetch(parts)
    assert sorted(asked) == [(0, 2010), (500_000, 10), (900_000, 7)]
    for one in parts[:4]:
        assert one.read() == CONTENT[one.start : one.start + one.size]
    assert len(asked) == 3
    assert parts[0].read() == CONTENT[:1000]  # what was read is not kept
    assert len(asked) == 4


def test_a_part_that_is_not_there_is_an_error_of_its_own(asked):
    good, lost = part(5, 5), part(0, 5, "s3://b/y.tar")
    stores.fetch([good, lost])
    with pytest.raises(StoreError, match=r"s3://b/y\.tar, bytes 0-5: no such key"):
        lost.read()
    assert good.read() == CONTENT[5:10]


def test_a_store_that_refuses_is_asked_once_and_ends_a_run(asked, monkeypatch):
    def refused(file, start, size):
        asked.append((start, size))
        raise PermissionError("The provided token has expired.")

    monkeypatch.setattr(stores, "read_range", refused)
    with pytest.raises(OutageError, match=r"^s3://b/x\.tar, bytes 5-10: The provided token has expired\.$"):
        part(5, 5).read()
    assert len(asked) == 1


class NoCredentialsError(Exception):
    """As botocore calls it."""


class HTTPError(OSError):
    def __init__(self, status: int):
        super().__init__(f"answer {status}")
        self.response = type("Answer", (), {"status_code": status})


@pytest.mark.parametrize(
    ("error", "times", "kind"),
    [
        (NoCredentialsError("Unable to locate credentials"), 1, OutageError),
        (HTTPError(400), 1, OutageError),
        (HTTPError(401), 1, OutageError),
        (HTTPError(404), 1, StoreError),
        (HTTPError(416), 1, StoreError),
        (HTTPError(408), 6, OutageError),
        (HTTPError(429), 6, OutageError),
        (HTTPError(500), 6, OutageError),
        (ConnectionResetError("reset"), 6, OutageError),
    ],
)
def test_what_asking_again_does_not_mend_is_asked_once(asked, monkeypatch, error, times, kind):
    monkeypatch.setattr(stores, "PAUSE_SECONDS", 0.001)

    def failing(file, start, size):
        asked.append((start, size))
        raise error

    monkeypatch.setattr(stores, "read_range", failing)
    with pytest.raises(StoreError) as caught:
        part(5, 5).read()
    assert len(asked) == times
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"s3://b/x.tar, bytes 5-10: {error}")
    assert "\n" not in str(caught.value)


def test_a_file_that_became_shorter_is_no_outage(monkeypatch):
    store = MemoryFileSystem()
    store.pipe("/b/x.tar", CONTENT[:1000])
    with pytest.raises(
        StoreError, match=r"^memory://b/x\.tar, bytes 900-1100: ends after 1000 bytes; expected 1100"
    ) as e:
        part(900, 200, "memory://b/x.tar").read()
    assert type(e.value) is StoreError
    store.rm("/b/x.tar")


@pytest.mark.parametrize("size", ["many", "-1", "nan"])
def test_a_size_of_kept_blocks_that_is_none_is_told_at_the_first_block(asked, monkeypatch, tmp_path, size):
    monkeypatch.setenv("STORE_CACHE", str(tmp_path))
    monkeypatch.setenv("STORE_CACHE_GB", size)
    stores.fetch([part(5, 5)])
    with pytest.raises(OutageError, match=f"^STORE_CACHE_GB = {size}: expected a number of gigabytes$"):
        part(5, 5).read()


def test_a_folder_for_blocks_that_cannot_be_written_to_ends_a_run_and_is_named(asked, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("STORE_CACHE", str(tmp_path / "file"))
    stores.fetch([part(5, 5)])
    with pytest.raises(OutageError, match=r"^STORE_CACHE: .*/file/.*: Not a directory; name a folder that can be"):
        part(5, 5).read()


def test_blocks_are_asked_for_once_and_the_oldest_go(asked, monkeypatch, tmp_path):
    monkeypatch.setenv("STORE_CACHE", str(tmp_path))
    monkeypatch.setattr(blocks, "_LOOKS", 1)
    parts = [part(start, 3000) for start in range(0, len(CONTENT) - 3000, 70_000)]
    for _ in range(2):
        for one in parts:
            stores.fetch([one])
            assert one.read() == CONTENT[one.start : one.start + one.size]
    whole = [(start // 65536 * 65536, 65536) for start, _, _ in (one[1:] for one in parts)]
    across = [one for one in parts if one.start // 65536 != (one.start + one.size - 1) // 65536]
    assert len(asked) == len(set(whole)) - len(across) + 2 * len(across)
    monkeypatch.setenv("STORE_CACHE_GB", "0.0003")
    asked.clear()
    (next(tmp_path.glob("*/00000000"))).unlink()
    stores.fetch([parts[0]])
    kept = [path for path in tmp_path.glob("*/*") if path.suffix != ".lock"]
    assert len(kept) <= 4
    assert parts[0].read() == CONTENT[:3000]
    damaged = next(path for path in kept if path.name == "00000000")
    for content in (bytes(65536), CONTENT[:100]):
        damaged.write_bytes(content)
        asked.clear()
        for _ in range(3):
            stores.fetch([parts[0]])
            assert parts[0].read() == CONTENT[:3000]  # from the store, for its checksum is another
        assert asked == [(0, 3000), (0, 65536)]  # and once for a block that is whole again
