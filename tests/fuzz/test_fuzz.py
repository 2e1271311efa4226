"""Some mutations for every reader; `python -m tests.fuzz --seconds 3600` reads more."""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.mutator import mutated
from tests.fuzz.readers import READERS, Reader
from tests.fuzz.runner import file_of, fuzz, outcome

MOST = 1000 if os.environ.get("NIGHTLY") else 150


@pytest.mark.parametrize("name", READERS)
def test_what_comes_in_is_read_or_refused(name):
    found = fuzz(name, seed=0, seconds=6 * MOST / 150, most=MOST, least=30)
    assert not found.findings, "\n".join(f"{f.what} of mutation {f.number}\n{f.told}" for f in found.findings[:3])
    assert found.counts["read"] + found.counts["refused"] > 20
    assert found.counts["refused"] > 0


@pytest.mark.parametrize("name", READERS)
def test_every_seed_is_read(name, tmp_path: Path):
    reader = READERS[name]()
    if name == "configurations":
        (tmp_path / "base.toml").write_text("steps = 1")
    if name == "manifests":
        for recording in ("one", "two", "three", "a"):
            (tmp_path / f"{recording}.wav").touch()
    for number, (suffix, content) in enumerate(reader.seeds):
        path = tmp_path / f"{number}{suffix}"
        path.write_bytes(content)
        what, told = outcome(reader, path)
        assert what == "read" or name in ("loss", "decoding", "containers", "answers"), told


def test_mutations_are_a_function_of_seed_and_number():
    reader = READERS["arpa"]()
    assert file_of(reader, 1, 5) == file_of(reader, 1, 5) != file_of(reader, 1, 6)
    assert mutated(b"", random.Random(0)) == mutated(b"", random.Random(0))


def _reader(read) -> Reader:
    return Reader([("", b"text")], read, (ValueError,))


def test_tracebacks_memory_hangs_and_crashes_are_found(monkeypatch):
    def fails(path: Path) -> None:
        raise KeyError("unforeseen")

    def loops(path: Path) -> None:
        while True:
            pass

    def grows(path: Path) -> None:
        bytearray(1 << 33)

    def dies(path: Path) -> None:
        import os

        os.kill(os.getpid(), 9)

    monkeypatch.setattr("tests.fuzz.runner.SECONDS_EACH", 1)
    for read, what in ((fails, "traceback"), (loops, "hang"), (grows, "memory"), (dies, "crash")):
        monkeypatch.setitem(READERS, "broken", lambda read=read: _reader(read))
        found = fuzz("broken", seed=0, seconds=60, most=2)
        assert found.counts == Counter({what: 2})
        assert [finding.number for finding in found.findings] == [0, 1]
