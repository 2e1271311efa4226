import json

import pytest

from common.config import ConfigError
from common.text.__main__ import Explanation, main


def test_a_text_is_explained(capsys):
    main(Explanation(texts=("It cost $5M™ on TV.",)))
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines() if line]
    assert ["$5M", "money", "five million dollars"] in lines
    assert ["TV", "letters", "T V"] in lines
    assert lines[-1] == ["→", "it", "cost five million dollars on t v."]


def test_labels_and_own_readings_are_explained(capsys, tmp_path):
    file = tmp_path / "readings.json"
    file.write_text(json.dumps({"TV": "telly"}), encoding="utf-8")
    main(Explanation(texts=("the TV",), reader="labels", readings=file))
    printed = capsys.readouterr().out
    assert "own reading" in printed
    assert "→ the telly" in printed


def test_readings_are_explained_by_their_scores(capsys):
    main(Explanation(why=("the 24-7 diner",)))
    printed = capsys.readouterr().out
    assert "'24'" in printed
    assert "\n    by " in printed
    assert "→ the twenty four seven diner" in printed


def test_no_text_is_an_error():
    with pytest.raises(ConfigError, match="no texts: name some, in quotes; see --help"):
        main(Explanation(texts=()))
