"""What is read digit by digit: telephone numbers, cards, serials, coordinates, numbers that are names."""

import re

from common.text.english.sizes import coordinate
from common.text.english.tokens import Rule, Style, before, rule
from common.text.numbers import cardinal, digits

# Numbers that have a name of their own.
_NAMED = {"401": "four oh one k", "403": "four oh three b", "911": "nine one one", "411": "four one one"}


def _extension(match: re.Match[str], style: Style) -> str | None:
    return (
        f"extension {digits(match[1]) if len(match[1]) > 2 else cardinal(match[1])}"
        if before(match, _DIALLED)
        else None
    )


_DIALLED = re.compile(r"\d{3}[\s.-]?\d{4},?\s?\Z|\b(?:call|dial|at|phone|reach \w+ at)\s\Z", re.IGNORECASE)


def _telephone(match: re.Match[str], style: Style) -> str:
    """Digit by digit, with a pause between groups; letters as they stand."""
    plus = "plus " if match[0].startswith("+") else ""
    groups = re.findall(r"\d+|[A-Z]+", match[0])
    is_free = len(groups) > 2 and groups[0] == "1"
    return plus + ", ".join(
        f"{digits(group[0])} hundred" if is_free and i == 1 and group in ("800", "900") else _dialled(group)
        for i, group in enumerate(groups)
    )


def _dialled(group: str) -> str:
    return digits(group) if group.isdigit() else group


def _serial(match: re.Match[str], style: Style) -> str | None:
    """0781-1506-10"""
    groups = match[0].split("-")
    lengths = set(map(len, groups))
    is_code = any(group[0] == "0" for group in groups) or (len(lengths) > 1 and max(lengths) > 3)
    return _telephone(match, style) if is_code else None


_LABELLED = re.compile(r"\b(?:tel|telephone|phone|ph|call|fax|cell|mobile|mob)\.?:?\s\Z", re.IGNORECASE)
_ROUND_NUMBERS = re.compile(r"\d00 \d00 \d{2}00")


def _american(match: re.Match[str], style: Style) -> str | None:
    """A telephone number; but 100 200 3000 are numbers."""
    return None if _ROUND_NUMBERS.fullmatch(match[0]) else _telephone(match, style)


def _seven_digits(match: re.Match[str], style: Style) -> str:
    return digits(match[0])


RULES: tuple[Rule, ...] = (
    rule(
        "coordinate",
        r"(\d+(?:\.\d+)?)°\s?(?:(\d+(?:\.\d+)?)['′]\s?)?(?:(\d+(?:\.\d+)?)(?:[″\"]|'')\s?)?([NSEW])(?!\w)",
        coordinate,
    ),
    rule(
        "telephone",
        r"(?:\+?\d{1,2}[ .-]?)?(?:\(\d{3}\)\s?|\d{3}[ ./-])\d{3}[ .-]\d{4}(?:-\d{1,4})?(?![\w-])(?!\.\d)",
        _american,
    ),
    rule(
        "telephone",
        r"[6-9]\d{4} \d{5}(?![\w-])|\(\d\d\) \d{4,5}-\d{4}(?!\w)|[78] \(\d{3}\) \d{3}-\d\d-\d\d(?!\w)"
        r"|0\d\d \d{3} \d\d \d\d(?![\w-])",
        _telephone,
    ),
    rule(
        "telephone",
        r"\d{3}[ .]\d{4}(?![\w-]|[.,]\d|\s\d)",
        lambda m, s: _telephone(m, s) if before(m, _LABELLED) else None,
    ),
    rule("card", r"\d{4}(?:[ -]\d{4}){3}(?![\w-])|\d{4}[ -]\d{6}[ -]\d{5}(?![\w-])", _telephone),
    rule("telephone", r"\+(?=(?:[ .()-]*\d){8})\d{1,3}(?:[ .-]*\(?\d{1,5}\)?){2,6}(?!\w)", _telephone),
    rule(
        "telephone", r"0\d(?:[ .]\d\d){4}(?!\w)|\(?0\d{1,4}\)?[ /-]\d{5,8}(?!\w)|1[38]00 \d{3} \d{3}(?!\w)", _telephone
    ),
    rule("telephone", r"0\d{2,4}[ -]\d{3,4}[ -]\d{3,4}(?![\w-])|0\d{3} \d{3} \d{3}(?![\w-])", _telephone),
    rule("telephone", r"1-8\d\d-(?=[A-Z\d-]{0,19}[A-Z])[A-Z\d]+(?:-[A-Z\d]+){0,5}(?!\w)", _telephone),
    rule("telephone", r"\d{3}-\d{4}(?![\w-])", _seven_digits),
    rule("telephone", r"\(0\) ?\d{2,4}[ -]\d{3,4}[ -]\d{3,4}(?![\w-])", _telephone),
    rule("telephone", r"\(0\d{1,4}\) ?\d{3,4}[ -]\d{3,4}(?![\w-])", _telephone),
    rule("telephone", r"\d{3} (?!\d\d00 \d\d00)\d{4} \d{4}(?![\w,-]|[.:]\d)", _telephone),
    rule(
        "serial",
        r"(?!\d{1,2}-\d{1,2}-\d{4}(?!\d)|\d{4}-\d\d?-\d\d?(?!\d))\d{2,6}(?:-\d{2,6}){2,5}(?![\w-])|\d\d-\d{7}(?![\w-])",
        _serial,
    ),
    rule("telephone", r"0\d{2,4}\s(?:\d{6}|\d{3,4}\s\d{3,4})(?![\w-])", _telephone),
    rule("social security", r"\d{3}-\d{2}-\d{4}(?![\w-])", _telephone),
    rule(
        "named number",
        r"(401(?:\(k\)|[kK](?!\s(?:an?|per|each|people|views|users|followers|subscribers|downloads)\b))|403(?:\(b\)|b))(s)?(?!\w)",
        lambda m, s: _NAMED[m[1][:3]] + ("'s" if m[2] else ""),
    ),
    rule(
        "named number",
        r"[49]11(?![\w/,-]|\.\d)(?!\s(?:[a-z]+s|people|Turbo|GT\d|Carrera|Targa)\b)",
        lambda m, s: _NAMED[m[0]],
    ),
    rule("code", r"(?<=ISBN )\d[\dX-]+", lambda match, style: digits(match[0])),
    rule("address", r"\d{5}-\d{4}(?![\w-])", _telephone),
)

WORD_RULES: tuple[Rule, ...] = (
    rule("card", r"(?:[xX]{3,4}[\s-]?)(?:[xX]{2,4}[\s-]?){0,3}(\d{4})(?!\w)", lambda match, style: digits(match[1])),
    rule("telephone", r"x\.?\s?(\d{1,5})(?!\w)", _extension),
)
