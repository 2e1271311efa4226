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

flags = Folder("wav2vec2").flags


PRETRAIN = ("pretrain_base", "pretrain_large")

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


@pytest.mark.parametrize("task", ["pretrain", "finetune"])
def test_the_benchmarks_train_without_saving_and_count_the_epochs_after_warm_up(python, task):
    given = flags(f"{task}_base_benchmark", python, NUM_WARMUP_EPOCHS="1", NUM_EPOCHS="2", OUTPUT_DIR="o")
    second = given.index("-m", 1)
    assert given[second:] == ["-m", "wav2vec2.benchmark.throughput", "o", "--skip_epochs", "1"]
    assert "--save" in given[:second]
    assert given[given.index("--epochs_this_job") + 1] == "3"


def test_lists_of_librispeech_and_libri_light_are_generated(tmp_path):
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
