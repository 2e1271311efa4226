"""What a command line says of a flag or a configuration that there is not."""

import pytest

from common import config
from common.config import ConfigError
from common.recognition.rescore import RescoreConfig
from jasper.config import Config
from jasper.inference import InferenceConfig
from jasper.report import ReportConfig


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--learning_rate", "0.1"], "command line: there is no --learning_rate; did you mean --optim.lr?"),
        (["--num-workers=2"], "command line: there is no --num_workers; did you mean --data.workers?"),
        (["--data.roots", "x"], "command line: there is no --data.roots; did you mean --data.root?"),
        (["--zzz", "x"], "command line: there is no --zzz; see --help-all"),
        (["--epochs", "3", "more", "words"], "command line: not expected: more, words; see --help"),
        (["--epochs"], "command line: Missing value for argument '--epochs'. Expected 1 values."),
        (["--epochs", "x"], "command line: Error parsing --epochs: invalid literal for int() with base 10: 'x'"),
    ],
)
def test_an_unknown_flag_is_told_of_the_most_similar_one(arguments, told):
    with pytest.raises(ConfigError) as error:
        config.parse_flags(Config, Config(), arguments, description="")
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--beam", "3"], "command line: there is no --beam; did you mean --decoding.beam?"),
        (["--batch_size", "0"], "command line: batch_size = 0"),
        (["-q"], "command line: not expected: -q; see --help"),
    ],
)
def test_no_class_is_named_in_an_error(arguments, told):
    with pytest.raises(ConfigError) as error:
        config.parse_flags(InferenceConfig, None, ["m.pt", "a.wav", *arguments], description="")
    assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    ("cls", "arguments", "told"),
    [
        (
            *(ReportConfig, []),
            "RUN_DIR is missing: Run directory of jasper.train, with nvlog.json and checkpoints; see --help",
        ),
        (RescoreConfig, [], "MODEL, NBEST, --output: missing; see --help"),
        (RescoreConfig, ["gpt2", "nbest.jsonl"], "--output: missing; see --help"),
    ],
)
def test_arguments_that_are_missing_are_named_one_with_what_it_is(cls, arguments, told):
    with pytest.raises(ConfigError) as error:
        config.parse_flags(cls, None, arguments, description="")
    assert str(error.value) == f"command line: {told}"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("jasper/toi", "jasper/toi: no such configuration; did you mean jasper/toy.toml?"),
        ("nope.toml", "nope.toml: no such file"),
    ],
)
def test_a_configuration_that_there_is_not_is_no_option(name, told, capsys):
    with pytest.raises(SystemExit):
        config.command_line(Config, [name], description="")
    assert capsys.readouterr().err == f"error: {told}\n"
