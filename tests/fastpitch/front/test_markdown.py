import pytest

from fastpitch.front import inputs
from fastpitch.front.markdown import plain
from tests.timing import assert_takes_less


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("# A heading #\n\nA line\nand its end.", "A heading\nA line and its end."),
        ("A heading\n=========\ntext", "A heading\ntext"),
        ("- one\n- [x] two\n  more\n1. three", "one\ntwo more\nthree"),
        ("**bold**, *slanted*, _so_, ~~not~~, `code`", "bold, slanted, so, not, code"),
        ("snake_case * 2 * 3 and 5*3", "snake_case * 2 * 3 and 5*3"),
        ('See [the page](https://a.b/c_d) and ![a dog](dog.png "x").', "See the page and a dog."),
        ("[one][two]\n\n[two]: https://a.b", "one"),
        ("| Name | Price |\n|:-----|------:|\n| Bread | $3 |", "Name, Price\nBread, $3"),
        ("> said\n> twice", "said\ntwice"),
        ("---\ntitle: x\n---\nText <!-- not\nthis --> here.", "Text  here."),
        ("```python\nprint(1)\n```\nafter", "print(1)\nafter"),
        ("before\n\n---\n\nafter \\*", "before\nafter *"),
        ('<p align="center">\n<img src="a.png">\n</p>\n\nA line<br/>ends, <b>so</b>.', "A line ends, so."),
        ("Visit <https://a.b>.", "Visit https://a.b."),
        ("5 < 6 and {HH AH0} <break/>", "5 < 6 and {HH AH0} <break/>"),
        ("", ""),
    ],
)
def test_markdown_is_said_without_its_marks(written, said):
    assert plain(written) == said


def test_files_of_markdown_are_read_so(tmp_path):
    path = tmp_path / "x.md"
    path.write_text("# One\n\n**Two**\n")
    (item,) = inputs.find_phrases([str(path)]).items
    assert item.phrase.text == "One\nTwo"


@pytest.mark.parametrize("piece", ["[", "*", "_", "`", "|", "<!--", "- ", "![", "**a", "<b ", "<p"])
def test_long_runs_of_marks_take_no_time(piece):
    assert_takes_less(2, lambda: plain(piece * 5000))
