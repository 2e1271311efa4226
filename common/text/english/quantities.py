"""The readings that measures and money can have, for the model to choose among; each function is as those of `say`."""

import re
from collections import defaultdict

from common.text.engine.choose import read_table
from common.text.engine.shapes import Readings, reading
from common.text.english.say import ROUGHLY, TABLES, minutes_of, mixed
from common.text.english.style import Style
from common.text.numbers import cardinal, fraction, plural

# ---------------------------------------------------------------------------------------------------------------------
# Measures


class Unit:
    """A unit's names: one, several."""

    def __init__(self, row: list[str]) -> None:
        self.symbol, self.one, self.several, self.kind, flags = (*row, "")[:5]
        self.is_cased, self.is_apart = "case" in flags, "apart" in flags


def _units() -> tuple[dict[str, list[Unit]], dict[str, list[Unit]]]:
    exact: dict[str, list[Unit]] = defaultdict(list)
    small: dict[str, list[Unit]] = defaultdict(list)
    for unit in map(Unit, read_table(TABLES / "units.tsv")):
        exact[unit.symbol].append(unit)
        if not unit.is_cased:
            small[unit.symbol.lower()].append(unit)
    return dict(exact), dict(small)


_EXACT, _SMALL = _units()
PINNED = {row[0]: row[1] for row in read_table(TABLES / "pinned.tsv")}


def units(written: str, style: Style) -> list[Unit]:
    """The units that a symbol may be, in its case or otherwise in small letters."""
    if written in style.units:
        name = style.units[written]
        return [Unit([written, name, many(name), "unit"])]
    plain = re.sub(r"[\s.]|(?<=q)-|(?<=q\.)-", "", written).replace("⋅", "·")
    is_plural_of_capitals = len(plain) > 2 and plain[:-1].isupper() and plain[-1] == "s"  # PCs, GMs
    return _EXACT.get(plain) or (not is_plural_of_capitals and _SMALL.get(plain.lower())) or []


def many(name: str) -> str:
    """`kilometer per hour` → kilometers per hour."""
    head, per, rest = name.partition(" per ")
    return f"{plural(head)}{per}{rest}"


def count(written: str) -> str:
    """A number or a fraction in words."""
    if "/" not in written:
        return cardinal(written)
    *whole, part = re.split(r"[\s-]", written)
    top, _, bottom = part.partition("/")
    return mixed(whole[0], top, bottom) if whole else fraction(top, bottom)


_POWER_NAMES = {"2": "square ", "3": "cubic ", "²": "square ", "³": "cubic ", "": ""}


def measure(m: re.Match[str], style: Style) -> Readings:
    """5 kg, 3/4 in., 2 million km, 60-W"""
    written, large = m["number"], m["large"] or ""
    found = units(m["unit"], style)
    power = _POWER_NAMES[(m["power"] or "").lstrip("^")]
    said = f"{count(written)} {large}".strip()
    for unit in found:
        name = f" u:{unit.one.replace(' ', '_')}" if len(found) > 1 else ""
        if unit.kind == "magnitude":
            yield reading(f"magnitude{name}", f"{said} {unit.one}")
        elif unit.kind == "unit" and (m["gap"] or not unit.is_apart):
            yield from _agreeing(m, f"measure{name}", said, power + unit.one, power + unit.several)


def _agreeing(m: re.Match[str], parts: str, said: str, one: str, several: str) -> Readings:
    written, is_joined = m["number"], m["gap"] == "-"  # a 4-lb. bag
    if written == "1" and not m["large"]:
        yield reading(parts, f"{said} {one}")
        return
    if not is_joined:
        yield reading(f"{parts} several", f"{said} {several}")
    yield reading(f"{parts} one", f"{said} {one}")
    if "/" in written and not re.search(r"\d[\s-]\d", written):
        yield reading(f"{parts} of", f"{said} of {'an' if one[0] in 'aeiou' else 'a'} {one}")
        if said.startswith("one "):
            yield reading(f"{parts} article", f"{said[4:]} {one}")


def per(m: re.Match[str], style: Style) -> Readings:
    """/hr, /100 km, /s²: behind a measure, a price or a unit"""
    count_, unit, power = m["count"], m["unit"], (m["power"] or "").lstrip("^")
    names = [u.one for u in units(unit, style) if u.kind in ("period", "unit")]
    if not (names or count_) and unit.isalpha() and unit.islower() and not m[0][1].isspace():
        names = [unit]
    for name in dict.fromkeys(names):
        if power:
            is_time = unit == "s"
            name = f"{name} {'squared' if power in '2²' else 'cubed'}" if is_time else _POWER_NAMES[power] + name
        if name == "each":
            yield reading("per", "each")
        elif count_ and count_.strip() != "1":
            found = units(unit, style)
            yield reading("per several", f"per {cardinal(count_.strip())} {found[0].several if found else unit}")
        else:
            yield reading(f"per u:{name.replace(' ', '_')}" if len(names) > 1 else "per", f"per {name}")


def hours(m: re.Match[str], style: Style) -> Readings:
    """2h15, at 19h30"""
    first, second = cardinal(str(int(m[1]))), cardinal(str(int(m[2])))
    yield reading("measure several", f"{first} hour{'' if first == 'one' else 's'} {second} minutes")
    yield reading("measure one", f"{first} hour {second} minute")
    if int(m[1]) < 25 and m[2] < "60":
        yield reading("clock", f"{first} {minutes_of(m[2])}")


def players(m: re.Match[str], style: Style) -> Readings:
    """49ers → forty niners"""
    said = cardinal(m[1] or m[3])
    ending = m[4] or ("rs" if said.endswith("e") else "ers")
    yield reading("cardinal", said + ending)


def pinned(m: re.Match[str], style: Style) -> Readings:
    """What is read as no other: 802.11, MM/DD/YYYY"""
    yield reading("pinned", PINNED[m[0]])


def height(m: re.Match[str], style: Style) -> Readings:
    """5'10"; 5'30" is a time."""
    yield reading("height", f"{cardinal(m[1])} feet {count(m[2])}")
    yield reading("height short", f"{cardinal(m[1])} {count(m[2])}")
    if m[2].isdecimal():
        one = "" if m[1] == "1" else "s"
        yield reading("duration", f"{cardinal(m[1])} minute{one} {cardinal(m[2])} seconds")


# ---------------------------------------------------------------------------------------------------------------------
# Money

CURRENCIES = {row[0]: (*row[1:], "", "", "")[:4] for row in read_table(TABLES / "currencies.tsv")}
_MAGNITUDES = {u.symbol: u.one for found in _EXACT.values() for u in found if u.kind == "magnitude"}
_MAGNITUDES |= {name: name for name in ("hundred", "thousand", "million", "billion", "trillion")}
_GROUPED_BY_DOTS = frozenset(["€", "EUR", "Rp", "R$", "CHF"])
_GROUPED = r"(?:\d{1,3}(?:\.\d{3})*|\d{1,3}(?: \d{3}){1,9})"


def _plain(written: str) -> str:
    """`1.250,50` → 1250.50"""
    if re.fullmatch(rf"{_GROUPED},\d\d", written):
        return written.replace(".", "").replace(" ", "").replace(",", ".")
    return written


def money(m: re.Match[str], style: Style) -> Readings:
    """$5M, €1.250,50, 20 USD, $10-15"""
    groups = m.groupdict()
    sign = re.sub(r"[\s.]", "", groups.get("code") or m["sign"])
    sign = "US$" if groups.get("us") else sign
    currency = CURRENCIES.get(sign) or CURRENCIES[sign.rstrip("$")]
    several = currency[1]
    magnitude = groups["magnitude"] or ""
    name = "code" if sign.isalpha() else "money"
    minus = "minus " if groups.get("minus") else ""
    last = groups.get("last")
    if last:
        amount, last_magnitude = groups["number"], groups["last_magnitude"] or ""
        first = cardinal(_plain(amount)) + (f" {_MAGNITUDES[magnitude]}" if magnitude else "")
        if re.search(r"[.,]\d\d\Z", amount) and not (magnitude or last_magnitude):
            first = _amount(amount, "", currency, one=False)
        for is_one in (False, True):
            said = f"{first} to {_amount(last, last_magnitude, currency, one=is_one)}"
            yield reading(f"{name} range {'one' if is_one else 'several'}", _spelled(said, style))
        return
    written = groups["number"]
    for is_one in (False, True):
        said = minus + _amount(written, magnitude, currency, one=is_one)
        yield reading(f"{name} {'one' if is_one else 'several'}", _spelled(said, style))
    if "." in written and not magnitude:
        yield reading(f"{name} decimal", _spelled(f"{minus}{cardinal(_plain(written))} {several}", style))
        if sign in _GROUPED_BY_DOTS and re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+", written):
            yield reading(f"{name} thousands", _spelled(f"{cardinal(written.replace('.', ''))} {several}", style))


def _amount(written: str, magnitude: str, currency: tuple[str, ...], *, one: bool) -> str:
    singular, several, one_part, many_parts = currency
    written = _plain(written)
    if magnitude:
        return f"{cardinal(written)} {_MAGNITUDES[magnitude]} {singular if one else several}"
    whole, _, parts = written.partition(".")
    parts = parts[:2] if len(parts) == 3 and parts.endswith("0") else parts + "0" if len(parts) == 1 else parts
    named = singular if written == "1" or one else several
    if len(parts) != 2 or not many_parts:
        return f"{cardinal(written)} {named}"
    said = []
    if whole.strip("0"):
        said.append(f"{cardinal(whole)} {singular if whole == '1' or one else several}")
    if not said and parts == "00":
        said.append(f"{cardinal(whole or '0')} {several}")
    elif parts != "00":
        of_one = parts == "01" or (one and one_part != "penny")
        said.append(f"{cardinal(str(int(parts)))} {one_part if of_one else many_parts}")
    return " ".join(said)


def _spelled(said: str, style: Style) -> str:
    return re.sub(r"\bus\b", style.letters("us"), said) if style.for_voice else said


_NOTES = {"1": "ones", "5": "fives", "10": "tens", "20": "twenties", "50": "fifties", "100": "hundreds"}


def notes(m: re.Match[str], style: Style) -> Readings:
    """in $20s, $100s of dollars"""
    sign, written, large = m.groups()
    several = CURRENCIES[sign][1]
    if large:
        yield reading("notes", f"{ROUGHLY.get(written) or plural(cardinal(written))} of {large} of {several}")
        return
    yield reading("notes", _NOTES.get(written) or f"{plural(cardinal(written))} of {several}")
    if rough := ROUGHLY.get(written):
        yield reading("roughly", f"{rough} of {several}")


def loss(m: re.Match[str], style: Style) -> Readings:
    """$(3.2) million, as accounts write a loss"""
    yield reading("money", f"minus {_amount(m[2], m[3] or m[4] or '', CURRENCIES[m[1]], one=False)}")


def price(m: re.Match[str], style: Style) -> Readings:
    """$/hr, without an amount"""
    yield reading("money several", CURRENCIES[m[0]][1])


def ticker(m: re.Match[str], style: Style) -> Readings:
    """$AAPL, $/hr"""
    yield reading("ticker", style.letters(m[1]))
    yield reading("sign", None)
