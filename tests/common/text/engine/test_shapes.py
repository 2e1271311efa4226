"""What is found by the first characters of a place: any space is one, and odd characters leave nothing behind."""

import gc
import pkgutil
import random
from collections.abc import Callable
from functools import _lru_cache_wrapper
from typing import Any

import pytest

import common.text
from benchmarks.normalization import CODES, phrases
from common.text.engine.shapes import _MOST_PLACES as MOST_PLACES
from common.text.engine.shapes import Shapes
from common.text.english import lexical, scan
from common.text.english.reader import spoken, tokens
from common.text.english.style import Style
from common.text.european import scan as european
from common.text.european.language import language_of
from common.text.european.reader import european_tokens
from common.text.mandarin import reader as mandarin
from common.text.mandarin.reader import spoken_mandarin
from common.text.normalize import normalize_english


def _english(text: str) -> str:
    return spoken(tokens(text, Style(for_voice=True)))


def _european(code: str) -> Callable[[str], str]:
    return lambda text: "".join(
        token.written if token.spoken is None else token.spoken for token in european_tokens(text, code)
    )


TEXTS = {
    _english: ["1 km", "5 m wide", "1 1/2 cups", "2 / 3 cup", "18 °C", "100 USD", "2 h 15", "10 : 30", "$5 million",
               "Rs 5 lakh", "It took 5 ft. of wire", "No 5", "e. g. this", "World War II"],
    normalize_english: ["1 km", "p. m.", "U. S. Army", "100 USD"],
    _european("de"): ["1 km", "18 °C", "100 €", "5 Mio. €", "1 1/2 km", "z. B. 5", "1 Frau", "20 : 15", "20 Uhr 15"],
    _european("fr"): ["5 km", "10 h 30", "100 USD", "5 % de", "1 page"],
    _european("es"): ["1 persona", "p. ej. 5"],
    spoken_mandarin: ["他走了10 km路", "涨了10 - 20%的", "价格¥ 5万"],
}  # fmt: skip


@pytest.mark.parametrize("space", "\n\t\u2003\u2009\u00a0\u202f")
def test_any_space_is_read_as_a_space(space):
    wrong = []
    for said, text in ((said, text) for said, texts in TEXTS.items() for text in texts):
        words = text.split(" ")
        spaced = [space.join([" ".join(words[:i]), " ".join(words[i:])]) for i in range(1, len(words))]
        wrong += [each for each in spaced if said(each).split() != said(text).split()]
    assert wrong == []


def test_a_line_break_is_not_between_groups_of_digits():
    assert _european("de")("12\u2009000 km") == "12000 Kilometer"
    assert _european("de")("12\n000 km") != "12000 Kilometer"


SIGNS = "0123456789-/.:,;$%€£#&*+=<>()[]\"'′°½×@_~^| abhkmsxAEIRSU"


@pytest.mark.parametrize("language", ["english", *CODES, "mandarin"])
def test_no_shape_that_has_a_reading_is_hidden_by_its_beginning(language: str) -> None:
    choose = random.Random(language)
    texts = [case.written for case in phrases(language)[::40]]
    texts += ["".join(choose.choice(SIGNS) for _ in range(60)) for _ in range(15)]
    spoken_in: Any = Style(for_voice=True) if language == "english" else language_of(CODES.get(language, "zh"))
    for text in texts:
        for position, character in enumerate(text):
            for shapes in _shapes_at(character, language):
                near = shapes.at(text, position)
                for shape in (each for each in shapes.all if not character.isdecimal() or "0" in each.begins.pattern):
                    if shape not in near and (m := shape.pattern.match(text, position)) and m[0]:
                        assert not list(shape.readings(m, spoken_in)), (shape.name, text[position : position + 20])


def _shapes_at(character: str, language: str) -> list[Shapes]:
    if language == "mandarin":
        return [mandarin._NUMBERS if character.isdecimal() else mandarin._SIGNS]
    if language in CODES:
        return [european._shapes(language_of(CODES[language]))]  # type: ignore[arg-type]
    if character.isalpha():
        return [lexical._AT_CAPITALS, scan._IN_LETTERS] if character.isupper() else [lexical._AT_SMALL]
    return [scan.SHAPES]


def _objects(kind: type) -> list[Any]:
    """All that there are, those among them that tests/conftest.py hides from the collector. Weak proxies are none."""
    gc.unfreeze()
    found = [each for each in gc.get_objects() if type(each) is kind]
    gc.freeze()
    return found


def _unbounded() -> dict[str, int]:
    """Entries of all caches of the readers that have no bound."""
    modules = {module.name for module in pkgutil.walk_packages(common.text.__path__, "common.text.")}
    caches = [found for found in _objects(_lru_cache_wrapper) if found.__module__ in modules]
    kept = {f"{found.__module__}.{found.__qualname__}": found for found in caches}
    return {name: found.cache_info().currsize for name, found in kept.items() if found.cache_info().maxsize is None}


def test_texts_fill_no_cache_without_a_bound():
    read = [_english, _european("de"), _european("pl"), spoken_mandarin]
    for said in read:
        said("他有 1 km, 3rd, 1. Mai, 1:15, 12-jährig, z. B. IV. page, Dr. No. 5")
    before = _unbounded()
    odd = " ".join(f"1{chr(0x4E00 + i)} {chr(0x1F300 + i)}1 {chr(0xA500 + i)}{i}. {30_000 + i}th" for i in range(1500))
    for said in read:
        said(odd)
    grown = {name: size - before.get(name, 0) for name, size in _unbounded().items()}
    assert {name: size for name, size in grown.items() if size > 300} == {}
    assert max(len(found._at) for found in _objects(Shapes)) <= MOST_PLACES
