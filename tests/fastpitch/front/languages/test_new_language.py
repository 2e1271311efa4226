"""The page that shows how a language is added is right: its file is taken as it is, its session is run."""

import doctest
import re
from pathlib import Path

import pytest

from fastpitch.front import languages

PAGE = Path(__file__).resolve().parents[4] / "docs/new_language.md"


@pytest.fixture
def german(tmp_path, monkeypatch):
    """The language of the page, as a file among the others."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    (tmp_path / "german.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(languages, "__path__", [*languages.__path__, str(tmp_path)])
    languages.symbol_sets.cache_clear()
    yield
    languages.symbol_sets.cache_clear()


@pytest.mark.usefixtures("german")
def test_the_example_of_the_page_speaks():
    session = re.search(r"```\n(>>> .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    test = doctest.DocTestParser().get_doctest(session, {}, "new_language.md", str(PAGE), 0)
    told: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test, out=told.append)
    assert result.attempted == 5
    assert result.failed == 0, "".join(told)


@pytest.mark.usefixtures("german")
def test_every_sound_of_german_text_is_a_symbol():
    from fastpitch.front.symbols import TextConfig, TextProcessor

    text = "Guten Morgen, heißt Jürgen Übung? Pfanne, Quelle, tschüss, Garage, Restaurant; Mädchen hören 21 Vögel!"
    assert TextProcessor(TextConfig(symbol_set="german_espeak")).encode(text).left_out == []
