import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import ctc
from common import config
from common.audio import waveform
from common.recognition.decoding import CTCDecoder, DecodingOptions
from common.recognition.output.subtitles import render
from ctc.ngram import estimate
from jasper.inference import InferenceConfig
from jasper.inference import main as inference
from jasper.recognizer import load
from tests.trt.blocked import run_without_torch
from tests.trt.models import save_wav2vec2
from trt.export import command
from trt.facts import ModelError
from trt.run import RunConfig, main
from trt.runtime.recognizer import Recognizer, spread
from wav2vec2.recognizer import load as wav2vec2_load


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    """A folder of noise that changes, two short ones and one of 30 s, and of silence."""
    random = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("recordings")
    for name, seconds in (("a", 1.3), ("b", 2.1), ("long", 30.0)):
        loudness = np.repeat(random.uniform(0.01, 0.3, int(seconds * 10)), 1600)
        waveform.write(folder / f"{name}.flac", loudness * random.standard_normal(len(loudness)), 16_000)
    waveform.write(folder / "silence.wav", np.zeros(8_000), 16_000)
    return folder


@pytest.mark.parametrize("chunk_seconds", [60.0, 4.0])
def test_transcripts_are_those_of_the_checkpoint_whole_and_in_chunks(jasper, recordings, chunk_seconds):
    files = sorted(recordings.iterdir())
    ours = list(Recognizer(jasper.with_suffix(".onnx")).stream(files, batch_size=3, chunk_seconds=chunk_seconds))
    theirs = load(jasper).transcribe(files, batch_size=3, chunk_seconds=chunk_seconds)
    for own, other in zip(ours, theirs, strict=True):
        assert own.text == other.text
        assert [word[:3] for word in own.words] == [word[:3] for word in other.words]
        assert np.allclose(
            [word.confidence for word in own.words], [word.confidence for word in other.words], atol=1e-3
        )
    assert len(ours[2].words) > 5


@pytest.mark.parametrize(
    "changes",
    [{"relative_buckets": 16, "relative_distance": 40}, {"pos_layers": 3, "pos_kernel": 7}],
    ids=["wavlm", "data2vec"],
)
def test_positions_of_wavlm_and_data2vec_leave_with_the_rest(changes, recordings, tmp_path):
    path = save_wav2vec2(tmp_path / "w.pt", "base", **changes)
    command.main(command.ExportConfig(checkpoint=path, out=tmp_path / "w.onnx"))
    files = [recordings / "a.flac", recordings / "b.flac"]
    theirs = wav2vec2_load(path, device="cpu").transcribe(files)
    assert sum(len(one.text) for one in theirs) > 10
    assert [one.text for one in Recognizer(tmp_path / "w.onnx").stream(files)] == [one.text for one in theirs]


def test_transcripts_of_wav2vec2_with_an_hourglass_are_those_of_the_checkpoint_in_chunks(recordings, tmp_path):
    path = save_wav2vec2(tmp_path / "w.pt", "base linear")
    command.main(command.ExportConfig(checkpoint=path, out=tmp_path / "w.onnx"))
    asr = Recognizer(tmp_path / "w.onnx")
    files = [recordings / "b.flac", recordings / "long.flac"]
    theirs = wav2vec2_load(path, device="cpu").transcribe(files, chunk_seconds=12)
    assert len(theirs[1].text) > 50
    for own, other in zip(asr.stream(files, chunk_seconds=12), theirs, strict=True):
        assert own.text == other.text
        assert [word[:3] for word in own.words] == [word[:3] for word in other.words]
    waveform.write(tmp_path / "short.wav", np.full(399, 0.1), 16_000)
    (short,) = asr.stream([tmp_path / "short.wav"], on_error="skip")
    assert short.error.endswith("399 samples at 16000 Hz are too few; the model needs 400 for its first frame")


def test_it_runs_where_torch_cannot_be_imported(jasper, recordings):
    done = run_without_torch("trt.run", jasper.with_suffix(".onnx"), recordings / "a.flac")
    assert (done.returncode, done.stderr) == (0, "")
    name, text = done.stdout.rstrip("\n").split("\t")
    assert name.endswith("a.flac")
    assert text == load(jasper).transcribe([recordings / "a.flac"])[0].text


@pytest.fixture(scope="module")
def language_model(tmp_path_factory) -> Path:
    """An ARPA file of a few words, and the same model compiled, lm.ngram, beside it."""
    path = tmp_path_factory.mktemp("language") / "lm.arpa.gz"
    ctc.write_arpa(path, estimate([["a", "in", "the", "end"], ["the", "in", "a"], ["end", "of", "the"]], order=2))
    ctc.write_model(path.with_name("lm.ngram"), ctc.compile_model(ctc.read_arpa(path)))
    return path


@pytest.mark.parametrize(
    "flags",
    [
        ["--decoding.n_best", "4"],
        ["--decoding.beam", "8", "--decoding.thorough", "True", "--decoding.n_best", "2"],
        ["--decoding.language_model", "lm.arpa.gz", "--decoding.weight", "0.8", "--decoding.n_best", "3"],
        [
            "--decoding.language_model",
            "lm.ngram",
            "--decoding.hot_words",
            "xylophone",
            "in the",
            "--chunk_seconds",
            "9",
        ],
    ],
)
def test_decoders_are_those_of_inference_where_torch_cannot_be_imported(
    flags, jasper, recordings, language_model, tmp_path
):
    flags = [str(language_model.with_name(flag)) if flag.startswith("lm.") else flag for flag in flags]
    given = [*map(str, sorted(recordings.iterdir())), *flags, "--format", "json", "--output"]
    done = run_without_torch("trt.run", jasper.with_suffix(".onnx"), *given, tmp_path / "ours.jsonl")
    assert (done.returncode, done.stderr) == (0, f"{recordings / 'silence.wav'}: no speech in its 0.50 s\n")
    cfg = config.parse_flags(
        InferenceConfig, None, [str(jasper), *given, str(tmp_path / "theirs.jsonl")], description=""
    )
    assert inference(cfg) == 0
    lines = [(tmp_path / f"{name}.jsonl").read_text().splitlines() for name in ("ours", "theirs")]
    n_best = 0
    for own, other in zip(*(map(json.loads, each) for each in lines), strict=True):
        readings = [[record, *record.get("alternatives", [])] for record in (own, other)]
        n_best = max(n_best, len(readings[0]))
        for one, two in zip(*readings, strict=True):
            assert one["text"] == two["text"]
            assert one.get("score") == pytest.approx(two.get("score"), abs=2e-3)
            assert [[w["text"], w["start"], w["end"]] for w in one["words"]] == [
                [w["text"], w["start"], w["end"]] for w in two["words"]
            ]
            sure = [[word["confidence"] for word in reading["words"]] for reading in (one, two)]
            assert np.allclose(*sure, atol=1e-3)
    assert len(lines[0]) == 4
    assert n_best == cfg.decoding.n_best


def test_log_probabilities_are_saved_and_files_that_give_labels_say_what_they_cannot(jasper, recordings, tmp_path):
    model = jasper.with_suffix(".onnx")
    cfg = RunConfig(model=model, inputs=(recordings / "a.flac",), save_logits=tmp_path, output=tmp_path / "a.txt")
    assert main(cfg) == 0
    saved = np.load(tmp_path / "a.npz")
    (expected,) = load(jasper).transcribe([recordings / "a.flac"], keep_log_probs=True)
    assert np.allclose(saved["log_probs"], expected.log_probs_SV, atol=1e-4)
    assert len(saved["labels"]) == saved["log_probs"].shape[1]
    assert len(saved["times"]) == saved["log_probs"].shape[0]
    asr = Recognizer(model)
    asr.decodes = True
    with pytest.raises(
        ModelError, match=r"m\.onnx: gives labels, not log-probabilities; export it without --decode gr"
    ):
        asr.decoder(DecodingOptions(n_best=2))
    with pytest.raises(ModelError, match=r"m\.onnx: gives labels, not log-probabilities"):
        list(asr.stream([recordings / "a.flac"], keep_log_probs=True))


def test_the_path_that_a_network_has_decoded_is_that_of_ctc():
    labels = ["a", " ", "<unk>", "<blank>"]
    logits_SV = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    log_probs_SV = logits_SV - np.log(np.exp(logits_SV).sum(1, keepdims=True))
    path_SV = spread(np.stack([log_probs_SV.argmax(1), log_probs_SV.max(1)], 1), 4)
    assert np.allclose(np.exp(path_SV).sum(1), 1, atol=3e-3)
    (found,) = CTCDecoder(labels, blank=3)(path_SV)
    (expected,) = ctc.greedy(torch.from_numpy(log_probs_SV)[None], [200], blank=3)
    kept = [i for i, label in enumerate(expected.labels) if label != 2]
    assert [letter.text for letter in found.letters] == [labels[expected.labels[i]] for i in kept]
    assert [letter.start_frame for letter in found.letters] == [expected.start_frames[i] for i in kept]
    assert [letter.end_frame for letter in found.letters] == [expected.end_frames[i] for i in kept]
    confidence = [expected.confidence[i] for i in kept]
    assert np.allclose([letter.confidence for letter in found.letters], confidence, rtol=1e-5)


def test_subtitles_and_json_go_to_a_folder_and_what_cannot_be_read_is_told(jasper, recordings, tmp_path, capsys):
    model = jasper.with_suffix(".onnx")
    cfg = RunConfig(model=model, inputs=(recordings, tmp_path / "gone.wav"), format="srt", output_dir=tmp_path / "out")
    assert main(cfg) == 1
    words = load(jasper).transcribe([recordings / "b.flac"])[0].words
    assert (tmp_path / "out" / "b.srt").read_text() == render(words, "srt")
    told = capsys.readouterr().err
    assert "no speech in its 0.50 s" in told
    assert "gone.wav: no such file" in told
    assert "error: 1 of 5 could not be transcribed" in told
    (tmp_path / "bad.flac").write_bytes(b"no sound")
    assert main(RunConfig(model=model, inputs=(tmp_path / "bad.flac",))) == 1  # with nothing for the network
    assert "error: 1 of 1 could not be transcribed" in capsys.readouterr().err
    assert main(RunConfig(model=model, inputs=(recordings / "b.flac",), format="json", output=tmp_path / "b.json")) == 0
    assert json.loads((tmp_path / "b.json").read_text())["duration"] == 2.1


def test_the_error_rate_of_a_manifest_is_that_of_the_checkpoint(jasper, recordings, tmp_path, capsys):
    manifest = tmp_path / "m.jsonl"
    lines = [{"audio_filepath": str(recordings / f"{name}.flac"), "duration": 1, "text": "So 2 a!"} for name in "ab"]
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(RunConfig(model=jasper.with_suffix(".onnx"), inputs=(manifest,))) == 0
    ours = capsys.readouterr().err.splitlines()[-1]
    assert inference(InferenceConfig(model=jasper, inputs=(manifest,), device="cpu")) == 0
    assert ours == capsys.readouterr().err.splitlines()[-1]
    assert ours.startswith("WER ")


def test_what_is_no_recognizer_is_one_line(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"\x00 not a model")
    with pytest.raises(ModelError, match=r"m\.onnx: cannot be loaded: "):
        Recognizer(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"gone\.onnx: no such file; expected a model that trt\.export wrote"):
        Recognizer(tmp_path / "gone.onnx")
    with pytest.raises(ModelError, match=r": is a folder; expected a file that trt\.export wrote"):
        Recognizer(tmp_path)
    for name, content in {"a.pt": b"", "best.onnx": b"PK\x03\x04"}.items():  # whatever it is called
        (tmp_path / name).write_bytes(content)
        advice = rf"{name}: is a checkpoint, not an ONNX file; export it: python -m trt\.export \S*/{name} --out "
        with pytest.raises(ModelError, match=advice):
            Recognizer(tmp_path / name)
    (tmp_path / "m.engine").write_bytes(b"of TensorRT")
    with pytest.raises(ModelError, match=r"m\.engine: an engine of TensorRT, which this does not take; give the ONNX"):
        Recognizer(tmp_path / "m.engine")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "nothing to transcribe; name audio files, folders or manifests after the model"),
        (["a.wav", "--batch_size", "0"], "batch_size = 0: expected above 0"),
        (["a.wav", "--output", "a", "--output_dir", "b"], "output and output_dir: expected one of them, found both"),
    ],
)
@pytest.mark.filterwarnings("ignore:'trt.run' found in sys.modules")
def test_flags_that_make_no_sense_are_one_line(flags, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trt.run", "m.onnx", *flags])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_module("trt.run", run_name="__main__")
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err
