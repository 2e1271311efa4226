"""What French, Spanish and Italian alone write in prices, timetables, books and kitchens."""

import re

from common.text.english.style import text_before
from common.text.english.words import is_roman, roman
from common.text.german_forms import Rule


def _numeral(match: re.Match[str], code: str) -> str | None:
    """Cap. III → 3"""
    return roman(match[0]) if is_roman(match[0]) else None


def _version(match: re.Match[str], code: str) -> str:
    """la versión 2.0 → 2 punto 0"""
    return match[0].replace(".", f" {_POINTS[code]} ")


_POINTS = {"fr": "point", "es": "punto", "it": "punto"}
_BY_THE_CLOCK = re.compile(r"\b(?:[Dd]alle|[Aa]lle|[Ll]e|[Oo]re|[Vv]erso le|[Dd]opo le)(?:\sore)?\s\Z")


def _with_a_dot(match: re.Match[str], code: str) -> str | None:
    """dalle 8.30 alle 12.30 → 8 e 30; but il 12.30 per cento"""
    hour, minute = match[0].split(".")
    if int(hour) > 24 or not _BY_THE_CLOCK.search(text_before(match)):
        return None
    return f"{hour} e {int(minute)}" if minute != "00" else hour


def _spanish_hours(match: re.Match[str], code: str) -> str | None:
    """a las 21:15 → veintiuna 15: hours are feminine"""
    hour, minute = re.findall(r"\d+", match[0])
    name = {"1": "una", "21": "veintiuna"}.get(str(int(hour)))
    return f"{name} {int(minute)}" if name and minute != "00" else name


_NUMBERED = r"(?:(?<=[Cc]ap\.\s)|(?<=[Cc]hap\.\s)|(?<=capítulo\s)|(?<=[Cc]hapitre\s)|(?<=[Cc]apitolo\s)|(?<=[Tt]omo\s))"
_COMMON: list[Rule] = [
    ("number", rf"{_NUMBERED}[IVXL]{{1,6}}(?![\w'])", _numeral),
    ("version", r"(?:(?<=versión )|(?<=version )|(?<=versione )|(?<=[\s(]v))\d+\.\d+(?![\d.,])", _version),
]
_MILLIONS = {"es": r"(?<=millones de )|(?<=millón de )", "it": r"(?<=milioni di )|(?<=milione di )|(?<=miliardi di )"}
ROMANCE: dict[str, list[Rule]] = {
    "fr": [
        *_COMMON,
        ("ordinal", r"(?<![\w.,])2(?:nde|de)(?=\s(?:[Gg]uerre|classe|main|partie|fois|place|chance|moitié)\b)",
         lambda match, code: "seconde"),
        ("money", r"(?<=\d)\s\$\sUS(?!\w)", lambda match, code: " dollars américains"),
    ],
    "es": [
        *_COMMON,
        ("money", rf"(?:{_MILLIONS['es']})[€$]", lambda m, code: "euros" if m[0] == "€" else "dólares"),
        ("money", r"\$\s?\d+\sUSD(?!\w)", lambda m, code: f"{re.sub(r'[^0-9]', '', m[0])} dólares"),
        ("degrees", r"(?<=\d)\s?º\s?C(?!\w)", lambda match, code: " grados celsius"),
        ("time", r"(?<=las )(?:0?1|21):[0-5]\d(?:\s?h\b\.?)?(?![\d:])", _spanish_hours),
    ],
    "it": [
        *_COMMON,
        ("money", rf"(?:{_MILLIONS['it']})[€$]", lambda m, code: "euro" if m[0] == "€" else "dollari"),
        ("abbreviation", r"[Cc]ap\.(?=\s[IVXL]+\b|\s\d)", lambda match, code: "capitolo"),
        ("time", r"(?<![\w.,:])\d{1,2}\.[0-5]\d(?![\d.,%]|\s?(?:€|euro|per\b))", _with_a_dot),
        ("time", r"(?<!\w)h\.?\s?(?=\d{1,2}[:.]\d\d)", lambda match, code: "ore "),
    ],
}  # fmt: skip
