"""What people train: the recipes in their true shapes, batches by seconds, new heads, frozen encoders, adapters."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fastconformer
from common import config
from common.runs import checkpoint
from common.training.schedule import build_schedule
from fastconformer.config import Config
from fastconformer.network.model import Model
from fastconformer.train import main
from tests.fastconformer.runs import TOY, toy_config
from tests.scripts.calls import Folder
from tests.training import events

pytestmark = pytest.mark.usefixtures("one_thread")
RECIPES = {"medium": 31e6, "large": 115e6}
ATTENTION = {"medium": 31e6, "large": 183e6}


@pytest.fixture(scope="module")
def start(corpus, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    main(toy_config(corpus, folder, steps=2))
    return checkpoint.step_path(folder, "fastconformer", 2)


@pytest.mark.parametrize("size", RECIPES)
def test_recipes_have_the_published_shapes(size):
    cfg = config.load(Config, TOY.with_name(f"librispeech_{size}.toml"))
    with torch.device("meta"):
        model = Model(cfg.model, cfg.features.mel_bins)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(RECIPES[size], rel=0.06)
    assert (cfg.schedule.kind, cfg.schedule.width, cfg.loss.ctc_weight) == ("noam", cfg.model.encoder.width, 0.3)


@pytest.mark.parametrize("size", ATTENTION)
def test_recipes_with_an_attention_decoder_have_its_published_shape_and_schedule(size):
    cfg = config.load(Config, TOY.with_name(f"librispeech_{size}_attention.toml"))
    with torch.device("meta"):
        model = Model(cfg.model, cfg.features.mel_bins)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(ATTENTION[size], rel=0.02)
    assert (cfg.features.mel_bins, cfg.loss.ctc_weight, cfg.loss.clip) == (128, 0.3, 0.0)
    rate = build_schedule(cfg.schedule, lr=cfg.optim.lr, steps_per_epoch=1200, total_steps=100_000)
    assert rate(2499) == pytest.approx(3e-4)
    assert rate(9999) == pytest.approx(1.5e-4)


@pytest.mark.parametrize("size", [*RECIPES, *(f"{size}_attention" for size in ATTENTION)])
def test_a_step_of_the_true_encoder(corpus, tmp_path, size):
    cfg = config.load(Config, TOY.with_name(f"librispeech_{size}.toml"))
    toy = toy_config(corpus, tmp_path)
    model = replace(cfg.model, pieces=34 if cfg.model.attention.layers else toy.model.pieces)
    features = replace(cfg.features, sample_rate=toy.features.sample_rate, highest_hz=toy.features.highest_hz)
    data = replace(toy.data, max_seconds=3.0)
    main(replace(cfg, data=data, model=model, features=features, batch_seconds=3.0, precision="fp32", ema=0.0,
                 output_dir=tmp_path, dry_run=True))  # fmt: skip
    assert any("the longest batch fits" in line for line in events(tmp_path))
    assert not list(tmp_path.glob("*.pt"))


def test_the_script_names_heads_that_there_are():
    ran = Folder("fastconformer").call("librispeech_960h", sys.executable, HEADS="aed")
    assert ran.returncode == 2
    assert ran.stderr.endswith("error: HEADS is aed; expected tdt_ctc, rnnt_ctc, tdt, rnnt or ctc\n")


def test_an_encoder_gets_new_heads_for_new_pieces(corpus, start, tmp_path):
    cfg = toy_config(corpus, tmp_path, checkpoint=start, from_checkpoint="encoder", steps=1, learns="heads")
    cfg = replace(cfg, model=replace(cfg.model, pieces=19, encoder=replace(cfg.model.encoder, width=32)))
    main(cfg)
    ours, theirs = (fastconformer.load(p, device="cpu").model for p in
                    (checkpoint.step_path(tmp_path, "fastconformer", 1), start))  # fmt: skip
    assert ours.cfg.pieces == 19
    before, after = theirs.encoder.state_dict(), ours.encoder.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)  # running statistics too
    main(replace(cfg, steps=2))
    assert any("resumed at step 1" in line for line in events(tmp_path))


def test_adapters_learn_alone_and_start_as_nothing(corpus, start, tmp_path):
    cfg = toy_config(corpus, tmp_path, checkpoint=start, steps=2, ema=0.0)
    with pytest.raises(ValueError, match="learns = adapters: the encoder has none; expected model.encoder.adapter_"):
        replace(cfg, learns="adapters")
    encoder = replace(cfg.model.encoder, adapter_width=4)
    cfg = replace(cfg, model=replace(cfg.model, encoder=encoder), learns="adapters")
    main(cfg)
    saved = checkpoint.step_path(tmp_path, "fastconformer", 2)
    ours, theirs = (fastconformer.load(path, device="cpu").model.state_dict() for path in (saved, start))
    adapters = ours.keys() - theirs.keys()
    assert adapters
    assert all(".adapter." in name for name in adapters)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert any(ours[name].abs().max() > 0 for name in adapters if "leave" in name)
