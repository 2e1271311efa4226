"""Budgets found by real steps, and runs whose memory did not suffice."""

from dataclasses import replace

import pytest
import torch

import fastconformer.train
import jasper.train
from common import config
from common.data.batching import BatchingError
from common.training.state import TrainingError
from tests.fastconformer import runs as fastconformer_runs
from tests.jasper import runs
from tests.training import assert_same_state, events, state_of

MODULES = [(jasper.train, runs.toy_config), (fastconformer.train, fastconformer_runs.toy_config)]


def with_memory(monkeypatch, module, samples: int, *, by=torch.OutOfMemoryError) -> list[tuple[int, ...]]:
    """A device that has memory for batches of so many samples; the shapes that were tried."""
    tried, whole = [], module.update

    def update(run, batch, weights_B):
        tried.append(tuple(batch.audio_BN.shape))
        if batch.audio_BN.numel() > samples:
            raise by("CUDA out of memory. [enforce fail] can't allocate memory")
        return whole(run, batch, weights_B)

    monkeypatch.setattr(module, "update", update)
    return tried


@pytest.mark.parametrize(("module", "toy"), MODULES, ids=["jasper", "fastconformer"])
def test_the_budget_is_what_fits_and_is_stored(monkeypatch, tmp_path, module, toy):
    corpus = runs.write_corpus(tmp_path / "corpus")
    cfg = toy(corpus, tmp_path / "run", batch_size=2)
    cfg = replace(cfg, data=replace(cfg.data, fit=True))
    tried = with_memory(monkeypatch, module, 40 * 16000)
    progress = module.main(cfg)
    stored = config.load(type(cfg), tmp_path / "run" / "config.toml")
    longest = max(shape[1] for shape in tried) / 16000
    assert 0.8 * 0.9 * 40 - longest < stored.batch_seconds <= 0.9 * 40
    assert f"batch_seconds = {stored.batch_seconds:.2f} is used and stored" in " ".join(events(tmp_path / "run"))
    tried.clear()
    given = replace(
        cfg, batch_seconds=stored.batch_seconds, output_dir=tmp_path / "given", data=replace(stored.data, fit=False)
    )
    assert module.main(given).step == progress.step
    assert_same_state(state_of(tmp_path / "run"), state_of(tmp_path / "given"))  # nothing is left of what was tried
    tried.clear()
    module.main(replace(cfg, epochs=cfg.epochs))
    assert not tried  # it goes on with what it has


def test_a_device_without_memory_for_one_utterance_is_told(monkeypatch, tmp_path):
    with_memory(monkeypatch, jasper.train, 10, by=RuntimeError)
    cfg = runs.toy_config(runs.write_corpus(tmp_path / "corpus"), tmp_path / "run")
    with pytest.raises(BatchingError, match=r"not even one utterance of \d+\.\d+ s fits into the memory of cpu: lower"):
        jasper.train.main(replace(cfg, data=replace(cfg.data, fit=True)))


def test_a_step_without_memory_names_its_batch_and_what_to_set(monkeypatch, tmp_path):
    cfg = runs.toy_config(runs.write_corpus(tmp_path / "corpus"), tmp_path / "run")
    calls, whole = [], jasper.train.update

    def update(*given):
        calls.append(1)
        if len(calls) == 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(*given)

    monkeypatch.setattr(jasper.train, "update", update)
    cfg = replace(cfg, every=replace(cfg.every, save_steps=1))
    message = (
        r"^out of memory at step 4, in a batch of \d+ x \d+ samples; utterances 1-2-\d+, .*; batch saved as .*"
        r"bad_batch_rank0\.pt: lower batch_size, which --data\.fit true finds in a new run; "
        r"the last checkpoint is that of step 3$"
    )
    with pytest.raises(TrainingError, match=message):
        jasper.train.main(cfg)
    assert jasper.train.main(cfg).step == 6
