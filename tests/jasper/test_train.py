import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from common import config
from common.data.batching import bucketed_batches
from common.data.loading import loader
from common.data.variation.perturbation import PerturbationConfig
from common.recognition.training import weighted
from common.runs import checkpoint
from jasper.config import Config
from jasper.train import main, update
from jasper.training.run import NAME, Run
from tests.jasper.runs import TOY, WORDS, toy_config, write_corpus
from tests.processes import fork_module, run_module
from tests.training import directory_of, events, logged, on_record, state_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_loss_curve_is_the_one_on_record(corpus, tmp_path):
    main(toy_config(corpus, tmp_path, epochs=4))
    recorded = on_record(Path(__file__).with_name("golden_toy_losses.txt"))
    np.testing.assert_allclose(logged(tmp_path), recorded, rtol=2e-3)


def test_gradients_of_micro_batches_add_up_to_that_of_the_batch(corpus, tmp_path):
    """Batch normalisation sees micro-batches, so each utterance is its own copy: all statistics are the same."""
    cfg = toy_config(corpus, tmp_path / "a", ema=0.0)
    blocks = tuple(replace(block, dropout=0.0) for block in cfg.model.blocks)
    cfg = replace(cfg, model=replace(cfg.model, blocks=blocks))
    updates = []
    for parts in (1, 2, 4):
        with directory_of(replace(cfg, output_dir=tmp_path / str(parts)), NAME) as directory:
            run = Run(replace(cfg, grad_accumulation=parts), directory)
            read = loader(run.train_set, [[0, 0, 0, 0]])
            batch = next(weighted(read, run.train_set, run.frames, has_transducer=False))
            before = [p.detach().clone() for p in run.model.parameters()]
            update(run, batch)
            updates.append([p.detach() - b for p, b in zip(run.model.parameters(), before, strict=True)])
    for other in updates[1:]:
        for whole, parts in zip(updates[0], other, strict=True):
            torch.testing.assert_close(parts, whole, rtol=1e-3, atol=1e-5)


def test_fine_tuning_with_other_labels_keeps_all_layers_that_fit_and_tells_which_did_not(corpus, tmp_path):
    main(toy_config(corpus, tmp_path / "first", steps=1))
    start = checkpoint.saved_steps(tmp_path / "first", "jasper")[0][1]
    cfg = toy_config(corpus, tmp_path / "second", checkpoint=start, steps=1, ema=0.0)
    cfg = replace(cfg, model=replace(cfg.model, labels=" abcdefghijklmnopqrstuvwxyz'é"))
    main(replace(cfg, optim=replace(cfg.optim, lr=0.0), schedule=replace(cfg.schedule, floor=0.0)))
    log = (tmp_path / "second" / "nvlog.json").read_text()
    assert "decoder.weight: (29, 24, 1) in the checkpoint, (30, 24, 1) here, starts anew" in log
    assert "decoder.bias" in log
    assert "blocks" not in "".join(events(tmp_path / "second"))
    before, after = state_of(tmp_path / "first")["ema"], state_of(tmp_path / "second")["weights"]
    kept = [name for name in before if name.startswith("blocks") and name.endswith("conv.weight")]
    assert kept
    assert all(torch.equal(before[name], after[name]) for name in kept)


def test_two_processes_see_the_losses_of_one_with_the_same_global_batch(tmp_path):
    """Batch statistics over all processes, and padding to one length, which is part of those statistics."""
    corpus = write_corpus(tmp_path / "corpus", train=48, validation=13)
    cfg = config.load(Config, TOY)
    blocks = tuple(replace(block, dropout=0.0) for block in cfg.model.blocks)
    no_dropout = tmp_path / "no_dropout.toml"
    no_dropout.write_text(config.to_toml(replace(cfg, model=replace(cfg.model, blocks=blocks))))
    shared = (
        "jasper.train", no_dropout, "--data.root", corpus, "--epochs", 3, "--ema", 0.9, "--data.pad_to_max", "true",
        "--data.max_seconds", 3, "--model.sync_batch_norm", "true",
    )  # fmt: skip
    run_module(*shared, "--batch_size", 16, "--output_dir", tmp_path / "one")
    run_module(*shared, "--batch_size", 8, "--output_dir", tmp_path / "two", processes=2)
    for key in ("train_loss", "dev_loss", "dev_wer", "dev_ema_loss", "dev_ema_wer"):
        assert logged(tmp_path / "two", key) == pytest.approx(logged(tmp_path / "one", key), abs=1e-5, rel=1e-5), key


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_what_only_the_second_process_cannot_read_ends_the_run_or_is_told(tmp_path, on_error):
    """With one utterance per process, it also has to take part in a step for which it has nothing."""
    root = write_corpus(tmp_path / "corpus", train=4)
    cfg = toy_config(root, tmp_path / "look", batch_size=1)
    with directory_of(cfg, NAME) as directory:
        run = Run(cfg, directory)
    batches = bucketed_batches(run.epochs.seconds, batch_size=1, seed=cfg.seed, epoch=0, ranks=2, rank=1)
    bad = run.train_set.utterances[batches[-1][0]]
    bad.audio.write_bytes(bad.audio.read_bytes()[:2000])
    ended = fork_module(
        "jasper.train", TOY, "--data.root", root, "--epochs", 1, "--batch_size", 1, "--data.on_error", on_error,
        "--output_dir", tmp_path / "run", processes=2,
    )  # fmt: skip
    if on_error == "stop":
        assert all(ended.statuses)
        assert ended.said.count(f"error: utterance {bad.id}: ") == 1
    else:
        assert ended.statuses == [0, 0], ended.said
        assert ended.said.count(f"left out: utterance {bad.id}: ") == 1
        assert state_of(tmp_path / "run")["progress"]["step"] == 2


def test_the_learning_rate_of_the_first_step_is_the_warm_up_s_not_the_peak(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path, steps=2)
    main(replace(cfg, schedule=replace(cfg.schedule, warmup=2)))
    rates = logged(tmp_path, "train_lrate")
    assert rates == pytest.approx([cfg.optim.lr * 2 / 7, cfg.optim.lr * 3 / 7])
    assert math.isfinite(logged(tmp_path)[0])


def test_batches_of_so_many_seconds_hold_all_utterances_that_fit(tmp_path):
    root = write_corpus(tmp_path / "corpus", train=12)
    cfg = toy_config(root, tmp_path / "run", epochs=1)
    cfg = replace(cfg, batch_seconds=6.0, data=replace(cfg.data, max_seconds=6.0))
    with pytest.raises(ValueError, match="batch_seconds = 5.0 does not hold an utterance of data.max_seconds = 6.0"):
        replace(cfg, batch_seconds=5.0)
    with directory_of(cfg, NAME) as directory:
        run = Run(cfg, directory)
        batches = run.epochs.batches(0)
        padded = [len(batch) * max(run.epochs.seconds[i] for i in batch) for batch in batches]
    assert sorted(index for batch in batches for index in batch) == list(range(12))
    assert max(padded) <= 6.0
    assert main(cfg).step == len(batches)


def test_what_the_model_writes_is_shown_beside_the_reference(corpus, tmp_path):
    main(toy_config(corpus, tmp_path, epochs=1, prediction_frequency=2))
    told = [event for event in events(tmp_path) if event.startswith(("reference:", "hypothesis:"))]
    assert [line.split(":")[0] for line in told] == ["reference", "hypothesis"]
    assert set(told[0].removeprefix("reference:").split()) <= set(WORDS)


def test_blocks_are_compiled_where_the_configuration_says_so(corpus, tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **options: compiled.append((module, options)))
    main(toy_config(corpus, tmp_path, steps=1, compile=True))
    assert [options for _, options in compiled] == [{"dynamic": True}] * 5


def test_perturbed_utterances_train_and_are_heard_unchanged_in_validation(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path / "a", steps=1)
    perturbed = replace(cfg, data=replace(cfg.data, perturbation=PerturbationConfig(gain_db=6, shift_ms=5)))
    with directory_of(perturbed, NAME) as directory:
        run = Run(perturbed, directory)
        plain = Run(cfg, directory)
        assert not np.array_equal(run.train_set[0].samples, plain.train_set[0].samples)
        np.testing.assert_array_equal(run.validation[0].samples, plain.validation[0].samples)
