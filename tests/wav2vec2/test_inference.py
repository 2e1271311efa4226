"""The command that transcribes. Whatever is wrong with an input is one line that names it; the others are used."""

import math
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import nn

import wav2vec2
from common import config
from common.data.manifest import Utterance, write_jsonl
from common.recognition.output.transcripts import Transcript
from common.runs import checkpoint
from tests.data import shared
from tests.jasper.tiny import Said, run
from tests.wav2vec2.small import ctc_model, lively, pretraining_model
from wav2vec2.checkpoints import huggingface
from wav2vec2.checkpoints.own import FORMAT
from wav2vec2.inference import InferenceConfig
from wav2vec2.recognizer import Recognizer
from wav2vec2.run_config import FinetuneConfig

RATE = 16_000


def save(path: Path, model: nn.Module, averaged: nn.Module | None = None) -> Path:
    cfg, ema = FinetuneConfig(model=model.wav2vec2.config), averaged.state_dict() if averaged else None
    checkpoint.save(path, {"format": FORMAT, "config": config.to_dict(cfg), "weights": model.state_dict(), "ema": ema})
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(
        tmp_path_factory.mktemp("model") / "small.pt", ctc_model("base"), lively(ctc_model("base"), seed=5).eval()
    )


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A FLAC file and a deeper, longer WAV file at 8 kHz in one folder."""
    folder = tmp_path / "speech"
    (folder / "deeper").mkdir(parents=True)
    random = np.random.default_rng(0)
    soundfile.write(folder / "a.flac", random.normal(0, 0.1, RATE), RATE)
    soundfile.write(folder / "deeper" / "b.WAV", random.normal(0, 0.1, 12_000), 8_000)
    (folder / "notes.md").write_text("no audio")
    return [folder / "a.flac", folder / "deeper" / "b.WAV"]


def infer(capsys: pytest.CaptureFixture[str], *arguments: object) -> Said:
    return run(capsys, "wav2vec2.inference", *arguments, "--device", "cpu")


def texts(model: Path, files: list[Path]) -> list[str]:
    return [t.text for t in wav2vec2.load(model, device="cpu").transcribe(files)]


def test_references_are_brought_to_the_case_of_the_labels(model, files, tmp_path, capsys):
    (a,) = texts(model, files[:1])
    write_jsonl(tmp_path / "m.jsonl", [Utterance(id="u", audio=files[0], seconds=1.0, text=a.lower())])
    said = infer(capsys, model, tmp_path / "m.jsonl")
    assert said.err[0].startswith("WER 0.00%: 0 errors in ")


def test_features_of_a_layer_are_a_file_per_recording(files, tmp_path, capsys):
    pretrained = save(tmp_path / "pretrained.pt", pretraining_model("large", labels=()))
    (tmp_path / "bad.wav").write_text("no audio")
    said = infer(capsys, pretrained, *files, tmp_path / "bad.wav", "--features", tmp_path / "out", "--layer", 2)
    assert (said.status, said.out) == (1, [])
    assert said.err[1:] == ["error: 1 of 3 could not be read"]
    for file, frames in zip(files, (49, 74), strict=True):
        saved = np.load(tmp_path / "out" / f"{file.stem}.npy")
        (expected,) = wav2vec2.load(pretrained, device="cpu").represent([file], layers=2)
        assert (saved.shape, saved.dtype) == ((frames, 32), np.float32)
        np.testing.assert_allclose(saved, expected.x_SC.numpy(), atol=1e-5)


def test_a_layer_that_the_model_lacks_is_told(model, files, tmp_path, capsys):
    said = infer(capsys, model, files[0], "--features", tmp_path / "out", "--layer", 5)
    assert said.status == 2
    assert said.err == ["error: layer = 5: the model has layers 0 (the input of the first one) to 4"]


def test_a_beam_search_can_favour_words(model, files, capsys):
    plain, searched = (infer(capsys, model, files[0], *flags) for flags in ([], ["--decoding.beam", 8]))
    assert searched.status == 0
    favoured = infer(capsys, model, files[0], "--decoding.hot_words", "TOE", "--decoding.hot_word_boost", 60)
    assert "TOE" in favoured.out[0].split()
    assert "TOE" not in plain.out[0].split()


def test_averaged_weights_are_taken_where_there_are_any(model, files, capsys):
    default, averaged, raw = (
        infer(capsys, model, files[0], *flags).out for flags in ([], ["--ema", "true"], ["--ema", "false"])
    )
    assert default == averaged != raw


def test_a_dictionary_names_labels_that_the_checkpoint_does_not(files, tmp_path, capsys):
    unknown = save(tmp_path / "unknown.pt", ctc_model("base", labels=tuple(f"<{i}>" for i in range(10))))
    said = infer(capsys, unknown, files[0])
    assert (said.status, said.out) == (2, [])
    assert said.err[0].startswith("error: the checkpoint does not say what its 10 labels are")
    golden = shared("golden/wav2vec2/base") / "wav2vec2_finetuned.pt"
    (tmp_path / "dict.ltr.txt").write_text("".join(f"{s} 1\n" for s in "|abcdefghijklmnopqrstuvwxyz'"))
    said = infer(capsys, golden, files[0], "--labels", tmp_path / "dict.ltr.txt")
    assert said.out[0].split("\t")[1].islower()


def test_a_hugging_face_folder_says_what_the_checkpoint_does(model, files, tmp_path, capsys):
    w = wav2vec2.load(model, device="cpu")
    huggingface.export(tmp_path / "hf", w.model.state_dict(), w.config)
    assert infer(capsys, tmp_path / "hf", *files).out == infer(capsys, model, *files).out


def test_timings_tell_how_much_faster_than_real_time(model, files, capsys):
    said = infer(capsys, model, *files, "--timings", "true")
    assert said.err[0].startswith("2.50 s of audio in ")
    assert said.err[0].endswith(" times real time, reading included")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"chunk_seconds": math.nan},
            r"^chunk_seconds = nan: expected a number above 0$",
        ),
        (
            {"features": Path("x"), "save_logits": Path("y")},
            r"^features: nothing is transcribed then; leave out output, output_dir and save_logits$",
        ),
        ({"layer": 3}, r"^layer = 3 says which features are written: name a folder with --features$"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        InferenceConfig(**({"model": Path("c.pt"), "inputs": (Path("a.wav"),)} | options))


def test_a_file_that_cannot_be_written_ends_the_job_in_one_line(model, files, tmp_path, capsys):
    for flag, suffix in (("--save_logits", "npz"), ("--features", "npy")):
        (tmp_path / flag / f"a.{suffix}").mkdir(parents=True)  # in the way
        said = infer(capsys, model, files[0], flag, tmp_path / flag)
        assert said.status == 2
        assert said.err == [f"error: {tmp_path}/{flag}/a.{suffix}: cannot be written to: Is a directory"]


def test_what_flags_say_of_chunks_batches_and_precision_reaches_the_model(model, files, capsys, monkeypatch):
    asked = []

    def stream(w, _, **options):
        asked.append((w, options))
        yield Transcript(audio="a", text="", words=[], seconds=1.0)

    monkeypatch.setattr(Recognizer, "stream", stream)
    flags = ("--chunk_seconds", 7, "--stride_seconds", 2, "--batch_size", 3, "--precision", "bf16")
    assert infer(capsys, model, files[0], *flags).status == 0
    ((w, options),) = asked
    assert (options["chunk_seconds"], options["stride_seconds"], options["batch_size"]) == (7.0, 2.0, 3)
    assert (w.precision, w.model.head.weight.dtype) == ("bf16", torch.bfloat16)


def test_a_dictionary_of_another_model_is_told(files, tmp_path, capsys):
    golden = shared("golden/wav2vec2/base") / "wav2vec2_finetuned.pt"
    (tmp_path / "dict.ltr.txt").write_text("| 5\nA 3\n")
    said = infer(capsys, golden, files[0], "--labels", tmp_path / "dict.ltr.txt")
    assert (said.status, said.out) == (2, [])
    assert said.err == [f"error: {golden}: writes 32 labels, and 6 are named (with the special ones)"]
