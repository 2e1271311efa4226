"""The door finds every family in the file, and does what the family's own commands do."""

import contextlib

import pytest

import speech
from speech.__main__ import COMMANDS, main
from speech.models import find
from speech.trainings import training_of
from tests import test_readme as readme
from tests import toys


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A small recogniser of each family, by its family."""
    folder = tmp_path_factory.mktemp("models")
    return {kind: toys.save_toy(kind, folder / f"{kind}.pt") for kind in toys.KINDS}


@pytest.mark.parametrize("kind", toys.KINDS)
def test_the_family_is_found_in_the_file_and_its_recogniser_has_the_one_face(kind, models):
    assert find(models[kind]).family == kind
    asr = speech.load(models[kind], device="cpu")
    assert asr.sample_rate == 16_000
    assert asr.chunk_seconds > 0
    assert isinstance(asr.languages, tuple)
    assert asr.spelling("none")("a  B") == asr.spelling("none")("A b")


@pytest.mark.parametrize(
    ("config", "command"),
    [
        ("jasper/toy", "jasper.train"),
        ("fastconformer/toy", "fastconformer.train"),
        ("fastpitch/toy", "fastpitch.train"),
        ("hifigan/v1", "fastpitch.vocoders.train"),
        ("waveglow/toy", "fastpitch.vocoders.train"),
        ("wav2vec2/toy_pretrain", "wav2vec2.pretrain"),
        ("wav2vec2/finetune_base_100h", "wav2vec2.finetune"),
    ],
)
def test_a_configuration_says_which_training_it_is_for(config, command):
    assert training_of(config) == command


def test_mistakes_are_one_line_that_says_what_was_expected(capsys):
    for arguments, text in (
        (["sing"], f"sing: no such command; expected {', '.join(COMMANDS)}"),
        (["transcribe", "none.pt", "a.wav"], "none.pt: no such checkpoint"),
        (["transcribe"], "no model; name a recogniser as the first argument"),
        (["speak", "Hello."], "speak: no voice; name one with --voice"),
        (["train"], "train: no configuration; name one, such as jasper/toy"),
        (["info"], "info: found nothing; expected one model"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert text in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["-h", "--help", "--help-all"])
@pytest.mark.parametrize("word", COMMANDS)
def test_every_command_has_help_without_a_model(word, flag, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["speech"])
    with contextlib.suppress(SystemExit):
        main([word, flag])
    said = capsys.readouterr()
    assert said.out.strip()
    assert "error" not in said.err


def test_the_pages_name_commands_that_there_are():
    named = [words[1] for words in readme.COMMANDS if words[0] == "speech"]
    assert len(named) > 4
    assert set(named) <= set(COMMANDS)
