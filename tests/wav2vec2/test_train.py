import pytest

from common import config
from common.config import ConfigError
from tests.training import state_of
from tests.wav2vec2.runs import pretrain_config
from wav2vec2 import train


def test_the_published_command_starts_either_training_with_the_options_after_its_name(corpus, tmp_path):
    path = tmp_path / "cfg.toml"
    path.write_text(config.to_toml(pretrain_config(corpus, tmp_path / "run", max_updates=9)))
    train.main(["pretrain", str(path), "--max_updates", "1"])
    assert state_of(tmp_path / "run")["progress"]["step"] == 1


@pytest.mark.parametrize(("mode", "flag"), [("pretrain", "--objective.distractors"), ("finetune", "--freeze_updates")])
def test_its_manual_is_that_of_the_training(mode, flag, capsys):
    with pytest.raises(SystemExit) as exit_:
        train.main([mode, "--help-all"])
    assert exit_.value.code == 0
    assert flag in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "found"), [([], "nothing"), (["prepare"], "'prepare'"), (["--lr"], "'--lr'")])
def test_another_word_is_refused(arguments, found):
    with pytest.raises(ConfigError, match=rf"^found {found}; expected pretrain or finetune as the first argument$"):
        train.main(arguments)


@pytest.mark.parametrize("flag", ["-h", "--help", "--help-all"])
def test_help_alone_names_the_two(flag, capsys):
    train.main([flag])
    assert "wav2vec2.train {pretrain,finetune}" in capsys.readouterr().out
