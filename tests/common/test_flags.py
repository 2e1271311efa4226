"""`--help` has a line for each option that most people use, and says where the others are."""

import importlib
import sys

import pytest

from common import config, flags
from fastpitch.inference import InferenceConfig as SpeakingConfig
from jasper.config import Config
from jasper.inference import InferenceConfig
from tests.test_readme import RUNS
from trt.run import RunConfig

COMMANDS = {
    **RUNS,
    "fastpitch.inference": "fastpitch.inference.InferenceConfig",
    "fastpitch.prepare": "fastpitch.prepare.PrepareConfig",
    "fastpitch.vocoders.train": "fastpitch.vocoders.config.HifiganRun",
    "jasper.inference": "jasper.inference.InferenceConfig",
    "jasper.evaluation": "jasper.evaluation.EvaluationConfig",
    "wav2vec2.inference": "wav2vec2.inference.InferenceConfig",
    "fastconformer.inference": "fastconformer.inference.InferenceConfig",
    "fastconformer.evaluation": "fastconformer.evaluation.EvaluationConfig",
    "fastconformer.benchmark": "fastconformer.benchmark.LengthConfig",
    "trt.benchmark": "trt.benchmark.BenchmarkConfig",
    "trt.export": "trt.export.command.ExportConfig",
    "trt.run": "trt.run.RunConfig",
    "trt.speak": "trt.speak.SpeakConfig",
    "trt.serve": "trt.serve.ServeConfig",
    "trt.client": "trt.client.command.ClientConfig",
}


def schema(command):
    owner, name = COMMANDS[command].rsplit(".", 1)
    return getattr(importlib.import_module(owner), name)


def helped(cls, *arguments, capsys, default=None):
    with pytest.raises(SystemExit) as ended:
        config.parse_flags(cls, default, arguments, description="Does it.\n\n    as here\n\nAt length.\n")
    assert not ended.value.code
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_some_ten_options_of_one_line_each_and_all_where_asked(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    cls = schema(command)
    short, whole = helped(cls, "--help", capsys=capsys), helped(cls, "--help-all", capsys=capsys)
    assert 4 <= sum(line.startswith("  --") for line in short) <= 18
    assert max(map(len, short)) <= 100
    assert short[-1].startswith("--help-all: all ")
    assert "At length." in whole
    for flag in flags.flags(cls):
        assert flag.positional or any(line.startswith(f"  --{flag.name}") for line in whole)
        assert flag.told, f"{flag.name}: no help"


def test_the_usual_options_are_options_of_some_command():
    every = [(schema(command), {flag.name for flag in flags.flags(schema(command))}) for command in COMMANDS]
    known = set.union(*(names for _, names in every))
    for cls, names in every:
        usual = {name for some in getattr(cls, "USUAL", {}).values() for name in some}
        assert usual <= known
        assert len(names) <= 18 or len(usual & names) >= 8, cls


@pytest.mark.parametrize(
    ("cls", "line"),
    [
        (InferenceConfig, "  --format                   Output format (text, json, srt, vtt) [text]"),
        (InferenceConfig, "  --decoding.beam            Label sequences kept by the beam search [0]"),
        (RunConfig, "  --target_language          Language that is written"),
        (SpeakingConfig, "  --pace                     Speed as a factor: 2 is twice as fast [1.0]"),
        (SpeakingConfig, "  --output, -o               Folder of the sound files [output]"),
    ],
)
def test_a_line_is_what_the_option_is_its_choices_and_its_default(cls, line, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    said = helped(cls, "--help", capsys=capsys)
    assert line in said
    assert "    as here" in said
    assert "At length." not in said


def test_defaults_are_those_of_the_configuration_that_is_named(capsys):
    chosen = config.build(Config, {"epochs": 7, "optim": {"lr": 0.25}}, "here")
    said = "\n".join(helped(Config, "--help", capsys=capsys, default=chosen))
    assert "[7]" in said
    assert "[0.25]" in said


def test_a_command_is_named_as_it_was_called(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "/a/bin/speech", "transcribe", "m.pt", "--help"])
    assert flags.program() == "speech transcribe"
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "speech", "train"])
    assert flags.program() == "speech train"


def test_too_few_values_are_one_plain_line(capsys):
    with pytest.raises(SystemExit):
        config.command_line(Config, ["--optim.betas", "0.9"], description="")
    expected = "error: command line: --optim.betas: expected {None}|{FLOAT FLOAT}, found '0.9'\n"
    assert capsys.readouterr().err == expected
