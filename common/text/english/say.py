"""The readings that numbers, measures, money, times and dates can have, for the model to choose among.

Each function yields the readings of one match of a shape; the names of their parts are what the model has weights for.
"""

import re
from collections import defaultdict
from pathlib import Path

from common.text.choose import read_table
from common.text.english.style import Style
from common.text.numbers import cardinal, digits, fraction, in_pairs, ordinal, pair, plural, year
from common.text.shapes import Readings, reading

TABLES = Path(__file__).parent / "tables"
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉⁻⁺", "01234567890123456789-+")


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


def number(m: re.Match[str], style: Style) -> Readings:
    """12, 2024, 3.12, 1,200"""
    written = m[0]
    yield reading("cardinal", cardinal(written.replace("'", ",")))
    if written.isdecimal():
        yield from _whole(written)
    elif "." in written and not re.search("[, ']", written):
        yield from _decimal(*written.split("."))


def _whole(written: str) -> Readings:
    length, value = len(written), int(written[:12])
    if length < 3:
        if 0 < value < 32:
            yield reading("ordinal", ordinal(written))
        if value < 10:
            yield from _small(written, value)
    elif length < 5:
        yield reading("pairs", in_pairs(written))
        if written[0] in "12" and length == 4:
            yield reading("year", year(written))
        if written.endswith("00"):
            yield reading("hundreds", f"{cardinal(str(int(written[:-2])))} hundred")
        if length == 4 and written[0] == "0":
            yield reading("military", f"oh {cardinal(written[1])} {_minutes(written[2:])}")
        elif length == 4 and value < 2500 and written[2] < "6":
            yield reading("military", f"{cardinal(written[:2])} {_minutes(written[2:])}")
    if length == 2:
        yield reading("year", year(in_full(written)))
    if length > 1:
        yield reading("digits", digits(written))


def _small(written: str, value: int) -> Readings:
    if written[0] == "0":
        yield reading("oh", pair(written) if len(written) == 2 else "oh")
        yield reading("unpadded", cardinal(str(value)))
        if written == "0":
            yield reading("love", "love")
            yield reading("nil", "nil")


def _minutes(written: str) -> str:
    return "hundred" if written == "00" else pair(written)


def _decimal(whole: str, part: str) -> Readings:
    if not whole:
        if len(part) < 4:
            yield reading("pairs", in_pairs(part) if part[0] != "0" or len(part) < 3 else f"oh {in_pairs(part[1:])}")
        if len(part) == 3 and part.endswith("00"):
            yield reading("hundreds", f"{cardinal(part[0])} hundred")
        return
    if len(part) == 2:
        yield reading("version", f"{cardinal(whole)} point {pair(part)}")
        if int(whole) < 25 and part < "60":
            yield reading("clock", f"{cardinal(str(int(whole)))} {pair(part)}" if part != "00" else cardinal(whole))
    if len(part) == 3 and len(whole) < 4 and whole[0] != "0":
        yield reading("thousands", cardinal(whole + part))


def ordinal_number(m: re.Match[str], style: Style) -> Readings:
    """22nd, where the ending is that of the number; `11st` is a serial number."""
    last = int(m[1].replace(",", "")[-2:])
    right = "th" if 10 < last < 20 else {1: "st", 2: "nd", 3: "rd"}.get(last % 10, "th")
    if m[2].lower() == right:
        yield reading("ordinal", ordinal(m[1]))


def ordinal_day(m: re.Match[str], style: Style) -> Readings:
    """The 22, of November 22, 1963, without a pause"""
    yield reading("ordinal", ordinal(m[1]))


def decade(m: re.Match[str], style: Style) -> Readings:
    """1980s, '90s, 747s, 5s"""
    written = m[1]
    yield reading("several", plural(cardinal(written)))
    if len(written) == 4:
        yield reading("decade", plural(year(written)))
    elif len(written) == 3:
        yield reading("pairs", plural(in_pairs(written)))
    if written == "00":
        yield reading("decade", "two thousands")
    if round_ := _ROUGHLY.get(written):
        yield reading("roughly", round_)


_ROUGHLY = {
    "10": "tens", "100": "hundreds", "1000": "thousands", "1,000": "thousands", "10,000": "tens of thousands",
    "100,000": "hundreds of thousands", "1,000,000": "millions",
}  # fmt: skip


def short_year(m: re.Match[str], style: Style) -> Readings:
    """'05"""
    yield reading("year", pair(m[1]))
    if m[1][0] == "0":
        yield reading("digits", digits(m[1]))


def exponent(m: re.Match[str], style: Style) -> Readings:
    """1e-4"""
    sign = "minus " if m[2] == "-" else ""
    yield reading("exponent", f"{cardinal(m[1])} {style.letters('e')} {sign}{cardinal(m[3])}")


def hexadecimal(m: re.Match[str], style: Style) -> Readings:
    """0x1F"""
    yield reading("code", " ".join(["zero x", *(cardinal(c) if c.isdecimal() else style.letters(c) for c in m[1])]))


def points(m: re.Match[str], style: Style) -> Readings:
    """1.2.3, 10.0.0.1, 1.000.000"""
    groups = m[0].split(".")
    yield reading("version", " point ".join(map(cardinal, groups)))
    yield reading(
        "address", " dot ".join(cardinal(g) if style.for_voice and len(g) == 2 else digits(g) for g in groups)
    )
    if all(len(group) == 3 for group in groups[1:]):
        yield reading("thousands", cardinal("".join(groups)))


def telephone(m: re.Match[str], style: Style) -> Readings:
    """555-0123, +44 20 7946 0958"""
    groups = re.findall(r"\d+|[A-Z]+", m[0])
    total = sum(map(len, groups))
    if not 7 <= total <= 19 or len(groups) < 2 or m[0].count("/") > 1:
        return
    is_free = len(groups) > 2 and groups[0] == "1" and groups[1] in ("800", "900")
    said = [digits(group) if group.isdecimal() else group for group in groups]
    if is_free:
        said[1] = f"{digits(groups[1][0])} hundred"
    pause = " " if len(groups) == 2 and total == 7 else ", "
    yield reading("telephone", ("plus " if m[0].startswith("+") else "") + pause.join(said))


# ---------------------------------------------------------------------------------------------------------------------
# Measures


class Unit:
    """A unit's names: one, several."""

    def __init__(self, row: list[str]) -> None:
        self.symbol, self.one, self.several, self.kind, flags = (*row, "")[:5]
        self.is_cased, self.is_alone = "case" in flags, "alone" in flags


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
    return _EXACT.get(plain) or _SMALL.get(plain.lower()) or []


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


def mixed(whole: str, top: str, bottom: str) -> str:
    """Two and a half."""
    part = fraction(top, bottom, improper=True)
    if part.startswith("one "):
        part = ("an " if bottom in ("8", "11", "18") else "a ") + part[4:]
    return f"{cardinal(whole)} and {part}"


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
        elif unit.kind == "unit":
            yield from _agreeing(f"measure{name}", said, power + unit.one, power + unit.several, written, bool(large))


def _agreeing(parts: str, said: str, one: str, several: str, written: str, is_large: bool) -> Readings:
    if written == "1" and not is_large:
        yield reading(parts, f"{said} {one}")
        return
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
        yield reading("clock", f"{first} {_minutes(m[2])}")


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
        yield reading("notes", f"{_ROUGHLY.get(written) or plural(cardinal(written))} of {large} of {several}")
        return
    yield reading("notes", _NOTES.get(written) or f"{plural(cardinal(written))} of {several}")
    if rough := _ROUGHLY.get(written):
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


# ---------------------------------------------------------------------------------------------------------------------
# Times and dates


def clock(m: re.Match[str], style: Style) -> Readings:
    """7:05, 14:45:10, 16:9"""
    first, second, third = m[1], m[2], m[3]
    if third:
        yield from _seconds(int(first), second, third)
    elif "." not in first + second and "," not in second:
        yield from _hours(first, second)
    if not third:
        yield reading("ratio", f"{cardinal(first)} to {cardinal(second)}")
        yield reading("verse", f"{cardinal(first)} {cardinal(second)}")
        if len(second) == 4 and second.isdecimal():
            yield reading("year", f"{cardinal(first)} {year(second)}")
        if first == second == "1":
            yield reading("meeting", "one on one")


def _hours(first: str, second: str) -> Readings:
    if len(second) != 2 or second > "59" or len(first) > 3:
        return
    hour = cardinal(str(int(first)))
    yield reading("clock", hour if second == "00" else f"{hour} {pair(second)}")
    if second == "00":
        yield reading("clock oclock", f"{hour} o'clock")
        yield reading("clock hundred", f"{hour} hundred" if int(first) else "midnight")
        yield reading("clock minutes", f"{hour} minute{'' if first == '1' else 's'}")
    elif second[0] == "0":
        yield reading("clock ohoh", f"{hour} {pair(second)}")


def _seconds(hours: int, minutes: str, seconds: str) -> Readings:
    if len(minutes) != 2 or len(seconds) < 2:
        yield reading("ratio", " to ".join((cardinal(str(hours)), cardinal(minutes), cardinal(seconds))))
        return
    whole, _, part = seconds.partition(".")
    values = ((hours, "hour"), (int(minutes), "minute"), (int(whole), "second"))
    said = [f"{cardinal(str(n))} {name if n == 1 else name + 's'}" for n, name in values]
    if part:
        said[2] = f"{cardinal(str(int(whole)))} point {digits(part)} seconds"
    yield reading("duration", f"{said[0]} {said[1]} and {said[2]}")
    if hours < 25 and not part:
        start = f"{cardinal(str(hours))} {pair(minutes) if minutes != '00' else ''}".strip()
        yield reading("clock", f"{start} and {said[2]}")


def in_full(written: str) -> str:
    """24 → 2024, 87 → 1987"""
    return ("20" if int(written) < 50 else "19") + written if len(written) == 2 else written


def _date(month: str, day: str, in_year: str | None, *, day_first: bool = False) -> str | None:
    if not (len(month) < 3 and len(day) < 3 and 1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    name = MONTHS[int(month) - 1]
    said = f"the {ordinal(day)} of {name}" if day_first else f"{name} {ordinal(day)}"
    return f"{said} {year(in_full(in_year))}" if in_year else said


def date(m: re.Match[str], style: Style) -> Readings:
    """4/15/2023, 15.01.2020, 2024-02-29"""
    first, second, third = m[1], m[3], m[4]
    if len(first) == 4:
        dates = {"date": _date(second, third, first)}
    elif len(third) in (2, 4):
        dates = {
            "date": _date(first, second, third),
            "date dmy": _date(second, first, third, day_first=m[2] == "."),
        }
    else:
        dates = {}
    for parts, said in dates.items():
        if said:
            yield reading(parts, said)
    yield reading("stats", " ".join(map(cardinal, (first, second, third))))
    if m[2] == ".":
        yield reading("version", " point ".join(map(cardinal, (first, second, third))))


def stamp(m: re.Match[str], style: Style) -> Readings:
    """2024-03-15T10:30:00Z"""
    day = _date(m[2], m[3], m[1])
    if day is None or int(m[4]) > 24 or int(m[5]) > 59:
        return
    hour = cardinal(str(int(m[4]))) if m[4] != "00" else "zero"
    zone = f" {style.letters('utc') if style.for_voice else 'utc'}" if m[6] == "Z" else ""
    yield reading("date", f"{day}{',' if style.for_voice else ''} {hour} {_minutes(m[5])}{zone}")


def _short(written: str) -> str:
    return in_pairs(written) if len(written) == 3 else cardinal(written)


def slash(m: re.Match[str], style: Style) -> Readings:
    """3/4, 24/7, 120/80, 5/10, 2 1/2"""
    whole, top, bottom = m[1], m[2], m[3]
    if whole:
        yield reading("fraction", mixed(whole, top, bottom))
        return
    yield from _fractions(top, bottom)
    if "." in top + bottom:
        return
    if said := _date(top, bottom, None):
        yield reading("date", said)
    if said := _date(bottom, top, None, day_first=False):
        yield reading("date dmy", said)
    if len(top) < 3 and 1 <= int(top) <= 12 and len(bottom) in (2, 4):
        yield reading("date month", f"{MONTHS[int(top) - 1]} {year(in_full(bottom))}")
    if len(top) == 4 and len(bottom) == 2:
        yield reading("season", f"{year(top)} {pair(bottom)}")


def _fractions(top: str, bottom: str) -> Readings:
    yield reading("over", f"{_short(top)} over {_short(bottom)}")
    for name, word in (("outof", "out of"), ("to", "to"), ("of", "of"), ("divided", "divided by"), ("cricket", "for")):
        yield reading(name, f"{cardinal(top)} {word} {cardinal(bottom)}")
    yield reading("pair", f"{_short(top)} {_short(bottom)}")
    yield reading("slash", f"{_short(top)} slash {_short(bottom)}")
    if top.isdecimal() and bottom.isdecimal() and len(top + bottom) < 20 and int(bottom) > 1:
        said = fraction(top, bottom)
        if " over " not in said:
            yield reading("fraction", said)
            if top == "1":
                yield reading("fraction article", said[4:])


def parts(m: re.Match[str], style: Style) -> Readings:
    """1/100th, 2/3rds"""
    said = fraction(m[1], m[2])
    if m[3] == "s":  # cut it into 1/8s; 2/3s of it
        yield reading("parts", said)
        yield reading("parts several", fraction("2", m[2], improper=True).partition(" ")[2])
        part = fraction("1", "2") if m[2] == "2" else f"one {ordinal(m[2]).removeprefix('one ')}"
        yield reading("parts second", f"{part} of a second")
        return
    yield reading("fraction", said)
    if m[1] == "1" and m[3].endswith("s"):
        yield reading("parts several", plural(ordinal(m[2])))
