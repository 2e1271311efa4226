"""One streaming model that learns several lookaheads."""

from dataclasses import replace

import pytest

import fastconformer.train
from common.config import ConfigError
from common.training.course import EveryConfig
from fastconformer.train import update as made
from tests.fastconformer.runs import toy_config
from tests.jasper.runs import write_corpus


def test_each_step_draws_a_lookahead_and_the_model_is_heard_with_any_of_them(tmp_path, monkeypatch):
    cfg = toy_config(write_corpus(tmp_path / "corpus"), tmp_path / "run", epochs=4)
    encoder = replace(cfg.model.encoder, attention="chunked", left_frames=4, right_frames=3)
    cfg = replace(
        cfg, model=replace(cfg.model, encoder=encoder), lookaheads=(0, 1, 3), every=EveryConfig(save_epochs=4)
    )
    seen = []

    def update(run, *batch):
        hook = run.model.encoder.register_forward_pre_hook(lambda encoder, _: seen.append(encoder.cfg.right_frames))
        step = made(run, *batch)
        hook.remove()
        assert run.model.encoder.cfg == encoder  # for a validation
        return step

    monkeypatch.setattr(fastconformer.train, "update", update)
    fastconformer.train.main(cfg)
    assert set(seen) == {0, 1, 3}
    path = next((tmp_path / "run").glob("*_step*.pt"))
    assert fastconformer.load(path).lookaheads == (3, 1, 0)
    assert fastconformer.load(path, lookahead=1).model.encoder.cfg.right_frames == 1
    seen.clear()  # a run that starts from it needs to be told nothing of its encoder
    other = toy_config(tmp_path / "corpus", tmp_path / "other", epochs=2, checkpoint=path)
    with pytest.raises(ConfigError, match=r"lookaheads = \(0, 1\): expected model.encoder.right_frames = 3 among them"):
        fastconformer.train.main(replace(other, lookaheads=(0, 1)))
    fastconformer.train.main(replace(other, lookaheads=(3, 0)))
    assert set(seen) == {0, 3}


def test_lookaheads_that_cannot_be_learned_are_refused(tmp_path):
    cfg = toy_config(tmp_path, tmp_path)
    with pytest.raises(ValueError, match="expected numbers from 0, and attention = chunked"):
        replace(cfg, lookaheads=(0, 1))
    encoder = replace(cfg.model.encoder, attention="chunked", left_frames=4, right_frames=2)
    with pytest.raises(ValueError, match=r"lookaheads = \(0, 1\): expected model.encoder.right_frames = 2 among them"):
        replace(cfg, model=replace(cfg.model, encoder=encoder), lookaheads=(0, 1))
