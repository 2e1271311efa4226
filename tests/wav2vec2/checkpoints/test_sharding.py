from dataclasses import replace

import pytest
import torch

from common import config
from common.config import ConfigError
from common.devices.distributed import World
from tests.processes import run_module
from tests.training import logged
from tests.wav2vec2.runs import SHAPE, pretrain_config
from tests.wav2vec2.small import ctc_model
from wav2vec2.checkpoints import sharding
from wav2vec2.pretrain import main
from wav2vec2.recognizer import load


@pytest.mark.usefixtures("one_thread")
def test_sharded_weights_learn_what_whole_ones_do_and_the_run_goes_on(corpus, tmp_path):
    cfg = pretrain_config(corpus, tmp_path / "whole", max_updates=3, concat_batches=4, data={"batch_size": 2})
    main(cfg)
    cfg = replace(cfg, output_dir=tmp_path / "parts", concat_batches=1, update_freq=2, fsdp=True)
    (tmp_path / "cfg.toml").write_text(config.to_toml(cfg))
    for stop_at in (2, 3):
        run_module("wav2vec2.pretrain", tmp_path / "cfg.toml", "--stop_at", stop_at, processes=2)
    for key in ("train_loss", "train_grad_norm", "dev_loss"):
        assert logged(tmp_path / "parts", key) == pytest.approx(logged(tmp_path / "whole", key), rel=1e-4), key
    assert load(tmp_path / "parts" / "wav2vec2_step00000003.pt").config == SHAPE


@pytest.mark.usefixtures("one_thread")
def test_sharded_weights_that_are_gathered_in_bf16_stay_float32_and_learn_about_the_same(corpus, tmp_path):
    cfg = pretrain_config(corpus, tmp_path / "whole", max_updates=3, concat_batches=4, data={"batch_size": 2})
    main(cfg)
    parts = replace(cfg, output_dir=tmp_path / "parts", concat_batches=1, update_freq=2, fsdp=True, precision="bf16")
    (tmp_path / "cfg.toml").write_text(config.to_toml(parts))
    run_module("wav2vec2.pretrain", tmp_path / "cfg.toml", processes=2)
    for key in ("train_loss", "dev_loss"):
        assert logged(tmp_path / "parts", key) == pytest.approx(logged(tmp_path / "whole", key), rel=5e-2), key
    weights = torch.load(tmp_path / "parts" / "wav2vec2_step00000003.pt", weights_only=True)["weights"]
    assert {weight.dtype for weight in weights.values() if weight.is_floating_point()} == {torch.float32}


@pytest.mark.parametrize(
    ("precision", "dtypes"),
    [("fp32", (None, None)), ("bf16", (torch.bfloat16, torch.float32)), ("fp16", (None, None))],
)
def test_layers_alone_are_gathered_in_bf16_and_their_gradients_added_in_float32(precision, dtypes, monkeypatch):
    found = {}

    def noted(module, *, mesh, mp_policy=None):
        found[module] = mp_policy

    monkeypatch.setattr("torch.distributed.device_mesh.init_device_mesh", lambda kind, shape: (kind, shape))
    monkeypatch.setattr("torch.distributed.fsdp.fully_shard", noted)
    model = sharding.shard(ctc_model(), World(rank=0, size=2, device=torch.device("cpu")), precision)
    assert found.pop(model) is None
    assert set(found) == set(model.wav2vec2.encoder.layers)
    assert {(policy.param_dtype, policy.reduce_dtype) for policy in found.values()} == {dtypes}
    assert all(policy.cast_forward_inputs == (precision != "bf16") for policy in found.values())


def test_parts_lie_on_the_device_of_the_run_whatever_torch_was_built_for(monkeypatch):
    """Without a mesh FSDP takes the accelerator that torch knows, also in a run on the CPU."""
    meshes = []
    monkeypatch.setattr("torch.distributed.device_mesh.init_device_mesh", lambda kind, shape: (kind, shape))
    monkeypatch.setattr("torch.distributed.fsdp.fully_shard", lambda module, *, mesh, **_: meshes.append(mesh))
    sharding.shard(ctc_model(), World(rank=0, size=2, device=torch.device("cpu")), "fp32")
    assert set(meshes) == {("cpu", (2,))}


def test_sharding_needs_several_processes(corpus, tmp_path):
    with pytest.raises(ConfigError, match="fsdp = true with one process: there is nothing to share"):
        main(pretrain_config(corpus, tmp_path, fsdp=True))
