"""What published commands mean: the batch of an update, the learning rate, the optimiser; not the flags in between."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from common import config
from fastpitch.acoustic.config import Config as FastPitchConfig
from fastpitch.vocoders.config import HifiganRun
from jasper.config import Config as JasperConfig
from tests.scripts.calls import Folder
from tests.training import REPOSITORY
from wav2vec2.run_config import FinetuneConfig, PretrainConfig

call = Folder("fastpitch").call
CONFIGS: dict[str, Any] = {
    "jasper.train": JasperConfig,
    "fastpitch.train": FastPitchConfig,
    "fastpitch.vocoders.train": HifiganRun,
    "wav2vec2.pretrain": PretrainConfig,
    "wav2vec2.finetune": FinetuneConfig,
}
QUARTZNET = "configs/quartznet15x5_speedp-online-1.15_speca.yaml"


def meant(python, script: str, *, said: str = "", **variables: str) -> tuple[Any, int]:
    """The configuration that a script's command resolves to, and its number of processes."""
    done = call(f"../{script}", python, **{"NUM_GPUS": "1", "OUTPUT_DIR": "runs/o"} | variables)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(said) if said else not done.stderr
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
        ("finetune_vox_960h_cv.sh", 24, 2e-5),
        ("finetune_vox_100h.sh", 16, 3e-5),
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
    assert replace(cfg, output_dir=JasperConfig().output_dir) == config.load(JasperConfig, "jasper/quartznet15x5")
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
        ("fastpitch/inference_example.sh", {"LOG_FILE": "l", "HIFIGAN": "h"}, "LOG_FILE=l (no log is written)"),
        ("fastpitch/inference_example.sh", {"DISTRIBUTED": "-m x", "HIFIGAN": "h"}, "DISTRIBUTED=-m x (one process"),
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


# What the originals' scripts have where a variable is not set.
ORIGINALS = {
    "jasper/train.sh": {
        "RESUME": "true", "CUDNN_BENCHMARK": "true", "NUM_GPUS": "8", "AMP": "false", "BATCH_SIZE": "64",
        "GRAD_ACCUMULATION_STEPS": "2", "LEARNING_RATE": "0.01", "MIN_LEARNING_RATE": "0.00001", "EMA": "0.999",
        "LR_POLICY": "exponential", "LR_EXP_GAMMA": "0.981", "EPOCHS": "440", "WARMUP_EPOCHS": "2",
        "HOLD_EPOCHS": "140", "SAVE_FREQUENCY": "10", "EPOCHS_THIS_JOB": "0", "DALI_DEVICE": "gpu",
        "PAD_TO_MAX_DURATION": "false", "MODEL_CONFIG": "configs/jasper10x5dr_speedp-online_speca.yaml",
    },
    "fastpitch/train.sh": {
        "NUM_GPUS": "8", "BATCH_SIZE": "16", "GRAD_ACCUMULATION": "2", "OUTPUT_DIR": "./output", "AMP": "false",
        "LEARNING_RATE": "0.1", "EPOCHS": "1000", "EPOCHS_PER_CHECKPOINT": "20", "WARMUP_STEPS": "1000",
        "KL_LOSS_WARMUP": "100", "PHONE": "true", "ENERGY": "true", "TEXT_CLEANERS": "english_cleaners_v2",
        "APPEND_SPACES": "false", "NSPEAKERS": "1", "SAMPLING_RATE": "22050", "LOAD_MEL_FROM_DISK": "false",
    },
    "fastpitch/hifigan_train.sh": {
        "NUM_GPUS": "8", "BATCH_SIZE": "16", "AMP": "false", "EPOCHS": "6500", "VAL_INTERVAL": "10",
        "OUTPUT_DIR": "results/hifigan_lj22khz", "SAMPLES_INTERVAL": "100", "LEARNING_RATE": "0.0003",
        "LEARNING_RATE_DECAY": "0.9998", "GRAD_ACCUMULATION": "1", "RESUME": "true", "FINE_TUNE_DIR": "",
    },
    "wav2vec2/pretrain_base.sh": {
        "OUTPUT_DIR": "results/pretrain_base", "MAX_TOKENS": "1400000", "NUM_CONCAT_BATCHES": "8", "UPDATE_FREQ": "1",
        "MAX_SAMPLE_SIZE": "250000", "MIN_SAMPLE_SIZE": "32000", "MAX_UPDATE": "400000", "WARMUP_UPDATES": "32000",
        "LOSS_WEIGHTS": "0.1 10.0", "LEARNING_RATE": ".0005", "NORMALIZE": "false", "MASK_PROB": ".65",
        "EXTRACTOR_MODE": "default", "LAYER_NORM_FIRST": "false", "FINAL_DIM": "256", "ENCODER_LAYERDROP": ".05",
        "LATENT_TEMP": "2.0 0.5 0.999995", "CONV_BIAS": "false", "FEATURE_GRAD_MULT": ".1", "ENCODER_LAYERS": "12",
        "HOURGLASS_CONFIG": "[2,(8,4),2]", "DATASET_DIR": "/datasets/LibriSpeech", "NUM_GPUS": "8",
        "TRAIN_SUBSET": "train-full-960", "VALID_SUBSET": "dev-other",
    },
    "wav2vec2/pretrain_large.sh": {
        "OUTPUT_DIR": "results/pretrain_large", "MAX_TOKENS": "1200000", "NUM_CONCAT_BATCHES": "1",
        "UPDATE_FREQ": "16", "MAX_SAMPLE_SIZE": "320000", "MAX_UPDATE": "800000", "LEARNING_RATE": "0.005",
        "LOSS_WEIGHTS": "0.1 0.0", "NORMALIZE": "true", "EXTRACTOR_MODE": "layer_norm", "LAYER_NORM_FIRST": "true",
        "FINAL_DIM": "768", "LATENT_TEMP": "2.0 0.1 0.999995", "ENCODER_LAYERDROP": "0", "CONV_BIAS": "true",
        "DROPOUT": "0", "ATTENTION_DROPOUT": "0", "FEATURE_GRAD_MULT": "1.0", "NUM_GPUS": "8", "SAVE_FREQUENCY": "1",
    },
} | {
    f"wav2vec2/finetune_{name}.sh": {
        "TRAIN_SUBSET": subset, "VALID_SUBSET": "dev-other", "MAX_TOKENS": str(tokens), "NUM_CONCAT_BATCHES": concat,
        "UPDATE_FREQ": "1", "LEARNING_RATE": rate, "FREEZE_FINETUNE_UPDATES": frozen, "MAX_UPDATE": updates,
        "MASK_PROB": mask, "MASK_CHANNEL_PROB": channels, "EMA": "0", "SEED": "1", "NUM_GPUS": "8",
    } | ({} if "10h" in name else {"ENCODER_LAYERDROP": ".1"})  # see configs/wav2vec2/finetune_base_10h.toml
    for name, subset, tokens, concat, rate, frozen, updates, mask, channels in (
        ("base_960h", "train-full-960", 3_200_000, "1", "1e-4", "0", "320000", ".5", ".1"),
        ("base_100h", "train-clean-100", 3_200_000, "1", "3e-5", "0", "80000", ".65", ".5"),
        ("base_10h", "train-10h", 3_200_000, "1", "5e-5", "10000", "20000", ".65", ".5"),
        ("base_1h", "train-1h", 3_200_000, "1", "5e-5", "10000", "13000", ".65", ".25"),
        ("vox_960h", "train-full-960", 1_280_000, "3", "3e-5", "10000", "320000", ".5", ".25"),
        ("vox_960h_cv", "train-full-960", 1_280_000, "3", "2e-5", "0", "80000", ".25", ".5"),
        ("vox_100h", "train-clean-100", 1_280_000, "2", "3e-5", "10000", "80000", ".5", ".5"),
    )
}  # fmt: skip


@pytest.fixture
def eight_gpus(tmp_path, monkeypatch) -> None:
    """Stands for NVIDIA's command on a machine of eight."""
    path = tmp_path / "bin" / "nvidia-smi"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\nfor i in 0 1 2 3 4 5 6 7; do echo GPU $i: H100; done\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


def differences(one: Any, other: Any, *, but: tuple[str, ...] = ()) -> list[str]:
    """Lines of TOML that one has and the other has not."""
    both = ({line.removesuffix(".0") for line in config.to_toml(each).splitlines()} for each in (one, other))
    return sorted(line for line in set.symmetric_difference(*both) if not line.startswith(but))


@pytest.mark.usefixtures("eight_gpus")
@pytest.mark.parametrize("script", ORIGINALS)
def test_what_is_not_set_has_the_value_of_the_original(python, script):
    folder = ORIGINALS[script].get("OUTPUT_DIR")
    known = {"OUTPUT_DIR": folder or "o"} | ORIGINALS[script]
    plain = meant(python, script, NUM_GPUS="", OUTPUT_DIR="" if folder or "wav2vec2" in script else "o")
    said = f"{script.split('/')[1]}: without effect" if script == "jasper/train.sh" else ""
    given, _ = meant(python, script, said=said, **known)
    assert differences(plain[0], given, but=() if folder else ("output_dir",)) == []
    assert plain[1] == 8


@pytest.mark.usefixtures("eight_gpus")
@pytest.mark.parametrize(("visible", "processes"), [("0,1,2,3", 4), ("5", 1), ("", 1), (None, 8)])
def test_fewer_gpus_than_the_original_takes_are_named(python, visible, processes):
    given = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    said = "" if processes == 8 else f"train.sh: NUM_GPUS is not set: {processes} here, 8 in the original"
    assert meant(python, "fastpitch/train.sh", said=said, NUM_GPUS="", **given)[1] == processes


def test_the_default_accumulation_of_the_original_belongs_to_a_batch_that_is_named(python):
    cfg, processes = meant(python, "fastpitch/train.sh", NUM_GPUS="8", BATCH_SIZE="16")
    assert (cfg.batch_size * processes, cfg.grad_accumulation) == (256, 2)
    cfg, _ = meant(python, "jasper/train.sh", GRAD_ACCUMULATION="4", MODEL_CONFIG=QUARTZNET)
    assert (cfg.batch_size, cfg.grad_accumulation) == (72 * 4, 4)


def test_the_launcher_of_the_originals_is_torchrun(python):
    given = "-m torch.distributed.launch --nproc_per_node 4 --master_port 1234"
    done = call("../jasper/train.sh", python, DISTRIBUTED=given, OUTPUT_DIR="o")
    assert done.stdout.split()[:6] == [*given.replace("launch", "run").split()]


def test_a_model_without_masks_is_named_and_an_unknown_one_refused(python):
    wanted = "configs/jasper10x5dr_speedp-online_speca_nomask.yaml"
    said = "train.sh: jasper10x5dr_speedp-online_speca_nomask: without effect: nomask (padding is masked"
    assert meant(python, "jasper/train.sh", said=said, MODEL_CONFIG=wanted) == meant(python, "jasper/train.sh")
    for script in ("train.sh", "inference.sh", "inference_benchmark.sh"):
        done = call(f"../jasper/{script}", python, MODEL_CONFIG="/mine/own.yaml", CHECKPOINT="c", OUTPUT_DIR="o")
        assert done.returncode == 2
        assert "error: MODEL_CONFIG is /mine/own.yaml; expected a TOML file, or a name of configs/jasper" in done.stderr


def test_a_folder_of_the_original_is_taken_where_it_is(tmp_path):
    shell = 'source scripts/common.sh; published_folder X "$1"; published_folder Y "$1/none"; echo "[$X][${Y:-}]"'
    done = subprocess.run(["bash", "-c", shell, "x", tmp_path], capture_output=True, text=True, cwd=REPOSITORY,
                          env={**os.environ, "SPEECH_PYTHON": sys.executable}, check=True)  # fmt: skip
    assert done.stdout == f"[{tmp_path}][]\n"
