"""What scripts/fastpitch/train.sh makes of the published variables; `python` is a script that shows its arguments."""

import pytest

from common import config
from fastpitch.acoustic.config import Config
from tests.scripts.calls import Folder

FOLDER = Folder("fastpitch")
call, flags = FOLDER.call, FOLDER.flags


DEFAULT = "configs/fastpitch/fastpitch.toml"


def test_without_variables_the_configuration_decides_everything(python):
    assert flags("train.sh", python) == ["-m", "fastpitch.train", DEFAULT]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DATASET_PATH": "/my data"}, ["--data.root", "/my data"]),
        ({"TRAIN_FILELIST": "a.txt b.txt"}, ["--data.train", "a.txt", "b.txt"]),
        ({"BATCH_SIZE": "16", "GRAD_ACCUMULATION": "2"}, ["--batch_size", "32", "--grad_accumulation", "2"]),
        ({"EPOCHS": "3", "EPOCHS_PER_CHECKPOINT": "1"}, ["--epochs", "3", "--save_every_epochs", "1"]),
        ({"LEARNING_RATE": "0.1", "WARMUP_STEPS": "1000"}, ["--optim.lr", "0.1", "--schedule.warmup", "1000"]),
        ({"KL_LOSS_WARMUP": "100", "SEED": "1"}, ["--loss.binarisation_warmup_epochs", "100", "--seed", "1"]),
        ({"PHONE": "true", "ENERGY": "false"}, ["--model.uses_energy", "false", "--text.p_arpabet", "1.0"]),
        ({"PHONE": "false"}, ["--text.p_arpabet", "0.0"]),
        ({"TEXT_CLEANERS": "english_cleaners"}, ["--text.cleaners", "english_cleaners"]),
        ({"NSPEAKERS": "2"}, ["--model.speakers", "2"]),
        (
            {"LOAD_PITCH_FROM_DISK": "true", "LOAD_MEL_FROM_DISK": "true", "DATASET_PATH": "/d"},
            ["--data.root", "/d", "--data.pitch_dir", "/d/pitch", "--data.mel_dir", "/d/mels"],
        ),
        ({"PITCH_ONLINE_DIR": "/p"}, ["--data.pitch_dir", "/p"]),
        ({"PITCH_ONLINE_METHOD": "pyin"}, ["--pitch.method", "pyin"]),
        ({"SAMPLING_RATE": "22050", "LOG_FILE": "l", "AMP": "false"}, []),
        ({"AMP": "true", "CHECKPOINT": "/c.pt"}, ["--checkpoint", "/c.pt", "--precision", "fp16"]),
    ],
)  # fmt: skip
def test_a_published_variable_becomes_its_flag(python, variables, expected):
    assert flags("train.sh", python, **variables)[3:] == expected


def test_the_flags_of_44100_hz_are_a_configuration(python):
    given = flags("train.sh", python, SAMPLING_RATE="44100", PHONE="true", ENERGY="true", KL_LOSS_WARMUP="3")[3:]
    made = config.parse_flags(Config, Config(), given, description="")
    assert (made.features.sample_rate, made.features.hop_samples, made.pitch.hop_samples) == (44_100, 512, 512)
    assert made.loss.binarisation_warmup_epochs == 3


def test_another_sampling_rate_is_refused(python):
    told = call("train.sh", python, SAMPLING_RATE="16000")
    assert told.returncode == 2
    assert "expected 22050 or 44100" in told.stderr


def test_several_gpus_are_a_torchrun(python):
    assert flags("train.sh", python, "--seed", "7", NUM_GPUS="8") == [
        "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "8", "-m", "fastpitch.train", DEFAULT,
        "--seed", "7",
    ]  # fmt: skip


def test_mandarin_is_trained_by_its_own_configuration_from_an_english_model(python):
    assert flags("mandarin_chinese/train.sh", python, CHECKPOINT="/c.pt")[2:] == [
        "configs/fastpitch/mandarin.toml", "--data.root", "data/SF_bilingual", "--output_dir", "output_sf",
        "--checkpoint", "/c.pt",
    ]  # fmt: skip
