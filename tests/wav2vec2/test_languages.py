"""Fine-tuning on texts that are not English."""

from dataclasses import replace

import pytest

from common.runs import checkpoint
from common.text.language import LanguageError
from tests.languages import write_manifests
from tests.wav2vec2 import runs
from wav2vec2.finetune import main

pytestmark = pytest.mark.usefixtures("one_thread")


def settings(folder, output_dir, **data):
    data = {"train": ("train.jsonl",), "validation": ("dev.jsonl",), "max_tokens": 200_000, "buckets": 1} | data
    cfg = runs.finetune_config(folder, output_dir, max_updates=1, data=data)
    return replace(cfg, every=replace(cfg.every, save_steps=1, validate_steps=1))


def test_letters_that_are_no_labels_end_a_run_and_those_of_the_data_are_logged(tmp_path):
    folder = write_manifests(tmp_path / "corpus", "mandarin", train=4, validation=2)
    with pytest.raises(LanguageError, match=r"dev.jsonl: \d+ letters in 6 texts are none of the 28 labels"):
        main(settings(folder, tmp_path / "wrong"))
    assert not list((tmp_path / "wrong").glob("*.pt"))
    runs.write_alphabet(folder)
    main(settings(folder, tmp_path / "right", dictionary=folder / "dict.ltr.txt"))
    log = (tmp_path / "right" / "nvlog.json").read_text()
    assert f"labels: those of {folder / 'dict.ltr.txt'}" in log
    assert "(language none)" in log
    (saved,) = (tmp_path / "right").glob("wav2vec2_step*.pt")
    assert checkpoint.load(saved)["config"]["data"]["language"] == "auto"


def test_letters_can_be_dropped_and_are_counted_in_the_log(tmp_path):
    folder = write_manifests(tmp_path / "corpus", "german", train=4, validation=2)
    main(settings(folder, tmp_path / "run", unknown_letters="drop"))
    assert "letters in 6 texts are none of the 28 labels" in (tmp_path / "run" / "nvlog.json").read_text()
