import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import ctc
import jasper
from common import config
from common.audio import waveform
from common.data.manifest import Utterance, write_jsonl
from ctc.ngram import estimate
from tests.data import shared
from tests.jasper.tiny import run, save_tiny, tiny_config
from tests.processes import run_python

RATE = 16_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny.pt")


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


def test_a_line_per_recording_has_its_name_and_text_in_the_order_given(model, files, capsys):
    said = run(capsys, "jasper.inference", model, files[1], files[0], "--device", "cpu")
    a, b = texts(model, files)
    assert said.status == 0
    assert said.out == [f"{files[1]}\t{b}", f"{files[0]}\t{a}"]
    assert said.err == []
    assert a != b


def test_a_folder_stands_for_all_audio_in_it(model, files, capsys):
    said = run(capsys, "jasper.inference", model, files[0].parent)
    assert [line.split("\t")[0] for line in said.out] == [str(file) for file in files]


def test_a_text_file_lists_recordings(model, files, tmp_path, capsys):
    listing = tmp_path / "list.txt"
    listing.write_text("speech/deeper/b.WAV\n\nspeech/a.flac\n")
    said = run(capsys, "jasper.inference", model, listing)
    assert [line.split("\t")[0] for line in said.out] == [str(files[1]), str(files[0])]
    assert said.status == 0
    listing.write_text("deeper/b.WAV\n")
    said = run(capsys, "jasper.inference", model, listing, "--root", files[0].parent)
    assert (said.status, len(said.out)) == (0, 1)


def test_json_lines_have_words_with_times_and_confidence(model, files, capsys):
    said = run(capsys, "jasper.inference", model, *files, "--format", "json")
    record, other = map(json.loads, said.out)
    (expected,) = jasper.load(model, device="cpu").transcribe(files[:1])
    assert record["audio"] == str(files[0])
    assert record["text"] == expected.text
    assert (record["duration"], other["duration"]) == (2.0, 1.5)
    assert record["words"] == [word._asdict() for word in expected.words]
    assert record["confidence"] == pytest.approx(np.mean([w.confidence for w in expected.words]), abs=1e-4)


def test_subtitles_of_one_recording_go_to_the_terminal(model, files, capsys):
    assert run(capsys, "jasper.inference", model, files[0], "--format", "vtt").out[:2] == ["WEBVTT", ""]
    srt = run(capsys, "jasper.inference", model, files[0], "--format", "srt").out
    assert srt[0] == "1"
    assert " --> " in srt[1]


def test_subtitles_of_several_recordings_need_a_folder(model, files, tmp_path, capsys):
    said = run(capsys, "jasper.inference", model, *files, "--format", "srt")
    assert said.status == 2
    assert said.err == ["error: format srt: 2 recordings do not go into one file; set --output_dir"]
    said = run(capsys, "jasper.inference", model, files[0].parent, "--format", "srt", "--output_dir", tmp_path / "out")
    assert (said.status, said.out) == (0, [])
    written = sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.srt"))
    assert written == [Path("a.srt"), Path("deeper/b.srt")]
    assert " --> " in (tmp_path / "out" / "a.srt").read_text()


@pytest.mark.parametrize("format", ["text", "json"])
def test_every_format_can_be_one_file_per_recording_or_one_for_all(model, files, tmp_path, capsys, format):
    said = run(capsys, "jasper.inference", model, *files, "--format", format, "--output_dir", tmp_path / "out")
    suffix = {"text": "txt", "json": "json"}[format]
    assert said.out == []
    a, b = (tmp_path / "out" / f"{name}.{suffix}" for name in "ab")
    one = tmp_path / "new" / "all.txt"
    run(capsys, "jasper.inference", model, *files, "--format", format, "--output", one)
    if format == "json":
        assert one.read_text() == a.read_text() + b.read_text()
    else:
        assert one.read_text() == f"{files[0]}\t{a.read_text()}{files[1]}\t{b.read_text()}"


def test_log_probs_are_saved_with_the_times_of_their_frames(model, files, tmp_path, capsys):
    run(capsys, "jasper.inference", model, *files, "--save-logits", tmp_path / "logits")
    (expected,) = jasper.load(model, device="cpu").transcribe(files[:1], keep_log_probs=True)
    saved = np.load(tmp_path / "logits" / "a.npz")
    torch.testing.assert_close(torch.from_numpy(saved["log_probs"]), expected.log_probs_SV, atol=1e-5, rtol=0)
    np.testing.assert_allclose(saved["times"], np.arange(100) * 0.02)
    assert "".join(saved["labels"]) == " abcdefghijklmnopqrstuvwxyz'"
    assert np.load(tmp_path / "logits" / "b.npz")["log_probs"].shape == (75, 29)


def test_manifests_with_transcripts_end_in_a_word_error_rate(model, files, tmp_path, capsys):
    a, b = texts(model, files)
    wrong = " ".join(["zzz", *b.split()[1:]])
    write_jsonl(
        tmp_path / "m.jsonl",
        [
            Utterance(id="right", audio=files[0], seconds=2.0, text=a.upper()),
            Utterance(id="wrong", audio=files[1], seconds=1.5, text=wrong),
            Utterance(id="unknown", audio=files[1], seconds=1.5, text=""),
        ],
    )
    said = run(capsys, "jasper.inference", model, tmp_path / "m.jsonl")
    words = len(a.split()) + len(b.split())
    assert said.status == 0
    assert said.out == [f"right\t{a}", f"wrong\t{b}", f"unknown\t{b}"]
    errors = 1 + len(b.split())  # every word of an utterance in which nobody spoke
    assert said.err == [f"WER {errors / words:.2%}: {errors} errors in {words} words of 3 utterances"]


def test_longer_utterances_of_manifests_can_be_left_out(model, files, tmp_path, capsys):
    manifest = tmp_path / "m.jsonl"
    write_jsonl(manifest, [Utterance(id=f.stem, audio=f, seconds=waveform.info(f).seconds, text="") for f in files])
    said = run(capsys, "jasper.inference", model, manifest, "--max_seconds", 1.7)
    assert [line.split("\t")[0] for line in said.out] == ["b"]


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to transcribe; name audio files, folders or manifests after the checkpoint"),
        (["a.wav", "--batch_size", "0"], "batch_size = 0, chunk_seconds = 60.0: expected above 0"),
        (["a.wav", "--output", "x", "--output_dir", "y"], "output and output_dir: expected one of them, found both"),
    ],
)
def test_options_that_make_no_sense_are_refused(model, capsys, arguments, message):
    said = run(capsys, "jasper.inference", model, *arguments)
    assert said.status == 2
    assert len(said.err) == 1
    assert message in said.err[0]


def test_a_place_that_cannot_be_written_to_is_named(model, files, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    said = run(capsys, "jasper.inference", model, files[0], "--output_dir", tmp_path / "file" / "out")
    assert (said.status, said.out) == (2, [])
    assert said.err == [f"error: {tmp_path}/file/out: cannot be written to: Not a directory"]
    said = run(capsys, "jasper.inference", model, files[0], "--output", tmp_path)
    assert said.err == [f"error: {tmp_path}: cannot be written to: Is a directory"]
    language_model = tmp_path / "lm.arpa"
    ctc.write_arpa(language_model, estimate([["a", "b"]], order=1))
    flags = ("--decoding.language_model", language_model, "--output", language_model)
    said = run(capsys, "jasper.inference", model, files[0], *flags)
    assert said.err == [f"error: {language_model}: cannot be written to: it is read; name another output"]
    said = run(capsys, "jasper.inference", model, files[0], "--output", model)
    assert said.err == [f"error: {model}: cannot be written to: it is read; name another output"]


def test_help_is_the_manual(capsys):
    said = run(capsys, "jasper.inference", "--help")
    assert said.status == 0
    assert any("longer recordings are recognised" in line for line in said.out)


@pytest.mark.slow
def test_processes_share_the_recordings_and_one_writes(tmp_path):
    save_tiny(tmp_path / "tiny.pt")
    for i in range(5):
        waveform.write(
            tmp_path / f"{i}.wav", (0.1 * np.sin(np.arange(8000) * (0.02 + 0.01 * i))).astype(np.float32), 16000
        )
    (tmp_path / "2.wav").write_bytes(b"no audio")
    paths = [tmp_path / f"{i}.wav" for i in range(5)]
    arguments = ("-m", "jasper.inference", tmp_path / "tiny.pt", *paths, "--device", "cpu", "--output")
    (one,), _ = run_python(*arguments, tmp_path / "one.txt", processes=1)
    two, told = run_python(*arguments, tmp_path / "two.txt", processes=2)
    assert (one, two) == (1, [1, 1])
    assert (tmp_path / "one.txt").read_text() == (tmp_path / "two.txt").read_text()
    assert (tmp_path / "one.txt").read_text().count("\n") == 4
    assert sum("error: 1 of 5 could not be transcribed" in line for lines in told for line in lines) == 1
