"""`--help` has a line for each option that most people use, and says where the others are."""

import pytest

from common import config
from fastpitch.inference import InferenceConfig as SpeakingConfig
from jasper.inference import InferenceConfig


@pytest.mark.parametrize(
    ("cls", "line"),
    [
        (InferenceConfig, "  --format                      Output format (text, json, srt, vtt) [text]"),
        (InferenceConfig, "  --decoding.beam               Label sequences kept by the beam search [0]"),
        (SpeakingConfig, "  --pace                        Speed as a factor [1.0]"),
    ],
)
def test_the_usual_options_have_a_line_each(cls, line, capsys):
    with pytest.raises(SystemExit) as ended:
        config.parse_flags(cls, None, ["--help"], description="Does it.\n\n    as here\n")
    said = capsys.readouterr().out.splitlines()
    assert not ended.value.code
    assert line in said
    assert "    as here" in said
    assert len(said) <= 20
    assert max(map(len, said)) <= 120
    assert said[-1] == "All options: --help-all"


def test_all_options_are_a_flag_away(capsys):
    with pytest.raises(SystemExit):
        config.parse_flags(InferenceConfig, None, ["--help-all"], description="")
    assert "--decoding.internal" in capsys.readouterr().out
