"""What the scripts make of the published variables; `python` is a script that shows its arguments."""

import shutil
from pathlib import Path

import pytest

from common import config
from common.data.manifest import read_manifest
from tests.data import shared
from tests.scripts.calls import Folder
from tests.wav2vec2.runs import REPOSITORY
from wav2vec2 import filelists
from wav2vec2.corpus.letters import read_dictionary
from wav2vec2.filelists import FilelistsConfig
from wav2vec2.run_config import FinetuneConfig, PretrainConfig

FOLDER = Folder("wav2vec2")
call, flags = FOLDER.call, FOLDER.flags


PRETRAIN = ("pretrain_base", "pretrain_large")
FINETUNE = (
    *("finetune_base_960h", "finetune_base_100h", "finetune_base_10h", "finetune_base_1h"),
    *("finetune_vox_960h", "finetune_vox_960h_cv", "finetune_vox_100h"),
)


@pytest.mark.parametrize("script", [*PRETRAIN, *FINETUNE])
def test_without_variables_the_configuration_decides_everything(python, script):
    module = "wav2vec2.pretrain" if script in PRETRAIN else "wav2vec2.finetune"
    assert flags(script, python) == ["-m", module, f"configs/wav2vec2/{script}.toml"]


# As published: sub-batches of an update, samples of each, learning rate.
RECIPES = {
    "pretrain_base": (64, 1_400_000, 5e-4),
    "pretrain_large": (128, 1_200_000, 5e-3),
    "finetune_base_960h": (8, 3_200_000, 1e-4),
    "finetune_base_100h": (8, 3_200_000, 3e-5),
    "finetune_base_10h": (8, 3_200_000, 5e-5),
    "finetune_base_1h": (8, 3_200_000, 5e-5),
    "finetune_vox_960h": (24, 1_280_000, 3e-5),
}
# Published ways to have them on fewer GPUs: NUM_GPUS, NUM_CONCAT_BATCHES, UPDATE_FREQ.
SHARED_OUT = {
    "pretrain_base": [(1, 8, 8), (4, 8, 2), (8, 8, 1)],
    "pretrain_large": [(8, 1, 16), (4, 2, 16)],
    "finetune_base_960h": [(1, 8, 1), (4, 2, 1), (8, 1, 1)],
    "finetune_vox_960h": [(8, 3, 1), (4, 3, 2)],
}


def trained(script: str, python: Path, **variables: str) -> PretrainConfig | FinetuneConfig:
    """The configuration that the training gets which the script starts."""
    given = flags(script, python, **variables)
    given = given[given.index("-m", given.index("--nproc_per_node")) if "--nproc_per_node" in given else 0 :]
    cls = PretrainConfig if script in PRETRAIN else FinetuneConfig
    return config.parse_flags(cls, config.load(cls, REPOSITORY / given[2]), given[3:], description="")


@pytest.mark.slow
@pytest.mark.parametrize("script", RECIPES)
def test_an_update_sees_as_much_as_published_and_learns_as_fast(python, script):
    sub_batches, samples, rate = RECIPES[script]
    ways = SHARED_OUT.get(script, [(8, 1, 1)])
    for gpus, concat, freq in ways:
        variables = {"NUM_GPUS": gpus, "NUM_CONCAT_BATCHES": concat, "UPDATE_FREQ": freq}
        cfg = trained(script, python, **{name: str(value) for name, value in variables.items()})
        cfg.check_batches(gpus)
        assert gpus * cfg.concat_batches * cfg.update_freq == cfg.batches_per_update == sub_batches
        assert (cfg.data.max_tokens, cfg.data.batch_size, cfg.optim.lr) == (samples, 0, rate)
    on_eight = trained(script, python, NUM_GPUS="8")
    assert 8 * on_eight.concat_batches * on_eight.update_freq == sub_batches
    changed = trained(script, python, NUM_GPUS="8", MAX_TOKENS="640000", LEARNING_RATE="2e-4")
    assert (changed.data.max_tokens, changed.optim.lr) == (640_000, 2e-4)


SHARED_FLAGS = [
    ({"DATASET_DIR": "/my data"}, ["--data.root", "/my data"]),
    ({"TRAIN_SUBSET": "a b", "VALID_SUBSET": "c"}, ["--data.train", "a", "b", "--data.validation", "c"]),
    (
        {"OUTPUT_DIR": "o", "MAX_TOKENS": "700000"},
        ["--output_dir", "o", "--data.max_tokens", "700000", "--data.max_tokens_valid", "700000"],
    ),
    (
        {"MAX_TOKENS": "700000", "MAX_TOKENS_VALID": "600000"},
        ["--data.max_tokens", "700000", "--data.max_tokens_valid", "600000"],
    ),
    ({"LAYERDROP": "0.05"}, ["--learning.layer_drop", "0.05"]),
    ({"NUM_CONCAT_BATCHES": "4", "UPDATE_FREQ": "2"}, ["--concat_batches", "4", "--update_freq", "2"]),
    ({"MAX_UPDATE": "9", "LEARNING_RATE": "0.1"}, ["--max_updates", "9", "--optim.lr", "0.1"]),
    ({"MASK_PROB": "0.6", "ENCODER_LAYERDROP": "0.1"}, ["--mask.time_prob", "0.6", "--learning.layer_drop", "0.1"]),
    ({"EMA": "0.9", "SEED": "3", "SAVE_FREQUENCY": "5"}, ["--ema", "0.9", "--seed", "3", "--every.save_epochs", "5"]),
    ({"NO_SAVE": "true", "BF16": "true"}, ["--save", "false", "--precision", "bf16"]),
    ({"NO_SAVE": "false", "FP16": "true"}, ["--precision", "fp16"]),
    ({"EPOCHS_THIS_JOB": "2"}, ["--epochs_this_job", "2"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "expected"), SHARED_FLAGS)
def test_variables_of_training_become_flags(python, variables, expected):
    for script, cls in (("pretrain_base", PretrainConfig), ("finetune_base_100h", FinetuneConfig)):
        given = flags(script, python, **variables)
        assert given[3:] == expected
        config.parse_flags(cls, config.load(cls, REPOSITORY / given[2]), given[3:], description="")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"MIN_SAMPLE_SIZE": "1000", "MAX_SAMPLE_SIZE": "2000"},
            ["--data.min_samples", "1000", "--data.max_samples", "2000"],
        ),
        ({"WARMUP_UPDATES": "5"}, ["--schedule.warmup", "5"]),
        ({"LOSS_WEIGHTS": "0.2 5"}, ["--objective.diversity", "0.2", "--objective.penalty", "5"]),
        (
            {"LATENT_TEMP": "2.0 0.1 0.999"},
            ["--temperature.start", "2.0", "--temperature.end", "0.1", "--temperature.decay", "0.999"],
        ),
        ({"HOURGLASS_CONFIG": "[2,(8,4),2]"}, ["--model.hourglass", "[2,(8,4),2]"]),
        ({"HOURGLASS_CONFIG": ""}, ["--model.hourglass", ""]),
        ({"NORMALIZE": "true"}, ["--model.normalize_audio", "true"]),
        ({"LAYER_NORM_FIRST": "true"}, ["--model.pre_norm", "true"]),
        ({"EXTRACTOR_MODE": "layer_norm"}, ["--model.extractor_norm", "layer"]),
        ({"EXTRACTOR_MODE": "default"}, ["--model.extractor_norm", "group"]),
        ({"CONV_BIAS": "true", "FINAL_DIM": "64"}, ["--model.conv_bias", "true", "--model.final_dim", "64"]),
        (
            {"ENCODER_EMBED_DIM": "192", "ENCODER_FFN_EMBED_DIM": "8", "ENCODER_ATTENTION_HEADS": "4"},
            ["--model.dim", "192", "--model.ffn_dim", "8", "--model.heads", "4"],
        ),
        (
            {"ENCODER_LAYERS": "2", "HOURGLASS_CONFIG": "", "FEATURE_GRAD_MULT": "1.0"},
            ["--model.layers", "2", "--model.hourglass", "", "--learning.extractor_gradient", "1.0"],
        ),
        (
            {"DROPOUT_INPUT": "0", "DROPOUT_FEATURES": "0", "DROPOUT": "0", "ATTENTION_DROPOUT": "0"},
            ["--learning.input_dropout", "0", "--learning.feature_dropout", "0", "--learning.dropout", "0",
             "--learning.attention_dropout", "0"],
        ),
    ],
)  # fmt: skip
def test_variables_of_pre_training_become_flags(python, variables, expected):
    given = flags("pretrain_base", python, **variables)
    assert given[3:] == expected
    base = config.load(PretrainConfig, REPOSITORY / given[2])
    config.parse_flags(PretrainConfig, base, given[3:], description="")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PRETRAINED_MODEL": "a.pt"}, ["--pretrained", "a.pt"]),
        ({"FREEZE_FINETUNE_UPDATES": "5", "BATCH_SIZE": "4"}, ["--freeze_updates", "5", "--data.batch_size", "4"]),
        ({"MASK_CHANNEL_PROB": "0.5"}, ["--mask.channel_prob", "0.5"]),
        (
            {"WARMUP_UPDATES": "10", "MAX_UPDATE": "50"},
            ["--max_updates", "50", "--schedule.unit", "steps", "--schedule.warmup", "10", "--schedule.hold", "20"],
        ),
        (
            {"WARMUP_UPDATES": "10", "HOLD_UPDATES": "5"},
            ["--schedule.unit", "steps", "--schedule.warmup", "10", "--schedule.hold", "5"],
        ),
    ],
)
def test_variables_of_fine_tuning_become_flags(python, variables, expected):
    given = flags("finetune_vox_960h", python, **variables)
    assert given[3:] == expected
    base = config.load(FinetuneConfig, REPOSITORY / given[2])
    config.parse_flags(FinetuneConfig, base, given[3:], description="")


@pytest.mark.parametrize(
    ("script", "variables", "message"),
    [
        ("pretrain_base", {"LOSS_WEIGHTS": "0.1"}, "error: found '0.1'; expected 2 numbers, for --objective.diversity"),
        ("pretrain_base", {"EXTRACTOR_MODE": "none"}, "error: EXTRACTOR_MODE is none; expected default or layer_norm"),
        ("finetune_base_1h", {"HOLD_UPDATES": "4"}, "error: of WARMUP_UPDATES and HOLD_UPDATES one is set; set both"),
        ("generate_filelists", {}, "error: DATASET_DIR is not set; expected the folder of the corpus"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(python, script, variables, message):
    told = call(script, python, **variables)
    assert told.returncode == 2
    assert message in told.stderr


def test_several_gpus_are_torchrun_s_and_further_arguments_come_last(python):
    given = flags("pretrain_large", python, "--optim.lr", "1", NUM_GPUS="8")
    assert given[:6] == ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "8", "-m"]
    assert given[-2:] == ["--optim.lr", "1"]


@pytest.mark.parametrize("task", ["pretrain", "finetune"])
def test_the_benchmarks_train_without_saving_and_count_the_epochs_after_warm_up(python, task):
    given = flags(f"{task}_base_benchmark", python, NUM_WARMUP_EPOCHS="1", NUM_EPOCHS="2", OUTPUT_DIR="o")
    second = given.index("-m", 1)
    assert given[second:] == ["-m", "wav2vec2.benchmark.throughput", "o", "--skip_epochs", "1"]
    assert "--save" in given[:second]
    assert given[given.index("--epochs_this_job") + 1] == "3"


def test_lists_of_librispeech_and_libri_light_are_generated(tmp_path, python):
    source = shared("data/librispeech-mini/LibriSpeech")
    root = tmp_path / "LibriSpeech"
    for name, part in (("train-clean-100", "dev-clean"), ("dev-other", "test-clean")):
        shutil.copytree(source / part, root / name)
    light = root / "librispeech_finetuning"
    for name in ("1h/0/clean", "9h/clean"):
        (light / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source / "test-clean", light / name)
    filelists.main(FilelistsConfig(corpus=root, output=tmp_path / "lists"))
    lists = tmp_path / "lists"
    names = {"train-clean-100", "dev-other", "train-1h", "train-10h"}
    assert {path.name for path in lists.iterdir()} == {f"{n}.{s}" for n in names for s in ("tsv", "ltr")} | {
        "dict.ltr.txt"
    }
    listed = read_manifest(lists / "train-clean-100.tsv").utterances
    plain = read_manifest(root / "train-clean-100").utterances
    assert {(u.id, u.text, u.seconds) for u in listed} == {(u.id, u.text, u.seconds) for u in plain}
    one, ten = (read_manifest(lists / f"train-{hours}h.tsv").utterances for hours in (1, 10))
    assert len(ten) == 2 * len(one)
    assert read_dictionary(lists / "dict.ltr.txt")[4] == "|"
    assert flags("generate_filelists", python, DATASET_DIR="/d", FILELISTS_DIR="/l", EXT="wav") == [
        "-m", "wav2vec2.filelists", "/d", "--output", "/l", "--extension", "wav"
    ]  # fmt: skip
