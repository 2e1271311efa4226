import json
import math
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from common import audio, checkpoint, config
from common.data.batching import bucketed_batches
from common.data.loading import LoadingError, loader
from common.data.manifest import ManifestError
from common.features import SpecAugmentConfig
from jasper.config import Config
from jasper.train import Trainer, TrainingError, main
from tests.jasper.runs import TOY, toy_config, write_corpus
from tests.training import (
    alone,
    assert_all_finite,
    assert_same_state,
    events,
    finish,
    logged,
    on_record,
    run_module,
    state_of,
    terminate_while_training,
)

pytestmark = pytest.mark.usefixtures("one_thread")

AUGMENTED = SpecAugmentConfig(freq_masks=1, max_freq=8, time_masks=1, max_time=10)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def test_a_run_directory_describes_itself(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path)
    progress = main(cfg)
    assert (progress.epoch, progress.step) == (2, 6)
    assert config.load(Config, tmp_path / "config.toml") == cfg
    assert {"torch", "device", "commit", "processes"} <= set(json.loads((tmp_path / "environment.json").read_text()))
    assert len(logged(tmp_path)) == 6
    assert len(logged(tmp_path, "dev_wer")) == len(logged(tmp_path, "dev_ema_wer")) == 2
    state = state_of(tmp_path)
    assert config.build(Config, state["config"], "checkpoint") == cfg
    assert {"weights", "ema", "optimizer", "scaler", "progress"} <= set(state)


@pytest.mark.parametrize("stop_at", [1, 2, 3, 4, 5])
def test_stopping_at_any_step_and_resuming_gives_bitwise_the_weights_of_never_stopping(corpus, tmp_path, stop_at):
    cfg = toy_config(corpus, tmp_path / "whole", spec_augment=AUGMENTED)
    cfg = replace(cfg, data=replace(cfg.data, speed=replace(cfg.data.speed, mode="continuous")))
    main(cfg)
    stopped = replace(cfg, output_dir=tmp_path / "stopped")
    assert main(replace(stopped, steps=stop_at)).step == stop_at
    main(stopped)
    assert_same_state(state_of(tmp_path / "whole"), state_of(tmp_path / "stopped"))


def test_the_loss_curve_is_the_one_on_record(corpus, tmp_path):
    main(toy_config(corpus, tmp_path, epochs=4))
    recorded = on_record(Path(__file__).with_name("golden_toy_losses.txt"))
    np.testing.assert_allclose(logged(tmp_path), recorded, rtol=2e-3)


def test_throughput_is_that_of_all_steps_and_of_them_alone(corpus, tmp_path, monkeypatch):
    update, validate = Trainer.update, Trainer._validate
    monkeypatch.setattr(Trainer, "update", lambda *given: time.sleep(0.2) or update(*given))
    monkeypatch.setattr(Trainer, "_validate", lambda *given: time.sleep(5) or validate(*given))
    main(toy_config(corpus, tmp_path, epochs=1, log_every=3, evaluate_every=2))
    (took,), (throughput,) = logged(tmp_path, "train_took"), logged(tmp_path, "train_throughput")
    assert 0.6 < took < 5
    assert throughput * took == pytest.approx(12)


def test_gradients_of_micro_batches_add_up_to_that_of_the_batch(corpus, tmp_path):
    """Batch normalisation sees micro-batches, so each utterance is its own copy: all statistics are the same."""
    cfg = toy_config(corpus, tmp_path / "a", ema=0.0)
    blocks = tuple(replace(block, dropout=0.0) for block in cfg.model.blocks)
    cfg = replace(cfg, model=replace(cfg.model, blocks=blocks), features=replace(cfg.features, dither=0.0))
    updates = []
    for parts in (1, 2, 4):
        with alone(tmp_path / str(parts)) as (world, log):
            trainer = Trainer(replace(cfg, grad_accumulation=parts), world, log)
            batch = next(iter(loader(trainer.train_set, [[0, 0, 0, 0]])))
            before = [p.detach().clone() for p in trainer.model.parameters()]
            trainer.update(batch)
            updates.append([p.detach() - b for p, b in zip(trainer.model.parameters(), before, strict=True)])
    for update in updates[1:]:
        for whole, parts in zip(updates[0], update, strict=True):
            torch.testing.assert_close(parts, whole, rtol=1e-3, atol=1e-5)


def test_a_loss_that_is_not_finite_stops_the_run_before_anything_is_saved(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path, save_every_steps=1, epochs=50)
    cfg = replace(cfg, optim=replace(cfg.optim, lr=1e30), schedule=replace(cfg.schedule, kind="constant", hold=0))
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf) at step \d+; utterances 1-2-\d{4}.*batch saved as"):
        main(cfg)
    assert checkpoint.load(tmp_path / "bad_batch_rank0.pt")["ids"]
    assert_all_finite(tmp_path, "jasper")


def test_a_transcript_longer_than_its_frames_names_the_utterance_or_is_skipped(tmp_path):
    root = write_corpus(tmp_path / "corpus", train=8)
    audio.write(root / "train-clean" / "1" / "2" / "1-2-0009.flac", 0.1 * np.ones(3200, np.float32), 16000)
    with (root / "train-clean" / "1" / "2" / "1-2.trans.txt").open("a") as file:
        file.write("1-2-0009 FAR TOO MANY WORDS FOR A FIFTH OF A SECOND\n")
    cfg = toy_config(root, tmp_path / "run", batch_size=3)
    with pytest.raises(
        TrainingError, match="utterance 1-2-0009: 42 labels do not fit into 10 output frames of .*1-2-0009"
    ):
        main(cfg)
    cfg = replace(cfg, data=replace(cfg.data, on_error="skip"), output_dir=tmp_path / "skipping")
    assert main(cfg).unfit == 2
    assert (
        "1 unfit" in (tmp_path / "skipping" / "nvlog.json").read_text()
        or "2 unfit" in (tmp_path / "skipping" / "nvlog.json").read_text()
    )


def test_a_damaged_recording_names_the_utterance_or_is_skipped(tmp_path):
    root = write_corpus(tmp_path / "corpus", train=8)
    path = root / "train-clean" / "1" / "2" / "1-2-0003.flac"
    path.write_bytes(path.read_bytes()[:2000])
    cfg = toy_config(root, tmp_path / "run")
    with pytest.raises((LoadingError, ManifestError), match="1-2-0003"):
        main(cfg)
    assert main(replace(cfg, data=replace(cfg.data, on_error="skip"), output_dir=tmp_path / "skipping")).step > 0


def test_no_data_is_an_error_that_says_what_to_name(tmp_path):
    cfg = toy_config(tmp_path, tmp_path / "run")
    cfg = replace(cfg, data=replace(cfg.data, train=()))
    with pytest.raises(
        ManifestError, match="no utterance to train on: none is named; name manifests with --data.train"
    ):
        main(cfg)


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


def test_the_longest_batch_can_be_tried_first(corpus, tmp_path, capsys):
    assert main(toy_config(corpus, tmp_path, dry_run=True)).step == 0
    assert "the longest batch fits: (4, " in capsys.readouterr().out
    assert checkpoint.saved_steps(tmp_path, "jasper") == []


def test_milestones_the_last_two_and_the_best_are_kept(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path, epochs=5, keep_epochs=(2,))
    main(cfg)
    assert [step for step, _ in checkpoint.saved_steps(tmp_path, "jasper")] == [6, 12, 15]
    best = checkpoint.load(tmp_path / "jasper_best.pt")
    assert best["progress"]["best_wer"] == min(logged(tmp_path, "dev_ema_wer"))


def test_sigterm_saves_and_resuming_gives_bitwise_the_weights_of_never_stopping(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path / "whole", epochs=12)
    main(cfg)
    flags = ("--data.root", corpus, "--epochs", 12, "--output_dir", tmp_path / "stopped")
    terminate_while_training(run_module("jasper.train", TOY, *flags))
    assert 0 < state_of(tmp_path / "stopped")["progress"]["step"] < 36
    main(replace(cfg, output_dir=tmp_path / "stopped"))
    assert_same_state(state_of(tmp_path / "whole"), state_of(tmp_path / "stopped"))


def test_sigkill_at_random_moments_leaves_a_run_that_resumes_to_the_same_weights(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path / "whole", epochs=30, save_every_steps=1)
    cfg = replace(cfg, data=replace(cfg.data, validation=()))
    main(cfg)
    cfg = replace(cfg, output_dir=tmp_path / "killed")
    random = np.random.default_rng(0)
    kills = 0
    while kills < 20:
        pid = os.fork()
        if pid == 0:
            torch.set_num_threads(1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            main(cfg)
            os._exit(0)
        time.sleep(random.uniform(0.1, 0.3))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        kills += 1
        checkpoint.load_newest(tmp_path / "killed", "jasper")
    main(cfg)
    assert_same_state(state_of(tmp_path / "whole"), state_of(tmp_path / "killed"))


def test_two_processes_see_the_losses_of_one_with_the_same_global_batch(tmp_path):
    """Batch statistics over all processes, and padding to one length, which is part of those statistics."""
    corpus = write_corpus(tmp_path / "corpus", train=48, validation=13)
    cfg = config.load(Config, TOY)
    blocks = tuple(replace(block, dropout=0.0) for block in cfg.model.blocks)
    no_dropout = tmp_path / "no_dropout.toml"
    no_dropout.write_text(config.to_toml(replace(cfg, model=replace(cfg.model, blocks=blocks))))
    shared = (
        "jasper.train", no_dropout, "--data.root", corpus, "--epochs", 3, "--ema", 0.9, "--data.pad_to_max", "true",
        "--data.max_seconds", 3, "--model.sync_batch_norm", "true", "--features.dither", 0,
    )  # fmt: skip
    one = run_module(*shared, "--batch_size", 16, "--output_dir", tmp_path / "one")
    two = run_module(*shared, "--batch_size", 8, "--output_dir", tmp_path / "two", processes=2)
    finish(one)
    finish(two)
    for key in ("train_loss", "dev_loss", "dev_wer", "dev_ema_loss", "dev_ema_wer"):
        assert logged(tmp_path / "two", key) == pytest.approx(logged(tmp_path / "one", key), abs=1e-5, rel=1e-5), key


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_what_only_the_second_process_cannot_read_ends_the_run_or_is_told(tmp_path, on_error):
    """With one utterance per process, it also has to take part in a step for which it has nothing."""
    root = write_corpus(tmp_path / "corpus", train=4)
    cfg = toy_config(root, tmp_path / "look", batch_size=1)
    with alone(cfg.output_dir) as (world, log):
        trainer = Trainer(cfg, world, log)
    batches = bucketed_batches(trainer.seconds, batch_size=1, seed=cfg.seed, epoch=0, ranks=2, rank=1)
    bad = trainer.train_set.utterances[batches[-1][0]]
    bad.audio.write_bytes(bad.audio.read_bytes()[:2000])
    process = run_module(
        "jasper.train", TOY, "--data.root", root, "--epochs", 1, "--batch_size", 1, "--data.on_error", on_error,
        "--output_dir", tmp_path / "run", processes=2,
    )  # fmt: skip
    if on_error == "stop":
        said, _ = process.communicate(timeout=120)
        assert process.returncode != 0
        assert said.count(f"error: utterance {bad.id}: ") == 1
    else:
        said = finish(process)
        assert said.count(f"left out: utterance {bad.id}: ") == 1
        assert state_of(tmp_path / "run")["progress"]["step"] == 2


def test_the_learning_rate_of_the_first_step_is_the_warm_up_s_not_the_peak(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path, steps=2)
    main(replace(cfg, schedule=replace(cfg.schedule, warmup=2)))
    rates = logged(tmp_path, "train_lrate")
    assert rates == pytest.approx([cfg.optim.lr * 1 / 7, cfg.optim.lr * 2 / 7])
    assert math.isfinite(logged(tmp_path)[0])
