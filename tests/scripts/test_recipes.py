"""What published commands mean: the batch of an update, the learning rate, the optimiser; not the flags in between."""

from typing import Any

import pytest

from common import config
from fastpitch.acoustic.config import Config as FastPitchConfig
from fastpitch.vocoders.config import HifiganRun
from jasper.config import Config as JasperConfig
from tests.scripts.test_jasper_inference import python
from tests.scripts.test_vocoder_train import call
from wav2vec2.run_config import FinetuneConfig, PretrainConfig

__all__ = ["python"]

CONFIGS: dict[str, Any] = {
    "jasper.train": JasperConfig,
    "fastpitch.train": FastPitchConfig,
    "fastpitch.vocoders.train": HifiganRun,
    "wav2vec2.pretrain": PretrainConfig,
    "wav2vec2.finetune": FinetuneConfig,
}
QUARTZNET = "configs/quartznet15x5_speedp-online-1.15_speca.yaml"


def meant(python, script: str, **variables: str) -> tuple[Any, int]:
    """The configuration that a script's command resolves to, and its number of processes."""
    done = call(f"../{script}", python, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    words = done.stdout.splitlines()
    processes = int(words[words.index("--nproc_per_node") + 1]) if "--nproc_per_node" in words else 1
    module = words[-words[::-1].index("-m") :]
    return config.command_line(CONFIGS[module[0]], module[1:], description=""), processes


@pytest.mark.parametrize(
    ("script", "variables", "batch", "accumulation", "lr"),
    [
        ("jasper/train.sh", {"NUM_GPUS": "8", "BATCH_SIZE": "64", "GRAD_ACCUMULATION_STEPS": "2"}, 512, 2, 0.01),
        ("jasper/train.sh", {"NUM_GPUS": "8", "LEARNING_RATE": "0.015"}, 512, 2, 0.015),
        (
            "jasper/train.sh",
            {"NUM_GPUS": "8", "GPU_BATCH_SIZE": "72", "GRAD_ACCUMULATION": "2", "MODEL_CONFIG": QUARTZNET},
            1152,
            2,
            0.01,
        ),
        ("jasper/train.sh", {"NUM_GPUS": "8", "GPU_BATCH_SIZE": "72", "MODEL_CONFIG": QUARTZNET}, 1152, 2, 0.01),
        ("jasper/train.sh", {"NUM_GPUS": "8", "MODEL_CONFIG": QUARTZNET}, 1152, 2, 0.01),
        (
            "jasper/train.sh",
            {"NUM_GPUS": "1", "GPU_BATCH_SIZE": "72", "GRAD_ACCUMULATION": "16", "MODEL_CONFIG": QUARTZNET},
            1152,
            16,
            0.01,
        ),
        ("fastpitch/train.sh", {"NUM_GPUS": "8", "BATCH_SIZE": "16", "GRAD_ACCUMULATION": "2"}, 256, 2, 0.1),
        ("fastpitch/hifigan_train.sh", {"NUM_GPUS": "8", "BATCH_SIZE": "16"}, 128, 1, 0.0003),
        ("fastpitch/hifigan_train.sh", {"NUM_GPUS": "4", "BATCH_SIZE": "16", "GRAD_ACCUMULATION": "2"}, 128, 2, 0.0003),
    ],
)  # fmt: skip
def test_a_step_learns_from_as_many_utterances_as_published(python, script, variables, batch, accumulation, lr):
    cfg, processes = meant(python, script, **variables)
    assert (cfg.batch_size * processes, cfg.grad_accumulation, cfg.optim.lr) == (batch, accumulation, lr)


@pytest.mark.parametrize(
    ("script", "sub_batches", "lr"),
    [
        ("pretrain_base.sh", 64, 0.0005),
        ("pretrain_large.sh", 128, 0.005),
        ("finetune_base_960h.sh", 8, 1e-4),
        ("finetune_base_100h.sh", 8, 3e-5),
        ("finetune_base_10h.sh", 8, 5e-5),
        ("finetune_base_1h.sh", 8, 5e-5),
        ("finetune_vox_960h.sh", 24, 3e-5),
    ],
)
def test_an_update_of_wav2vec2_has_its_published_number_of_sub_batches(python, script, sub_batches, lr):
    cfg, processes = meant(python, f"wav2vec2/{script}", NUM_GPUS="8", NNODES="1")
    assert (cfg.batches_per_update, cfg.optim.lr) == (sub_batches, lr)
    cfg.check_batches(processes)


@pytest.mark.parametrize(
    ("name", "kind", "betas"),
    [
        ("fused_novograd", "novograd", None),
        ("novograd", "novograd", None),
        ("adamw", "adamw", None),
        ("lamb98", "lamb", (0.9, 0.98)),
    ],
)
def test_the_optimiser_is_known_by_its_published_names(python, name, kind, betas):
    cfg, _ = meant(python, "jasper/train.sh", OPTIMIZER=name)
    assert (cfg.optim.kind, cfg.optim.betas) == (kind, betas)


def test_another_optimiser_is_an_error(python):
    done = call("../jasper/train.sh", python, OPTIMIZER="sgd")
    assert done.returncode == 2
    assert done.stderr == "error: OPTIMIZER is sgd; expected novograd, fused_novograd, adamw or lamb98\n"


def test_quartznet_has_its_published_names(python):
    cfg, _ = meant(python, "jasper/train.sh", MODEL_CONFIG=QUARTZNET)
    assert cfg == config.load(JasperConfig, "jasper/quartznet15x5")
    more, _ = meant(python, "jasper/train.sh", MODEL_CONFIG=QUARTZNET.replace("_speca", "_speca_drop0.2"))
    assert {block.dropout for block in more.model.blocks} == {0.2}
    assert (more.spec_augment.max_freq, more.spec_augment.max_time) == (20, 75)
    assert len(more.model.blocks) == len(cfg.model.blocks)
    assert more.data == cfg.data


def test_hifigan_finds_its_data_by_the_published_variable(python):
    cfg, _ = meant(python, "fastpitch/hifigan_train.sh", DATASET_DIR="/data/LJSpeech-1.1")
    assert str(cfg.data.root) == "/data/LJSpeech-1.1"


@pytest.mark.parametrize(
    ("script", "variables", "said"),
    [
        ("jasper/train.sh", {"DALI_DEVICE": "gpu"}, "DALI_DEVICE=gpu (data are read without DALI)"),
        ("jasper/train.sh", {"MULTI_TENSOR_EMA": "true"}, "MULTI_TENSOR_EMA=true (there is one implementation)"),
        ("jasper/inference.sh", {"NUM_GPUS": "8", "CHECKPOINT": "c"}, "NUM_GPUS=8 (one process transcribes"),
        ("jasper/inference.sh", {"SEED": "6", "CHECKPOINT": "c"}, "SEED=6 (nothing is random)"),
        ("jasper/evaluation.sh", {"PAD_LEADING": "16", "CHECKPOINT": "c"}, "PAD_LEADING=16 (padding changes no"),
        ("jasper/inference_benchmark.sh", {"NUM_GPUS": "8"}, "NUM_GPUS=8 (one process is measured)"),
        ("jasper/train_benchmark.sh", {"EPOCHS": "9"}, "EPOCHS=9 (steps are counted)"),
        ("wav2vec2/pretrain_base.sh", {"OPTIMIZER": "lamb"}, "OPTIMIZER=lamb (the optimiser is Adam, as published)"),
        ("wav2vec2/finetune_base_1h.sh", {"FP32_POS_CONV": "true"}, "FP32_POS_CONV=true (autocast decides"),
        ("wav2vec2/inference.sh", {"MASK_PROB": ".5", "FINETUNED_MODEL": "c"}, "MASK_PROB=.5 (nothing is random or"),
        ("wav2vec2/inference_benchmark.sh", {"EMA": "0.9"}, "EMA=0.9 (the weights are random"),
        ("fastpitch/train.sh", {"LOG_FILE": "l"}, "LOG_FILE=l (the log is always written)"),
        ("fastpitch/hifigan_train.sh", {"FINE_TUNE_LR_FACTOR": "3"}, "FINE_TUNE_LR_FACTOR=3 (fine-tuning begins anew"),
        ("fastpitch/inference_example.sh", {"DATASET_DIR": "d", "HIFIGAN": "h"}, "DATASET_DIR=d (paths start from"),
        ("fastpitch/inference_benchmark.sh", {"TORCHSCRIPT": "true"}, "TORCHSCRIPT=true (no script is made"),
    ],
)  # fmt: skip
def test_a_variable_that_does_nothing_is_named(python, script, variables, said):
    done = call(f"../{script}", python, **variables)
    assert done.returncode == 0, done.stderr
    assert f"{script.split('/')[1]}: without effect: {said}" in done.stderr


def test_a_variable_that_asks_for_nothing_is_not_named(python):
    off = {"TORCHSCRIPT": "false", "NUM_STEPS": "0", "NUM_GPUS": "1", "LOG_FILE": "none", "WARMUP": "", "SEED": "0"}
    assert call("../jasper/inference.sh", python, CHECKPOINT="c", **off).stderr == ""


def test_quartznets_benchmark_shares_its_batch_among_fewer_gpus(python):
    given = {"ACC_BATCH_SIZE": "144", "NUM_GPUS_SEQ": "8 4", "GRAD_ACC_SEQ": "4 2", "MODEL_CONFIG": QUARTZNET}
    words = call("../jasper/train_benchmark.sh", python, **given).stdout.split("-m\njasper.benchmark\n")[1:]
    assert [part.split("--batch_sizes\n")[1].split("\n")[0] for part in words] == ["144", "144", "288", "288"]
    assert [part.split("--grad_accumulation\n")[1].split("\n")[0] for part in words] == ["4", "2", "4", "2"]
