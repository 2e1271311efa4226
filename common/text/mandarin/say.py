"""The readings that numbers, prices, times, dates and signs of Mandarin can have, for the model to choose.

Each function yields the readings of one match of a shape. What is None stands for itself: English beside it has it.
"""

import re
from collections import defaultdict
from pathlib import Path

from common.text.engine.choose import read_table
from common.text.engine.shapes import Readings, reading
from common.text.mandarin.phones import cardinal, digits

TABLES = Path(__file__).parent / "tables"
_LONGEST_COUNTED = 12  # digits

SIGNS: dict[str, list[tuple[str, str]]] = defaultdict(list)
"""What signs say, and as what."""
for _sign, _said, _kind in read_table(TABLES / "signs.tsv"):
    SIGNS[_sign].append((_said, _kind))
UNITS: dict[str, list[str]] = defaultdict(list)
"""Names of units."""
for _unit, _name in read_table(TABLES / "units.tsv"):
    UNITS[_unit].append(_name)


def _counted(written: str) -> str:
    """A number as it is counted, or digit by digit where it cannot be: 2,000 → 两千, 007 → 零零七."""
    whole, _, decimals = written.replace(",", "").partition(".")
    is_code = len(whole) > _LONGEST_COUNTED or (len(whole) > 1 and whole[0] == "0")
    words = digits(whole) if is_code else re.sub(r"\A二(?=[千万亿])", "两", cardinal(int(whole)))
    return f"{words}点{digits(decimals)}" if decimals else words


def _amount(written: str) -> str:
    """As `_counted`, without zeros at the end of the decimals, as prices have them."""
    return _counted(written.rstrip("0").rstrip(".") if "." in written else written)


def _two(number: str) -> str:
    return "两" if number == "2" else _counted(number)


def number(m: re.Match[str], style: None) -> Readings:
    """12, 2个, 2024年, 12.50元, 8.5折, 12306"""
    written = m[0]
    whole, decimals = written.split(".") if "." in written else (written, "")
    yield reading("number", said := _counted(written))
    if written == "2":
        yield reading("two", "两")
    if written.isdecimal() and len(written) > 1 and digits(written) != said:
        yield reading("digits", digits(written))
    if _amount(written) != said:
        yield reading("amount", _amount(written))
    if len(whole) == len(decimals) == 1:
        yield reading("joined", digits(whole + decimals))
    yield reading("kept", None)


def points(m: re.Match[str], style: None) -> Readings:
    """2.0.1, 2023.5.6"""
    yield reading("version", "点".join(map(_counted, m[0].split("."))))


def date(m: re.Match[str], style: None) -> Readings:
    """2024-01-05, 2023.5.6, 5/20"""
    month, day = int(m["month"]), int(m["day"])
    if 1 <= month <= 12 and 1 <= day <= 31:
        in_year = f"{digits(m['year'])}年" if m["year"] else ""
        yield reading("date", f"{in_year}{cardinal(month)}月{cardinal(day)}日")


def slash(m: re.Match[str], style: None) -> Readings:
    """3/4, 血压120/80, 血压120/80mmHg, 评分9.2/10"""
    top, bottom, unit = m.groups("")
    if f"{top}{bottom}".isdecimal() and int(bottom[:15]):
        if not unit:
            yield reading("fraction", f"{_counted(bottom)}分之{_counted(top)}")
        yield reading("pressure", f"{_counted(top)}，{_counted(bottom)}{unit and '毫米汞柱'}")
    if bottom in ("5", "10", "100") and not unit:
        yield reading("marks", _counted(top))


def colon(m: re.Match[str], style: None) -> Readings:
    """15:30, 比分3:2, 1:7.25, 跑了2:05:30"""
    parts = [part for part in m.groups() if part]
    if len(parts) == 2:
        yield reading("ratio", "比".join(map(_counted, parts)))
    if not all(map(str.isdecimal, parts)) or any(len(part) != 2 or part > "59" for part in parts[1:]):
        return
    padded = [
        _two(str(int(part[:9]))) if i == 0 else "零" * ("00" < part < "10") + cardinal(int(part))
        for i, part in enumerate(parts)
    ]
    if int(parts[0][:9]) < 25:
        minutes = "" if set(parts[1:]) == {"00"} else f"{padded[1]}分"
        yield reading("clock", f"{padded[0]}点{minutes}" + (f"{padded[2]}秒" if len(parts) > 2 else ""))
    plain = [_two(str(int(part[:9]))) for part in parts]
    names = ("小时", "分", "秒")[-len(parts) :]
    yield reading(
        "length",
        "".join(
            f"{n if i == 0 else cardinal(int(parts[i]))}{name}"
            for i, (n, name) in enumerate(zip(plain, names, strict=True))
        ),
    )


def telephone(m: re.Match[str], style: None) -> Readings:
    """010-12345678, 400-820-8820"""
    yield reading("telephone", digits(re.sub(r"\D", "", m[0])))


def money(m: re.Match[str], style: None) -> Readings:
    """¥12.50, $5, €3万, ¥50-80"""
    sign, first, last, large = m.groups()
    said = _amount(first) + (f"到{_amount(last)}" if last else "") + (large or "")
    yield reading("money", said + ("" if m.string.startswith(("元", "块"), m.end()) else SIGNS[sign][0][0]))


def measure(m: re.Match[str], style: None) -> Readings:
    """5kg, 12万km, 20%, 38℃, 8k"""
    number, scale, unit = m.groups()
    if unit in "kK":
        yield reading("thousands", _counted(f"{float(number.replace(',', '')) * 1000:.0f}"))
        return
    for name in UNITS[unit]:
        form = name if "{}" in name else f"{{}}{name}"
        yield reading("measure", form.format(_counted(number) + scale))
        if number == "2" and "{}" not in name:
            yield reading("measure two", form.format(f"两{scale}"))


def minutes(m: re.Match[str], style: None) -> Readings:
    """配速4'13\""""
    yield reading("length", f"{_two(m[1])}分{cardinal(int(m[2]))}秒")


def per(m: re.Match[str], style: None) -> Readings:
    """72次/min, 80g/㎡"""
    yield from (reading("per", f"每{name}") for name in UNITS[m[1]] if "{}" not in name)


def percents(m: re.Match[str], style: None) -> Readings:
    """10-15%"""
    of = UNITS[m[3]][0]
    yield reading("percents", f"{of.format(_counted(m[1]))}到{of.format(_counted(m[2]))}")


def sign(m: re.Match[str], style: None) -> Readings:
    """-5, 3+2=5, x>5, 元/人"""
    for said, kind in SIGNS[m[0].strip()]:
        yield reading(kind, said)
    yield reading("kept", None)


def electronic(m: re.Match[str], style: None) -> Readings:
    """www.baidu.com → www点baidu点com"""
    yield reading("electronic", re.sub(r"\d+", lambda number: digits(number[0]), m[0]).replace(".", "点"))
