"""What a run takes over from its directory, and what it refuses."""

from dataclasses import replace

import pytest
import torch

from common.data.loading import LoadingError
from common.runs import checkpoint
from jasper.config import Config
from jasper.train import main
from tests.jasper.runs import run_of, toy_config, write_corpus
from tests.training import events

CPU = torch.device("cpu")


@pytest.mark.parametrize(("batch_size", "steps"), [(2, 6), (12, 1), (1, 12)])
def test_a_run_that_goes_on_with_other_batches_finishes_the_epoch_at_the_same_part(corpus, tmp_path, batch_size, steps):
    cfg = toy_config(corpus, tmp_path, epochs=1)
    main(replace(cfg, steps=2))
    progress = main(replace(cfg, batch_size=batch_size))
    assert (progress.epoch, progress.batch) == (1, 0)
    assert progress.step == 2 + steps - 2 * steps // 3
    assert any(f"the epoch has {steps} steps, and had 3 when the run was stopped" in e for e in events(tmp_path))


def damage(cfg: Config, index: int) -> str:
    """Cuts the recording of a training utterance short; its name."""
    with run_of(replace(cfg, output_dir=cfg.output_dir / "look")) as run:
        utterance = run.train_set.utterances[index]
    utterance.audio.write_bytes(utterance.audio.read_bytes()[:2000])
    return utterance.id


def test_bad_data_does_not_lose_the_steps_before_it(tmp_path):
    cfg = toy_config(write_corpus(tmp_path / "corpus", train=8), tmp_path / "run")
    with run_of(replace(cfg, output_dir=tmp_path / "look")) as run:
        second = run.epochs.batches(0)[1]
    name = damage(cfg, second[0])
    with pytest.raises(LoadingError, match=name):
        main(cfg)
    assert [step for step, _ in checkpoint.saved_steps(tmp_path / "run", "jasper")] == [1]
    progress = main(replace(cfg, data=replace(cfg.data, on_error="skip")))
    assert (progress.epoch, progress.step) == (2, 4)


def test_a_batch_of_which_nothing_can_be_read_is_left_out_and_named_once(tmp_path):
    cfg = toy_config(write_corpus(tmp_path / "corpus", train=4), tmp_path / "run", batch_size=1)
    cfg = replace(cfg, data=replace(cfg.data, on_error="skip"))
    name = damage(cfg, 1)
    assert main(cfg).step == 8
    told = [event for event in events(tmp_path / "run") if name in event]
    assert len(told) == 1
    assert told[0].startswith(f"left out: utterance {name}: ")
    assert "left out: 1 utterances" in events(tmp_path / "run")


def test_a_data_set_of_which_nothing_can_be_read_is_an_error(tmp_path):
    cfg = toy_config(write_corpus(tmp_path / "corpus", train=1), tmp_path / "run", batch_size=1)
    name = damage(cfg, 0)
    with pytest.raises(LoadingError, match=f"not one utterance can be used: utterance {name}: "):
        main(replace(cfg, data=replace(cfg.data, on_error="skip")))
