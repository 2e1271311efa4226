"""Budgets found by real steps, and runs whose memory did not suffice."""

from dataclasses import replace

import pytest
import torch

import fastconformer.train
import fastpitch.train
import jasper.train
import wav2vec2.finetune
import wav2vec2.pretrain
from common import config
from common.data.batching import BatchingError
from common.training.state import TrainingError
from tests.fastconformer import runs as fastconformer_runs
from tests.fastpitch import runs as fastpitch_runs
from tests.jasper import runs
from tests.training import assert_same_state, events, state_of
from tests.wav2vec2 import runs as wav2vec2_runs

MODULES = {
    "jasper": (jasper.train, runs.write_corpus, runs.toy_config),
    "fastconformer": (fastconformer.train, runs.write_corpus, fastconformer_runs.toy_config),
    "fastpitch": (fastpitch.train, fastpitch_runs.write_corpus, fastpitch_runs.toy_config),
    "finetune": (wav2vec2.finetune, wav2vec2_runs.write_corpus, wav2vec2_runs.finetune_config),
    "pretrain": (wav2vec2.pretrain, wav2vec2_runs.write_corpus, wav2vec2_runs.pretrain_config),
}


def with_memory(monkeypatch, module, samples: int, *, by=torch.OutOfMemoryError) -> list[tuple[int, ...]]:
    """A device that has memory for batches of so many samples; the shapes that were tried."""
    tried, whole = [], module.update

    def update(run, batch):
        first = batch[0] if isinstance(batch, list) else batch
        audio_BN = getattr(first, "audio", first).audio_BN  # of some with weights
        if not audio_BN.numel():  # frames in place of samples, which are kept in memory
            audio_BN = torch.zeros(len(batch.ids), int(batch.frames_B.max()) * run.cfg.features.hop_samples)
        tried.append(tuple(audio_BN.shape))
        if audio_BN.numel() > samples:
            raise by("CUDA out of memory. [enforce fail] can't allocate memory")
        return whole(run, batch)

    monkeypatch.setattr(module, "update", update)
    return tried


@pytest.mark.parametrize("name", MODULES)
def test_the_budget_is_what_fits_and_is_stored(monkeypatch, tmp_path, name):
    module, write_corpus, toy = MODULES[name]
    rate = 8000 if name == "fastpitch" else 16000
    cfg = toy(write_corpus(tmp_path / "corpus"), tmp_path / "run")
    if hasattr(cfg, "batch_size"):
        cfg = replace(cfg, batch_size=2)
    cfg = replace(cfg, data=replace(cfg.data, fit=True))
    tried = with_memory(monkeypatch, module, 40 * rate if hasattr(cfg, "batch_size") else 8 * rate)
    progress = module.main(cfg)
    stored = config.load(type(cfg), tmp_path / "run" / "config.toml")
    longest = max(shape[1] for shape in tried) / rate
    if hasattr(cfg, "batch_size"):
        name, told = "batch_seconds", f"{stored.batch_seconds:.2f}"
        assert 0.8 * 0.9 * 40 - longest < stored.batch_seconds <= 0.9 * 40
        same = {"batch_seconds": stored.batch_seconds}
    else:
        name, told = "data.max_tokens", str(stored.data.max_tokens)
        total = stored.data.max_tokens * stored.concat_batches / rate
        assert 0.8 * 0.9 * 8 - longest < total <= 8
        assert stored.data.batch_size == 0
        same = {}
    assert f"{name} = {told} is used and stored" in " ".join(events(tmp_path / "run"))
    tried.clear()
    given = replace(cfg, output_dir=tmp_path / "given", data=replace(stored.data, fit=False), **same)
    assert module.main(given).step == progress.step
    assert_same_state(state_of(tmp_path / "run"), state_of(tmp_path / "given"))  # nothing is left of what was tried
    tried.clear()
    module.main(cfg)
    assert not tried  # it goes on with what it has


def test_what_is_tried_of_a_fine_tuning_has_gradients_and_a_run_keeps_its_own(monkeypatch, tmp_path):
    """An encoder that is frozen at first needs little memory until it is not."""
    module, write_corpus, toy = MODULES["finetune"]
    cfg = toy(write_corpus(tmp_path / "corpus"), tmp_path / "run", freeze_updates=3, data={"fit": True})
    tried, whole = [], module.update

    def update(run, batches):
        tried.append(sum(parameter.requires_grad for parameter in run.model.parameters()))
        return whole(run, batches)

    monkeypatch.setattr(module, "update", update)
    monkeypatch.setattr("common.training.fitting.MOST_SECONDS", 3.0)
    module.main(replace(cfg, stop_at=2))
    assert tried[-1] == 2 < tried[0] == tried[-3]
    before = config.load(type(cfg), tmp_path / "run" / "config.toml").data.max_tokens
    monkeypatch.setattr("common.training.fitting.MOST_SECONDS", 30.0)
    module.main(cfg)
    after = config.load(type(cfg), tmp_path / "run" / "config.toml")
    assert (after.data.max_tokens, after.freeze_updates) == (before, 3)
    with pytest.raises(ValueError, match="data.fit with fsdp: what one process has memory for alone is less"):
        replace(cfg, fsdp=True, ema=0.0)


def test_a_budget_in_samples_holds_the_longest_utterance_whatever_its_length():
    cfg = wav2vec2_runs.finetune_config(None, None)
    short = [n for n in range(16_000, 20_000) if cfg.budgeted(n / 16_000).data.max_tokens != n // cfg.concat_batches]
    assert short == []


def test_a_rate_that_depends_on_the_clips_of_a_step_goes_with_no_seconds(tmp_path):
    cfg = fastpitch_runs.toy_config(tmp_path, tmp_path / "run")
    with pytest.raises(ValueError, match="lr_made_for = 8: expected 0 beside data.fit, whose clips vary"):
        replace(cfg, lr_made_for=8, data=replace(cfg.data, fit=True))


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
