"""Training on texts that are not English: labels of any script are learned, and wrong ones refused."""

import json
from dataclasses import replace

import pytest

import jasper
from common.config import ConfigError
from common.text import alphabet
from common.text.alphabet import AlphabetConfig
from common.text.language import LanguageError
from jasper.config import BlockConfig, Config
from jasper.train import main
from tests.jasper.runs import toy_config
from tests.jasper.tiny import run, save_tiny
from tests.languages import write_manifests

pytestmark = pytest.mark.usefixtures("one_thread")
LEARNS_FAST = (
    BlockConfig(filters=64, kernel=11, stride=2),
    BlockConfig(filters=64, kernel=5),
    BlockConfig(filters=64, kernel=1),
)


def settings(folder, output_dir, *, epochs=60, **data) -> Config:
    cfg = toy_config(folder, output_dir, epochs=epochs, batch_size=4, grad_accumulation=1, ema=0.0)
    data = {"train": ("train.jsonl",), "validation": ("dev.jsonl",), "trim_silence": False} | data
    return replace(
        cfg,
        model=replace(cfg.model, blocks=LEARNS_FAST),
        optim=replace(cfg.optim, kind="adamw", lr=0.01),
        spec_augment=replace(cfg.spec_augment, freq_masks=0, time_masks=0),
        cutout=replace(cfg.cutout, masks=0),
        every=replace(cfg.every, save_epochs=epochs, validate_epochs=epochs, log_steps=20),
        data=replace(cfg.data, **data),
    )


@pytest.mark.parametrize("language", ["german", "mandarin"])
def test_letters_of_every_script_are_logged_learned_and_transcribed_back(language, tmp_path, capsys):
    folder = write_manifests(tmp_path / "corpus", language, train=4, validation=2)
    alphabet.main(AlphabetConfig(sources=(folder / "train.jsonl", folder / "dev.jsonl"), output=folder / "dict.txt"))
    main(settings(folder, tmp_path / "run", dictionary=folder / "dict.txt"))
    log = (tmp_path / "run" / "nvlog.json").read_text()
    assert f"(language none), those of {folder / 'dict.txt'}" in log
    asr = jasper.load(tmp_path / "run" / "jasper_step00000060.pt")
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    said = [row["text"].rstrip(".").replace(",", "").replace("，", " ").lower() for row in rows]
    heard = asr.transcribe([folder / row["audio_filepath"] for row in rows])
    assert [transcript.text for transcript in heard] == said
    checkpoint = tmp_path / "run" / "jasper_step00000060.pt"
    told = run(capsys, "jasper.evaluation", checkpoint, folder / "train.jsonl", "--device", "cpu", "--workers", "0")
    assert "WER        0.00%" in told.out[2]
    told = run(capsys, "jasper.inference", checkpoint, folder / "train.jsonl", "--device", "cpu")
    assert told.err[-1].startswith("WER 0.00%: 0 errors in")


def test_letters_that_are_no_labels_end_a_run_before_its_first_step(tmp_path):
    folder = write_manifests(tmp_path / "corpus", "russian", train=4, validation=2)
    with pytest.raises(LanguageError, match=r"dev.jsonl: \d+ letters in 6 texts are none of the 28 labels"):
        main(settings(folder, tmp_path / "run"))
    assert not list((tmp_path / "run").glob("*.pt"))


def test_an_evaluation_counts_letters_that_are_no_labels_as_errors(tmp_path, capsys):
    checkpoint = save_tiny(tmp_path / "jasper.pt")
    russian = write_manifests(tmp_path / "russian", "russian", train=1, validation=1) / "train.jsonl"
    options = ["--device", "cpu", "--workers", "0", "--hypotheses", tmp_path / "h.jsonl"]
    told = run(capsys, "jasper.evaluation", checkpoint, russian, *options)
    assert "each is an error where it stays in a reference" in told.err[0]
    assert told.status == 0
    reference = json.loads((tmp_path / "h.jsonl").read_text())["reference"]
    assert set(reference) & set("оеи")


def test_a_dictionary_of_more_than_single_letters_is_refused(tmp_path):
    folder = write_manifests(tmp_path / "corpus", "german", train=4, validation=2)
    (folder / "dict.txt").write_text("sch 3\na 1\n")
    with pytest.raises(ConfigError, match=r"dict.txt: symbol 'sch': expected single letters"):
        main(settings(folder, tmp_path / "run", dictionary=folder / "dict.txt"))
