"""What the scripts that train vocoders make of the published variables."""

import pytest

from tests.scripts.calls import Folder

FOLDER = Folder("fastpitch")
call, flags = FOLDER.call, FOLDER.flags


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("hifigan_train.sh", ["-m", "fastpitch.vocoders.train", "configs/hifigan/v1.toml"]),
        ("waveglow_train.sh", ["-m", "fastpitch.vocoders.train", "configs/waveglow/waveglow256.toml"]),
    ],
)
def test_without_variables_the_configuration_decides_everything(python, script, expected):
    assert flags(script, python) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DATASET_PATH": "/my data"}, ["--data.root", "/my data"]),
        ({"BATCH_SIZE": "8", "GRAD_ACCUMULATION": "2"}, ["--batch_size", "16", "--grad_accumulation", "2"]),
        ({"GRAD_ACCUMULATION": "2"}, ["--batch_size", "32", "--grad_accumulation", "2"]),
        ({"LEARNING_RATE": "1e-4", "LEARNING_RATE_DECAY": "0.9"}, ["--optim.lr", "1e-4", "--schedule.gamma", "0.9"]),
        ({"VAL_INTERVAL": "5"}, ["--validate_every_epochs", "5"]),
        ({"CHECKPOINT_INTERVAL": "20"}, ["--save_every_epochs", "20"]),
        ({"SAMPLES_INTERVAL": "50", "RESUME": "false"}, ["--samples_every_epochs", "50", "--resume", "false"]),
        ({"FINE_TUNE_DIR": "/mels", "EPOCHS": "10000"}, ["--epochs", "10000", "--data.mels", "/mels"]),
        ({"AMP": "true"}, ["--precision", "fp16"]),
        ({"TRAIN_FILELIST": "a.txt b.txt"}, ["--data.train", "a.txt", "b.txt"]),
        ({"VAL_FILELIST": "c.txt"}, ["--data.validation", "c.txt"]),
        ({"CHECKPOINT": "g.pt", "CHECKPOINT_DISCRIMINATORS": "none"}, ["--checkpoint", "g.pt"]),
        ({"CHECKPOINT_DISCRIMINATORS": "d.pt"}, ["--checkpoint_discriminators", "d.pt"]),
    ],
)  # fmt: skip
def test_a_published_variable_becomes_its_flag(python, variables, expected):
    assert flags("hifigan_train.sh", python, **variables)[3:] == expected


def test_another_configuration_and_flags_of_today_are_passed_on(python):
    found = flags("hifigan_train.sh", python, "--seed", "7", HIFIGAN_CONFIG="configs/hifigan/istft.toml")
    assert found[2:] == ["configs/hifigan/istft.toml", "--seed", "7"]


def test_several_gpus_are_a_torchrun(python):
    assert flags("waveglow_train.sh", python, NUM_GPUS="4")[:7] == [
        "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "4", "-m", "fastpitch.vocoders.train",
    ]  # fmt: skip


def test_fine_tuning_needs_a_generator_and_spectrograms(python):
    done = call("hifigan_fine_tune.sh", python, CHECKPOINT="g.pt")
    assert done.returncode != 0
    assert "FINE_TUNE_DIR: the folder of mel spectrograms" in done.stderr
    found = flags("hifigan_fine_tune.sh", python, CHECKPOINT="g.pt", FINE_TUNE_DIR="/mels")
    assert found[3:] == ["--output_dir", "results/hifigan_tuned", "--data.mels", "/mels", "--checkpoint", "g.pt"]
