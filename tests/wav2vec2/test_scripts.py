"""What the scripts make of the published variables; `python` is a script that shows its arguments."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common import config
from common.config import ConfigError
from common.data.manifest import ManifestError, read_manifest
from tests.data import shared
from tests.wav2vec2.runs import REPOSITORY, finetune_config
from wav2vec2 import filelists, finetune
from wav2vec2.benchmark import throughput
from wav2vec2.benchmark.throughput import ThroughputConfig
from wav2vec2.corpus.letters import read_dictionary
from wav2vec2.filelists import FilelistsConfig
from wav2vec2.run_config import FinetuneConfig, PretrainConfig

SCRIPTS = REPOSITORY / "scripts" / "wav2vec2"
PRETRAIN = ("pretrain_base", "pretrain_large")
FINETUNE = (
    *("finetune_base_960h", "finetune_base_100h", "finetune_base_10h", "finetune_base_1h"),
    *("finetune_vox_960h", "finetune_vox_960h_cv", "finetune_vox_100h"),
)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    path = tmp_path / "python"
    path.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)
    return path


def call(script: str, python: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], "SPEECH_PYTHON": str(python)} | variables
    command = ["bash", SCRIPTS / f"{script}.sh", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def flags(script: str, python: Path, *arguments: str, **variables: str) -> list[str]:
    told = call(script, python, *arguments, **variables)
    assert told.returncode == 0, told.stderr
    return told.stdout.split("\n")[:-1]


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


def test_the_three_training_sets_together_are_one_list_and_a_set_without_texts_has_no_letters(tmp_path, corpus):
    root = tmp_path / "LibriSpeech"
    for part in filelists.COMBINED["train-full-960"]:
        (root / part).mkdir(parents=True)
        shutil.copy(corpus / "dev" / "dev-00.wav", root / part / f"{part}.wav")
    filelists.main(FilelistsConfig(corpus=root))
    assert [u.id for u in read_manifest(root / "train-full-960.tsv").utterances] == list(
        filelists.COMBINED["train-full-960"]
    )
    assert list(root.glob("*.ltr")) == []


def speak(path: Path, *, samples: int = 8000, rate: int = 16000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.ones(samples), rate)


def test_a_text_belongs_to_the_recording_beside_it_whatever_others_are_called(tmp_path):
    for speaker in "ab":
        speak(tmp_path / "train" / speaker / "001.wav")
        (tmp_path / "train" / speaker / "x.trans.txt").write_text(f"001 {speaker.upper()}\r\n")
    filelists.main(FilelistsConfig(corpus=tmp_path))
    assert [u.text for u in read_manifest(tmp_path / "train.tsv").utterances] == ["A", "B"]
    assert (tmp_path / "dict.ltr.txt").read_text() == "| 2\nA 1\nB 1\n"
    speak(tmp_path / "train" / "c.wav")
    filelists.main(FilelistsConfig(corpus=tmp_path))
    assert not (tmp_path / "train.ltr").exists()  # that of the list before would not fit


def test_an_empty_transcript_and_another_rate_come_back_from_a_list_as_they_are(tmp_path):
    speak(tmp_path / "train" / "ü.wav")
    speak(tmp_path / "train" / "b.wav", samples=44100, rate=44100)
    (tmp_path / "train" / "x.trans.txt").write_text("ü \nb HI\n", encoding="utf-8")
    filelists.main(FilelistsConfig(corpus=tmp_path, output=tmp_path / "lists"))
    found = read_manifest(tmp_path / "lists" / "train.tsv").utterances
    assert [(u.id, u.text, u.seconds) for u in found] == [("b", "HI", 1.0), ("ü", "", 0.5)]


def test_what_cannot_be_listed_is_left_out_and_makes_the_status_other_than_0(tmp_path, capsys):
    speak(tmp_path / "train" / "a.wav")
    speak(tmp_path / "train" / "b\tb.wav")
    (tmp_path / "train" / "c.wav").write_bytes(b"no sound")
    with pytest.raises(ManifestError, match=r"2 recordings left out, the first: .*no list can hold this name; rename"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    told = capsys.readouterr().out
    assert "train.tsv: 1 recordings; texts of 0, none of" in told
    assert told.count("left out: ") == 2
    assert [u.id for u in read_manifest(tmp_path / "train.tsv").utterances] == ["a"]


def test_lists_of_evaluation_leave_the_dictionary_of_training_as_it_is(tmp_path, capsys):
    for subset, text in (("train-a", "AAB"), ("dev", "ZZZ")):
        speak(tmp_path / subset / "1.wav")
        (tmp_path / subset / "1.trans.txt").write_text(f"1 {text}\n")
    filelists.main(FilelistsConfig(corpus=tmp_path, subsets=("dev",)))
    assert read_dictionary(tmp_path / "dict.ltr.txt")[4:] == ("Z", "|")
    with pytest.raises(ConfigError, match=r"dict.ltr.txt: has 2 symbols already, which are not the 3 of these texts"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    filelists.main(FilelistsConfig(corpus=tmp_path, overwrite=True))
    filelists.main(FilelistsConfig(corpus=tmp_path, subsets=("dev",)))
    assert (tmp_path / "dict.ltr.txt").read_text() == "A 2\nB 1\n| 1\n"


def test_letters_of_the_whole_training_set_are_not_counted_again_in_its_parts(tmp_path):
    for i, part in enumerate(filelists.COMBINED["train-full-960"]):
        speak(tmp_path / part / f"{i}.wav")
        (tmp_path / part / f"{i}.trans.txt").write_text(f"{i} A\n")
    filelists.main(FilelistsConfig(corpus=tmp_path))
    assert (tmp_path / "dict.ltr.txt").read_text() == "A 3\n| 3\n"


def test_a_dictionary_counts_the_letters_of_several_lists(tmp_path, corpus):
    filelists.main(FilelistsConfig(dictionary=(corpus / "train.ltr", corpus / "dev.ltr"), output=tmp_path))
    symbols = [line.split() for line in (tmp_path / "dict.ltr.txt").read_text().splitlines()]
    counts = [int(count) for _, count in symbols]
    assert counts == sorted(counts, reverse=True)
    text = (corpus / "train.ltr").read_text() + (corpus / "dev.ltr").read_text()
    assert dict(symbols) == {symbol: str(text.split().count(symbol)) for symbol in set(text.split())}


def test_what_cannot_be_listed_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"name either the folder of a corpus, or .ltr files with --dictionary"):
        FilelistsConfig()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ManifestError, match=r"no .flac or .wav files in a folder of it"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    with pytest.raises(ManifestError, match="missing: no such folder"):
        filelists.main(FilelistsConfig(corpus=tmp_path, subsets=("missing",)))
    (tmp_path / "empty" / "a.wav").write_bytes(b"")
    with pytest.raises(ManifestError, match=r"1 recordings left out, the first: .*a.wav: the file is empty"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    with pytest.raises(ManifestError, match="empty: no .flac files in it that can be listed"):
        filelists.main(FilelistsConfig(corpus=tmp_path, subsets=("empty",), extension=("flac",)))
    with pytest.raises(ManifestError, match="nowhere: no such folder"):
        filelists.main(FilelistsConfig(corpus=tmp_path / "nowhere"))
    (tmp_path / "empty" / "a.trans.txt").write_bytes(b"a CAF\xc9\n")
    with pytest.raises(ManifestError, match=r"a.trans.txt: cannot be read: .*0xc9"):
        filelists.main(FilelistsConfig(corpus=tmp_path))
    (tmp_path / "no.ltr").write_text("\n")
    with pytest.raises(ManifestError, match=r"no.ltr: not one letter in it"):
        filelists.main(FilelistsConfig(dictionary=(tmp_path / "no.ltr",)))
    with pytest.raises(ManifestError, match="cannot be read"):
        filelists.main(FilelistsConfig(dictionary=(tmp_path / "missing.ltr",)))


def test_throughput_counts_the_epochs_after_the_first(tmp_path, corpus):
    finetune.main(finetune_config(corpus, tmp_path / "run", data={"validation": ()}, max_updates=8, save=False))
    row = throughput.main(ThroughputConfig(run=tmp_path / "run", skip_epochs=1, results=tmp_path))
    assert row["audio_seconds_per_second"] > 0
    assert row["processes"] == 1
    assert json.loads((tmp_path / "wav2vec2_training.jsonl").read_text()) == row
    with pytest.raises(ConfigError, match="epochs; expected more than the 50 that do not count"):
        throughput.main(ThroughputConfig(run=tmp_path / "run", skip_epochs=50, results=tmp_path))
    with pytest.raises(ConfigError, match="expected nvlog.json and environment.json in it"):
        throughput.main(ThroughputConfig(run=tmp_path, results=tmp_path))
