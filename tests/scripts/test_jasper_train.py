"""What scripts/jasper/train.sh makes of the variables and positions of both published versions."""

import pytest

from tests.scripts.test_jasper_inference import flags

DEFAULT = "configs/jasper/jasper10x5dr_speedp-online_speca.toml"


def test_without_variables_the_configuration_decides_everything(python):
    assert flags("train.sh", python) == ["-m", "jasper.train", DEFAULT]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DATA_DIR": "/my data"}, ["--data.root", "/my data"]),
        ({"OUTPUT_DIR": "/o", "CHECKPOINT": "none"}, ["--output_dir", "/o"]),
        ({"RESULT_DIR": "/r", "CHECKPOINT": "/c.pt"}, ["--output_dir", "/r", "--checkpoint", "/c.pt"]),
        ({"BATCH_SIZE": "64", "GRAD_ACCUMULATION_STEPS": "2"}, ["--batch_size", "64", "--grad_accumulation", "2"]),
        ({"GPU_BATCH_SIZE": "72", "GRAD_ACCUMULATION": "2"}, ["--batch_size", "144", "--grad_accumulation", "2"]),
        ({"LR_POLICY": "legacy"}, ["--schedule.kind", "polynomial"]),
        ({"LR_POLICY": "exponential"}, ["--schedule.kind", "exponential"]),
        ({"LR_EXP_GAMMA": "0.98"}, ["--schedule.gamma", "0.98"]),
        ({"LEARNING_RATE": "0.01", "MIN_LEARNING_RATE": "1e-5"}, ["--optim.lr", "0.01", "--schedule.floor", "1e-5"]),
        ({"WARMUP_EPOCHS": "2", "HOLD_EPOCHS": "140"}, ["--schedule.warmup", "2", "--schedule.hold", "140"]),
        ({"EPOCHS": "3", "EPOCHS_THIS_JOB": "1", "NUM_STEPS": "-1"}, ["--epochs", "3", "--epochs_this_job", "1"]),
        ({"SAVE_FREQUENCY": "10", "EVAL_FREQUENCY": "544"}, ["--save_every_epochs", "10", "--evaluate_every", "544"]),
        ({"RESUME": "true", "PAD_TO_MAX_DURATION": "false"}, ["--resume", "true", "--data.pad_to_max", "false"]),
        ({"TRAIN_MANIFESTS": "a.json,b.json"}, ["--data.train", "a.json", "b.json"]),
        ({"VAL_MANIFESTS": "a.json b.json"}, ["--data.validation", "a.json", "b.json"]),
        ({"MAX_DURATION": "16.7"}, ["--data.max_seconds", "16.7"]),
        ({"AMP": "true"}, ["--precision", "fp16"]),
        ({"PRECISION": "bf16", "AMP": "true"}, ["--precision", "bf16"]),
        ({"CUDNN_BENCHMARK": "true", "DALI_DEVICE": "gpu", "LOG_FILE": "l"}, []),
        ({"PREDICTION_FREQUENCY": "544"}, ["--prediction_frequency", "544"]),
    ],
)  # fmt: skip
def test_a_published_variable_becomes_its_flag(python, variables, expected):
    assert flags("train.sh", python, **variables)[3:] == expected


def test_a_published_configuration_is_known_by_its_name(python):
    found = flags("train.sh", python, MODEL_CONFIG="configs/jasper10x5dr_sp_offline_specaugment.toml")[2]
    assert found == "configs/jasper/jasper10x5dr_sp_offline_specaugment.toml"


def test_several_gpus_are_a_torchrun(python):
    assert flags("train.sh", python, NUM_GPUS="8")[:7] == [
        "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "8", "-m", "jasper.train",
    ]  # fmt: skip


@pytest.mark.parametrize("more", [(), ("--seed", "7")])
def test_all_positions_of_2019_are_taken(python, more):
    given = ("/data", DEFAULT, "/results", "none", "true", "true", "1", "fp16", "400", "6", "64", "0.015", "1", *more)
    assert flags("train.sh", python, *given)[3:] == [
        "--data.root", "/data", "--output_dir", "/results", "--epochs", "400", "--seed", "6", "--batch_size", "64",
        "--grad_accumulation", "1", "--optim.lr", "0.015", "--precision", "fp16", *more,
    ]  # fmt: skip
