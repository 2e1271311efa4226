from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from common import config
from common.config import ConfigError
from common.data.batching import BatchingError
from common.devices.distributed import World
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.training.state import TrainingError
from tests.data import shared
from tests.processes import run_module
from tests.training import logged, on_record
from tests.wav2vec2.runs import CONFIGS, finetune_config, pretrain_config, run_of
from wav2vec2 import finetune, pretrain
from wav2vec2.contrastive.masking import MaskConfig
from wav2vec2.corpus.batches import Plan, SubBatch, loader
from wav2vec2.losses import pretraining_loss
from wav2vec2.pretrain import evaluate, main, update
from wav2vec2.run_config import PretrainConfig

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_toy_goes_through_real_speech(tmp_path):
    folder = str(shared("data/librispeech-untranscribed-mini/LibriSpeech"))
    cfg = config.load(PretrainConfig, CONFIGS / "toy_pretrain.toml")
    cfg = replace(
        cfg,
        output_dir=tmp_path,
        stop_at=2,
        every=replace(cfg.every, log_steps=1),
        data=replace(cfg.data, train=(folder,)),
    )
    assert main(cfg).step == 2
    assert all(4 < loss < 6 for loss in logged(tmp_path, "train_contrastive"))  # chance is ln 101


def test_two_processes_learn_what_one_does_from_twice_the_batch(corpus, tmp_path):
    cfg = pretrain_config(corpus, tmp_path / "one", max_updates=3, concat_batches=4, data={"batch_size": 2})
    main(cfg)
    cfg = replace(cfg, output_dir=tmp_path / "two", concat_batches=2, batches_per_update=4)
    (tmp_path / "cfg.toml").write_text(config.to_toml(cfg))
    run_module("wav2vec2.pretrain", tmp_path / "cfg.toml", processes=2)
    for key in ("train_loss", "train_code_perplexity", "train_grad_norm", "dev_loss", "dev_accuracy"):
        assert logged(tmp_path / "two", key) == pytest.approx(logged(tmp_path / "one", key), rel=1e-4), key


def test_the_loss_curve_is_the_one_on_record(corpus, tmp_path):
    main(pretrain_config(corpus, tmp_path, max_updates=12, data={"validation": ()}))
    recorded = on_record(Path(__file__).with_name("golden_toy_losses.txt"))
    np.testing.assert_allclose(logged(tmp_path), recorded, rtol=2e-3)


def test_the_batch_of_a_loss_that_is_not_finite_is_saved(corpus, tmp_path, monkeypatch):
    cfg = pretrain_config(corpus, tmp_path)

    def broken(run, batches):
        with torch.no_grad():
            run.model.get_parameter("project_context.bias").fill_(torch.nan)
        return update(run, batches)

    monkeypatch.setattr(pretrain, "update", broken)
    with pytest.raises(TrainingError, match=r"the loss is nan.* at step 0; utterances train-.*bad_batch_rank0\.pt"):
        main(cfg)
    saved = checkpoint.load(tmp_path / "bad_batch_rank0.pt")
    assert saved["batches"][0]["ids"] == saved["ids"]
    assert checkpoint.saved_steps(tmp_path, "wav2vec2") == []


def test_gradients_that_overflow_at_any_scale_end_the_run(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "common.training.learner.grad_scaler",
        lambda *_: torch.amp.GradScaler("cpu", init_scale=1e-5, growth_interval=1000),
    )
    message = "gradients overflow in fp16 at update 1 even with a loss scale of 1e-05: lower the learning rate, or"
    with pytest.raises(TrainingError, match=message):
        main(pretrain_config(corpus, tmp_path, precision="fp16"))


def test_nothing_is_saved_in_a_measurement(corpus, tmp_path):
    main(pretrain_config(corpus, tmp_path, save=False, max_updates=2))
    assert list(tmp_path.glob("*.pt")) == []


def test_gradients_are_clipped_in_every_precision(corpus, tmp_path):
    for precision in ("fp32", "bf16", "fp16"):
        cfg = pretrain_config(corpus, tmp_path / precision, precision=precision, clip_norm=1e-3, max_updates=1)
        with run_of(cfg) as run:
            run.learner.scaler = torch.amp.GradScaler("cpu", init_scale=128, enabled=precision == "fp16")
            seen = []
            run.learner.optimizer.register_step_pre_hook(
                lambda optimizer, *_, seen=seen: seen.extend(p.grad.norm() for p in optimizer.param_groups[0]["params"])
            )
            update(run, [next(iter(loader(run.train_set, run.plans(0))))])
        assert torch.stack(seen).norm() == pytest.approx(1e-3, rel=1e-2)


def test_an_update_of_the_wrong_size_names_the_numbers_that_fit(corpus, tmp_path):
    cfg = pretrain_config(corpus, tmp_path, batches_per_update=8, concat_batches=3)
    with pytest.raises(ConfigError) as error:
        main(cfg)
    assert str(error.value) == (
        "an update would see 1 processes (NUM_GPUS) x 3 concat_batches (NUM_CONCAT_BATCHES) x 1 update_freq "
        "(UPDATE_FREQ) = 3 sub-batches; the recipe is tuned to 8: concat_batches x update_freq may be 1 x 8, 2 x 4, "
        "4 x 2, 8 x 1; or set batches_per_update = 0 and tune the learning rate yourself"
    )
    with pytest.raises(ConfigError, match="take a number of processes out of 1, 2, 4, 8; or"):
        cfg.check_batches(3)
    replace(cfg, concat_batches=2, update_freq=2).check_batches(2)


def test_too_little_data_for_an_update_is_told(corpus, tmp_path):
    cfg = pretrain_config(corpus, tmp_path, concat_batches=64)
    with pytest.raises(
        BatchingError, match=r"16 utterances make \d+ sub-batches of up to 32000 samples, and an update"
    ):
        main(cfg)


def test_a_model_for_recognition_is_neither_a_start_of_pre_training_nor_a_run_of_it(corpus, tmp_path):
    finetune.main(finetune_config(corpus, tmp_path, max_updates=1, data={"validation": ()}))
    cfg = pretrain_config(corpus, tmp_path)
    with pytest.raises(CheckpointError, match="its checkpoints are not of pre-training; take another --output_dir"):
        main(cfg)
    (_, start), *_ = checkpoint.saved_steps(tmp_path, "wav2vec2")
    with pytest.raises(CheckpointError, match="expected a pre-trained model with its quantiser; found Wav2Vec2ForCTC"):
        main(replace(cfg, checkpoint=start, output_dir=tmp_path / "new"))


def test_a_validation_is_over_all_masked_frames_and_without_dropout(corpus, tmp_path, monkeypatch):
    cfg = pretrain_config(
        corpus, tmp_path, learning={"dropout": 0.5, "feature_dropout": 0.5}, data={"max_tokens_valid": 40000}
    )
    world, seen = World(rank=0, size=1, device=torch.device("cpu")), []
    noted = lambda *given, **options: seen.append(pretraining_loss(*given, **options)) or seen[-1]  # noqa: E731
    monkeypatch.setattr(pretrain, "pretraining_loss", noted)
    with run_of(cfg) as run:
        values = [evaluate(cfg, run.model.train(), run.validation, world) for _ in range(2)]
    assert values[0] == values[1]
    batches = seen[: len(seen) // 2]
    assert len(batches) > 1
    frames = sum(found.frames for found in batches)
    for key in ("contrastive", "diversity", "penalty"):
        assert values[0][key] == pytest.approx(sum(getattr(found, key).item() for found in batches) / frames), key
    assert values[0]["accuracy"] == pytest.approx(sum(found.correct.item() for found in batches) / frames)


def test_the_quantiser_is_as_warm_as_the_update_says(corpus, tmp_path):
    cfg, seen = pretrain_config(corpus, tmp_path), []
    with run_of(cfg) as run:
        batch = run.train_set[Plan(0, [SubBatch(0, [0, 1])])]

        def network(*arguments, **options):
            seen.append(options["temperature"])
            return run.model(*arguments, **options)

        for number in (0, 100):
            pretraining_loss(cfg, network, batch, update=number, seed=0)
    assert seen == [cfg.temperature.start, cfg.temperature.start * cfg.temperature.decay**100]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"save_best_from": 7}, "save_best_from = 7 is beyond the last of 6 updates: the run would end without a best"),
        ({"stop_at": -1}, "stop_at = -1: expected a number of at least 0"),
        ({"ema": 0.9, "fsdp": True}, "ema with fsdp"),
        ({"data": {"max_samples": 64000}}, "max_samples = 64000 does not fit into max_tokens = 32000"),
        (
            {"data": {"max_tokens": 0, "max_samples": 0}},
            "= 0: expected a number above 0",
        ),
        ({"data": {"workers": -1}}, "workers = -1: expected a number of at least 0"),
        ({"seed": -1}, "seed = -1: expected a number of at least 0"),
        ({"keep_steps": (-1,)}, r"keep_steps = \(-1,\): expected no negative number"),
        ({"clip_norm": float("nan")}, "clip_norm = nan: expected a number of at least 0"),
        (
            {"data": {"max_samples": 300}},
            r"data.max_samples = 300: expected at least the \d+ samples of 3 frames",
        ),
        (
            {"data": {"max_tokens": 300, "max_samples": 0}},
            r"data.max_tokens = 300: expected at least the \d+ samples of 3 frames",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        pretrain_config(tmp_path, tmp_path, **changes)


@pytest.mark.parametrize(
    ("name", "updates", "sub_batches", "layers"), [("base", 400_000, 64, 12), ("large", 800_000, 128, 24)]
)
def test_the_published_recipes_have_their_numbers(name, updates, sub_batches, layers):
    cfg = config.load(PretrainConfig, CONFIGS / f"pretrain_{name}.toml")
    assert (cfg.max_updates, cfg.batches_per_update, cfg.model.layers) == (updates, sub_batches, layers)
    assert cfg.mask == MaskConfig(time_prob=0.65, time_length=10)
    assert (cfg.optim.betas, cfg.optim.eps, cfg.optim.weight_decay, cfg.clip_norm) == ((0.9, 0.98), 1e-6, 0.01, 25.0)
    assert (cfg.schedule.kind, cfg.schedule.warmup, cfg.schedule.power) == ("polynomial", 32_000, 1.0)
    cfg.check_batches(8)
