"""Fine-tuning on texts that are not English."""

import json
from dataclasses import replace

import pytest

from common.runs import checkpoint
from common.text.language import LanguageError
from tests.languages import write_manifests
from tests.wav2vec2 import runs
from wav2vec2.finetune import main
from wav2vec2.recognizer import load

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


def test_russian_is_learned_and_transcribed_back(tmp_path):
    folder = write_manifests(tmp_path / "corpus", "russian", train=4, validation=2)
    runs.write_alphabet(folder)
    cfg = settings(folder, tmp_path / "run", dictionary=folder / "dict.ltr.txt", max_tokens=400_000)
    learning = replace(cfg.learning, extractor_gradient=1.0, activation_dropout=0.0, layer_drop=0.0)
    cfg = replace(
        cfg,
        max_updates=160,
        model=replace(runs.SHAPE, dim=64, ffn_dim=128, heads=4),
        learning=learning,
        mask=replace(cfg.mask, time_prob=0.0, channel_prob=0.0),
        optim=replace(cfg.optim, lr=3e-3),
        every=replace(cfg.every, save_steps=160, validate_steps=160, log_steps=80),
    )
    main(cfg)
    saved = checkpoint.saved_steps(tmp_path / "run", "wav2vec2")[-1][1]
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    said = [row["text"].rstrip(".").replace(",", "").lower() for row in rows]
    heard = load(saved, ema=False).transcribe([folder / row["audio_filepath"] for row in rows])
    assert [transcript.text for transcript in heard] == said
