"""The record of slow tests names tests that there are, and measuring them writes it."""

import re

from tests import measured
from tests.training import REPOSITORY


def test_every_name_on_record_is_that_of_a_test():
    found = {
        f"{path.relative_to(REPOSITORY).as_posix()}::{name}"
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert measured.on_record() - found == set()


def test_what_takes_long_comes_on_record_and_leaves_it_where_it_takes_less_than_half_as_long(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "FILE", tmp_path / "slow.txt")
    (tmp_path / "slow.txt").write_text("left_out\nno_longer\nstill\n")
    taken = {"no_longer": [0.01, 0.05], "still": [0.07], "new": [0.02, 0.3], "quick": [0.07]}
    monkeypatch.setattr(measured, "TAKEN", taken)
    measured.pytest_sessionfinish()
    assert measured.FILE.read_text() == "left_out\nnew\nstill\n"
