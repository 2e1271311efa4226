"""A training from a store that fails in every way it can ends in the weights of one from files, bit by bit."""

from dataclasses import replace

import pytest

from common.data.loading import LoadingError
from common.files import stores
from tests.stores import hub, s3
from tests.training import assert_same_state, state_of
from tests.training_commands import COMMANDS, from_shards

pytestmark = pytest.mark.slow
JASPER = next(command for command in COMMANDS if command.name == "jasper")


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    """The configuration of a run from shards in windows, which was made, and their folder."""
    folder = tmp_path_factory.mktemp("sharded")
    plain = JASPER.config(JASPER.corpus(folder / "corpus"), folder / "plain")
    cfg = from_shards(plain, folder / "shards", folder / "run")
    cfg = replace(cfg, data=replace(cfg.data, order="windows"))
    JASPER.module.main(cfg)
    return cfg, folder / "shards"


@pytest.fixture
def quick(monkeypatch):
    """Waits of a minute in a second."""
    monkeypatch.setattr(stores, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(stores, "PAUSE_SECONDS", 0.01)
    yield
    stores.store_of.cache_clear()


@pytest.mark.parametrize(("store", "workers"), [(s3, 0), (s3, 2), (hub, 0), (hub, 2)])
def test_errors_resets_silence_and_answers_cut_short_change_no_weight(
    monkeypatch, quick, sharded, tmp_path, store, workers
):
    monkeypatch.setattr(stores, "TRIES", 20)  # in whatever order threads ask, none fails as often
    cfg, shards = sharded
    with store(monkeypatch, shards) as faults:
        named = {part: (f"{faults.url}/{part}/",) for part in ("train", "validation")}
        faults.share, faults.seconds = 0.3, 3.0
        data = replace(cfg.data, **named, order="auto", workers=workers)
        JASPER.module.main(replace(cfg, data=data, output_dir=tmp_path))
        assert workers or min(faults.came[kind] for kind in faults.kinds) > 0
    assert_same_state(state_of(cfg.output_dir), state_of(tmp_path))


def test_a_store_that_stays_silent_ends_a_run_with_its_last_step_saved_and_the_run_goes_on(
    monkeypatch, quick, sharded, tmp_path
):
    cfg, shards = sharded
    cfg = replace(cfg, data=replace(cfg.data, order="full"), output_dir=tmp_path / "sharded")
    JASPER.module.main(cfg)
    with s3(monkeypatch, shards) as faults:
        named = {part: (f"{faults.url}/{part}",) for part in ("train", "validation")}
        stored = replace(cfg, data=replace(cfg.data, **named), output_dir=tmp_path / "store")
        faults.share, faults.seconds, faults.kinds, faults.after = 1.0, 3.0, ("silence",), 16
        with pytest.raises(LoadingError, match=r"^utterance .*: s3://.*\.tar, bytes .*: no answer in 1 s, 6 times$"):
            JASPER.module.main(stored)
        assert 0 < state_of(tmp_path / "store")["progress"]["step"] < 6
        faults.share = 0.0
        JASPER.module.main(stored)
    assert_same_state(state_of(tmp_path / "sharded"), state_of(tmp_path / "store"))
