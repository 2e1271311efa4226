"""Processes as torchrun starts them share the recordings."""

import numpy as np
import soundfile

from tests.processes import fork_module
from tests.wav2vec2.small import ctc_model
from tests.wav2vec2.test_inference import save
from wav2vec2 import load


def test_two_processes_write_what_one_does_and_both_know_what_failed(tmp_path):
    model = save(tmp_path / "small.pt", ctc_model("base"))
    files = [tmp_path / f"{i}.flac" for i in range(3)]
    for i, file in enumerate(files):
        soundfile.write(file, np.random.default_rng(i).normal(0, 0.1, 8000 * (3 - i)), 16_000)
    texts = [t.text for t in load(model, device="cpu").transcribe(files)]
    words = ["wav2vec2.inference", model, *files, tmp_path / "no.wav", "--device", "cpu"]
    words += ["--output", tmp_path / "text", "--save_logits", tmp_path / "logits"]
    statuses, told = fork_module(*words, processes=2)
    assert statuses == [1, 1], told
    assert told[0][-1] == "error: 1 of 4 could not be transcribed"
    assert not [line for line in told[1] if "no.wav" in line or line.startswith("error:")]
    written = (tmp_path / "text").read_text().splitlines()
    assert written == [f"{file}\t{text}" for file, text in zip(files, texts, strict=True)]
    assert len(list((tmp_path / "logits").glob("*.npz"))) == 3
