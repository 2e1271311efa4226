import pytest

from common.text.readings import ReadingsError, read_readings
from common.text.spoken import spoken_english


def written(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


def test_words_and_units_of_ones_own_come_before_all_others(tmp_path):
    own = read_readings(written(tmp_path, "a.toml", '[words]\nSQL = "sequel"\n[units]\nkn = "knot"\nkg = "kilo"\n'))
    text = "The SQL ship does 12 kn with 1 kg, or 2 kg/h."
    said = spoken_english(text, keep="", readings=own.words, units=own.units)
    assert said == "the sequel ship does twelve knots with one kilo or two kilos per hour"


def test_json_may_hold_words_alone(tmp_path):
    assert read_readings(written(tmp_path, "a.json", '{"GIF": "jif"}')).words == {"GIF": "jif"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "SQL = ", "a.toml: cannot be read as readings"),
        ("b.toml", "[word]\n", "b.toml: word; expected the tables words and units"),
        ("c.json", "[1]", "c.json: no table; expected the tables words and units"),
        ("d.toml", "[words]\nSQL = 1\n", 'd.toml: words: expected a table of texts, such as SQL = "sequel"'),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path, name, text, message):
    with pytest.raises(ReadingsError, match=message):
        read_readings(written(tmp_path, name, text))
