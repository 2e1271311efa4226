"""A training from a store that fails in every way it can ends in the weights of one from files, bit by bit."""

from dataclasses import replace

import pytest

from common.data.loading import LoadingError
from common.files import stores
from tests.stores import hub, s3
from tests.test_trainings_from_shards import from_shards
from tests.training import assert_same_state, state_of
from tests.training_commands import COMMANDS

pytestmark = pytest.mark.slow


@pytest.fixture
def quick(monkeypatch):
    """Waits of a minute in a second."""
    monkeypatch.setattr(stores, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(stores, "PAUSE_SECONDS", 0.01)
    yield
    stores.store_of.cache_clear()


@pytest.mark.parametrize(("store", "workers"), [(s3, 0), (s3, 2), (hub, 0), (hub, 2)])
def test_errors_resets_silence_and_answers_cut_short_change_no_weight(monkeypatch, quick, tmp_path, store, workers):
    monkeypatch.setattr(stores, "TRIES", 20)  # in whatever order threads ask, none fails as often
    command = next(command for command in COMMANDS if command.name == "jasper")
    plain = command.config(command.corpus(tmp_path / "corpus"), tmp_path / "plain")
    sharded = from_shards(plain, tmp_path / "shards", tmp_path / "sharded")
    sharded = replace(sharded, data=replace(sharded.data, order="windows"))
    command.module.main(sharded)
    with store(monkeypatch, tmp_path / "shards") as faults:
        named = {part: (f"{faults.url}/{part}/",) for part in ("train", "validation")}
        data = replace(sharded.data, **named, order="auto", workers=workers)
        faults.share, faults.seconds = 0.3, 3.0
        command.module.main(replace(sharded, data=data, output_dir=tmp_path / "store"))
        assert workers or min(faults.came[kind] for kind in faults.kinds) > 0
    assert_same_state(state_of(tmp_path / "sharded"), state_of(tmp_path / "store"))


def test_a_store_that_stays_silent_ends_a_run_with_its_last_step_saved_and_the_run_goes_on(
    monkeypatch, quick, tmp_path
):
    command = next(command for command in COMMANDS if command.name == "jasper")
    plain = command.config(command.corpus(tmp_path / "corpus"), tmp_path / "plain")
    sharded = from_shards(plain, tmp_path / "shards", tmp_path / "sharded")
    command.module.main(sharded)
    with s3(monkeypatch, tmp_path / "shards") as faults:
        named = {part: (f"{faults.url}/{part}",) for part in ("train", "validation")}
        cfg = replace(sharded, data=replace(sharded.data, **named, order="full"), output_dir=tmp_path / "store")
        faults.share, faults.seconds, faults.kinds, faults.after = 1.0, 3.0, ("silence",), 16
        with pytest.raises(LoadingError, match=r"^utterance .*: s3://.*\.tar, bytes .*: no answer in 1 s, 6 times$"):
            command.module.main(cfg)
        assert 0 < state_of(tmp_path / "store")["progress"]["step"] < 6
        faults.share = 0.0
        command.module.main(cfg)
    assert_same_state(state_of(tmp_path / "sharded"), state_of(tmp_path / "store"))
