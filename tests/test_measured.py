"""The record of slow tests names tests that there are, and measuring them writes it."""

import re

from tests import measured
from tests.training import REPOSITORY


def test_every_name_on_record_is_that_of_a_test():
    for name in measured.on_record():
        file, _, function = name.partition("::")
        assert re.search(rf"\b{function}\b", (REPOSITORY / file).read_text(encoding="utf-8")), name


def test_what_takes_long_comes_on_record_and_leaves_it_where_it_takes_less_than_half_as_long(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "FILE", tmp_path / "slow.txt")
    (tmp_path / "slow.txt").write_text("a::left_out\na::no_longer\na::still\n")
    taken = {"a::no_longer": [0.01, 0.05], "a::still": [0.07], "a::new": [0.02, 0.3], "a::quick": [0.07]}
    monkeypatch.setattr(measured, "TAKEN", taken)
    measured.pytest_sessionfinish()
    assert measured.FILE.read_text() == "a::left_out\na::new\na::still\n"
