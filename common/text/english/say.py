"""The readings that numbers, times and dates can have, for the model to choose among.

Each function yields the readings of one match of a shape; the names of their parts are what the model has weights for.
"""

import re
from collections.abc import Callable
from pathlib import Path

from common.text.engine.shapes import Readings, reading
from common.text.english.style import Style
from common.text.numbers import cardinal, digits, fraction, in_pairs, ordinal, pair, plural, year

TABLES = Path(__file__).parent / "tables"
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉⁻⁺", "01234567890123456789-+")


class _Group(str):
    """What a group of a match says: a number, with :d its digits, with :s itself."""

    def __format__(self, how: str) -> str:
        return str(self) if how == "s" else digits(self) if how == "d" else cardinal(str(int(self.translate(POWERS))))


def says(parts: str, form: str) -> Callable[[re.Match[str], Style], Readings]:
    """One reading, whose words are `form` with the groups of the match: {1} as a number, {1:d}, {1:s}."""

    def readings(m: re.Match[str], style: Style) -> Readings:
        yield reading(parts, form.format(m[0], *map(_Group, m.groups(""))))

    return readings


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
        if length == 4 and written.endswith("00") and written[1] != "0":
            yield reading("hundreds", f"{cardinal(written[:2].lstrip('0'))} hundred")
        if length == 4 and written[0] == "0":
            yield reading("military", f"oh {cardinal(written[1])} {minutes_of(written[2:])}")
        elif length == 4 and value < 2500 and written[2] < "6":
            yield reading("military", f"{cardinal(written[:2])} {minutes_of(written[2:])}")
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


def minutes_of(written: str) -> str:
    """Two digits after an hour: 00 is hundred, as soldiers say it."""
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
        yield reading("amount", f"{cardinal(whole)} {pair(part)}" if part != "00" else cardinal(whole))
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
    if round_ := ROUGHLY.get(written):
        yield reading("roughly", round_)


ROUGHLY = {
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
    yield reading("date", f"{day}{',' if style.for_voice else ''} {hour} {minutes_of(m[5])}{zone}")


def _short(written: str) -> str:
    return in_pairs(written) if len(written) == 3 else cardinal(written)


def mixed(whole: str, top: str, bottom: str) -> str:
    """Two and a half."""
    part = fraction(top, bottom, improper=True)
    if part.startswith("one "):
        part = ("an " if bottom in ("8", "11", "18") else "a ") + part[4:]
    return f"{cardinal(whole)} and {part}"


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
