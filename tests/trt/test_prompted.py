"""Attention decoders leave as files, and hear and translate without torch as at home."""

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fastconformer
from common.audio import waveform
from common.config import ConfigError
from common.export import encoded
from fastconformer import export as fastconformer_export
from fastconformer.attending import AttentionRecognizer
from fastconformer.checkpoints.reading import read_model
from fastconformer.network.model import Model
from speech.__main__ import main as speech
from tests.fastconformer.attention import references as golden
from tests.trt.blocked import run_without_torch
from trt.conversion import ExportError, converted, greatest_difference
from trt.export import command
from trt.export.command import ExportConfig
from trt.facts import INTERFACE, ModelError
from trt.quantisation.reduced import to_int8
from trt.run import RunConfig, main
from trt.runtime import loading

ASKED = {
    "transcribed": {"source_language": "en"},
    "translated": {"source_language": "en", "target_language": "de"},
    "without punctuation": {"source_language": "en", "punctuation": False},
    "by a beam": {"source_language": "en", "beam": 4},
    "after a text": {"source_language": "en", "context": "You did"},
    "in a language that is found": {"source_language": "auto"},
}


@pytest.fixture(scope="module", params=golden.MODELS)
def both(request, canary):
    """A checkpoint in torch, and the file of it."""
    return fastconformer.load(golden.path(request.param), device="cpu"), loading.load(canary(request.param))


def test_a_language_is_identified_among_those_that_the_model_has_learned_to_hear(both, monkeypatch):
    home, ours = both
    assert home.languages == ours.languages == ("de", "en")
    for asr in both:
        assert {found.language for found in asr.identify(golden.flacs())} == {"en"}
        every = asr.identify(golden.flacs())
        for learned, language in ((("de-de", "de-en"), "de"), (("en-de",), "en")):
            monkeypatch.setattr(asr.prompts, "directions", learned)
            assert {*asr.identify(golden.flacs())} == {(language, 1.0)}
            assert asr.assumed_language == language
        (text,) = asr.transcribe(golden.flacs()[:1], source_language="auto", target_language="de")
        monkeypatch.setattr(asr.prompts, "directions", ())
        (expected,) = asr.transcribe(golden.flacs()[:1], source_language="en", target_language="de")
        assert text.text == expected.text
        monkeypatch.setattr(asr.prompts, "directions", ("de-de", "en-en"))
        assert asr.identify(golden.flacs()) == every


@pytest.mark.parametrize("asked", ASKED)
def test_texts_are_those_of_the_checkpoint_alone_and_in_a_batch(both, asked):
    home, ours = both
    if asked == "after a text" and "context" not in json.dumps(golden.facts("canary2_agg")):
        pytest.skip("no context")
    flacs, how = golden.flacs(), ASKED[asked]
    expected = home.transcribe(flacs, **how)
    found = ours.transcribe(flacs, **how)
    assert [one.text for one in found] == [one.text for one in expected]
    assert all(one.text for one in found)
    assert [[word[:3] for word in one.words] for one in found] == [[word[:3] for word in one.words] for one in expected]
    assert [ours.transcribe([flac], **how)[0].text for flac in flacs] == [one.text for one in found]


def test_languages_prompts_and_times_are_those_of_the_checkpoint(both):
    home, ours = both
    assert ours.languages == home.languages == ("de", "en")
    for how in filter(lambda how: how["source_language"] != "auto", ASKED.values()):
        own = {name: value for name, value in how.items() if name != "beam"}
        assert ours.prompt(**own) == home.prompt(**own)
    flacs = golden.flacs()
    for one, other in zip(ours.identify(flacs), home.identify(flacs), strict=True):
        assert one.language == other.language
        assert one.probability == pytest.approx(other.probability, abs=1e-3)
    with pytest.raises(ValueError, match=r"source_language = 'fr': expected one of de, en"):
        ours.transcribe(flacs, source_language="fr")
    for times, message in (("ctc", "this model has no CTC head"), ("aligner", "holds no CTC model besides")):
        with pytest.raises(ValueError, match=f"times = {times}: .*{message}"):
            ours.transcribe(flacs, source_language="en", times=times)


def test_long_recordings_are_heard_as_at_home(both, tmp_path):
    home, ours = both
    said_N = np.concatenate([waveform.read(flac).samples for flac in golden.flacs()])
    waveform.write(tmp_path / "long.flac", said_N, 16_000)
    for how in ({}, {"context": 3} if home.attention.prompt == "canary2" else {}):
        how |= {"source_language": "en", "chunk_seconds": 4.0, "batch_size": 2}
        (expected,), (found,) = (asr.transcribe([tmp_path / "long.flac"], **how) for asr in (home, ours))
        assert found.text == expected.text
        assert len(found.text.split()) > 10


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_weights_of_the_decoder_in_few_bits_write_nearly_the_same(canary, precision):
    path, flacs = canary("canary2_agg"), golden.flacs()
    plain = [one.text for one in loading.load(path).transcribe(flacs)]
    reduced = [one.text for one in loading.load(path, decoder_precision=precision).transcribe(flacs)]
    assert sum(one == other for one, other in zip(plain, reduced, strict=True)) >= 3


def test_an_encoder_in_int8_is_judged_by_what_the_decoder_writes(tmp_path, monkeypatch):
    judged = []

    def random_weights_say_anything(program, clips, metadata, how, texts):
        judged.append(texts(program.content))
        return to_int8(program, clips, metadata, replace(how, most_errors=10), texts)

    monkeypatch.setattr(command, "to_int8", random_weights_say_anything)
    path, flacs = golden.path("canary2_agg"), golden.flacs()
    cfg = {"precision": "int8", "calibration": tuple(flacs), "calibration_noise_db": ()}
    command.main(ExportConfig(checkpoint=path, out=tmp_path / "m.onnx", **cfg))
    home, ours = fastconformer.load(path, device="cpu"), loading.load(tmp_path / "m.onnx")
    assert judged == [[one.text for one in home.transcribe(flacs, source_language="auto")]]
    assert ours.network.facts["precision"] == "int8"
    assert all(one.text for one in ours.transcribe(flacs, source_language="en", target_language="de"))


def test_the_command_translates_where_torch_cannot_be_imported(canary, tmp_path):
    path, flacs = canary("canary2_agg"), golden.flacs()
    home = fastconformer.load(golden.path("canary2_agg"), device="cpu")
    asked = ("--source_language", "en", "--target_language", "de")
    done = run_without_torch("trt.run", path, flacs[0], *asked)
    assert (done.returncode, done.stderr) == (0, "")
    (expected,) = home.transcribe(flacs[:1], source_language="en", target_language="de")
    assert done.stdout == f"{flacs[0]}\t{expected.text}\n"
    entries = [
        {"audio_filepath": str(flacs[0]), "duration": 2.0, "source_lang": "en", "target_lang": "de"},
        {"audio_filepath": str(flacs[1]), "duration": 2.8, "source_lang": "en", "target_lang": "en", "pnc": "no"},
        {"audio_filepath": str(flacs[2]), "duration": 3.4, "source_lang": "fr"},
    ]
    manifest = tmp_path / "m.jsonl"
    manifest.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    done = run_without_torch("trt.run", path, manifest)
    assert done.returncode == 1
    assert "source_language = 'fr': expected one of de, en" in done.stderr
    (other,) = home.transcribe(flacs[1:2], source_language="en", punctuation=False)
    assert [line.partition("\t")[2] for line in done.stdout.splitlines()] == [expected.text, other.text]
    done = run_without_torch("trt.run", path, flacs[0], "--source_language", "fr")
    assert done.returncode == 2
    assert "source_language = 'fr': expected one of de, en" in done.stderr


def test_what_is_asked_of_other_models_is_refused(hybrid, canary, tmp_path):
    cfg = RunConfig(model=hybrid, inputs=(golden.flacs()[0],), target_language="de", context=3)
    with pytest.raises(ConfigError, match="target_language, context: for attention decoders; this is a model without"):
        main(cfg)
    own = replace(cfg, model=canary("canary2_agg"), target_language=None, context=0, times="ctc")
    with pytest.raises(ConfigError, match="times = ctc: this model has no CTC head"):
        main(own)


def test_other_forms_of_export_and_damaged_files_are_refused(canary, tmp_path):
    how = ExportConfig(checkpoint=golden.path("canary2_agg"), out=tmp_path / "m.onnx")
    for changed, message in (
        ({"part": "joint"}, "part = joint: attention has none; expected whole or encoder"),
        ({"head": "transducer"}, "head = transducer: this model has no such head"),
        ({"decode": "greedy"}, "decode greedy is for recognisers with CTC"),
    ):
        with pytest.raises((ExportError, ValueError), match=message):
            command.main(replace(how, **changed))
    path = Path(shutil.copy(canary("canary2_agg"), tmp_path / "damaged.onnx"))
    path.write_bytes(path.read_bytes().replace(b"decoder.blocks.1.leave.bias", b"decoder.blocks.1.leave.bi_s"))
    with pytest.raises(ModelError, match=r"damaged\.onnx: its metadata are not those .*blocks\.1\.leave\.bias"):
        loading.load(path)


@pytest.mark.parametrize("kind", ["checkpoint", "file"])
def test_speech_writes_subtitles_in_the_other_language(kind, canary, tmp_path, capsys):
    model = golden.path("canary2_agg") if kind == "checkpoint" else canary("canary2_agg")
    asked = ["--source_language", "en", "--target_language", "de", "--format", "vtt"]
    with contextlib.suppress(SystemExit):
        speech(["transcribe", str(model), str(golden.flacs()[0]), *asked])
    header, _, number, times, *lines = capsys.readouterr().out.splitlines()
    (expected,) = loading.load(canary("canary2_agg")).transcribe(
        golden.flacs()[:1], source_language="en", target_language="de"
    )
    assert (header, number, times) == ("WEBVTT", "1", "00:00:00.000 --> 00:00:02.045")
    assert " ".join(line for line in lines if line) == expected.text


def test_a_ctc_head_tells_times_of_words_without_torch_too(tmp_path):
    plain, imported = read_model(golden.path("canary2_agg"))
    torch.manual_seed(0)
    model = Model(replace(plain.cfg, ctc=True), imported.features.mel_bins).eval()
    model.load_state_dict(plain.state_dict(), strict=False)
    home = AttentionRecognizer(model, imported.features, imported.pieces)
    graph = fastconformer_export.graph(model, imported.features, imported.pieces)
    path = tmp_path / "m.onnx"
    program = converted(graph._replace(metadata={**graph.metadata, **encoded(interface=INTERFACE)}))
    assert greatest_difference(program, graph) < 1e-4
    path.write_bytes(program.content)
    ours, flacs = loading.load(path), golden.flacs()
    for times in ("auto", "ctc"):
        found, expected = (asr.transcribe(flacs, source_language="en", times=times) for asr in (ours, home))
        for one, other in zip(found, expected, strict=True):
            assert [word[:3] for word in one.words] == [word[:3] for word in other.words]
            assert len({word.start for word in one.words}) > 2
    (translated,) = ours.transcribe(flacs[:1], source_language="en", target_language="de")
    assert {word.start for word in translated.words} == {0.0}
    done = run_without_torch("trt.run", path, flacs[0], "--source_language", "en", "--format", "srt")
    assert (done.returncode, done.stderr) == (0, "")
    said_N = np.concatenate([waveform.read(flac).samples for flac in flacs])
    how = {"source_language": "en", "chunk_seconds": 3.0}
    (whole,), (same,) = (asr.transcribe([said_N], **how) for asr in (ours, home))
    assert whole.text == same.text
    starts = [word.start for word in whole.words]
    assert starts == sorted(starts)
