from pathlib import Path

import numpy as np
import pytest
import soundfile

import jasper
from common import config
from common.audio import waveform
from tests.data import shared
from tests.jasper.tiny import run, save_tiny, tiny_config
from tests.processes import fork_module

RATE = 16_000


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A FLAC file, a deeper WAV file at 8 kHz and something that is no audio, in one folder."""
    folder = tmp_path / "speech"
    (folder / "deeper").mkdir(parents=True)
    random = np.random.default_rng(0)
    soundfile.write(folder / "a.flac", random.normal(0, 0.1, 2 * RATE), RATE)
    soundfile.write(folder / "deeper" / "b.WAV", random.normal(0, 0.1, 12_000), 8_000)
    (folder / "notes.md").write_text("no audio")
    return [folder / "a.flac", folder / "deeper" / "b.WAV"]


def texts(model: Path, files: list[Path]) -> list[str]:
    return [t.text for t in jasper.load(model, device="cpu").transcribe(files)]


def test_log_probs_are_saved_with_the_times_of_their_frames(model, files, tmp_path, capsys):
    run(capsys, "jasper.inference", model, *files, "--save-logits", tmp_path / "logits")
    (expected,) = jasper.load(model, device="cpu").transcribe(files[:1], keep_log_probs=True)
    saved = np.load(tmp_path / "logits" / "a.npz")
    np.testing.assert_allclose(saved["log_probs"], expected.log_probs_SV, atol=1e-5, rtol=0)
    np.testing.assert_allclose(saved["times"], np.arange(100) * 0.02)
    assert "".join(saved["labels"]) == " abcdefghijklmnopqrstuvwxyz'"
    assert np.load(tmp_path / "logits" / "b.npz")["log_probs"].shape == (75, 29)


def test_a_librispeech_folder_is_known_by_its_transcripts(capsys):
    golden = shared("golden/jasper") / "Jasper_epoch7_checkpoint.pt"
    folder = shared("data/librispeech-mini/LibriSpeech/test-clean/1995")
    said = run(capsys, "jasper.inference", golden, folder)
    assert said.out[0].startswith("1995-1837-0001\t")
    assert said.err[-1].startswith("WER ")


def test_long_recordings_and_batches_give_the_same_text(model, files, capsys):
    whole = run(capsys, "jasper.inference", model, *files)
    batched = run(capsys, "jasper.inference", model, *files, "--batch_size", 1, "--chunk_seconds", 30)
    assert whole.out == batched.out
    chunked = run(capsys, "jasper.inference", model, *files, "--chunk_seconds", 1.2)
    assert [len(line) > 20 for line in chunked.out] == [True, True]


def test_weights_precision_and_configuration_can_be_chosen(model, files, tmp_path, capsys):
    plain, raw = (run(capsys, "jasper.inference", model, files[0], "--ema", ema) for ema in ("true", "false"))
    assert plain.out != raw.out
    assert run(capsys, "jasper.inference", model, files[0], "--precision", "bf16").status == 0
    assert run(capsys, "jasper.inference", model, files[0], "--precision", "int8").status in (0, 2)  # 2: no library
    own = tmp_path / "own.toml"
    own.write_text(config.to_toml(tiny_config(trim_silence=False)))
    assert run(capsys, "jasper.inference", model, files[0], "--config", own, "--ema", "true").out == plain.out


def test_processes_share_the_recordings_and_one_writes(tmp_path):
    save_tiny(tmp_path / "tiny.pt")
    for i in range(5):
        waveform.write(
            tmp_path / f"{i}.wav", (0.1 * np.sin(np.arange(8000) * (0.02 + 0.01 * i))).astype(np.float32), 16000
        )
    (tmp_path / "2.wav").write_bytes(b"no audio")
    paths = [tmp_path / f"{i}.wav" for i in range(5)]
    arguments = ("jasper.inference", tmp_path / "tiny.pt", *paths, "--device", "cpu", "--output")
    (one,), _ = fork_module(*arguments, tmp_path / "one.txt")
    two, told = fork_module(*arguments, tmp_path / "two.txt", processes=2)
    assert (one, two) == (1, [1, 1])
    assert (tmp_path / "one.txt").read_text() == (tmp_path / "two.txt").read_text()
    assert (tmp_path / "one.txt").read_text().count("\n") == 4
    assert sum("error: 1 of 5 could not be transcribed" in line for lines in told for line in lines) == 1
