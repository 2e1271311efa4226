"""Signs beside numbers in European languages: > 50 %, x ≤ 5, 10 → 20, °C without a number, addresses with a port."""

import re

from common.text.european_tables import LANGUAGES
from common.text.german_forms import Rule

# More, less, greater, smaller, at least, at most; from one number to another; a colon.
_WORDS = {
    "de": "mehr als|weniger als|größer als|kleiner als|mindestens|höchstens|auf|Punkt|Doppelpunkt",
    "fr": "plus de|moins de|supérieur à|inférieur à|au moins|au plus|à|point|deux points",
    "es": "más de|menos de|mayor que|menor que|al menos|como máximo|a|punto|dos puntos",
    "it": "più di|meno di|maggiore di|minore di|almeno|al massimo|a|punto|due punti",
    "pt": "mais de|menos de|maior que|menor que|pelo menos|no máximo|para|ponto|dois pontos",
    "nl": "meer dan|minder dan|groter dan|kleiner dan|minstens|hoogstens|naar|punt|dubbele punt",
    "sv": "mer än|mindre än|större än|mindre än|minst|högst|till|punkt|kolon",
    "pl": "ponad|poniżej|większe niż|mniejsze niż|co najmniej|co najwyżej|do|kropka|dwukropek",
    "ru": "более|менее|больше|меньше|не менее|не более|до|точка|двоеточие",
}
_TERM_AHEAD = re.compile(r"(?:(?<!\w)[a-zA-Z]|\d)\s?\Z")


def _compared(match: re.Match[str], code: str) -> str:
    """> 50 % → mehr als; x > 5 → größer als"""
    more, less, greater, smaller, least, most, *_ = _WORDS[code].split("|")
    sign, ahead = match[0].strip(), match.string[max(0, match.start() - 3) : match.start()]
    if sign in (">", "<"):
        is_term = _TERM_AHEAD.search(ahead)
        said = (greater if is_term else more) if sign == ">" else (smaller if is_term else less)
    else:
        said = least if sign[0] in ">≥" else most
    return f"{'' if not ahead or ahead[-1].isspace() or ahead[-1] == '(' else ' '}{said} "


def _arrow(match: re.Match[str], code: str) -> str:
    return f" {_WORDS[code].split('|')[6]} "


def _scale(match: re.Match[str], code: str) -> str | None:
    """in °C"""
    name = LANGUAGES[code].units.get("°C", "").rsplit("/", 1)[-1]
    return name if code not in ("pl", "ru") and "{" not in name else None  # which decline it


def _internet(match: re.Match[str], code: str) -> str:
    """10.0.0.1:80"""
    *_, dot, colon = _WORDS[code].split("|")
    host, _, port = match[0].partition(":")
    return f"{host.replace('.', f' {dot} ')} {colon} {port}"


def signs(code: str) -> list[Rule]:
    """The classes of signs of a language."""
    if code not in _WORDS:
        return []
    return [
        ("IP address", r"(?<![\w.:])(?:\d{1,3}\.){3}\d{1,3}:\d{2,5}(?![\w:])", _internet),
        ("range", r"(?<=[\d%])\s?(?:->|→)\s?(?=\d)", _arrow),
        ("sign", r"(?:(?<![^\s(])|(?<=[\s(][a-z])|(?<=\A[a-z])|(?<=\d))(?:[<>]=?|[≤≥])\s?(?=[€$£]?\d)", _compared),
        ("measure", r"(?<!\d)(?<!\d\s)°\s?C(?!\w)", _scale),
    ]
